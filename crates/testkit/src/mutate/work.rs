//! The work on a volume that a repair called sound: here every operation must succeed.

use lanefs::{
    Access, Allocate, Caller, Code, Error, FileKind, Ino, RenameMode, ResolveOptions, Seek, SetAttr, Volume,
    XattrMode,
};

const OWNER: Caller = Caller::OWNER;
/// The directory of the work; a mutation does not make this name.
const HERE: &[u8] = b"work after a repair";
const PATH: &str = "/work after a repair";

/// An operation that failed, and why.
type WorkOutcome<T = ()> = Result<T, String>;

fn step<T>(what: &str, result: lanefs::Result<T>) -> Result<Option<T>, String> {
    match result {
        Ok(value) => Ok(Some(value)),
        // A full volume is sound.
        Err(error) if error.code() == Code::NoSpace => Ok(None),
        Err(error) => Err(format!("{what} failed after a repair: {error}")),
    }
}

/// Creates, writes, renames, links, reads and removes, and compares what it reads.
///
/// # Errors
/// The operation that failed, or read something else than was written. A full volume is not a failure.
pub(super) fn work(volume: &Volume) -> WorkOutcome {
    let root = volume.root();
    let Some(dir) = step("mkdir", volume.mkdir(&OWNER, root, HERE, 0o755))? else { return Ok(()) };
    in_directory(volume, dir.ino)?;
    everything_can_be_read(volume)?;
    let mut failed = None;
    let removed = volume.remove_all_with(&OWNER, root, HERE, |path, done| {
        failed = done.as_ref().err().map(|error| format!("{}: {error}", String::from_utf8_lossy(path)));
        done
    });
    if let (Some(text), Err(error)) = (failed, removed)
        && error.code() != Code::NoSpace
    {
        return Err(format!("rm -r failed after a repair: {text}"));
    }
    step("sync", volume.sync()).map(drop)
}

fn in_directory(volume: &Volume, dir: Ino) -> WorkOutcome {
    // So many that the directory passes from its small form to one with regions.
    for number in 0..60 {
        let name = format!("file {number}");
        if step("create", volume.create_file(&OWNER, dir, name.as_bytes(), 0o644))?.is_none() {
            return Ok(());
        }
    }
    for number in (0..60).step_by(2) {
        let name = format!("file {number}");
        step("unlink", volume.unlink(&OWNER, dir, name.as_bytes()))?;
    }
    let content = vec![7u8; 20_000];
    let Some(file) = step("write", volume.write_file(format!("{PATH}/large"), &content))? else {
        return Ok(());
    };
    if volume.read_file(format!("{PATH}/large")).map_err(|e| format!("read failed: {e}"))? != content {
        return Err("a file reads otherwise than it was written after a repair".to_owned());
    }
    let ino = file.ino;
    step("write", volume.write(&OWNER, ino, 5 << 20, b"far out"))?;
    step("seek", volume.seek(ino, 100_000, Seek::Data))?;
    step("punch", volume.fallocate(&OWNER, ino, Allocate::PunchHole, 4096, 8192))?;
    step("fallocate", volume.fallocate(&OWNER, ino, Allocate::KeepSize, 1 << 20, 9000))?;
    step("truncate", volume.setattr(&OWNER, ino, &SetAttr { size: Some(3000), ..SetAttr::default() }))?;
    step("setxattr", volume.setxattr(&OWNER, ino, b"user.k", &[3; 700], XattrMode::Set))?;
    step("link", volume.link(&OWNER, ino, dir, b"second name"))?;
    step("symlink", volume.symlink_at(&OWNER, dir, b"link", &[b'x'; 300]))?;
    step("sync", volume.sync())?;
    step("rename", volume.rename_at(&OWNER, dir, b"large", dir, b"renamed", RenameMode::Replace))?;
    if let Some(below) = step("mkdir", volume.mkdir(&OWNER, dir, b"below", 0o700))? {
        step("rename", volume.rename_at(&OWNER, dir, b"renamed", below.ino, b"moved", RenameMode::Replace))?;
    }
    Ok(())
}

/// Accepts data that do not match their checksum: a mutation may have changed either, and a repair looks at
/// neither.
fn content<T>(what: &str, result: lanefs::Result<T>) -> WorkOutcome {
    match result {
        Ok(_) | Err(Error::WrongData { .. }) => Ok(()),
        Err(error) => Err(format!("{what} failed after a repair: {error}")),
    }
}

/// Lists the whole tree, and reads the attributes of every inode and the start of every file.
fn everything_can_be_read(volume: &Volume) -> WorkOutcome {
    let failed = |what: &str, error: Error| format!("{what} failed after a repair: {error}");
    let mut open = vec![volume.root()];
    let mut buffer = vec![0; 5000];
    while let Some(dir) = open.pop() {
        let mut cookie = 0;
        loop {
            let page = volume.readdir(&OWNER, dir, cookie, 500).map_err(|e| failed("readdir", e))?;
            let Some(last) = page.last() else { break };
            cookie = last.cookie;
            for entry in page {
                let found = volume.lookup(&OWNER, dir, &entry.name).map_err(|e| failed("lookup", e))?;
                if found.0 != entry.ino {
                    return Err("lookup and readdir differ after a repair".to_owned());
                }
                volume.getattr(entry.ino).map_err(|e| failed("getattr", e))?;
                volume.listxattr(entry.ino).map_err(|e| failed("listxattr", e))?;
                match entry.kind {
                    FileKind::Directory => open.push(entry.ino),
                    FileKind::Symlink => content("readlink", volume.readlink(entry.ino))?,
                    FileKind::File => content("read", volume.read(&OWNER, entry.ino, 0, &mut buffer))?,
                    _ => {}
                }
            }
        }
    }
    let options = ResolveOptions::default();
    volume.resolve_batch(&options, &[PATH]).map(drop).map_err(|e| failed("resolve", e))
}

/// Opens the volume as a user would, for one purpose after the other.
///
/// # Errors
/// It cannot be opened.
pub(super) fn open_again(open: impl Fn(Access) -> lanefs::Result<Volume>) -> WorkOutcome<Volume> {
    drop(open(Access::Read).map_err(|e| format!("cannot be opened for reading after a repair: {e}"))?);
    open(Access::Write).map_err(|e| format!("cannot be opened for writing after a repair: {e}"))
}
