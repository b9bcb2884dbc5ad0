//! Calls by path, beside the host's file system as the oracle, and transactions of several of them.

use lanefs::*;
use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// Random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

fn small() -> CreateOptions {
    CreateOptions { size: 64 << 20, ..CreateOptions::default() }
}

/// One in memory and one in a file.
fn volumes(dir: &tempfile::TempDir, name: &str) -> [Volume; 2] {
    let path = dir.path().join(name);
    let on_file = Volume::open_or_create(&path, &small(), Access::Write).expect("open");
    [Volume::create_memory(&small()).expect("create"), on_file]
}

/// Paths that meet each other: names at two levels, with a slash at the end, through a link, missing ones.
const PATHS: [&str; 15] = [
    "/a", "/b", "/c", "/d", "/d/a", "/d/b", "/d/e", "/d/e/a", "/l", "/l/a", "/d/", "/a/", "/d/../b", "/d/.",
    "/none/a",
];

#[derive(Clone, Copy, Debug)]
enum Call {
    Write(&'static str, usize),
    CreateDir(&'static str),
    CreateDirAll(&'static str),
    RemoveFile(&'static str),
    RemoveDir(&'static str),
    Rename(&'static str, &'static str),
    HardLink(&'static str, &'static str),
    Symlink(&'static str, &'static str),
    Mode(&'static str, u16),
}

/// Sizes of contents: in the inode, in a part of a block, in several.
const SIZES: [usize; 5] = [0, 30, 1000, 4096, 30_000];

fn content(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i % 251) as u8).collect()
}

impl Call {
    fn random(random: &mut Random) -> Self {
        let (path, other) = (random.pick(&PATHS), random.pick(&PATHS));
        match random.below(16) {
            0..=4 => Call::Write(path, random.pick(&SIZES)),
            5 => Call::CreateDir(path),
            // (The standard library makes no parents of `.` and `..`.)
            6 => Call::CreateDirAll(random.pick(&PATHS[..12])),
            7 | 8 => Call::RemoveFile(path),
            9 => Call::RemoveDir(path),
            10..=12 => Call::Rename(path, other),
            13 => Call::HardLink(path, other),
            14 => Call::Symlink(random.pick(&["d", "a", "nowhere", "/d/e", "l"]), other),
            _ => Call::Mode(path, random.pick(&[0o755, 0o600, 0o7711])),
        }
    }

    fn on_volume(self, volume: &Volume) -> Result<()> {
        match self {
            Call::Write(path, size) => volume.write_file(path, content(size)).map(drop),
            Call::CreateDir(path) => volume.create_dir(path).map(drop),
            Call::CreateDirAll(path) => volume.mkdir_all(path, 0o755).map(drop),
            Call::RemoveFile(path) => volume.remove_file(path),
            Call::RemoveDir(path) => volume.remove_dir(path),
            Call::Rename(from, to) => volume.rename(from, to),
            Call::HardLink(from, to) => volume.hard_link(from, to).map(drop),
            Call::Symlink(target, path) => volume.symlink(target, path).map(drop),
            Call::Mode(path, mode) => volume.set_permissions(path, mode).map(drop),
        }
    }

    fn on_host(self, root: &Path) -> std::io::Result<()> {
        let at = |path: &str| format!("{}{path}", root.display());
        match self {
            Call::Write(path, size) => std::fs::write(at(path), content(size)),
            Call::CreateDir(path) => std::fs::create_dir(at(path)),
            Call::CreateDirAll(path) => std::fs::create_dir_all(at(path)),
            Call::RemoveFile(path) => std::fs::remove_file(at(path)),
            Call::RemoveDir(path) => std::fs::remove_dir(at(path)),
            Call::Rename(from, to) => std::fs::rename(at(from), at(to)),
            Call::HardLink(from, to) => std::fs::hard_link(at(from), at(to)),
            // The host's absolute paths begin elsewhere.
            Call::Symlink(target, path) => {
                let target = if target.starts_with('/') { at(target) } else { target.to_owned() };
                std::os::unix::fs::symlink(target, at(path))
            }
            Call::Mode(path, mode) => {
                std::fs::set_permissions(at(path), std::fs::Permissions::from_mode(u32::from(mode)))
            }
        }
    }

    fn add_to<'c>(&'c self, transaction: &mut Transaction<'_, 'c>, contents: &'c BTreeMap<usize, Vec<u8>>) {
        match self {
            Call::Write(path, size) => transaction.write_file(*path, &contents[size]),
            Call::CreateDir(path) => transaction.create_dir(*path),
            Call::CreateDirAll(path) => transaction.create_dir_all(*path),
            Call::RemoveFile(path) => transaction.remove_file(*path),
            Call::RemoveDir(path) => transaction.remove_dir(*path),
            Call::Rename(from, to) => transaction.rename(*from, *to),
            Call::HardLink(from, to) => transaction.hard_link(*from, *to),
            Call::Symlink(target, path) => transaction.symlink(*target, *path),
            Call::Mode(path, mode) => {
                transaction.set_attributes(*path, SetAttr { perm: Some(*mode), ..SetAttr::default() })
            }
        };
    }
}

/// An inode in words: kind, mode, links; its content or its target.
type Entry = (String, u32, Vec<u8>);

fn tree_of_volume(volume: &Volume) -> BTreeMap<String, Entry> {
    let (mut tree, mut dirs) = (BTreeMap::new(), vec![String::new()]);
    while let Some(dir) = dirs.pop() {
        for entry in volume.read_dir(format!("{dir}/")).expect("list") {
            let entry = entry.expect("an entry");
            let path = format!("{dir}/{}", String::from_utf8(entry.name).expect("text"));
            let attr = volume.symlink_metadata(&path).expect("attributes");
            let content = match attr.kind {
                FileKind::File => volume.read_file(&path).expect("content"),
                FileKind::Symlink => volume.read_link(&path).expect("target"),
                _ => Vec::new(),
            };
            if attr.kind == FileKind::Directory {
                dirs.push(path.clone());
            }
            tree.insert(path, (format!("{:o}", attr.mode()), attr.links, content));
        }
    }
    tree
}

fn tree_of_host(root: &Path) -> BTreeMap<String, Entry> {
    let (mut tree, mut dirs) = (BTreeMap::new(), vec![String::new()]);
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(format!("{}{dir}/", root.display())).expect("list") {
            let path = format!("{dir}/{}", entry.expect("an entry").file_name().to_str().expect("text"));
            let host = format!("{}{path}", root.display());
            let meta = std::fs::symlink_metadata(&host).expect("attributes");
            let content = if meta.is_file() {
                std::fs::read(&host).expect("content")
            } else if meta.is_symlink() {
                let target = std::fs::read_link(&host).expect("target");
                let target = target.to_str().expect("text");
                target.strip_prefix(root.to_str().expect("text")).unwrap_or(target).into()
            } else {
                Vec::new()
            };
            if meta.is_dir() {
                dirs.push(path.clone());
            }
            // (Some hosts count no links of directories.)
            let links = if meta.is_dir() { 0 } else { meta.nlink() as u32 };
            tree.insert(path, (format!("{:o}", meta.mode()), links, content));
        }
    }
    tree
}

/// (A directory has five digits, other kinds have six.)
fn without_links_of_directories(mut tree: BTreeMap<String, Entry>) -> BTreeMap<String, Entry> {
    tree.values_mut().filter(|(mode, ..)| mode.len() == 5).for_each(|(_, links, _)| *links = 0);
    tree
}

fn is_clean(volume: &Volume) {
    let report = volume.check(false, &|_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn calls_by_path_do_what_the_host_does() {
    let dir = tempfile::tempdir().expect("a directory");
    // The modes of new files and directories are those of the usual umask.
    for (round, volume) in volumes(&dir, "host.lane").into_iter().enumerate() {
        for seed in 0..60 {
            let (root, mut random) = (dir.path().join(format!("{round}-{seed}")), Random(seed));
            std::fs::create_dir(&root).expect("a directory");
            for entry in volume.read_dir("/").expect("list") {
                let name = entry.expect("an entry").name;
                volume.remove_all([b"/", &name[..]].concat()).expect("removed");
            }
            for step in 0..60 {
                let call = Call::random(&mut random);
                let (ours, theirs) = (call.on_volume(&volume), call.on_host(&root));
                let ours = ours.map_err(|error| error.errno());
                let theirs = theirs.map_err(|error| error.raw_os_error().unwrap_or(0));
                if matches!(call, Call::CreateDirAll(_)) && theirs == Err(17) {
                    // A file that is in the way has another number here.
                    let in_the_way = [Code::NotDirectory, Code::Exists].map(|code| Err(code.errno()));
                    assert!(in_the_way.contains(&ours), "seed {seed}, step {step}: {call:?}, {ours:?}");
                    continue;
                }
                assert_eq!(ours, theirs, "seed {seed}, step {step}: {call:?}");
            }
            let ours = without_links_of_directories(tree_of_volume(&volume));
            assert_eq!(ours, tree_of_host(&root), "seed {seed}");
        }
        is_clean(&volume);
    }
}

#[test]
fn a_transaction_is_all_of_its_changes_or_none() {
    let dir = tempfile::tempdir().expect("a directory");
    let contents: BTreeMap<usize, Vec<u8>> = SIZES.iter().map(|size| (*size, content(*size))).collect();
    let singly = volumes(&dir, "singly.lane");
    let (mut done, mut refused) = (0, 0);
    for (volume, singly) in volumes(&dir, "together.lane").iter().zip(&singly) {
        let mut random = Random(7);
        for round in 0..400 {
            let calls: Vec<Call> = (0..1 + random.below(5)).map(|_| Call::random(&mut random)).collect();
            let before = tree_of_volume(volume);
            let mut transaction = volume.transaction();
            calls.iter().for_each(|call| call.add_to(&mut transaction, &contents));
            let together = transaction.commit();
            // A change sees the same as without a transaction.
            let failed = calls.iter().position(|call| call.on_volume(singly).is_err());
            match failed {
                None => {
                    together.unwrap_or_else(|error| panic!("round {round}, {calls:?}: {error}"));
                    done += 1;
                }
                Some(number) => {
                    let error = together.expect_err("refused").to_string();
                    let expected = format!("change {} of {}", number + 1, calls.len());
                    assert!(error.starts_with(&expected), "round {round}, {calls:?}: {error}");
                    assert_eq!(tree_of_volume(volume), before, "round {round}, {calls:?}");
                    calls[..number].iter().for_each(|call| call.on_volume(volume).expect("repeated"));
                    refused += 1;
                }
            }
            assert_eq!(tree_of_volume(volume), tree_of_volume(singly), "round {round}, {calls:?}");
        }
        is_clean(volume);
    }
    assert!(done > 40 && refused > 40, "{done} done, {refused} refused");
}

#[test]
fn content_that_a_transaction_removes_again_is_written_nowhere() {
    let dir = tempfile::tempdir().expect("a directory");
    for volume in volumes(&dir, "v.lane") {
        volume.write_file("/old", vec![1; 100_000]).expect("write");
        let (first, second) = (vec![2; 100_000], vec![3; 50_000]);
        let mut transaction = volume.transaction();
        transaction.write_file("/a", &first).remove_file("/a");
        transaction.write_file("/b", &first).write_file("/b", &second).remove_file("/old");
        transaction.commit().expect("committed");
        volume.sync().expect("sync");
        assert!(!volume.exists("/a").expect("asked") && !volume.exists("/old").expect("asked"));
        assert_eq!(volume.read_file("/b").expect("read"), second);
        // The freed blocks are whole and used again.
        for i in 0..300 {
            volume.write_file(format!("/{i}"), vec![i as u8; 100_000]).expect("write");
        }
        for i in 0..300 {
            assert_eq!(volume.read_file(format!("/{i}")).expect("read"), vec![i as u8; 100_000]);
        }
        assert_eq!(volume.read_file("/b").expect("read"), second);
        is_clean(&volume);
    }
}

#[test]
fn a_transaction_that_outgrows_the_journal_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let [_, volume] = volumes(&dir, "v.lane");
    let paths: Vec<String> = (0..60_000).map(|i| format!("/file-{i}")).collect();
    let mut transaction = volume.transaction();
    for path in &paths {
        transaction.write_file(path, b"some content");
    }
    let error = transaction.commit().expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert_eq!(volume.read_dir("/").expect("list").count(), 0);
    let mut transaction = volume.transaction();
    for path in &paths[..1000] {
        transaction.write_file(path, b"some content");
    }
    transaction.commit().expect("small enough");
    assert_eq!(volume.read_dir("/").expect("list").count(), 1000);
    is_clean(&volume);
}

#[test]
fn listeners_are_told_of_a_transaction_when_it_has_happened() {
    let volume = Volume::create_memory(&small()).expect("create");
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let list = std::sync::Arc::clone(&told);
    let is_set = volume.on_change(move |volume, change| {
        if let Changed::Name { name, .. } = change {
            let is_there = volume.exists([b"/", name].concat()).expect("asked");
            list.lock().expect("a list").push((String::from_utf8_lossy(name).into_owned(), is_there));
        }
    });
    assert!(is_set);
    let mut transaction = volume.transaction();
    transaction.write_file("/a", b"").rename("/a", "/b").create_dir("/c");
    transaction.commit().expect("committed");
    let seen = told.lock().expect("a list").clone();
    let expected = [("a", false), ("a", false), ("b", true), ("c", true)];
    assert_eq!(seen, expected.map(|(name, is_there)| (name.to_owned(), is_there)));
    let mut transaction = volume.transaction();
    transaction.write_file("/d", b"").remove_file("/missing");
    transaction.commit().expect_err("refused");
    assert_eq!(told.lock().expect("a list").len(), 4);
}

#[test]
fn an_open_file_is_read_and_written_as_the_host_s() {
    let dir = tempfile::tempdir().expect("a directory");
    for volume in volumes(&dir, "v.lane") {
        let host = dir.path().join("file");
        let mut ours = File::create(&volume, "/file").expect("create");
        let mut theirs = std::fs::File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&host)
            .expect("create");
        let mut random = Random(3);
        for step in 0..3000 {
            let (offset, len) = (random.below(100_000), random.pick(&[0, 1, 100, 4096, 5000]));
            let data = vec![random.below(256) as u8; len];
            match random.below(6) {
                0 => assert_eq!(ours.write(&data).expect("write"), theirs.write(&data).expect("write")),
                1 => {
                    let mut bytes = [vec![0; len], vec![0; len]];
                    let read = ours.read(&mut bytes[0]).expect("read");
                    assert_eq!(read, theirs.read(&mut bytes[1]).expect("read"), "step {step}");
                    assert_eq!(bytes[0], bytes[1], "step {step}");
                }
                2 => {
                    let to = match random.below(3) {
                        0 => SeekFrom::Start(offset as u64),
                        1 => SeekFrom::Current(offset as i64 - 50_000),
                        _ => SeekFrom::End(-(offset as i64)),
                    };
                    let kinds = (
                        ours.seek(to).map_err(|error| error.kind()),
                        theirs.seek(to).map_err(|error| error.kind()),
                    );
                    assert_eq!(kinds.0, kinds.1, "step {step}: {to:?}");
                }
                3 => {
                    ours.write_at(offset as u64, &data).expect("write");
                    theirs.write_all_at(&data, offset as u64).expect("write");
                }
                4 => {
                    ours.set_len(offset as u64).expect("cut");
                    theirs.set_len(offset as u64).expect("cut");
                }
                _ => assert_eq!(ours.metadata().expect("size").size, theirs.metadata().expect("size").len()),
            }
        }
        assert_eq!(volume.read_file("/file").expect("read"), std::fs::read(&host).expect("read"));
        // The name goes, the file stays until it is closed.
        volume.remove_file("/file").expect("removed");
        let mut text = Vec::new();
        ours.rewind().expect("rewound");
        ours.read_to_end(&mut text).expect("read");
        assert_eq!(text, std::fs::read(&host).expect("read"));
        drop(ours);
        is_clean(&volume);
    }
}

#[test]
fn modes_of_opening_are_those_of_the_standard_library() {
    let dir = tempfile::tempdir().expect("a directory");
    let volume = Volume::create_memory(&small()).expect("create");
    let paths = ["a", "d", "missing", "l"];
    for flags in 0..64_u32 {
        let host = dir.path().join(flags.to_string());
        std::fs::create_dir_all(host.join("d")).expect("a directory");
        std::fs::write(host.join("a"), b"content").expect("write");
        std::os::unix::fs::symlink("target", host.join("l")).expect("link");
        let base = format!("/{flags}");
        volume.mkdir_all(format!("{base}/d"), 0o755).expect("mkdir");
        volume.write_file(format!("{base}/a"), b"content").expect("write");
        volume.symlink("target", format!("{base}/l")).expect("link");
        let is = |bit: u32| flags >> bit & 1 != 0;
        for path in paths {
            let ours = FileMode::default()
                .read(is(0))
                .write(is(1))
                .append(is(2))
                .truncate(is(3))
                .create(is(4))
                .create_new(is(5))
                .open(&volume, format!("{base}/{path}"))
                .map_err(|error| error.errno());
            let theirs = std::fs::File::options()
                .read(is(0))
                .write(is(1))
                .append(is(2))
                .truncate(is(3))
                .create(is(4))
                .create_new(is(5))
                .open(host.join(path))
                // The standard library refuses contradictions without a number.
                .map_err(|error| error.raw_os_error().unwrap_or(22));
            let only_reads = is(0) && !(is(1) || is(2) || is(3) || is(4) || is(5));
            if path == "d" && only_reads {
                // A directory can be opened for reading there.
                assert_eq!(ours.expect_err("a directory"), Code::IsDirectory.errno());
                continue;
            }
            let (ours, theirs) = (ours.map(drop), theirs.map(drop));
            assert_eq!(ours, theirs, "flags {flags:06b}, {path}");
        }
        let size = |path: &str| volume.metadata(format!("{base}/{path}")).map(|attr| attr.size).ok();
        for path in ["a", "missing", "target"] {
            let host = std::fs::metadata(host.join(path)).map(|meta| meta.len()).ok();
            assert_eq!(size(path), host, "flags {flags:06b}, {path}");
        }
    }
}

#[test]
fn appends_of_several_threads_lose_nothing() {
    let volume = std::sync::Arc::new(Volume::create_memory(&small()).expect("create"));
    volume.write_file("/log", b"").expect("write");
    let threads: Vec<_> = (0..4_u8)
        .map(|number| {
            let volume = std::sync::Arc::clone(&volume);
            std::thread::spawn(move || {
                let mut file = FileMode::default().append(true).open(volume, "/log").expect("open");
                for _ in 0..500 {
                    file.write_all(&[number; 100]).expect("append");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
    let log = volume.read_file("/log").expect("read");
    assert_eq!(log.len(), 4 * 500 * 100);
    assert!(log.chunks(100).all(|record| record.iter().all(|byte| *byte == record[0])));
}

#[test]
fn paths_are_text_bytes_or_the_standard_library_s() {
    use std::ffi::{OsStr, OsString};
    use std::path::PathBuf;
    let volume = Volume::create_memory(&small()).expect("create");
    volume.write_file("/a", b"1").expect("write");
    let found = [
        volume.exists("/a"),
        volume.exists(String::from("/a")),
        volume.exists(b"/a"),
        volume.exists(b"/a".to_vec()),
        volume.exists(Path::new("/a")),
        volume.exists(PathBuf::from("/a")),
        volume.exists(OsStr::new("/a")),
        volume.exists(OsString::from("/a")),
        volume.exists(std::borrow::Cow::Borrowed("/a")),
    ];
    assert!(found.into_iter().all(|found| found.expect("asked")));
    let error = volume.remove_file("/b").expect_err("missing");
    assert!(error.is_not_found());
    assert_eq!(error.to_string(), "/b: not found");
    let error = volume.rename("/b", "/c").expect_err("missing");
    assert_eq!(error.to_string(), "/b to /c: not found");
}

#[test]
fn a_volume_is_opened_or_made() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("v.lane");
    let options = CreateOptions { label: "first".into(), ..small() };
    let volume = Volume::open_or_create(&path, &options, Access::Write).expect("made");
    volume.write_file("/a", b"kept").expect("write");
    volume.close().expect("close");
    let options = CreateOptions { label: "second".into(), ..small() };
    let volume = Volume::open_or_create(&path, &options, Access::Write).expect("opened");
    assert_eq!(volume.label(), "first");
    assert_eq!(volume.read_file("/a").expect("read"), b"kept");
    assert_ne!(volume.uuid(), [0; 16]);
    assert!(format!("{volume:?}").contains("first"));
    let error = Volume::open_or_create(&path, &options, Access::Write).expect_err("in use");
    assert_eq!(error.kind(), ErrorKind::InUse, "{error}");
    std::fs::write(dir.path().join("text"), vec![b'x'; 10 << 20]).expect("write");
    let error = Volume::open_or_create(dir.path().join("text"), &options, Access::Write).expect_err("text");
    assert_eq!(error.kind(), ErrorKind::NotAVolume, "{error}");
    let error = Volume::open(dir.path().join("missing"), Access::Read).expect_err("missing");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let error = Volume::create_memory(&CreateOptions { size: 100, ..small() }).expect_err("too small");
    assert_eq!(error.kind(), ErrorKind::Size, "{error}");
}

#[test]
fn the_root_directory_stays() {
    let volume = Volume::create_memory(&small()).expect("create");
    volume.create_dir("/d").expect("mkdir");
    let code = |done: Result<()>| done.expect_err("the root directory").code();
    assert_eq!(code(volume.remove_file("/")), Code::IsDirectory);
    assert_eq!(code(volume.remove_dir("/")), Code::Busy);
    assert_eq!(code(volume.rename("/", "/d/e")), Code::Busy);
    assert_eq!(code(volume.rename("/d", "/")), Code::Busy);
    assert_eq!(code(volume.create_dir("/").map(drop)), Code::Exists);
    assert_eq!(code(volume.symlink("d", "/").map(drop)), Code::Exists);
    assert_eq!(code(volume.write_file("/", b"").map(drop)), Code::IsDirectory);
    volume.set_permissions("/", 0o700).expect("a mode");
    assert_eq!(volume.metadata("/").expect("attributes").perm, 0o700);
    assert!(volume.exists("/d/..").expect("asked") && !volume.exists("").expect("asked"));
}
