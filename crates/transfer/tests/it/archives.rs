//! Archives, compared with the `tar` program in both directions.

use crate::common::*;
use lanefs::Code;
use lanefs_transfer::*;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

fn tar(arguments: &[&str], directory: &Path) -> bool {
    match Command::new("tar").args(arguments).current_dir(directory).status() {
        Ok(status) => {
            assert!(status.success(), "tar {arguments:?}");
            true
        }
        Err(error) => {
            eprintln!("SKIPPED: no tar program: {error}");
            false
        }
    }
}

/// True where `tar` can run the program `zstd`.
fn has_zstd() -> bool {
    let there = Command::new("zstd").arg("--version").output().is_ok();
    if !there {
        eprintln!("SKIPPED: no zstd program");
    }
    there
}

/// Makes the tree without sockets, which archives cannot have, and without the lists that GNU tar stores as
/// text.
fn archive_tree(top: &Path) {
    make_tree(top);
    fs::remove_file(top.join("socket")).unwrap();
    for (path, name) in [("d/size-3", ACCESS), ("empty", DEFAULT)] {
        let _ = rustix::fs::lremovexattr(top.join(path), name);
    }
    set_mtime(top, 1_600_000_000_000_000_001);
}

#[test]
fn archives_of_the_tar_program_are_read() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    archive_tree(&tree);
    let xattrs = ["--xattrs", "--xattrs-include=*"];
    let forms: [(&str, &[&str]); 6] = [
        ("posix.tar", &["--format=posix", "--sparse"]),
        ("posix00.tar", &["--format=posix", "--sparse", "--sparse-version=0.0"]),
        ("posix01.tar", &["--format=posix", "--sparse", "--sparse-version=0.1"]),
        ("packed.tar.gz", &["--format=posix", "--sparse", "--gzip"]),
        ("gnu.tar", &["--format=gnu", "--sparse"]),
        ("packed.tzst", &["--format=posix", "--sparse", "--zstd"]),
    ];
    for (name, form) in forms {
        let has_records = name != "gnu.tar";
        if name.ends_with(".tzst") && !has_zstd() {
            return;
        }
        let mut arguments = vec!["-cf", name, "-C", "tree"];
        arguments.extend(form);
        if has_records {
            arguments.extend(xattrs);
        }
        arguments.push(".");
        if !tar(&arguments, temp.path()) {
            return;
        }
        let archive = temp.path().join(name);
        let volume = volume(256);
        let source = ArchiveSource::File(&archive);
        let report = import_archive(&volume, source, b"/t", &ImportOptions::default(), control()).unwrap();
        assert_clean(&report);
        assert_sound(&volume);
        assert_eq!(volume.resolve("/t/sparse-all-hole").unwrap().blocks, 0, "{name}");
        let back = temp.path().join(format!("{name}-back"));
        assert_clean(&export_tree(&volume, b"/t", &back, &ExportOptions::default(), control()).unwrap());
        let options = CompareOptions { times: has_records, xattrs: has_records, ..CompareOptions::default() };
        let found = compare_trees(&tree, &back, options, control()).unwrap();
        assert!(found.differences.is_empty(), "{name}: {:?}", found.differences);
        fs::remove_file(archive).unwrap();
    }
}

#[test]
fn the_tar_program_reads_our_archives() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    archive_tree(&tree);
    let volume = volume(256);
    assert_clean(&import_tree(&volume, &tree, b"/t", &ImportOptions::default(), control()).unwrap());
    for name in ["ours.tar", "ours.tar.gz", "ours.tar.zst"] {
        if name.ends_with(".zst") && !has_zstd() {
            return;
        }

        let archive = temp.path().join(name);
        let target = || ArchiveTarget::File(&archive);
        let report = export_archive(&volume, b"/t", target(), &ExportOptions::default(), control()).unwrap();
        assert_clean(&report);
        assert!(fs::metadata(&archive).unwrap().size() < 32 << 20, "holes are not stored");
        let back = temp.path().join(format!("{name}-back"));
        fs::create_dir(&back).unwrap();
        let mut arguments =
            vec!["-xpf", name, "-C", back.to_str().unwrap(), "--xattrs", "--xattrs-include=*"];
        if is_root() {
            arguments.push("--numeric-owner");
        }
        if !tar(&arguments, temp.path()) {
            return;
        }
        assert_same(&tree, &back);

        // The import reads them as well.
        let again = crate::common::volume(256);
        let source = ArchiveSource::File(&archive);
        let imported = import_archive(&again, source, b"/", &ImportOptions::default(), control()).unwrap();
        assert_clean(&imported);
        assert_eq!(imported.counts, report.counts);
        let ours = temp.path().join(format!("{name}-ours"));
        assert_clean(&export_tree(&again, b"/", &ours, &ExportOptions::default(), control()).unwrap());
        assert_same(&tree, &ours);

        let refused =
            export_archive(&volume, b"/t", target(), &ExportOptions::default(), control()).unwrap_err();
        assert!(refused.to_string().contains("overwrite replaces it"), "{refused}");
        let overwrite = ExportOptions { overwrite: true, ..ExportOptions::default() };
        assert_clean(&export_archive(&volume, b"/t", target(), &overwrite, control()).unwrap());
    }
}

#[test]
fn sockets_are_named_and_left_out() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(tree.join("socket")).unwrap();
    let volume = volume(16);
    assert_clean(&import_tree(&volume, &tree, b"/", &ImportOptions::default(), control()).unwrap());
    let archive = temp.path().join("a.tar");
    let report =
        export_archive(&volume, b"/", ArchiveTarget::File(&archive), &ExportOptions::default(), control())
            .unwrap();
    assert_eq!(report.problems.len(), 1);
    assert!(report.problems[0].to_string().contains("socket"));
}

/// Returns a header as any tar writes it.
pub(crate) fn header(path: &[u8], kind: tar::EntryType, size: u64, link: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.as_old_mut().name[..path.len()].copy_from_slice(path);
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_cksum();
    header.as_bytes().to_vec()
}

pub(crate) fn file(path: &[u8], content: &[u8]) -> Vec<u8> {
    let mut bytes = header(path, tar::EntryType::Regular, content.len() as u64, b"");
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

pub(crate) fn import_bytes(volume: &lanefs::Volume, bytes: &[u8], directory: &Path) -> Report {
    let archive = directory.join("made.tar");
    fs::write(&archive, bytes).unwrap();
    let source = ArchiveSource::File(&archive);
    import_archive(volume, source, b"/in", &ImportOptions::default(), control()).unwrap()
}

#[test]
fn times_of_gnu_tar_before_1970_are_kept_and_those_that_no_volume_holds_are_told() {
    const TIMES: [(&[u8], i64); 4] = [
        (b"now", 1_700_000_000),
        (b"old", -150_000_000),
        (b"far", 100_000_000_000),
        (b"back", -100_000_000_000),
    ];
    let (temp, volume, mut bytes) = (tempfile::tempdir().unwrap(), volume(16), Vec::new());
    for (name, seconds) in TIMES {
        let mut header = tar::Header::from_byte_slice(&header(name, tar::EntryType::Regular, 0, b"")).clone();
        // Base 256: a mark, and the number as two's complement.
        let field = &mut header.as_old_mut().mtime;
        field[..4].copy_from_slice(if seconds < 0 { &[0xff; 4] } else { &[0x80, 0, 0, 0] });
        field[4..].copy_from_slice(&seconds.to_be_bytes());
        header.set_cksum();
        bytes.extend(header.as_bytes());
    }
    bytes.extend([0; 1024]);
    let report = import_bytes(&volume, &bytes, temp.path());
    assert_eq!(report.exit_code(), EXIT_DONE);
    let told: Vec<&str> =
        report.notes.iter().filter_map(|note| note.split(": a time before 1678").next()).collect();
    assert_eq!(told, ["far", "back"], "{:?}", report.notes);
    let times = TIMES.map(|(name, _)| volume.resolve([b"/in/", name].concat()).unwrap().mtime.seconds());
    assert_eq!(times[..2], [1_700_000_000, -150_000_000]);
    assert!(times[2] > 9_000_000_000 && times[3] < -9_000_000_000, "{times:?}");
}

#[test]
fn members_cannot_leave_the_destination() {
    let temp = tempfile::tempdir().unwrap();
    let volume = volume(16);
    volume.mkdir_all("/outside", 0o755).unwrap();
    let mut bytes = Vec::new();
    bytes.extend(file(b"../outside/a", b"a"));
    bytes.extend(file(b"/absolute", b"b"));
    bytes.extend(header(b"link", tar::EntryType::Symlink, 0, b"/outside"));
    bytes.extend(file(b"link/through", b"c"));
    bytes.extend(header(b"hard", tar::EntryType::Link, 0, b"../outside"));
    bytes.extend(file(b"twice", b"first"));
    bytes.extend(file(b"twice", b"second"));
    bytes.extend([0; 1024]);
    let report = import_bytes(&volume, &bytes, temp.path());
    assert_eq!(report.problems.len(), 3, "{:?}", report.problems);
    let outside = volume.resolve("/outside").unwrap().ino;
    assert!(volume.readdir(&lanefs::Caller::OWNER, outside, 0, 10).unwrap().is_empty());
    assert_eq!(volume.read_file("/in/absolute").unwrap(), b"b");
    assert_eq!(volume.read_file("/in/twice").unwrap(), b"second");
    assert_sound(&volume);
}

#[test]
fn damaged_archives_end_with_a_reason_and_never_a_panic() {
    let temp = tempfile::tempdir().unwrap();
    let whole = [file(b"one", b"1"), file(b"two", &noise(3000)), vec![0; 1024]].concat();
    assert_clean(&import_bytes(&volume(16), &whole, temp.path()));
    for (bytes, why) in [
        (&b""[..], "is not a tar archive"),
        (b"hello", "is not a tar archive"),
        (&[b'x'; 2048], "is not a tar archive"),
        (&whole[..700], "ends within a member"),
        (&whole[..1200], "ends within a header"),
        (&whole[..2000], "ends within a member"),
    ] {
        let report = import_bytes(&volume(16), bytes, temp.path());
        let text = report.stopped.as_ref().unwrap().to_string();
        assert!(text.contains(why), "{text}");
        assert_eq!(report.exit_code(), EXIT_STOPPED);
    }
    // Compressed archives: cut in the content, and with bytes after the last frame.
    let long = [file(b"one", &noise(300_000)), vec![0; 1024]].concat();
    let compressed = zstd::encode_all(&long[..], 0).unwrap();
    assert_clean(&import_bytes(&volume(16), &compressed, temp.path()));
    for (bytes, is_whole) in [
        (compressed[..5].to_vec(), false),
        (compressed[..compressed.len() / 2].to_vec(), false),
        ([&compressed[..], b"garbage"].concat(), true),
    ] {
        let report = import_bytes(&volume(16), &bytes, temp.path());
        if is_whole {
            // The archive's end comes first.
            assert_clean(&report);
            continue;
        }
        assert!(matches!(report.stopped, Some(Error::Archive { .. })), "{report:?}");
        assert_eq!((report.exit_code(), report.counts.files), (EXIT_STOPPED, 0));
    }
    // Each byte of the headers, changed in turn.
    for at in (0..512).chain(1024..1536) {
        let mut bent = whole.clone();
        bent[at] ^= 0x5a;
        let volume = volume(16);
        let report = import_bytes(&volume, &bent, temp.path());
        assert!(report.stopped.is_some(), "byte {at}");
    }
}

#[test]
fn a_full_volume_stops_an_archive_too() {
    let temp = tempfile::tempdir().unwrap();
    let mut bytes = Vec::new();
    for i in 0..40 {
        bytes.extend(file(format!("file-{i}").as_bytes(), &noise(1 << 20)));
    }
    let volume = volume(16);
    let report = import_bytes(&volume, &bytes, temp.path());
    let stopped = report.stopped.unwrap();
    assert!(matches!(&stopped, Error::Volume { source, .. } if source.code() == Code::NoSpace), "{stopped}");
    assert_sound(&volume);
}
