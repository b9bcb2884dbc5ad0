//! Inodes that are held live on without a name, and are freed with the last holder.

mod crowd;

use crowd::{Fault, crowd};
use lanefs::*;

const OWNER: Caller = Caller::OWNER;

fn options() -> CreateOptions {
    CreateOptions { size: 64 << 20, ..CreateOptions::default() }
}

/// Runs a test on a volume in memory and on one in a file.
fn on_both(test: impl Fn(&Volume)) {
    test(&Volume::create_memory(&options()).expect("create"));
    let dir = tempfile::tempdir().expect("tempdir");
    let volume = Volume::create(dir.path().join("v"), &options()).expect("create");
    test(&volume);
    volume.close().expect("close");
}

fn code<T>(answer: Result<T>) -> Option<Code> {
    answer.err().map(|error| error.code())
}

/// Inodes without a name that the volume lists.
fn orphans(volume: &Volume) -> Vec<Ino> {
    let report = volume.check(false, &|_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let list = listed(volume);
    assert_eq!(report.orphans as usize, list.len());
    list
}

/// Entries of the orphan directory, without its own.
fn listed(volume: &Volume) -> Vec<Ino> {
    let list = Ino(volume.superblock().orphans);
    let entries = volume.readdir(&OWNER, list, 0, 10_000).expect("readdir");
    entries.into_iter().map(|entry| entry.ino).filter(|ino| *ino != list).collect()
}

fn file(volume: &Volume, name: &str, bytes: usize) -> Ino {
    volume.write_file(format!("/{name}"), vec![7; bytes]).expect("write").ino
}

#[test]
fn a_file_that_is_held_lives_on_without_a_name_and_goes_with_the_last_holder() {
    on_both(|volume| {
        let root = volume.root();
        let free = volume.statfs().expect("statfs").free_blocks;
        let ino = file(volume, "f", 30_000);
        volume.setxattr(&OWNER, ino, b"user.long", &[1; 9000], XattrMode::Set).expect("xattr");
        assert_eq!(volume.hold(ino).expect("hold").links, 1);
        assert_eq!(volume.lookup_held(&OWNER, root, b"f").expect("lookup").ino, ino);
        volume.unlink(&OWNER, root, b"f").expect("unlink");
        assert_eq!(code(volume.lookup(&OWNER, root, b"f")), Some(Code::NotFound));
        assert_eq!(volume.getattr(ino).expect("getattr").links, 0);
        assert_eq!(orphans(volume), [ino]);

        volume.write(&OWNER, ino, 40_000, b"more").expect("write");
        let mut bytes = [9; 4];
        assert_eq!(volume.read(&OWNER, ino, 40_000, &mut bytes).expect("read"), 4);
        assert_eq!(&bytes, b"more");
        volume.fallocate(&OWNER, ino, Allocate::PunchHole, 4096, 4096).expect("fallocate");
        let cut = SetAttr { size: Some(100), perm: Some(0o600), ..SetAttr::default() };
        assert_eq!(volume.setattr(&OWNER, ino, &cut).expect("setattr").size, 100);
        volume.setxattr(&OWNER, ino, b"user.more", b"x", XattrMode::Set).expect("xattr");
        assert_eq!(volume.listxattr(ino).expect("list").len(), 2);
        volume.fsync(ino, false).expect("fsync");
        assert_eq!(code(volume.link(&OWNER, ino, root, b"again")), Some(Code::NotFound));

        // A second holder by number, although the inode has no name.
        volume.hold(ino).expect("hold");
        volume.release(ino, 1).expect("release");
        volume.release(ino, 1).expect("release");
        assert_eq!(orphans(volume), [ino]);
        volume.release(ino, 1).expect("release");
        assert_eq!(code(volume.getattr(ino)), Some(Code::StaleInode));
        assert_eq!(code(volume.hold(ino)), Some(Code::StaleInode));
        assert!(orphans(volume).is_empty());
        volume.sync().expect("sync");
        assert_eq!(volume.statfs().expect("statfs").free_blocks, free);
    });
}

#[test]
fn what_nobody_holds_any_more_goes_with_its_name() {
    on_both(|volume| {
        let root = volume.root();
        let ino = file(volume, "f", 10);
        for _ in 0..3 {
            volume.hold(ino).expect("hold");
        }
        volume.release(ino, 3).expect("release");
        // A release of more holders than there are does no harm.
        volume.release(ino, 1).expect("release");
        volume.unlink(&OWNER, root, b"f").expect("unlink");
        assert_eq!(code(volume.getattr(ino)), Some(Code::StaleInode));
        assert!(orphans(volume).is_empty());
        // An inode with another name is not freed.
        let ino = file(volume, "f", 10);
        volume.link(&OWNER, ino, root, b"g").expect("link");
        volume.hold(ino).expect("hold");
        volume.unlink(&OWNER, root, b"f").expect("unlink");
        volume.release(ino, 1).expect("release");
        assert_eq!(volume.getattr(ino).expect("getattr").links, 1);
    });
}

#[test]
fn a_directory_that_was_removed_and_is_held_is_empty_and_stays_so() {
    on_both(|volume| {
        let root = volume.root();
        let before = volume.getattr(root).expect("getattr").links;
        let dir = volume.mkdir(&OWNER, root, b"d", 0o755).expect("mkdir").ino;
        let other = file(volume, "f", 10);
        volume.hold(dir).expect("hold");
        volume.rmdir(&OWNER, root, b"d").expect("rmdir");
        assert_eq!(volume.getattr(root).expect("getattr").links, before);
        let attr = volume.getattr(dir).expect("getattr");
        assert_eq!((attr.links, attr.kind), (0, FileKind::Directory));
        assert_eq!(orphans(volume), [dir]);

        let not_found = Some(Code::NotFound);
        assert_eq!(code(volume.lookup(&OWNER, dir, b"x")), not_found);
        assert_eq!(code(volume.lookup_held(&OWNER, dir, b"x")), not_found);
        assert!(volume.readdir(&OWNER, dir, 0, 10).expect("readdir").is_empty());
        assert_eq!(code(volume.create_file(&OWNER, dir, b"x", 0o644)), not_found);
        assert_eq!(code(volume.mkdir(&OWNER, dir, b"x", 0o755)), not_found);
        assert_eq!(code(volume.symlink_at(&OWNER, dir, b"x", b"y")), not_found);
        assert_eq!(code(volume.mknod(&OWNER, dir, b"x", FileKind::Fifo, 0o644, 0)), not_found);
        assert_eq!(code(volume.link(&OWNER, other, dir, b"x")), not_found);
        assert_eq!(code(volume.create_unnamed(&OWNER, dir, 0o644)), not_found);
        for mode in [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange] {
            assert_eq!(code(volume.rename_at(&OWNER, root, b"f", dir, b"x", mode)), not_found);
            assert_eq!(code(volume.rename_at(&OWNER, dir, b"x", root, b"g", mode)), not_found);
        }
        assert_eq!(code(volume.unlink(&OWNER, dir, b"x")), not_found);
        assert_eq!(code(volume.rmdir(&OWNER, dir, b"x")), not_found);
        // No path leads out of it, and none to the orphan directory.
        for path in [".", "..", "../.."] {
            let options = ResolveOptions { base: Some(dir), ..ResolveOptions::default() };
            let found = volume.resolve_batch(&options, &[path]).expect("batch")[0].ino;
            assert_eq!(found, Some(dir), "{path}");
        }
        let mode = SetAttr { perm: Some(0o700), ..SetAttr::default() };
        volume.setattr(&OWNER, dir, &mode).expect("setattr");
        volume.release(dir, 1).expect("release");
        assert_eq!(code(volume.getattr(dir)), Some(Code::StaleInode));
        assert!(orphans(volume).is_empty());
    });
}

#[test]
fn what_a_rename_replaces_lives_on_when_it_is_held() {
    on_both(|volume| {
        let root = volume.root();
        let (one, two) = (file(volume, "one", 5000), file(volume, "two", 6000));
        volume.hold(two).expect("hold");
        volume.rename_at(&OWNER, root, b"one", root, b"two", RenameMode::Replace).expect("rename");
        assert_eq!(volume.lookup(&OWNER, root, b"two").expect("lookup").0, one);
        assert_eq!(volume.getattr(two).expect("getattr").links, 0);
        let from = volume.mkdir(&OWNER, root, b"from", 0o755).expect("mkdir").ino;
        let to = volume.mkdir(&OWNER, root, b"to", 0o755).expect("mkdir").ino;
        volume.hold(to).expect("hold");
        volume.rename_at(&OWNER, root, b"from", root, b"to", RenameMode::Replace).expect("rename");
        assert_eq!(volume.lookup(&OWNER, root, b"to").expect("lookup").0, from);
        assert_eq!(orphans(volume).len(), 2);
        for ino in [two, to] {
            volume.release(ino, 1).expect("release");
        }
        assert!(orphans(volume).is_empty());
    });
}

#[test]
fn a_file_made_without_a_name_may_get_one_once() {
    on_both(|volume| {
        let root = volume.root();
        let unnamed = |perm| volume.create_unnamed(&OWNER, root, perm).expect("create");
        let attr = unnamed(0o640);
        assert_eq!((attr.links, attr.perm, attr.kind), (0, 0o640, FileKind::File));
        volume.write(&OWNER, attr.ino, 0, &[3; 9000]).expect("write");
        assert_eq!(volume.link(&OWNER, attr.ino, root, b"name").expect("link").links, 1);
        assert!(orphans(volume).is_empty());
        volume.unlink(&OWNER, root, b"name").expect("unlink");
        assert_eq!(orphans(volume), [attr.ino]);
        assert_eq!(code(volume.link(&OWNER, attr.ino, root, b"name")), Some(Code::NotFound));
        volume.release(attr.ino, 1).expect("release");
        let attr = unnamed(0o600);
        volume.release(attr.ino, 1).expect("release");
        assert_eq!(code(volume.getattr(attr.ino)), Some(Code::StaleInode));
        let attr = unnamed(0o600);
        volume.link(&OWNER, attr.ino, root, b"kept").expect("link");
        volume.release(attr.ino, 1).expect("release");
        assert_eq!(volume.getattr(attr.ino).expect("getattr").links, 1);
        let stranger = Caller::user(5, 5, &[]);
        assert_eq!(code(volume.create_unnamed(&stranger, root, 0o600)), Some(Code::AccessDenied));
    });
}

#[test]
fn an_open_for_writing_frees_what_a_crash_left_and_one_for_reading_does_not() {
    let dir = tempfile::tempdir().expect("tempdir");
    let path = dir.path().join("v");
    let volume = Volume::create(&path, &options()).expect("create");
    for i in 0..600 {
        let name = format!("f{i}");
        let ino = file(&volume, &name, i * 50);
        volume.hold(ino).expect("hold");
        volume.unlink(&OWNER, volume.root(), name.as_bytes()).expect("unlink");
    }
    let directory = volume.mkdir(&OWNER, volume.root(), b"d", 0o755).expect("mkdir").ino;
    volume.hold(directory).expect("hold");
    volume.rmdir(&OWNER, volume.root(), b"d").expect("rmdir");
    volume.sync().expect("sync");
    let crashed = dir.path().join("crashed");
    std::fs::copy(&path, &crashed).expect("copy");
    // A close leaves no clean image that lists orphans, but such an image can be read.
    let mut bytes = volume.to_bytes().expect("bytes");
    let block = format::superblock::Superblock { clean: true, ..volume.superblock() }.encode();
    for at in [0, format::SUPERBLOCK_COPY as usize] {
        bytes[at..at + block.len()].copy_from_slice(&block);
    }
    let listing = dir.path().join("listing");
    std::fs::write(&listing, bytes).expect("write");

    let reader = Volume::open(&listing, Access::Read).expect("open");
    assert_eq!(orphans(&reader).len(), 601);
    reader.hold(directory).expect("hold");
    reader.release(directory, 1).expect("release");
    drop(reader);
    let reader = Volume::open(&listing, Access::Read).expect("open");
    assert_eq!(orphans(&reader).len(), 601);
    drop(reader);
    for image in [&crashed, &listing] {
        let recovered = Volume::open(image, Access::Write).expect("open");
        assert!(orphans(&recovered).is_empty());
        assert_eq!(recovered.statfs().expect("statfs").inodes, 2);
        assert_eq!(code(recovered.getattr(directory)), Some(Code::StaleInode));
        recovered.close().expect("close");
    }
    // A close frees them as well: their holders end with the mount.
    volume.close().expect("close");
    let reader = Volume::open(&path, Access::Read).expect("open");
    assert!(orphans(&reader).is_empty());
    assert_eq!(reader.statfs().expect("statfs").inodes, 2);
}

#[test]
fn an_unlink_that_fails_leaves_what_is_held_as_it_was() {
    let volume = Volume::create_memory(&options()).expect("create");
    let root = volume.root();
    let sticky = volume.mkdir(&OWNER, root, b"d", 0o1777).expect("mkdir").ino;
    let ino = volume.create_file(&OWNER, sticky, b"f", 0o644).expect("create").ino;
    volume.hold(ino).expect("hold");
    let stranger = Caller::user(5, 5, &[]);
    assert_eq!(code(volume.unlink(&stranger, sticky, b"f")), Some(Code::NotPermitted));
    assert_eq!(volume.getattr(ino).expect("getattr").links, 1);
    assert!(orphans(&volume).is_empty());
}

#[test]
fn a_full_volume_lets_go_of_what_is_held() {
    let dir = tempfile::tempdir().expect("tempdir");
    let small = CreateOptions { size: 8 << 20, ..CreateOptions::default() };
    let volume = Volume::create(dir.path().join("v"), &small).expect("create");
    let root = volume.root();
    let mut held = Vec::new();
    for piece in [64 << 10, 4096, 0] {
        for i in 0.. {
            let name = format!("/f{piece}-{i}");
            let Ok(attr) = volume.write_file(&name, vec![1; piece]) else {
                let _ = volume.unlink(&OWNER, root, &name.as_bytes()[1..]);
                break;
            };
            volume.hold(attr.ino).expect("hold");
            held.push((name, attr.ino));
        }
    }
    let mut last = None;
    for (name, ino) in held {
        volume.unlink(&OWNER, root, &name.as_bytes()[1..]).expect("unlink");
        last = Some(ino);
    }
    let report = volume.check(false, &|_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let listed = listed(&volume).len();
    // With fewer orphans the test would show nothing.
    assert!(report.orphans > listed as u64, "{} orphans, {listed} listed", report.orphans);
    volume.release(last.expect("a file"), 1).expect("release");
    let crashed = volume.to_bytes().expect("bytes");
    volume.close().expect("close");
    for volume in [Volume::from_bytes(crashed), Volume::open(dir.path().join("v"), Access::Write)] {
        let volume = volume.expect("open");
        assert!(orphans(&volume).is_empty());
        assert_eq!(volume.statfs().expect("statfs").inodes, 2);
        // There is room for all entries again, and all are listed.
        let ino = file(&volume, "f", 10);
        volume.hold(ino).expect("hold");
        volume.unlink(&OWNER, volume.root(), b"f").expect("unlink");
        assert_eq!(orphans(&volume), [ino]);
    }
}

#[test]
fn an_older_format_is_refused_by_its_number_with_the_way_to_move() {
    let volume = Volume::create_memory(&options()).expect("create");
    let mut bytes = volume.to_bytes().expect("bytes");
    for at in [0, format::SUPERBLOCK_COPY as usize] {
        bytes[at + format::superblock::fields::VERSION.offset] = 1;
    }
    let error = Volume::from_bytes(bytes).expect_err("refused").to_string();
    let wanted = format!("format version 1, this software reads version {}", format::superblock::VERSION);
    assert!(error.contains(&wanted) && error.contains("export") && error.contains("import"), "{error}");
}

#[test]
fn many_threads_hold_unlink_and_release() {
    for (seed, threads) in [(1, 2), (2, 4), (3, 8), (4, 3)] {
        let volume = Volume::create_memory(&options()).expect("create");
        crowd(&volume, seed, threads, 6000, None).expect("no fault");
        assert!(orphans(&volume).is_empty());
    }
    let dir = tempfile::tempdir().expect("tempdir");
    let volume = Volume::create(dir.path().join("v"), &options()).expect("create");
    crowd(&volume, 5, 4, 4000, None).expect("no fault");
    assert!(orphans(&volume).is_empty());
    volume.close().expect("close");
}

#[test]
fn a_volume_that_forgets_holders_is_found_out() {
    for fault in [Fault::UnlinkForgets, Fault::ReleaseTakesAll, Fault::LookupThenHold] {
        let found = (0..20).any(|seed| {
            let volume = Volume::create_memory(&options()).expect("create");
            crowd(&volume, seed, 4, 6000, Some(fault)).is_err()
        });
        assert!(found, "{fault:?}");
    }
}
