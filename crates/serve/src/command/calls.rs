//! The calls of a client on the volume of a mount: their list, and their execution in the server.
//!
//! A command that uses files of the host (`import`, `sync`, `export`, `cp`) runs in the client, with the
//! client's rights on the host. It reaches the volume by these calls. So the server needs no file of the
//! host, and nobody reads or writes one with the server's rights.

use crate::command::encode::{Value, put_list, take_list};
use lanefs::bulk::Change;
use lanefs::{FileSystem, Ino};

/// Bytes that one call reads or writes at most.
pub(crate) const MAX_DATA_BYTES: usize = 4 << 20;
/// Entries, or descriptions, in one answer at most: with the longest names they fit into a frame.
pub(crate) const MAX_ENTRIES: usize = 4096;

/// Numbers of the calls whose arguments or answers are not plain values.
/// The root directory and the size of the volume in bytes, and the number of the version.
pub(crate) const ROOT: u8 = 100;
pub(crate) const READ: u8 = 101;
pub(crate) const WRITE: u8 = 102;
pub(crate) const READDIR: u8 = 103;
pub(crate) const APPLY: u8 = 104;
/// Attributes of many inodes.
pub(crate) const DESCRIBE: u8 = 106;
/// Makes all changes durable, and returns when the kernel knows of them.
pub(crate) const SYNC: u8 = 105;

/// Passes the list of all other calls to a macro: number, name, arguments, answer.
macro_rules! calls {
    ($use:ident) => {
        $use! {
            1 resolve_at(base: Ino, path: &[u8], follow: bool) -> Resolution;
            2 lookup(dir: Ino, name: &[u8]) -> (Ino, FileKind);
            3 getattr(ino: Ino) -> Attr;
            4 setattr(ino: Ino, set: SetAttr) -> Attr;
            5 mknod(dir: Ino, name: &[u8], kind: FileKind, perm: u16, rdev: u64) -> Attr;
            6 mkdir(dir: Ino, name: &[u8], perm: u16) -> Attr;
            7 mkdir_all(options: MkdirAll, path: &[u8]) -> Attr;
            8 symlink(dir: Ino, name: &[u8], target: &[u8]) -> Attr;
            9 readlink(ino: Ino) -> Vec<u8>;
            10 link(ino: Ino, dir: Ino, name: &[u8]) -> Attr;
            11 unlink(dir: Ino, name: &[u8]) -> ();
            12 rename(from: Ino, name: &[u8], to: Ino, new_name: &[u8], mode: RenameMode) -> ();
            13 seek(ino: Ino, offset: u64, what: Seek) -> u64;
            14 getxattr(ino: Ino, name: &[u8]) -> Vec<u8>;
            15 setxattr(ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> ();
            16 listxattr(ino: Ino) -> Vec<Vec<u8>>;
            17 replace(ino: Ino, content: &[u8]) -> bool;
            18 removexattr(ino: Ino, name: &[u8]) -> ();
        }
    };
}
pub(crate) use calls;

/// Executes a call on a volume, the version of the mount with that number; `finish` makes the changes of this
/// client durable and visible. Returns the answer; `None` for bytes that are not a call.
pub(crate) fn execute(
    volume: &dyn FileSystem,
    version: u8,
    finish: &dyn Fn() -> lanefs::Result<()>,
    call: &[u8],
) -> Option<Vec<u8>> {
    let (number, arguments) = call.split_first()?;
    let mut answer = vec![0];
    let done = match *number {
        READ => read(volume, arguments, &mut answer)?,
        WRITE => write(volume, arguments)?,
        READDIR => readdir(volume, arguments, &mut answer)?,
        APPLY => apply(volume, arguments, &mut answer)?,
        DESCRIBE => describe(volume, arguments, &mut answer)?,
        ROOT if arguments.is_empty() => {
            volume.size().map(|size| ((volume.root(), size), version).put(&mut answer))
        }
        SYNC if arguments.is_empty() => finish(),
        number => plain(volume, number, arguments, &mut answer)?,
    };
    if let Err(error) = done {
        answer = vec![1];
        error.put(&mut answer);
    }
    Some(answer)
}

/// True where all arguments have been taken.
fn end(from: &[u8]) -> Option<()> {
    from.is_empty().then_some(())
}

macro_rules! execute_plain {
    ($($number:literal $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        fn plain(volume: &dyn FileSystem, number: u8, mut from: &[u8], to: &mut Vec<u8>) -> Option<lanefs::Result<()>> {
            match number {
                $($number => {
                    $(let $argument = Value::take(&mut from)?;)*
                    end(from)?;
                    Some(volume.$name($($argument),*).map(|answer| answer.put(to)))
                })*
                _ => None,
            }
        }
    };
}
calls!(execute_plain);

fn read(volume: &dyn FileSystem, mut from: &[u8], to: &mut Vec<u8>) -> Option<lanefs::Result<()>> {
    let (ino, offset, len) = (Value::take(&mut from)?, Value::take(&mut from)?, usize::take(&mut from)?);
    end(from)?;
    let first = to.len();
    to.resize(first + len.min(MAX_DATA_BYTES), 0);
    let read = volume.read(ino, offset, to.get_mut(first..).unwrap_or_default());
    Some(read.map(|len| to.truncate(first + len)))
}

fn write(volume: &dyn FileSystem, mut from: &[u8]) -> Option<lanefs::Result<()>> {
    let (ino, offset) = (Value::take(&mut from)?, Value::take(&mut from)?);
    Some(volume.write(ino, offset, from).map(drop))
}

fn readdir(volume: &dyn FileSystem, mut from: &[u8], to: &mut Vec<u8>) -> Option<lanefs::Result<()>> {
    let (dir, cookie, max) = (Value::take(&mut from)?, Value::take(&mut from)?, usize::take(&mut from)?);
    end(from)?;
    Some(volume.readdir(dir, cookie, max.min(MAX_ENTRIES)).map(|entries| entries.put(to)))
}

fn apply(volume: &dyn FileSystem, mut from: &[u8], to: &mut Vec<u8>) -> Option<lanefs::Result<()>> {
    let base = Value::take(&mut from)?;
    let changes = take_list::<Change<'_>>(&mut from)?;
    end(from)?;
    Some(volume.apply(base, &changes).map(|answers| put_list(&answers, to)))
}

fn describe(volume: &dyn FileSystem, mut from: &[u8], to: &mut Vec<u8>) -> Option<lanefs::Result<()>> {
    let inos = take_list::<Ino>(&mut from).filter(|inos| inos.len() <= MAX_ENTRIES)?;
    end(from)?;
    Some(volume.describe_inodes(&inos).map(|answers| put_list(&answers, to)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanefs::{CreateOptions, Volume};

    fn volume() -> Volume {
        Volume::create_memory(&CreateOptions { size: 32 << 20, ..CreateOptions::default() })
            .expect("a volume")
    }

    #[test]
    fn no_call_harms_the_server_whatever_its_bytes() {
        let volume = volume();
        volume.mkdir_all("/d/e", 0o755).expect("a directory");
        volume.write_file("/d/f", "text").expect("a file");
        let mut state: u64 = 1;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        let inodes = [0, 1, 2, 3, 64, 128, u64::MAX, volume.root().0, 1 << 62];
        let (mut answered, mut refused) = (0, 0);
        for round in 0..20_000 {
            let number = if round % 4 == 0 {
                next() as u8
            } else {
                [1, 2, 3, 4, 6, 9, 12, 13, 14, 16, 17, 18, READ, WRITE, READDIR, APPLY, DESCRIBE][next() % 17]
            };
            let mut call = vec![number];
            for _ in 0..next() % 6 {
                match next() % 4 {
                    0 => inodes[next() % inodes.len()].put(&mut call),
                    1 => {
                        [&b"d"[..], b"f", b"..", b"", b"a/b", b"\0", &[b'x'; 300]][next() % 7].put(&mut call);
                    }
                    2 => (next() as u16).put(&mut call),
                    _ => call.push(next() as u8),
                }
            }
            match execute(&volume, 0, &|| volume.sync(), &call) {
                Some(_) => answered += 1,
                None => refused += 1,
            }
        }
        assert!(answered > 100 && refused > 100, "{answered}, {refused}");
        assert!(volume.check(false, &|_, _| {}).expect("a check").findings.is_empty());
    }

    #[test]
    fn answers_fit_into_frames() {
        let volume = volume();
        let ino = volume.write_file("/f", vec![1; 5 << 20]).expect("a file").ino;
        let mut call = vec![READ];
        ino.put(&mut call);
        0_u64.put(&mut call);
        u64::MAX.put(&mut call);
        let answer = execute(&volume, 0, &|| Ok(()), &call).expect("an answer");
        assert_eq!((answer[0], answer.len()), (0, 1 + MAX_DATA_BYTES));
        call.push(0);
        assert_eq!(execute(&volume, 0, &|| Ok(()), &call), None, "a byte too many");
    }
}
