//! Volumes that follow an archive: they are as the tree that was packed.

use super::edits::Editor;
use super::*;
use std::fs;

/// Unpacks an archive into a volume in memory.
fn unpacked(bytes: Vec<u8>) -> UnpackedArchive {
    let source = ArchiveSource::StandardInput(Box::new(std::io::Cursor::new(bytes)));
    unpack_archive(volume(64), source, &ImportOptions::default(), control()).unwrap()
}

fn sync_archive(volume: &Volume, archive: &UnpackedArchive, options: &SyncOptions) -> Vec<String> {
    let found = Mutex::new(Vec::new());
    let receiver = |difference: &Difference| found.lock().unwrap().push(difference.clone());
    let report = sync_tree(volume, Side::Archive(archive), b"/in", options, &receiver, control()).unwrap();
    assert_clean(&report.report);
    lines(found)
}

/// Sockets are in no archive.
fn remove_sockets(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let (path, kind) = entry.map(|entry| (entry.path(), entry.file_type().unwrap())).unwrap();
        if kind.is_dir() {
            remove_sockets(&path);
        } else if std::os::unix::fs::FileTypeExt::is_socket(&kind) {
            fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn a_volume_that_follows_archives_is_as_the_tree_that_was_packed() {
    for seed in 401..=404 {
        let temp = tempfile::tempdir().unwrap();
        let (tree, archive) = (temp.path().join("tree"), temp.path().join("a.tar.gz"));
        let mut editor = Editor::new(seed, &tree);
        let (source, follower) = (volume(64), volume(64));
        for _ in 0..4 {
            editor.edit(60);
            remove_sockets(&tree);
            sync(&source, &tree, &deleting());
            let (target, options) = (ArchiveTarget::File(&archive), ExportOptions::default());
            let options = ExportOptions { overwrite: true, ..options };
            assert_clean(&export_archive(&source, b"/in", target, &options, control()).unwrap());
            let archive = unpacked(fs::read(&archive).unwrap());
            assert_eq!(archive.report.problems, []);
            let (from, to) = (Side::Archive(&archive), Side::Volume(&source, b"/in"));
            assert_eq!(diff(from, to, &deleting()), [""; 0], "seed {seed}");
            sync_archive(&follower, &archive, &deleting());
            assert_volume_has(&follower, &tree);
            assert_eq!(sync_archive(&follower, &archive, &deleting()), [""; 0], "seed {seed}");
        }
    }
}

/// A header with this name, of a file without content, of 1 January 2020.
fn member(name: &str) -> [u8; 512] {
    header(name, b'0', 0)
}

/// A header of a type, with the size of the content that follows.
fn header(name: &str, kind: u8, size: usize) -> [u8; 512] {
    let mut header = [0; 512];
    let size = format!("{size:011o}\0");
    header[..name.len()].copy_from_slice(name.as_bytes());
    for (at, field) in
        [(100, "0000640\0"), (108, "0000000\0"), (116, "0000000\0"), (124, &size[..]), (136, "13603057600\0")]
    {
        header[at..at + field.len()].copy_from_slice(field.as_bytes());
    }
    header[148..156].copy_from_slice(b"        ");
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    header
}

#[test]
fn times_of_an_archive_have_seconds_and_implied_directories_no_attributes() {
    let archive = unpacked([&member("d/f")[..], &[0; 1024]].concat());
    assert_eq!(archive.report.problems, []);
    let volume = volume(64);
    assert_eq!(sync_archive(&volume, &archive, &deleting()).len(), 3);
    let mut mtime = volume.resolve("/in/d/f").unwrap().mtime;
    assert_eq!(mtime.0, 1_577_836_800_000_000_000 + mtime.0 % 86_400_000_000_000);
    for (add, differs) in [(999_999_999, false), (1, true)] {
        mtime.0 += add;
        let set = lanefs::SetAttr { mtime: Some(mtime), ..Default::default() };
        volume.set_attributes("/in/d/f", &set).unwrap();
        let set = lanefs::SetAttr { perm: Some(0o700), mtime: Some(mtime), ..Default::default() };
        volume.set_attributes("/in/d", &set).unwrap();
        let wanted = if differs { vec![">f..t...... d/f"] } else { vec![] };
        // Whichever side it is.
        let to = Side::Volume(&volume, b"/in");
        assert_eq!(diff(Side::Archive(&archive), to, &deleting()), wanted);
        assert_eq!(diff(to, Side::Archive(&archive), &deleting()), wanted);
        assert_eq!(sync_archive(&volume, &archive, &deleting()), wanted);
    }
    assert_eq!(volume.resolve("/in/d").unwrap().perm, 0o700);
}

/// A file of an archive, with its content.
fn file(name: &str, content: &[u8]) -> Vec<u8> {
    let mut all = header(name, b'0', content.len()).to_vec();
    all.extend_from_slice(content);
    all.resize(all.len().next_multiple_of(512), 0);
    all
}

#[test]
fn a_file_of_an_archive_has_its_old_name_within_the_second() {
    let archive = unpacked([&file("new", b"content")[..], &[0; 1024]].concat());
    let volume = volume(64);
    volume.mkdir_all("/in", 0o755).unwrap();
    volume.write_file("/in/old", "content").unwrap();
    let mtime = archive_time(&archive);
    let set =
        lanefs::SetAttr { mtime: Some(lanefs::Time(mtime + 5)), perm: Some(0o640), ..Default::default() };
    volume.set_attributes("/in/old", &set).unwrap();
    assert_eq!(sync_archive(&volume, &archive, &deleting()), ["rf......... new"]);
    assert!(!volume.exists("/in/old").unwrap());
}

/// The time of the files of an archive in nanoseconds.
fn archive_time(archive: &UnpackedArchive) -> i64 {
    let volume = volume(64);
    sync_archive(&volume, archive, &deleting());
    volume.resolve("/in/new").unwrap().mtime.0
}

#[test]
fn the_label_of_an_archive_is_skipped_whatever_its_size() {
    let mut label = header("label", b'V', 3 << 20).to_vec();
    label.resize(label.len() + (3 << 20), 7);
    let archive = unpacked([label, member("a").to_vec(), vec![0; 1024]].concat());
    assert_eq!(archive.report.problems, []);
    assert_eq!(archive.report.counts.files, 1);
}

#[test]
fn an_archive_that_is_empty_or_cut_off_says_so() {
    let whole = [&member("a")[..], &member("b")[..], &[0; 1024]].concat();
    assert_eq!(unpacked(whole.clone()).report.problems, []);
    for bytes in [&[0; 1024][..], &whole[..512], &whole[..1024]] {
        let problems = unpacked(bytes.to_vec()).report.problems;
        assert!(problems[0].what.contains("has no end"), "{problems:?}");
    }
    for bytes in [&[][..], &whole[..700], b"no archive"] {
        let source = ArchiveSource::StandardInput(Box::new(std::io::Cursor::new(bytes.to_vec())));
        assert!(unpack_archive(volume(64), source, &ImportOptions::default(), control()).is_err());
    }
}

/// A header of records, of one member or of all, with its content.
fn records(kind: u8, records: &[(&str, &str)]) -> Vec<u8> {
    let mut content = Vec::new();
    for (key, value) in records {
        let rest = format!(" {key}={value}\n");
        let mut len = rest.len();
        while rest.len() + len.to_string().len() != len {
            len = rest.len() + len.to_string().len();
        }
        content.extend_from_slice(format!("{len}{rest}").as_bytes());
    }
    let mut all = header("records", kind, content.len()).to_vec();
    content.resize(content.len().next_multiple_of(512), 0);
    all.extend_from_slice(&content);
    all
}

#[test]
fn an_archive_that_claims_too_much_is_refused() {
    let long = "a".repeat((1 << 20) + 1);
    let value = "v".repeat(100_000);
    // Each takes far more memory than its bytes.
    let small = vec![("a", ""); 1 << 18];
    let global: Vec<u8> =
        (0..11).flat_map(|number| records(b'g', &[(&format!("key{number}"), &value)])).collect();
    let map = [("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.realsize", "0")];
    let mut sparse = [records(b'x', &map), header("sparse", b'0', 1 << 30).to_vec()].concat();
    sparse.extend_from_slice(b"99999999999\n");
    // Each line is the number 0.
    sparse.resize(sparse.len() + (4 << 20), b'\n');
    for (bytes, why) in [
        (header("././@LongLink", b'L', long.len()).to_vec(), "a name or target is longer than 1 MiB"),
        (
            records(b'x', &[("path", &long)]),
            "names and attributes of one of its members take more than 1 MiB",
        ),
        (
            records(b'x', &[("linkpath", &long)]),
            "names and attributes of one of its members take more than 1 MiB",
        ),
        (records(b'x', &small), "names and attributes of one of its members take more than 1 MiB"),
        (global, "the attributes for all of its members take more than 1 MiB"),
        (sparse, "its map of holes has more than 1048576 ranges"),
    ] {
        let bytes = [bytes, member("a").to_vec(), vec![0; 1024]].concat();
        let source = ArchiveSource::StandardInput(Box::new(std::io::Cursor::new(bytes)));
        let refused = unpack_archive(volume(64), source, &ImportOptions::default(), control()).err();
        let text = refused.expect("a bound").to_string();
        assert!(text.contains(why), "{text}");
    }
    // The same key again takes no more room.
    let again: Vec<u8> = (0..30).flat_map(|_| records(b'g', &[("comment", &value)])).collect();
    assert_eq!(unpacked([&again[..], &member("a"), &[0; 1024]].concat()).report.problems, []);
}
