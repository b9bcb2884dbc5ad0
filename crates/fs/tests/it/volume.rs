//! The engine's main paths, end to end.

mod by_path;
mod huge;
mod replacement;

use lanefs::*;
use std::collections::BTreeMap;

fn small() -> CreateOptions {
    CreateOptions { size: 64 << 20, ..CreateOptions::default() }
}

fn owner() -> Caller {
    Caller::OWNER
}

/// All entries, a few at a time.
fn list(volume: &Volume, dir: Ino) -> BTreeMap<Vec<u8>, Ino> {
    let (mut all, mut cookie) = (BTreeMap::new(), 0);
    loop {
        let page = volume.readdir(&owner(), dir, cookie, 7).expect("readdir");
        let Some(last) = page.last() else { return all };
        cookie = last.cookie;
        for entry in page {
            assert!(all.insert(entry.name, entry.ino).is_none(), "an entry came twice");
        }
    }
}

#[test]
fn a_directory_grows_through_all_forms_and_shrinks_back() {
    for inode_size in [InodeSize::B128, InodeSize::B256] {
        let volume = Volume::create_memory(&CreateOptions { inode_size, ..small() }).expect("create");
        let before = volume.statfs().expect("statfs");
        let dir = volume.mkdir(&owner(), volume.root(), b"d", 0o755).expect("mkdir").ino;
        let name = |i: u32| format!("file-{i:0width$}", width = 1 + (i % 40) as usize).into_bytes();
        let count = 20_000;
        let mut expected = BTreeMap::new();
        for i in 0..count {
            let attr = volume.create_file(&owner(), dir, &name(i), 0o644).expect("create");
            expected.insert(name(i), attr.ino);
            let again = volume.create_file(&owner(), dir, &name(i), 0o644);
            assert_eq!(again.map_err(|e| e.code()), Err(Code::Exists));
        }
        assert_eq!(list(&volume, dir), expected);
        let names: Vec<Vec<u8>> = (0..count).map(name).collect();
        let options = ResolveOptions { base: Some(dir), attributes: true, ..ResolveOptions::default() };
        for (name, answer) in names.iter().zip(volume.resolve_batch(&options, &names).expect("batch")) {
            assert_eq!(answer.ino, expected.get(name).copied());
            assert_eq!(answer.attr.map(|a| a.ino), answer.ino);
            assert_eq!(volume.lookup(&owner(), dir, name).expect("lookup").0, expected[name]);
        }
        let mut order: Vec<u32> = (0..count).collect();
        order.sort_by_key(|i| i.wrapping_mul(2_654_435_761));
        for (done, i) in order.iter().enumerate() {
            volume.unlink(&owner(), dir, &name(*i)).expect("unlink");
            expected.remove(&name(*i));
            assert_eq!(volume.lookup(&owner(), dir, &name(*i)).map_err(|e| e.code()), Err(Code::NotFound));
            if done % 1999 == 0 || expected.len() < 50 && done % 7 == 0 {
                assert_eq!(list(&volume, dir), expected);
                assert!(volume.check(false, &|_, _| {}).expect("check").findings.is_empty());
            }
        }
        assert_eq!(volume.getattr(dir).expect("attr").blocks, 0);
        volume.rmdir(&owner(), volume.root(), b"d").expect("rmdir");
        let after = volume.statfs().expect("statfs");
        // The block of the next inodes may stay, and its chunk with it.
        assert!(
            before.free_blocks - after.free_blocks <= 512,
            "{} blocks",
            before.free_blocks - after.free_blocks
        );
        assert_eq!(after.inodes, before.inodes);
    }
}

#[test]
fn content_survives_close_and_open() {
    let dir = tempfile::tempdir().expect("tempdir");
    let image = dir.path().join("v.lane");
    let pattern = |len: usize, salt: u8| (0..len).map(|i| ((i * 7) >> 3) as u8 ^ salt).collect::<Vec<u8>>();
    let files: Vec<(String, Vec<u8>)> = [0, 1, 31, 32, 33, 160, 161, 4095, 4096, 4097, 70_000, 5 << 20]
        .into_iter()
        .enumerate()
        .map(|(i, len)| (format!("/a/b/f{i}"), pattern(len, i as u8)))
        .collect();
    let volume = Volume::create(&image, &small()).expect("create");
    volume.mkdir_all("/a/b", 0o750).expect("mkdir_all");
    for (path, content) in &files {
        volume.write_file(path, content).expect("write");
    }
    volume.symlink_at(&owner(), volume.root(), b"link", b"a/b").expect("symlink");
    let sparse = volume.write_file("/sparse", b"").expect("sparse").ino;
    volume.write(&owner(), sparse, 3 << 30, b"end").expect("write");
    volume.setxattr(&owner(), sparse, b"user.k", &pattern(9000, 3), XattrMode::Set).expect("xattr");
    volume.close().expect("close");

    assert!(matches!(Volume::create(&image, &small()), Err(Error::Image { .. })));
    let volume = Volume::open(&image, Access::Write).expect("open");
    assert!(matches!(Volume::open(&image, Access::Write), Err(Error::Image { .. })), "a second writer");
    for (path, content) in &files {
        assert!(volume.read_file(path).expect("read") == *content, "{path}");
        assert!(volume.read_file(path.replace("/a/b", "/link")).expect("read") == *content, "{path}");
    }
    assert_eq!(volume.seek(sparse, 0, Seek::Data).expect("seek"), 3 << 30);
    assert_eq!(volume.getxattr(&owner(), sparse, b"user.k").expect("xattr"), pattern(9000, 3));
    assert_eq!(volume.getattr(sparse).expect("attr").size, (3 << 30) + 3);
    volume.grow(300 << 20).expect("grow");
    let free = volume.statfs().expect("statfs").free_blocks;
    assert!(free > (200 << 20) / 4096);
    volume.close().expect("close");
    let volume = Volume::open(&image, Access::Read).expect("open");
    assert_eq!(volume.statfs().expect("statfs").free_blocks, free);
    assert_eq!(volume.write_file("/x", b"").map_err(|e| e.code()), Err(Code::ReadOnly));
    assert!(volume.check(false, &|_, _| {}).expect("check").findings.is_empty());
}

#[test]
fn a_full_volume_keeps_what_it_has_and_changes_nothing_half() {
    let volume = Volume::create_memory(&CreateOptions { size: 8 << 20, ..small() }).expect("create");
    let piece = vec![7u8; 256 << 10];
    let mut count = 0;
    let full = loop {
        match volume.write_file(format!("/f{count}"), &piece) {
            Ok(_) => count += 1,
            Err(e) => break e,
        }
    };
    assert_eq!(full.code(), Code::NoSpace, "{full}");
    assert!(count >= 16, "{count}");
    assert_eq!(volume.resolve(format!("/f{count}")).expect_err("not made").code(), Code::NotFound);
    for i in 0..count {
        assert_eq!(volume.read_file(format!("/f{i}")).expect("read"), piece);
        volume.unlink(&owner(), volume.root(), format!("f{i}").as_bytes()).expect("unlink");
    }
    volume.write_file("/again", &piece).expect("space came back");
    assert!(volume.check(false, &|_, _| {}).expect("check").findings.is_empty());
}

/// An image with one file, and the position of its journal.
fn with_a_journal(image: &std::path::Path) -> (Vec<u8>, usize) {
    let volume = Volume::create(image, &small()).expect("create");
    volume.write_file("/kept", b"content").expect("write");
    volume.close().expect("close");
    let bytes = std::fs::read(image).expect("image");
    let journal = format::superblock::Superblock::decode(&bytes).expect("superblock").journal as usize;
    (bytes, journal)
}

fn invariants(report: &CheckReport) -> Vec<(&str, bool)> {
    report.findings.iter().map(|finding| (finding.invariant, finding.repaired)).collect()
}

/// Flips a bit in each header of a journal.
fn flip_headers(bytes: &mut [u8], journal: usize) {
    for copy in 0..format::JOURNAL_HEADERS as usize {
        bytes[journal + copy * format::BLOCK as usize + 20] ^= 1;
    }
}

#[test]
fn one_bad_header_of_the_journal_costs_nothing_and_is_found_and_repaired() {
    let dir = tempfile::tempdir().expect("tempdir");
    for header in 0..format::JOURNAL_HEADERS as usize {
        let image = dir.path().join(format!("{header}.lane"));
        let (mut bytes, journal) = with_a_journal(&image);
        bytes[journal + header * format::BLOCK as usize + 20] ^= 1;
        std::fs::write(&image, &bytes).expect("image");
        let volume = Volume::open(&image, Access::Write).expect("the other header is enough");
        assert_eq!(volume.read_file("/kept").expect("read"), b"content");
        assert_eq!(invariants(&volume.check(true, &|_, _| {}).expect("check")), [("journal", true)]);
        volume.close().expect("close");
        let volume = Volume::open(&image, Access::Write).expect("open");
        assert!(volume.check(false, &|_, _| {}).expect("check").findings.is_empty());
        volume.write_file("/new", b"content").expect("write");
        volume.close().expect("close");
    }
}

#[test]
fn a_damaged_journal_is_found_and_a_repair_replaces_it() {
    let dir = tempfile::tempdir().expect("tempdir");
    let image = dir.path().join("v.lane");
    let (mut bytes, journal) = with_a_journal(&image);
    flip_headers(&mut bytes, journal);
    std::fs::write(&image, &bytes).expect("image");
    assert!(matches!(Volume::open(&image, Access::Write), Err(Error::Damaged { .. })));
    let volume = Volume::open(&image, Access::Read).expect("a closed volume needs no journal to be read");
    let report = volume.check(false, &|_, _| {}).expect("check");
    assert_eq!(invariants(&report), [("journal", false)]);
    assert!(report.findings[0].text.contains("nothing is lost"), "{}", report.findings[0].text);
    drop(volume);
    assert!(std::fs::read(&image).expect("image") == bytes, "a check writes nothing");
    let volume = Volume::open(&image, Access::Repair).expect("open for repair");
    assert_eq!(invariants(&volume.check(true, &|_, _| {}).expect("check")), [("journal", true)]);
    assert!(volume.check(false, &|_, _| {}).expect("check").findings.is_empty());
    volume.close().expect("close");
    let volume = Volume::open(&image, Access::Write).expect("open");
    assert_eq!(volume.read_file("/kept").expect("read"), b"content");
    volume.mkdir_all("/works/again", 0o755).expect("mkdir");
    volume.close().expect("close");
}

#[test]
fn of_a_damaged_journal_with_a_log_the_loss_is_told() {
    let dir = tempfile::tempdir().expect("tempdir");
    let image = dir.path().join("v.lane");
    let volume = Volume::create(&image, &small()).expect("create");
    volume.write_file("/kept", b"content").expect("write");
    volume.close().expect("close");
    let volume = Volume::open(&image, Access::Write).expect("open");
    volume.write_file("/lost", b"content").expect("write");
    volume.sync().expect("sync");
    // The image of a machine that lost its power: the commit is in the journal only.
    let mut bytes = std::fs::read(&image).expect("image");
    drop(volume);
    let journal = format::superblock::Superblock::decode(&bytes).expect("superblock").journal as usize;
    flip_headers(&mut bytes, journal);
    std::fs::write(&image, &bytes).expect("image");
    assert!(matches!(Volume::open(&image, Access::Write), Err(Error::Damaged { .. })));
    let volume = Volume::open(&image, Access::Read).expect("the rest can be read");
    assert_eq!(volume.read_file("/kept").expect("read"), b"content");
    assert!(volume.journal_damage().is_some_and(|text| text.contains("are lost, up to commit")));
    drop(volume);
    let volume = Volume::open(&image, Access::Repair).expect("open for repair");
    let report = volume.check(true, &|_, _| {}).expect("check");
    let found = report.findings.iter().find(|finding| finding.invariant == "journal").expect("found");
    assert!(found.repaired && found.text.contains("are lost, up to commit"), "{found:?}");
    assert!(report.findings.iter().all(|finding| finding.repaired), "{report:?}");
    assert!(volume.journal_damage().is_none());
    volume.close().expect("close");
    let volume = Volume::open(&image, Access::Write).expect("open");
    assert_eq!(volume.read_file("/kept").expect("read"), b"content");
    assert_eq!(volume.resolve("/lost").map(|_| ()).map_err(|e| e.code()), Err(Code::NotFound));
    volume.write_file("/new", b"content").expect("write");
    volume.close().expect("close");
}

#[test]
fn a_volume_in_use_with_a_damaged_group_block_can_be_repaired() {
    let dir = tempfile::tempdir().expect("tempdir");
    let image = dir.path().join("v.lane");
    let volume = Volume::create(&image, &small()).expect("create");
    volume.write_file("/kept", b"content").expect("write");
    volume.close().expect("close");
    let volume = Volume::open(&image, Access::Write).expect("open");
    volume.mkdir_all("/d", 0o755).expect("mkdir");
    let mut bytes = volume.to_bytes().expect("bytes");
    let superblock = format::superblock::Superblock::decode(&bytes).expect("superblock");
    assert!(!superblock.clean);
    drop(volume);
    bytes[superblock.groups as usize + 100] ^= 1;
    std::fs::write(&image, &bytes).expect("image");
    // The log has the counts of the volume, so the damage is met where the group is used.
    let volume = Volume::open(&image, Access::Write).expect("open");
    let used = volume.write_file("/new", vec![1; 100_000]);
    assert!(matches!(used, Err(Error::Damaged { .. })), "{used:?}");
    drop(volume);
    std::fs::write(&image, &bytes).expect("image");
    Volume::open(&image, Access::Read).expect("a check can look at it");
    let volume = Volume::open(&image, Access::Repair).expect("open for repair");
    let report = volume.check(true, &|_, _| {}).expect("check");
    assert!(report.findings.iter().all(|finding| finding.repaired), "{report:?}");
    assert!(report.findings.iter().any(|finding| finding.invariant == "group-checksum"), "{report:?}");
    volume.close().expect("close");
    let volume = Volume::open(&image, Access::Write).expect("open");
    volume.write_file("/d/new", b"content").expect("write");
    volume.close().expect("close");
}

#[test]
fn large_files_take_large_blocks_and_give_them_back() {
    let volume = Volume::create_memory(&CreateOptions { size: 8 << 30, ..small() }).expect("create");
    let free = volume.statfs().expect("statfs").free_blocks;
    let ino = volume.create_file(&owner(), volume.root(), b"f", 0o644).expect("create").ino;
    volume.fallocate(&owner(), ino, Allocate::Extend, 0, 3 << 30).expect("fallocate");
    let blocks = |volume: &Volume| volume.getattr(ino).expect("attr").blocks;
    volume.write(&owner(), ino, (1 << 30) + 5, b"in the second one").expect("write");
    assert_eq!(blocks(&volume), 3 * 262_144, "extents in the inode");
    for i in 0..6 {
        volume.write(&owner(), ino, (2 << 30) + i * (8 << 20), b"w").expect("write");
    }
    // A tree with three slots of 1 GiB. Two of these blocks became 512 of 2 MiB, and one and six of those 512
    // of 4 KiB.
    assert_eq!(blocks(&volume), 3 * 262_144 + 1 + (1 + 1) + (1 + 6));
    let mut back = [9; 19];
    volume.read(&owner(), ino, (1 << 30) + 4, &mut back).expect("read");
    assert_eq!(&back, b"\0in the second one\0");
    volume.fallocate(&owner(), ino, Allocate::PunchHole, 1 << 20, 2 << 20).expect("punch");
    assert_eq!(volume.seek(ino, 0, Seek::Data).expect("seek"), 1 << 30);
    assert!(volume.check(false, &|_, _| {}).expect("check").findings.is_empty());
    // Written in pieces of 4 MiB, a file ends up in one extent, and after distant blocks in blocks of 2 MiB.
    let piece = vec![1; 4 << 20];
    let other = volume.create_file(&owner(), volume.root(), b"g", 0o644).expect("create").ino;
    for (extra, end) in [(0, 4), (12, 8)] {
        for i in 0..extra {
            volume.write(&owner(), other, (64 << 20) + i * 8192, b"w").expect("write");
        }
        for i in end - 4..end {
            volume.write(&owner(), other, i * (4 << 20), &piece).expect("write");
        }
        let pointers = if extra > 0 { 2 } else { 0 };
        assert_eq!(volume.getattr(other).expect("attr").blocks, end * 1024 + extra + pointers);
    }
    for name in [b"f", b"g"] {
        volume.unlink(&owner(), volume.root(), name).expect("unlink");
    }
    assert!(volume.check(false, &|_, _| {}).expect("check").findings.is_empty());
    let left = volume.statfs().expect("statfs").free_blocks;
    assert!(free - left <= 512, "{free} {left}");
}

#[test]
fn a_tree_is_removed_as_far_as_the_caller_may_and_every_failure_is_reported_once() {
    let volume = Volume::create_memory(&small()).expect("volume");
    let (owner, user) = (Caller::OWNER, Caller::user(1000, 1000, &[]));
    let perms = MkdirAll { perm: 0o755, perm_above: 0o777, ..MkdirAll::default() };
    let closed = volume.mkdir_all_with(&perms, "/open/top/closed").expect("made").ino;
    let above = volume.resolve("/open/top").expect("made").ino;
    volume.create_file(&owner, closed, b"kept", 0o644).expect("created");
    for number in 0..600 {
        volume.create_file(&owner, above, format!("{number}").as_bytes(), 0o644).expect("created");
    }
    volume.mkdir_all_with(&MkdirAll { base: Some(above), perm: 0o777, ..perms }, "a/b/c").expect("made");

    let open = volume.resolve("/open").expect("made").ino;
    let (mut removed, mut failed) = (0, Vec::new());
    let done: std::result::Result<(), ()> = volume.remove_all_with(&user, open, b"top", |below, done| {
        match done {
            Ok(()) => removed += 1,
            Err(error) => failed.push((below.to_vec(), error.code())),
        }
        Ok(())
    });
    assert_eq!((done, removed), (Ok(()), 603));
    assert_eq!(failed, [(b"closed/kept".to_vec(), Code::AccessDenied)]);

    let mut visits = 0;
    let stopped = volume.remove_all_with(&user, open, b"top", |_, done| {
        visits += 1;
        done
    });
    assert_eq!((stopped.map_err(|e| e.code()), visits), (Err(Code::AccessDenied), 1));
    volume.remove_all("/open/top").expect("removed");
    assert_eq!(volume.remove_all("/").map_err(|e| e.code()), Err(Code::Invalid));
    assert!(volume.check(false, &|_, _| ()).expect("checked").findings.is_empty());
}

#[test]
fn directories_are_made_with_their_own_permissions_and_those_of_the_missing_ones_above() {
    let volume = Volume::create_memory(&small()).expect("volume");
    let options = MkdirAll { perm: 0o700, perm_above: 0o711, ..MkdirAll::default() };
    volume.mkdir_all_with(&options, "/a/b//c/").expect("made");
    volume.symlink_at(&Caller::OWNER, volume.root(), b"link", b"a/b").expect("made");
    volume.symlink_at(&Caller::OWNER, volume.root(), b"lost", b"nowhere").expect("made");
    let perm = |path: &str| volume.resolve(path).map(|attr| attr.perm).map_err(|e| e.code());
    assert_eq!((perm("/a"), perm("/a/b"), perm("/a/b/c")), (Ok(0o711), Ok(0o711), Ok(0o700)));
    volume.mkdir_all("/link/d", 0o755).expect("made through a link");
    assert_eq!(perm("/a/b/d"), Ok(0o755));
    let make = |options: &MkdirAll, path: &str| volume.mkdir_all_with(options, path).map(drop);
    let named = |done: Result<()>| done.expect_err("in the way").to_string();
    assert_eq!(make(&options, "/lost/x").map_err(|e| e.code()), Err(Code::Exists));
    let direct = MkdirAll { follow: false, ..options };
    assert!(named(make(&direct, "/link/e/f")).starts_with("/link: "));
}

/// The bytes of a volume in use, as a crash leaves them.
fn after_a_crash(dir: &tempfile::TempDir) -> std::path::PathBuf {
    let (image, crashed) = (dir.path().join("v.lane"), dir.path().join("crashed.lane"));
    let volume = Volume::create(&image, &small()).expect("create");
    volume.write_file("/a", b"content").expect("write");
    volume.sync().expect("sync");
    std::fs::copy(&image, &crashed).expect("copy");
    crashed
}

#[test]
fn a_volume_that_was_not_closed_is_a_closed_one_after_its_first_writer() {
    let is_closed = |image: &std::path::Path| {
        let bytes = std::fs::read(image).expect("read");
        format::superblock::Superblock::decode(&bytes[..4096]).expect("a superblock").clean
    };
    type Use = fn(&std::path::Path);
    let uses: [(&str, Use); 3] = [
        ("reading", |image| drop(Volume::open(image, Access::Read).expect("open"))),
        ("writing", |image| Volume::open(image, Access::Write).and_then(Volume::close).expect("open")),
        ("repair", |image| {
            let volume = Volume::open(image, Access::Repair).expect("open");
            let report = volume.check(true, &|_, _| {}).expect("check");
            assert!(report.findings.is_empty(), "{:?}", report.findings);
            volume.close().expect("close");
        }),
    ];
    for (name, first_use) in uses {
        let dir = tempfile::tempdir().expect("a directory");
        let image = after_a_crash(&dir);
        assert!(!is_closed(&image));
        first_use(&image);
        // A reader recovers in memory.
        assert_eq!(is_closed(&image), name != "reading", "{name}");
        let volume = Volume::open(&image, Access::Read).expect("open");
        assert_eq!(volume.read_file("/a").expect("read"), b"content");
    }
}
