//! A mounted volume that changes from both sides: through the mount, and by commands beside it. Each time a
//! command has returned, the kernel's caches must agree with the volume.

use lanefs::{Attr, Caller, CreateOptions, FileKind, Ino, RenameMode, SetAttr, Volume};
use lanefs_fuse::client::CommandSpec;
use lanefs_fuse::{CommandRequest, Mount, Operation, Service, Statistics, find};
use lanefs_testkit::settings::Seeds;
use parking_lot::Mutex;
use rustix::fs::{CWD, Mode, OFlags};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const OWNER: Caller = Caller::OWNER;

/// A change, which either side can make. Paths are `name` or `dir/name`.
#[derive(Clone, Debug)]
enum Op {
    Create(String),
    Mkdir(String),
    Symlink(String, String),
    Link(String, String),
    Unlink(String),
    Rmdir(String),
    Rename(String, String),
    Write(String, u64, Vec<u8>),
    Truncate(String, u64),
    Chmod(String, u16),
}

impl Op {
    /// Makes the change in a directory, by system calls.
    fn through_files(&self, top: &Path) -> io::Result<()> {
        let open = |path: &str, flags| {
            let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            rustix::fs::openat(CWD, top.join(path), flags, Mode::from_raw_mode(0o644)).map(File::from)
        };
        match self {
            Op::Create(path) => drop(open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?),
            Op::Mkdir(path) => fs::create_dir(top.join(path))?,
            Op::Symlink(path, target) => symlink(target, top.join(path))?,
            Op::Link(from, to) => fs::hard_link(top.join(from), top.join(to))?,
            Op::Unlink(path) => fs::remove_file(top.join(path))?,
            Op::Rmdir(path) => fs::remove_dir(top.join(path))?,
            Op::Rename(from, to) => fs::rename(top.join(from), top.join(to))?,
            Op::Write(path, offset, data) => open(path, OFlags::WRONLY)?.write_all_at(data, *offset)?,
            Op::Truncate(path, size) => open(path, OFlags::WRONLY)?.set_len(*size)?,
            Op::Chmod(path, mode) => {
                let mode = fs::Permissions::from_mode((*mode).into());
                open(path, OFlags::RDONLY)?.set_permissions(mode)?;
            }
        }
        Ok(())
    }

    /// Makes the change as a command does.
    fn on(&self, volume: &Volume) -> lanefs::Result<()> {
        let split = |path: &str| -> lanefs::Result<(Ino, String)> {
            match path.split_once('/') {
                Some((dir, name)) => {
                    Ok((volume.lookup(&OWNER, volume.root(), dir.as_bytes())?.0, name.to_string()))
                }
                None => Ok((volume.root(), path.to_string())),
            }
        };
        let find = |path: &str| {
            let (dir, name) = split(path)?;
            volume.lookup(&OWNER, dir, name.as_bytes())
        };
        // open(2) with O_NOFOLLOW does not open a symbolic link.
        let file = |path: &str| match find(path)? {
            (_, FileKind::Symlink) => Err(lanefs::Error::Code(lanefs::Code::SymlinkLoop)),
            (ino, _) => Ok(ino),
        };
        match self {
            Op::Create(path) => {
                let (dir, name) = split(path)?;
                volume.create_file(&OWNER, dir, name.as_bytes(), 0o644)?;
            }
            Op::Mkdir(path) => {
                let (dir, name) = split(path)?;
                volume.mkdir(&OWNER, dir, name.as_bytes(), 0o777)?;
            }
            Op::Symlink(path, target) => {
                let (dir, name) = split(path)?;
                volume.symlink_at(&OWNER, dir, name.as_bytes(), target.as_bytes())?;
            }
            Op::Link(from, to) => {
                let (from, (dir, name)) = (find(from)?.0, split(to)?);
                volume.link(&OWNER, from, dir, name.as_bytes())?;
            }
            Op::Unlink(path) => {
                let (dir, name) = split(path)?;
                volume.unlink(&OWNER, dir, name.as_bytes())?;
            }
            Op::Rmdir(path) => {
                let (dir, name) = split(path)?;
                volume.rmdir(&OWNER, dir, name.as_bytes())?;
            }
            Op::Rename(from, to) => {
                let (from, to) = (split(from)?, split(to)?);
                let (name, new) = (from.1.as_bytes(), to.1.as_bytes());
                volume.rename_at(&OWNER, from.0, name, to.0, new, RenameMode::Replace)?;
            }
            Op::Write(path, offset, data) => {
                volume.write(&OWNER, file(path)?, *offset, data)?;
            }
            Op::Truncate(path, size) => {
                volume.setattr(&OWNER, file(path)?, &SetAttr { size: Some(*size), ..SetAttr::default() })?;
            }
            Op::Chmod(path, mode) => {
                volume.setattr(&OWNER, file(path)?, &SetAttr { perm: Some(*mode), ..SetAttr::default() })?;
            }
        }
        Ok(())
    }
}

/// Service that makes the changes left for it; the arguments of a command are ignored.
#[derive(Default)]
struct Beside {
    ops: Mutex<Vec<Op>>,
    /// Attributes in the volume, by path.
    truth: Mutex<BTreeMap<String, Attr>>,
}

impl Beside {
    fn read_tree(&self, volume: &Volume, dir: Ino, prefix: &str) {
        for entry in volume.readdir(&OWNER, dir, 0, usize::MAX).unwrap() {
            let path = format!("{prefix}{}", String::from_utf8(entry.name.to_vec()).unwrap());
            self.truth.lock().insert(path.clone(), volume.getattr(entry.ino).unwrap());
            if entry.kind == FileKind::Directory {
                self.read_tree(volume, entry.ino, &format!("{path}/"));
            }
        }
    }
}

impl Service for Beside {
    fn execute(&self, volume: &Volume, _: CommandRequest) -> u8 {
        let ops = std::mem::take(&mut *self.ops.lock());
        if ops.is_empty() {
            self.truth.lock().clear();
            self.read_tree(volume, volume.root(), "");
        }
        let failed = ops.iter().filter(|op| op.on(volume).is_err()).count();
        u8::from(failed > 0)
    }

    fn statistics(&self, _: &Volume, _: &Statistics, _: usize) -> String {
        String::new()
    }
}

/// A mount with this service.
struct Both {
    beside: Arc<Beside>,
    mount: Mount,
    dir: tempfile::TempDir,
}

impl Both {
    fn new() -> Self {
        let volume =
            Volume::create_memory(&CreateOptions { size: 256 << 20, ..CreateOptions::default() }).unwrap();
        let set = SetAttr { uid: Some(rustix::process::getuid().as_raw()), ..SetAttr::default() };
        volume.setattr(&OWNER, volume.root(), &set).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Mount::start(volume, dir.path(), &crate::mount_options())
            .unwrap_or_else(|error| panic!("this test needs root, or fusermount3, and /dev/fuse: {error}"));
        let beside = Arc::new(Beside::default());
        mount.serve_commands(beside.clone()).unwrap();
        Both { beside, mount, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes changes by a command; true where all succeeded.
    fn command(&self, ops: &[Op]) -> bool {
        self.beside.ops.lock().extend_from_slice(ops);
        let command = CommandSpec { arguments: vec![OsString::from("x")], ..CommandSpec::default() };
        let code = find::find(self.dir.path()).unwrap().unwrap().execute(command, || false).unwrap();
        code == 0
    }
}

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as usize % end
    }

    fn dir(&mut self) -> String {
        format!("d{}", self.below(3))
    }

    /// One of few paths, so that most operations find a file.
    fn path(&mut self) -> String {
        let name = ["a", "b", "c", "e"][self.below(4)];
        match self.below(3) {
            0 => name.to_string(),
            _ => format!("{}/{name}", self.dir()),
        }
    }

    fn op(&mut self) -> Op {
        match self.below(22) {
            0..=3 => Op::Create(self.path()),
            4..=6 => Op::Mkdir(self.dir()),
            7 => Op::Mkdir(self.path()),
            8 => Op::Symlink(self.path(), format!("target{}", self.below(1000))),
            9..=10 => Op::Link(self.path(), self.path()),
            11..=12 => Op::Unlink(self.path()),
            13 => Op::Rmdir(self.path()),
            14 => Op::Rmdir(self.dir()),
            15..=16 => Op::Rename(self.path(), self.path()),
            17 => Op::Rename(self.dir(), self.dir()),
            18..=19 => {
                let (offset, len) = (self.below(40_000) as u64, 1 + self.below(20_000));
                Op::Write(self.path(), offset, vec![self.below(256) as u8; len])
            }
            20 => Op::Truncate(self.path(), self.below(50_000) as u64),
            _ => Op::Chmod(self.path(), 0o600 | self.below(64) as u16),
        }
    }
}

/// Attributes in which two file systems must agree.
fn shown(meta: &Metadata) -> (u32, u64, u64) {
    // Sizes and link counts of directories differ between file systems.
    match meta.is_dir() {
        true => (meta.mode(), 0, 0),
        false => (meta.mode(), meta.nlink(), meta.size()),
    }
}

/// Reads everything below a directory, with content.
fn tree(top: &Path, at: &str, found: &mut BTreeMap<String, (u32, u64, u64, Vec<u8>)>) {
    for entry in fs::read_dir(top.join(at)).unwrap() {
        let path = format!("{at}{}", entry.unwrap().file_name().into_string().unwrap());
        let meta = fs::symlink_metadata(top.join(&path)).unwrap();
        let content = match meta.file_type() {
            kind if kind.is_file() => fs::read(top.join(&path)).unwrap(),
            kind if kind.is_symlink() => {
                fs::read_link(top.join(&path)).unwrap().into_os_string().into_encoded_bytes()
            }
            _ => Vec::new(),
        };
        if meta.is_dir() {
            tree(top, &format!("{path}/"), found);
        }
        let (mode, links, size) = shown(&meta);
        found.insert(path, (mode, links, size, content));
    }
}

/// Compares the mount's attributes with those of the volume, to the nanosecond.
fn compare_with_the_volume(both: &Both) {
    both.command(&[]);
    for (path, attr) in both.beside.truth.lock().iter() {
        let meta = fs::symlink_metadata(both.path(path)).unwrap();
        let time = |seconds: i64, nanoseconds: i64| seconds * 1_000_000_000 + nanoseconds;
        assert_eq!(
            (meta.ino(), meta.nlink(), meta.size(), meta.blocks(), meta.mode() & 0o7777),
            (attr.ino.0, u64::from(attr.links), attr.size, 8 * attr.blocks, attr.perm.into()),
            "{path}"
        );
        assert_eq!(time(meta.mtime(), meta.mtime_nsec()), attr.mtime.0, "time of change of {path}");
        assert_eq!(time(meta.ctime(), meta.ctime_nsec()), attr.ctime.0, "time of status change of {path}");
    }
}

fn sequence(seed: u64, steps: usize) {
    let (both, host, mut random) = (Both::new(), tempfile::tempdir().unwrap(), Random(seed));
    let mut open: Vec<(File, File)> = Vec::new();
    let mut done = 0;
    for step in 0..steps {
        let op = random.op();
        let expected = op.through_files(host.path());
        let by_command = random.below(2) == 0;
        let what =
            || format!("seed {seed}, step {step}, {}: {op:?}", if by_command { "command" } else { "mount" });
        if by_command {
            assert_eq!(both.command(std::slice::from_ref(&op)), expected.is_ok(), "{}: {expected:?}", what());
        } else {
            let errno = |result: &io::Result<()>| result.as_ref().err().and_then(io::Error::raw_os_error);
            assert_eq!(errno(&op.through_files(both.dir.path())), errno(&expected), "{}", what());
        }
        done += usize::from(expected.is_ok());
        // Only a few names, so that the kernel's caches keep others over many changes.
        for _ in 0..4 {
            let path = random.path();
            let look = |top: &Path| fs::symlink_metadata(top.join(&path)).map(|meta| shown(&meta)).ok();
            assert_eq!(look(both.dir.path()), look(host.path()), "{path} after {}", what());
            let read = |top: &Path| fs::read(top.join(&path)).ok();
            if random.below(3) == 0 {
                assert!(read(both.dir.path()) == read(host.path()), "content of {path} after {}", what());
            }
        }
        if random.below(10) == 0 {
            let path = random.path();
            if let (Ok(here), Ok(there)) = (File::open(both.path(&path)), File::open(host.path().join(&path)))
                && there.metadata().unwrap().is_file()
            {
                open.push((here, there));
            }
        }
        if open.len() > 4 {
            open.remove(random.below(5));
        }
        for (here, there) in &open {
            assert_eq!(
                shown(&here.metadata().unwrap()),
                shown(&there.metadata().unwrap()),
                "open: {}",
                what()
            );
            let (mut ours, mut theirs) = (vec![0; 70_000], vec![0; 70_000]);
            let (read, wanted) =
                (here.read_at(&mut ours, 0).unwrap(), there.read_at(&mut theirs, 0).unwrap());
            assert!(read == wanted && ours[..read] == theirs[..wanted], "open file: {}", what());
        }
        if step % 25 == 0 {
            let (mut ours, mut theirs) = (BTreeMap::new(), BTreeMap::new());
            tree(both.dir.path(), "", &mut ours);
            tree(host.path(), "", &mut theirs);
            assert!(ours == theirs, "trees differ after {}:\n{:?}\n{:?}", what(), ours.keys(), theirs.keys());
            compare_with_the_volume(&both);
        }
    }
    assert!(done > steps / 8, "only {done} of {steps} did anything");
    drop(open);
    both.mount.stop().unwrap();
}

#[test]
fn both_sides_see_each_others_changes() {
    if !crate::is_alone("coherence::both_sides_see_each_others_changes") {
        return;
    }
    rustix::process::umask(Mode::empty());
    for seed in Seeds::from_environment("LANEFS_SEQUENCES", 1, 4) {
        sequence(seed, 1500);
    }
}

/// The kernel must not keep attributes that changed while their reply was on its way.
#[test]
fn what_changes_while_the_kernel_asks_is_seen() {
    let both = Both::new();
    let (now, end) = (AtomicUsize::new(0), AtomicBool::new(false));
    // Requests that each thread has finished.
    let finished = [AtomicUsize::new(0), AtomicUsize::new(0)];
    std::thread::scope(|scope| {
        for finished in &finished {
            let (both, now, end) = (&both, &now, &end);
            scope.spawn(move || {
                while !end.load(Ordering::Relaxed) {
                    let name = format!("f{}", now.load(Ordering::Relaxed));
                    let _ = fs::symlink_metadata(both.path(&name));
                    finished.fetch_add(1, Ordering::Release);
                }
            });
        }
        for number in 0..1500 {
            let name = format!("f{number}");
            now.store(number, Ordering::Relaxed);
            assert!(both.command(&[Op::Create(name.clone())]));
            assert!(both.command(&[Op::Truncate(name.clone(), 1000)]));
            let size = || fs::symlink_metadata(both.path(&name)).map(|meta| meta.size()).ok();
            let mut found = size();
            if found != Some(1000) {
                // A request that began before the command returned may show the old size for some
                // instructions: the kernel marks attributes as valid before it writes the size. So those
                // requests must end first; the error that this test looks for stays for ever.
                let begin = [0, 1].map(|thread: usize| finished[thread].load(Ordering::Acquire));
                while (0..2).any(|thread| finished[thread].load(Ordering::Acquire) < begin[thread] + 2) {
                    std::thread::yield_now();
                }
                found = size();
            }
            if found != Some(1000) {
                end.store(true, Ordering::Relaxed);
            }
            assert_eq!(found, Some(1000), "{name}");
        }
        end.store(true, Ordering::Relaxed);
    });
    both.mount.stop().unwrap();
}

/// Looks at each kind of data that the kernel keeps; returns all that it sees.
fn look(top: &Path) -> Vec<String> {
    let meta = |name: &str| fs::symlink_metadata(top.join(name)).map(|meta| shown(&meta)).ok();
    let mut names: Vec<_> = fs::read_dir(top).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    vec![
        format!("missing names: {:?} {:?}", meta("new"), meta("e/a")),
        format!("attributes: {:?}", meta("f")),
        format!("content: {:?}", fs::read_to_string(top.join("f")).ok()),
        format!("a listing: {names:?}"),
        format!("the target of a link: {:?}", fs::read_link(top.join("l")).ok()),
        format!("names in a directory: {:?}", meta("d/a")),
    ]
}

/// Requests so far for which a process waits.
fn requests(mount: &Mount) -> u64 {
    let all = mount.statistics().snapshot();
    all.iter().filter(|one| one.operation != Operation::Forget).map(|one| one.count).sum()
}

/// Makes all kinds of cached data, changes them by `change`, and compares with the same on the host.
fn keeps_and_drops(way: &str, change: impl Fn(&Both, &[Op])) {
    let (both, host) = (Both::new(), tempfile::tempdir().unwrap());
    let path = |text: &str| text.to_string();
    let first = [
        Op::Create(path("f")),
        Op::Write(path("f"), 0, b"text".to_vec()),
        Op::Chmod(path("f"), 0o600),
        Op::Symlink(path("l"), path("target")),
        Op::Mkdir(path("d")),
        Op::Create(path("d/a")),
    ];
    let second = [
        Op::Create(path("new")),
        Op::Write(path("f"), 2, b"other".to_vec()),
        Op::Chmod(path("f"), 0o640),
        Op::Unlink(path("l")),
        Op::Symlink(path("l"), path("elsewhere")),
        Op::Rename(path("d"), path("e")),
    ];
    for op in &first {
        op.through_files(both.dir.path()).unwrap();
        op.through_files(host.path()).unwrap();
    }
    // Reading changes times, for which the kernel asks once more.
    let (_, before) = (look(both.dir.path()), look(both.dir.path()));
    assert_eq!(before, look(host.path()), "{way}");
    let asked = requests(&both.mount);
    assert_eq!((look(both.dir.path()), requests(&both.mount) - asked), (before, 0), "{way}: all is kept");
    change(&both, &second);
    second.iter().for_each(|op| op.through_files(host.path()).unwrap());
    let (seen, expected) = (look(both.dir.path()), look(host.path()));
    for (seen, expected) in seen.iter().zip(&expected) {
        assert_eq!(seen, expected, "{way}");
    }
    compare_with_the_volume(&both);
    both.mount.stop().unwrap();
}

#[test]
fn what_the_kernel_keeps_costs_no_request_until_a_command_changes_it() {
    keeps_and_drops("a command", |both, ops| assert!(both.command(ops)));
}

#[test]
fn what_the_kernel_keeps_costs_no_request_until_a_second_mount_changes_it() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tried: a second mount takes root");
        return;
    }
    keeps_and_drops("a second mount", |both, ops| {
        let second = tempfile::tempdir().unwrap();
        rustix::mount::mount_bind(both.dir.path(), second.path()).unwrap();
        ops.iter().for_each(|op| op.through_files(second.path()).unwrap());
        rustix::mount::unmount(second.path(), rustix::mount::UnmountFlags::empty()).unwrap();
    });
}
