//! Syncs from a source that fails, or that changes between two calls: the failure is named, the rest is done,
//! and the next sync finishes the work.

use super::failure::Failure;
use super::node::{Name, Xattrs};
use super::tree::Buffers;
use super::*;
use crate::on_host::hostdir::HostDir;
use crate::running::job::Silent;
use crate::{CompareOptions, EXIT_PARTLY, ExportOptions, compare_trees, export_tree};
use lanefs::{CreateOptions, FileKind, Ino, Volume};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::ffi::CStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// A call of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Names,
    Node,
    Open,
    Read,
}

/// Called before each call with the path below the top; the call fails with its error.
type Hook<'b> = &'b (dyn Fn(Call, &str) -> std::result::Result<(), Errno> + Sync);

/// A directory of the host whose calls may fail.
struct Faulty<'b> {
    host: HostTree,
    before: Hook<'b>,
}

/// An open file, and its path below the top.
type FaultyFile = (OwnedFd, String);

type Answer<T> = std::result::Result<T, Failure>;

impl Faulty<'_> {
    fn call(&self, call: Call, dir: &HostDir, name: &CStr) -> Answer<String> {
        let path = String::from_utf8(dir.path_below_top(name.to_bytes())).expect("names are text");
        (self.before)(call, &path)?;
        Ok(path)
    }
}

impl Tree for Faulty<'_> {
    type Dir = Arc<HostDir>;
    type File = FaultyFile;

    fn path(&self, below: &[u8]) -> Vec<u8> {
        self.host.path(below)
    }

    fn names(
        &self,
        job: &TransferJob<'_>,
        buffers: &mut Buffers,
        dir: &Self::Dir,
        each: &mut dyn FnMut(&CStr, FileKind, u64),
    ) -> Answer<()> {
        self.call(Call::Names, dir, c"")?;
        self.host.names(job, buffers, dir, each)
    }

    fn number(&self, dir: &Self::Dir) -> Ino {
        self.host.number(dir)
    }

    fn each_node(
        &self,
        job: &TransferJob<'_>,
        buffers: &mut Buffers,
        dir: &Self::Dir,
        each: &mut dyn FnMut(&CStr, &Node),
    ) -> Answer<()> {
        self.call(Call::Names, dir, c"")?;
        self.host.each_node(job, buffers, dir, each)
    }

    fn node(&self, dir: &Self::Dir, name: &Name) -> Answer<Node> {
        self.call(Call::Node, dir, &name.name)?;
        self.host.node(dir, name)
    }

    fn lookup(&self, dir: &Self::Dir, name: &CStr) -> Answer<Option<Name>> {
        self.host.lookup(dir, name)
    }

    fn nodes(&self, dir: &Self::Dir, names: &[&Name]) -> Answer<Vec<Option<Node>>> {
        self.host.nodes(dir, names)
    }

    fn enter(&self, dir: &Self::Dir, name: &Name, node: &Node) -> Answer<Self::Dir> {
        self.host.enter(dir, name, node)
    }

    fn look_into(&self, dir: &Self::Dir, name: &Name, node: &Node) -> Answer<Self::Dir> {
        self.host.look_into(dir, name, node)
    }

    fn xattrs(
        &self,
        buffers: &mut Buffers,
        dir: &Self::Dir,
        name: Option<&CStr>,
        node: &Node,
    ) -> Answer<Xattrs> {
        self.host.xattrs(buffers, dir, name, node)
    }

    fn link_target(&self, dir: &Self::Dir, name: &CStr, node: &Node) -> Answer<Vec<u8>> {
        self.host.link_target(dir, name, node)
    }

    fn open(&self, dir: &Self::Dir, name: &CStr, node: &Node) -> Answer<(FaultyFile, Node)> {
        let path = self.call(Call::Open, dir, name)?;
        let (file, node) = self.host.open(dir, name, node)?;
        Ok(((file, path), node))
    }

    fn open_unseen(&self, dir: &Self::Dir, name: &CStr) -> Option<(FaultyFile, Node)> {
        let path = self.call(Call::Open, dir, name).ok()?;
        let (file, node) = self.host.open_unseen(dir, name)?;
        Some(((file, path), node))
    }

    fn read(&self, (file, path): &FaultyFile, offset: u64, buffer: &mut [u8]) -> Answer<usize> {
        (self.before)(Call::Read, path)?;
        self.host.read(file, offset, buffer)
    }

    fn next_data(&self, file: &FaultyFile, offset: u64) -> Answer<Option<u64>> {
        self.host.next_data(&file.0, offset)
    }
}

impl Source for Faulty<'_> {
    fn read_whole(&self, (file, path): &FaultyFile, node: &Node) -> Answer<Option<Vec<u8>>> {
        (self.before)(Call::Read, path)?;
        self.host.read_whole(file, node)
    }

    fn xattrs_of(&self, buffers: &mut Buffers, file: &FaultyFile) -> Answer<Xattrs> {
        self.host.xattrs_of(buffers, &file.0)
    }

    fn terms(&self) -> Option<Vec<Vec<u8>>> {
        self.host.terms()
    }

    fn refused(&self) -> u64 {
        self.host.refused()
    }

    fn copy(
        &self,
        job: &TransferJob<'_>,
        buffer: &mut [u8],
        (file, path): &FaultyFile,
        node: &Node,
        to: (&dyn FileSystem, Ino),
    ) -> Answer<crate::import::content::Copied> {
        let copied = self.host.copy(job, buffer, file, node, to)?;
        // The host fails at the end of the file.
        (self.before)(Call::Read, path)?;
        Ok(copied)
    }
}

fn control() -> Control<'static> {
    Control { interrupt: &|| false, progress: &Silent }
}

fn options() -> SyncOptions {
    SyncOptions { delete: true, threads: Some(1), ..SyncOptions::default() }
}

/// A tree of the host, and a volume that follows it into `/in`.
struct Following {
    temp: tempfile::TempDir,
    volume: Volume,
}

impl Following {
    fn new() -> Self {
        Self::sized(64 << 20)
    }

    fn sized(size: u64) -> Self {
        let volume = CreateOptions { size, ..CreateOptions::default() };
        let volume = Volume::create_memory(&volume).expect("a volume");
        let temp = tempfile::tempdir().expect("a directory");
        fs::create_dir(temp.path().join("tree")).expect("a directory");
        Following { temp, volume }
    }

    fn tree(&self) -> PathBuf {
        self.temp.path().join("tree")
    }

    /// Syncs through `before`. Returns the problems, without the path of the tree.
    fn sync(&self, options: &SyncOptions, before: Hook<'_>) -> Vec<String> {
        let host = HostTree::open(&self.tree(), "test").expect("a tree");
        let (top, faulty) = (host.top(), Faulty { host, before });
        let follower = Follower { volume: &self.volume, dest: b"/in", options, receiver: &|_| () };
        let report = follower.follow(TransferJob::new(control()), &faulty, top).expect("it starts").report;
        assert!(report.stopped.is_none(), "{:?}", report.stopped);
        let has_problems = !report.problems.is_empty();
        assert_eq!(report.exit_code(), if has_problems { EXIT_PARTLY } else { 0 }, "{:?}", report.problems);
        let top = format!("{}/", self.tree().display());
        let mut problems: Vec<String> =
            report.problems.iter().map(|problem| problem.to_string().replace(&top, "")).collect();
        problems.sort();
        self.assert_sound();
        problems
    }

    fn assert_sound(&self) {
        let report = self.volume.check(false, &|_, _| ()).expect("a check");
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }

    /// The next sync makes the volume the same as the tree.
    fn assert_finishes(&self) {
        assert_eq!(self.sync(&options(), &|_, _| Ok(())), [""; 0]);
        let back = self.temp.path().join("back");
        export_tree(&self.volume, b"/in", &back, &ExportOptions::default(), control()).expect("an export");
        let found = compare_trees(&self.tree(), &back, CompareOptions::default(), control()).expect("trees");
        assert!(found.differences.is_empty(), "{:?}", found.differences);
        fs::remove_dir_all(back).expect("a directory");
    }

    fn read(&self, name: &str) -> Option<Vec<u8>> {
        self.volume.read_file(format!("/in/{name}")).ok()
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

/// The name of a file is that of another one of the same size and time, once its attributes are read.
#[test]
fn a_file_that_is_swapped_before_it_is_opened_gives_nothing_to_the_other_one() {
    for (checksum, mode, xattr) in [(true, 0o640, false), (false, 0o4755, false), (false, 0o640, true)] {
        let following = Following::new();
        let (tree, temp) = (following.tree(), following.temp.path());
        let write = |path: &Path, content: &str| {
            fs::write(path, content).expect("a file");
            let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
            let file = fs::File::open(path).expect("a file");
            file.set_times(fs::FileTimes::new().set_modified(time).set_accessed(time)).expect("times");
        };
        write(&tree.join("f"), "mine");
        write(&tree.join("g"), "done");
        set_mode(&tree.join("f"), 0o644);
        following.assert_finishes();
        write(&temp.join("other"), "evil");
        set_mode(&temp.join("other"), 0o644);
        set_mode(&tree.join("f"), mode);
        if xattr {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(tree.join("f"), "user.of", b"mine", flags).expect("an attribute");
        }
        write(&tree.join("g"), "next");
        fs::write(tree.join("new"), "new").expect("a file");
        let is_swapped = AtomicBool::new(false);
        let swap = |call: Call, path: &str| {
            if call == Call::Open && path == "f" && !is_swapped.swap(true, Relaxed) {
                fs::rename(temp.join("other"), tree.join("f")).expect("a rename");
            }
            Ok(())
        };
        let options = SyncOptions { checksum, ..options() };
        assert_eq!(following.sync(&options, &swap), ["f: was replaced meanwhile"], "{checksum} {mode:o}");
        let attr = following.volume.resolve("/in/f").expect("the file");
        assert_eq!((attr.perm, following.read("f").as_deref()), (0o644, Some(&b"mine"[..])));
        assert!(following.read("new").is_some());
        let checksum = SyncOptions { checksum: true, ..options };
        assert_eq!(following.sync(&checksum, &|_, _| Ok(())), [""; 0]);
        assert_eq!(following.read("f").as_deref(), Some(&b"evil"[..]));
        following.assert_finishes();
    }
}

#[test]
fn each_fault_of_the_source_is_named_and_the_rest_is_done() {
    let cases = [
        (Call::Read, Errno::IO, "cannot be read: Input/output error"),
        (Call::Open, Errno::ACCESS, "cannot be read: Permission denied"),
        (Call::Open, Errno::NOENT, "vanished meanwhile"),
        (Call::Open, Errno::LOOP, "changed its type meanwhile"),
        (Call::Node, Errno::IO, "cannot be read: Input/output error"),
        (Call::Node, Errno::NOENT, "vanished meanwhile"),
    ];
    for (call, errno, words) in cases {
        let following = Following::new();
        let tree = following.tree();
        fs::create_dir(tree.join("d")).expect("a directory");
        let names = ["bad-small", "d/bad-large", "d/bad-new", "d/good", "good"];
        let write = |name: &str, content: &str| {
            let size = if name.contains("large") { 200_000 } else { 100 };
            fs::write(tree.join(name), content.repeat(size)).expect("a file");
        };
        names.iter().filter(|name| !name.ends_with("new")).for_each(|name| write(name, "a"));
        following.assert_finishes();
        names.iter().for_each(|name| write(name, "new"));
        let before = |now: Call, path: &str| match now == call && path.contains("bad") {
            true => Err(errno),
            false => Ok(()),
        };
        let wanted = names.iter().filter(|name| name.contains("bad")).map(|name| format!("{name}: {words}"));
        assert_eq!(following.sync(&options(), &before), wanted.collect::<Vec<_>>(), "{call:?} {errno:?}");
        // Each is whole, and no waiting file is left.
        for (name, first) in [("bad-small", b'a'), ("d/bad-large", b'a'), ("d/good", b'n'), ("good", b'n')] {
            assert_eq!(following.read(name).and_then(|content| content.first().copied()), Some(first));
        }
        assert_eq!(following.volume.read_dir("/in/d").expect("a directory").count(), 2);
        following.assert_finishes();
    }
}

#[test]
fn a_directory_that_cannot_be_listed_loses_nothing() {
    let following = Following::new();
    let tree = following.tree();
    for name in ["d/e/inner", "d/old", "old", "f/kept"] {
        let path = tree.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, name).expect("a file");
    }
    following.assert_finishes();
    for name in ["d/e/inner", "d/old", "old"] {
        fs::remove_file(tree.join(name)).expect("a file");
    }
    for (bad, stay) in [("", ["old", "d/old", "d/e/inner"]), ("d/", ["d/old", "d/e/inner", "f/kept"])] {
        let before = |call: Call, path: &str| match call == Call::Names && path == bad {
            true => Err(Errno::IO),
            false => Ok(()),
        };
        let problems = following.sync(&options(), &before);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].ends_with("cannot be read: Input/output error"), "{problems:?}");
        for name in stay {
            assert!(following.read(name).is_some(), "{name}");
        }
    }
    assert!(following.read("old").is_none());
    following.assert_finishes();
}

/// The file that failed is named, and not the one with which it was compared.
#[test]
fn a_comparison_names_the_side_that_failed() {
    let temp = tempfile::tempdir().expect("a directory");
    let tree = |name: &str| {
        let path = temp.path().join(name);
        fs::create_dir(&path).expect("a directory");
        fs::write(path.join("f"), "content").expect("a file");
        path
    };
    let (a, b) = (tree("a"), tree("b"));
    let fails = AtomicUsize::new(0);
    let before = |call: Call, _: &str| match call == Call::Read {
        true => {
            fails.fetch_add(1, Relaxed);
            Err(Errno::IO)
        }
        false => Ok(()),
    };
    let open = |path: &Path| HostTree::open(path, "test").expect("a tree");
    let (a, host) = (open(&a), open(&b));
    let (top, b) = (host.top(), Faulty { host, before: &before });
    let job = TransferJob::new(control());
    let options = SyncOptions { checksum: true, ..options() };
    let (receiver, tally) = (&|_: &Difference| (), &Tally::default());
    let comparison = TreeComparison { job: &job, options: &options, finds_removed: true, receiver, tally };
    comparison.run((&a, a.top()), (&b, Some(top).unzip()), &NoEffect, None);
    let problems = job.report("the host").problems;
    assert_eq!((fails.into_inner(), problems.len()), (1, 1), "{problems:?}");
    assert!(problems[0].path.ends_with(b"b/f"), "{problems:?}");
}

/// Sets the time that all files of a package have.
fn set_package_time(path: &Path) {
    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000);
    let times = fs::FileTimes::new().set_modified(time).set_accessed(time);
    fs::File::open(path).and_then(|file| file.set_times(times)).expect("times");
}

/// Size and time of a file say nothing once its directory has another name.
#[test]
fn a_name_that_could_not_be_compared_does_not_come_along_with_its_directory() {
    let cases = [
        (Call::Node, "pkg-2/sub/k", Some("pkg-2")),
        (Call::Open, "pkg-2/sub/k", Some("pkg-2")),
        (Call::Read, "pkg-2/sub/k", Some("pkg-2")),
        (Call::Node, "pkg-2/sub", Some("pkg-2")),
        // Nothing is known of the names in such a directory.
        (Call::Names, "pkg-2/sub/", None),
    ];
    for (call, bad, renamed) in cases {
        let following = Following::new();
        let write = |name: &str, content: &str| {
            let path = following.tree().join(name);
            fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            fs::write(&path, content.repeat(1000)).expect("a file");
            set_package_time(&path);
        };
        ["a", "b", "c", "sub/k"]
            .iter()
            .for_each(|name| write(&format!("pkg-1/{name}"), &format!("1{name:_<9}")));
        following.assert_finishes();
        fs::rename(following.tree().join("pkg-1"), following.tree().join("pkg-2")).expect("a rename");
        write("pkg-2/sub/k", &format!("2{:_<9}", "sub/k"));
        // Samples for the old name are listed with the same calls: only what comes after them fails.
        let calls = AtomicUsize::new(0);
        let before = |now: Call, path: &str| match now == call && path == bad {
            true if calls.fetch_add(1, Relaxed) > 0 || matches!(call, Call::Open | Call::Read) => {
                Err(Errno::IO)
            }
            _ => Ok(()),
        };
        let problems = following.sync(&options(), &before);
        assert!(!problems.is_empty(), "{call:?} {bad}");
        assert_ne!(following.read("pkg-2/sub/k").map(|content| content[0]), Some(b'1'), "{call:?} {bad}");
        assert_eq!(following.read("pkg-2/a").is_some(), renamed.is_some(), "{call:?} {bad}");
        following.assert_finishes();
        assert_eq!(following.read("pkg-2/sub/k").map(|content| content[0]), Some(b'2'), "{call:?} {bad}");
    }
}

/// Waits until something is so, for some time at most.
fn wait_for(is_so: impl Fn() -> bool, most: std::time::Duration) {
    let begin = std::time::Instant::now();
    while !is_so() && begin.elapsed() < most {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// A tree that was in a volume of 16 MiB, and has other names since: `pkg-2` had the name `pkg-1`, and the
/// volume has room for what is new once the old files are removed.
fn nearly_full() -> Following {
    let following = Following::sized(16 << 20);
    let write = |name: &str, len: usize| {
        let path = following.tree().join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(&path, vec![b'1'; len]).expect("a file");
        set_package_time(&path);
    };
    ["a", "b", "c"].iter().for_each(|name| write(&format!("pkg-1/{name}"), 1000 + name.len()));
    (0..8).for_each(|number| write(&format!("gone-{number}"), 1 << 20));
    write("old", 1234);
    following.assert_finishes();
    fs::rename(following.tree().join("pkg-1"), following.tree().join("pkg-2")).expect("a rename");
    (0..8).for_each(|number| {
        fs::remove_file(following.tree().join(format!("gone-{number}"))).expect("a file");
    });
    fs::remove_file(following.tree().join("old")).expect("a file");
    following
}

/// One thread compares a file that it found by size and time. Meanwhile another one needs the room of all old
/// names. They go then, that of the file as well if the file is another one.
#[test]
fn a_file_that_is_compared_while_room_is_made_is_removed_if_it_is_another_one() {
    let following = nearly_full();
    let tree = following.tree();
    fs::write(tree.join("pkg-2/large"), vec![b'2'; 9 << 20]).expect("a file");
    fs::write(tree.join("zz-new"), vec![b'2'; 1234]).expect("a file");
    set_package_time(&tree.join("zz-new"));
    let (is_compared, needs_room) = (AtomicBool::new(false), AtomicBool::new(false));
    let minute = std::time::Duration::from_secs(60);
    let before = |call: Call, path: &str| {
        match (call, path) {
            (Call::Open, "zz-new") if !is_compared.swap(true, Relaxed) => {
                wait_for(|| needs_room.load(Relaxed), minute);
                // A thread that does not wait for this one has removed names by then.
                let is_made = || following.read("gone-7").is_none();
                wait_for(is_made, std::time::Duration::from_millis(300));
            }
            (Call::Open, "pkg-2/large") => {
                wait_for(|| is_compared.load(Relaxed), minute);
                needs_room.store(true, Relaxed);
            }
            _ => {}
        }
        Ok(())
    };
    let options = SyncOptions { threads: Some(2), ..options() };
    assert_eq!(following.sync(&options, &before), [""; 0]);
    assert!(is_compared.into_inner() && needs_room.into_inner());
    assert!(following.read("old").is_none());
    assert_eq!(following.read("zz-new").map(|content| content[0]), Some(b'2'));
    following.assert_finishes();
}

#[test]
fn threads_that_need_room_wait_for_the_one_that_makes_it() {
    let following = nearly_full();
    for number in 0..4 {
        let dir = following.tree().join(format!("pkg-2/new-{number}"));
        fs::create_dir(&dir).expect("a directory");
        fs::write(dir.join("large"), vec![b'2'; 5 << 19]).expect("a file");
    }
    let slowly = |difference: &Difference| {
        if difference.change == Change::Removed {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    let options = SyncOptions { threads: Some(4), ..options() };
    let (from, to) = (following.tree(), b"/in");
    let report = sync_tree(&following.volume, Side::Host(&from), to, &options, &slowly, control());
    let report = report.expect("it starts").report;
    assert!(report.stopped.is_none() && report.problems.is_empty(), "{report:?}");
    following.assert_finishes();
}

/// Counts the calls of a source below `d`.
fn counted(following: &Following, options: &SyncOptions) -> [usize; 3] {
    let counts: [AtomicUsize; 3] = Default::default();
    let calls = [Call::Names, Call::Node, Call::Open];
    let problems = following.sync(options, &|call, path| {
        if let Some(at) = calls.iter().position(|other| *other == call && path.starts_with("d/")) {
            counts[at].fetch_add(1, Relaxed);
        }
        Ok(())
    });
    assert_eq!(problems, [""; 0]);
    counts.map(AtomicUsize::into_inner)
}

#[test]
fn a_source_is_read_no_more_often_than_it_has_to_be() {
    let following = Following::new();
    let dir = following.tree().join("d");
    fs::create_dir(&dir).expect("a directory");
    ["f", "g", "h"].iter().for_each(|name| fs::write(dir.join(name), name).expect("a file"));
    let path = following.temp.path().join("v.lane");
    let image = CreateOptions { size: 8 << 20, ..CreateOptions::default() };
    Volume::create(&path, &image).expect("a volume").close().expect("closed");
    // Times of a moment before are not recorded.
    std::thread::sleep(std::time::Duration::from_millis(150));
    let last = Arc::new(LastSync::none());
    let recorded = SyncOptions { last_sync: Some(Arc::clone(&last)), ..options() };
    // A new file is opened, and nothing but the open file is asked.
    assert_eq!(counted(&following, &recorded), [1, 0, 3]);
    let Some(record) = ImageState::of(&path).and_then(|image| Some((last.next_record(&image)?, image)))
    else {
        eprintln!("SKIPPED: the times of the file system for temporary files do not tell every change");
        return;
    };
    let recorded = || {
        let last = LastSync::from_record(&record.0, &record.1);
        SyncOptions { last_sync: Some(Arc::new(last)), ..options() }
    };
    assert_eq!(counted(&following, &recorded()), [1, 0, 0]);
    // A directory in which something has changed is compared by the walk that has found that.
    fs::write(dir.join("g"), "longer").expect("a file");
    assert_eq!(counted(&following, &recorded()), [1, 0, 1]);
    assert_eq!(following.read("d/g").as_deref(), Some(&b"longer"[..]));
    following.assert_finishes();
}
