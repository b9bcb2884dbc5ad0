//! Members below links, and hard links, as other programs write them.

use crate::archives::{file, header, import_bytes};
use crate::common::*;
use lanefs_transfer::*;
use tar::EntryType;

fn link(name: &str, target: &str) -> Vec<u8> {
    header(name.as_bytes(), EntryType::Symlink, 0, target.as_bytes())
}

fn dir(name: &str) -> Vec<u8> {
    header(name.as_bytes(), EntryType::Directory, 0, b"")
}

fn hard(name: &str, target: &str) -> Vec<u8> {
    header(name.as_bytes(), EntryType::Link, 0, target.as_bytes())
}

fn import(volume: &lanefs::Volume, members: &[Vec<u8>]) -> Report {
    let temp = tempfile::tempdir().unwrap();
    let report = import_bytes(volume, &[&members.concat()[..], &[0; 1024]].concat(), temp.path());
    assert_sound(volume);
    report
}

#[test]
fn members_go_through_links_that_stay_in_the_destination() {
    let volume = volume(16);
    let report = import(
        &volume,
        &[
            dir("usr/"),
            dir("usr/lib/"),
            link("lib", "usr/lib"),
            file(b"lib/x", b"x"),
            file(b"lib/new/deep", b"deep"),
            link("lib64", "/usr/lib"),
            file(b"lib64/y", b"y"),
            link("usr/up", "../lib/../../lib64/."),
            file(b"usr/up/z", b"z"),
            hard("lib/hard", "lib64/x"),
            // A name in its own right, not its target.
            link("usr/lib/again", "x"),
            hard("linked", "lib/again"),
        ],
    );
    assert_clean(&report);
    for (path, content) in [("x", "x"), ("new/deep", "deep"), ("y", "y"), ("z", "z"), ("hard", "x")] {
        assert_eq!(volume.read_file(format!("/in/usr/lib/{path}")).unwrap(), content.as_bytes(), "{path}");
    }
    assert_eq!(volume.resolve_no_follow("/in/linked").unwrap().kind, lanefs::FileKind::Symlink);
    assert_eq!(volume.resolve_no_follow("/in/lib").unwrap().kind, lanefs::FileKind::Symlink);
}

#[test]
fn links_that_leave_the_destination_are_refused_by_name() {
    let volume = volume(16);
    volume.mkdir_all("/outside/in", 0o755).unwrap();
    volume.write_file("/outside/file", b"outside").unwrap();
    volume.mkdir_all("/in/d", 0o755).unwrap();
    // One that was there before.
    volume.symlink("../outside", "/in/old").unwrap();
    let refused = [
        ("old/a", "'old' in its path is a link that leaves the destination"),
        ("up/a", "'up' in its path is a link that leaves the destination"),
        ("d/up/a", "'up' in its path is a link that leaves the destination"),
        ("by/a", "'by' in its path is a link that leaves the destination"),
        ("absolute/a", "'absolute' in its path is a link to a directory that the destination does not have"),
        ("loop/a", "'loop' in its path leads through too many links"),
        ("two/a", "'two' in its path leads through too many links"),
        ("file/a", "'file' in its path is not a directory"),
        ("to-file/a", "'to-file' in its path is a link to no directory"),
    ];
    let mut members = vec![
        link("up", "../outside"),
        link("d/up", "../../outside"),
        link("by", "d/../../in/d"),
        link("absolute", "/outside"),
        link("loop", "loop"),
        link("two", "three"),
        link("three", "d/../two"),
        file(b"file", b"file"),
        link("to-file", "file"),
    ];
    members.extend(refused.iter().map(|(name, _)| file(name.as_bytes(), b"a")));
    // Hard links follow the same rules.
    members.push(hard("hard", "old/file"));
    members.push(hard("hard-too", "up/file"));
    let report = import(&volume, &members);
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    for (name, why) in refused {
        assert!(problems.contains(&format!("{name}: {why}")), "{name}: {problems:#?}");
    }
    assert_eq!((problems.len(), report.exit_code()), (refused.len() + 2, EXIT_PARTLY), "{problems:#?}");
    let outside = volume.resolve("/outside").unwrap().ino;
    assert_eq!(volume.readdir(&lanefs::Caller::OWNER, outside, 0, 10).unwrap().len(), 2);
    assert!(volume.resolve("/in/hard").is_err() && volume.resolve("/in/hard-too").is_err());
}

#[test]
fn targets_of_hard_links_lose_their_parents() {
    let volume = volume(16);
    let report = import(
        &volume,
        &[
            file(b"a", b"content"),
            file(b"b/c", b"below"),
            hard("one", "../a"),
            hard("two", "x/../../b/c"),
            hard("three", "a/.."),
        ],
    );
    assert_eq!(volume.read_file("/in/one").unwrap(), b"content");
    assert_eq!(volume.read_file("/in/two").unwrap(), b"below");
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    let text = report.problems[0].to_string();
    assert_eq!(text, "three: is a hard link to 'a/..', which does not exist");
    assert_eq!(report.notes.len(), 1, "{:?}", report.notes);
}

/// A pax header for the next member.
fn pax(record: &[u8]) -> Vec<u8> {
    let mut bytes = header(b"pax", EntryType::XHeader, record.len() as u64, b"");
    bytes.extend(record);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

#[test]
fn hard_links_may_carry_the_content_of_their_file() {
    // With content: as pax allows, and as some writers do without pax records.
    let content = [&[b'x'; 700][..], &[0; 324]].concat();
    let sized = |name: &str| header(name.as_bytes(), EntryType::Link, 700, b"a");
    let inner = file(b"inner", b"an archive in an archive").repeat(1);
    let as_archive = header(b"three", EntryType::Link, inner.len() as u64, b"a");
    let whole = [
        file(b"a", &[b'x'; 700]),
        sized("one"),
        content.clone(),
        pax(b"11 mtime=1\n"),
        sized("two"),
        content,
        pax(b"11 mtime=1\n"),
        as_archive,
        inner,
        // The size of the file, and no content.
        sized("four"),
        file(b"b", b"next"),
        sized("five"),
    ];
    let volume = volume(16);
    let report = import(&volume, &whole);
    assert_clean(&report);
    assert_eq!((report.counts.files, report.counts.hard_links), (2, 5));
    assert_eq!(volume.resolve("/in/a").unwrap().links, 6);
    assert_eq!(volume.read_file("/in/b").unwrap(), b"next");
    assert!(volume.resolve("/in/inner").is_err());
}

#[test]
fn damage_of_an_archive_is_skipped_where_the_user_wants_that() {
    let mut bent = file(b"bent", &[b'x'; 3000]);
    bent[0] ^= 0x55;
    let mut records = pax(b"11 mtime=1\n");
    records[512] = b'x';
    let bytes = [
        file(b"one", b"1"),
        bent,
        file(b"two", b"2"),
        records,
        file(b"three", b"3"),
        vec![b'?'; 1024],
        file(b"four", b"4"),
        vec![0; 1024],
    ]
    .concat();
    let import = |bytes: &[u8], ignore_damage| {
        let volume = volume(16);
        let options = ImportOptions { ignore_damage, ..ImportOptions::default() };
        let input = Box::new(std::io::Cursor::new(bytes.to_vec()));
        let source = ArchiveSource::StandardInput(input);
        let report = import_archive(&volume, source, b"/in", &options, control()).unwrap();
        assert_sound(&volume);
        (volume, report)
    };
    let (_, report) = import(&bytes, false);
    let text = report.stopped.as_ref().unwrap().to_string();
    assert!(text.contains("checksum is wrong (the option ignore-damage goes on at"), "{text}");
    assert_eq!((report.exit_code(), report.counts.files), (EXIT_STOPPED, 1));

    let (volume, report) = import(&bytes, true);
    assert!(report.stopped.is_none(), "{:?}", report.stopped);
    assert_eq!((report.exit_code(), report.counts.files), (EXIT_PARTLY, 4));
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    let expected = [
        "standard input: a header's checksum is wrong; skipped 3584 bytes to the next header",
        "standard input: a pax header is damaged; skipped 1024 bytes to the next header",
        "standard input: a header's checksum is wrong; skipped 1024 bytes to the next header",
    ];
    assert_eq!(problems, expected);
    for (name, content) in [("one", "1"), ("two", "2"), ("three", "3"), ("four", "4")] {
        assert_eq!(volume.read_file(format!("/in/{name}")).unwrap(), content.as_bytes());
    }
    // Bytes that are not an archive at all, and one that is cut.
    let (_, report) = import(&[b'x'; 4096], true);
    assert!(report.stopped.unwrap().to_string().contains("is not a tar archive"));
    let (_, report) = import(&bytes[..700], true);
    assert!(report.stopped.unwrap().to_string().contains("ends within a member"));
    // Each byte of the headers, changed in turn: it ends.
    for at in 0..512 {
        let mut bent = bytes.clone();
        bent[at] ^= 0x5a;
        assert!(!import(&bent, true).1.problems.is_empty(), "byte {at}");
    }
}
