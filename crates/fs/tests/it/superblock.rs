//! The superblock: features that software does not know, and the state of the volume.

use lanefs::format::superblock::{Superblock, fields};
use lanefs::format::{BLOCK, BlockKind, SUPERBLOCK_COPY};
use lanefs::*;
use std::path::{Path, PathBuf};

fn options() -> CreateOptions {
    CreateOptions { size: 64 << 20, ..CreateOptions::default() }
}

/// A closed volume with one file, and the folder that has it.
fn image() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("tempdir");
    let image = dir.path().join("v.lane");
    let volume = Volume::create(&image, &options()).expect("create");
    volume.write_file("/f", b"content").expect("write");
    volume.close().expect("close");
    (dir, image)
}

/// Changes both copies of the superblock, whose checksums are right again then.
fn change(image: &Path, change: impl Fn(&mut [u8])) {
    let mut bytes = std::fs::read(image).expect("read");
    for at in [0, SUPERBLOCK_COPY as usize] {
        let block = &mut bytes[at..][..BLOCK as usize];
        let sums = Superblock::decode(block).expect("superblock").sums();
        change(block);
        sums.seal(BlockKind::Superblock, 0, block, 0);
    }
    std::fs::write(image, bytes).expect("write");
}

fn superblock(image: &Path) -> Superblock {
    Superblock::decode(&std::fs::read(image).expect("read")).expect("superblock")
}

fn refusal(opened: Result<Volume>) -> String {
    opened.expect_err("refused").to_string()
}

#[test]
fn unknown_compatible_features_are_ignored_and_kept() {
    let (_dir, image) = image();
    change(&image, |block| fields::FEATURES_COMPAT.write(block, 1 << 63 | 5));
    let volume = Volume::open(&image, Access::Write).expect("open");
    volume.write_file("/g", b"more").expect("write");
    volume.close().expect("close");
    assert_eq!(superblock(&image).compat, 1 << 63 | 5);
}

#[test]
fn unknown_read_only_compatible_features_are_for_readers() {
    let (_dir, image) = image();
    change(&image, |block| fields::FEATURES_RO_COMPAT.write(block, 1 << 63 | 1 << 40));
    for access in [Access::Write, Access::Repair] {
        let why = refusal(Volume::open(&image, access));
        assert!(why.contains("bits 40, 63") && why.contains("open it read-only"), "{why}");
    }
    let volume = Volume::open(&image, Access::Read).expect("open");
    assert_eq!(volume.read_file("/f").expect("read"), b"content");
    drop(volume);
    // The replay of a journal is a write.
    change(&image, |block| fields::STATE.write(block, 0));
    let why = refusal(Volume::open(&image, Access::Read));
    assert!(why.contains("bits 40, 63") && why.contains("not closed cleanly"), "{why}");
}

#[test]
fn unknown_incompatible_features_and_types_are_refused() {
    type Change = (fn(&mut [u8]), &'static str);
    let changes: [Change; 3] = [
        (|block| fields::FEATURES_INCOMPAT.write(block, 1 << 7), "(bit 7)"),
        (|block| fields::CHECKSUM_TYPE.write(block, 2), "checksums of type 2"),
        (|block| fields::HASH_TYPE.write(block, 9), "directory hashes of type 9"),
    ];
    for (of, text) in changes {
        let (_dir, image) = image();
        change(&image, of);
        for access in [Access::Read, Access::Write, Access::Repair] {
            let why = refusal(Volume::open(&image, access));
            assert!(why.contains(text) && why.contains("newer software"), "{why}");
        }
    }
}

/// Destroys the inode of `/f`.
fn damage(image: &Path) -> u64 {
    let volume = Volume::open(image, Access::Read).expect("open");
    let at = volume.resolve("/f").expect("resolve").ino.0 * volume.superblock().inode_size.bytes();
    drop(volume);
    let mut bytes = std::fs::read(image).expect("read");
    bytes[at as usize + 90] ^= 1;
    std::fs::write(image, bytes).expect("write");
    at
}

#[test]
fn damage_is_recorded_by_a_writer_and_cleared_by_a_check_that_repairs_it() {
    let (_dir, image) = image();
    damage(&image);
    let before = std::fs::read(&image).expect("read");
    let volume = Volume::open(&image, Access::Read).expect("open");
    assert!(matches!(volume.read_file("/f"), Err(Error::Damaged { .. })));
    assert!(volume.superblock().errors, "a reader knows it as long as it is open");
    volume.close().expect("close");
    assert!(std::fs::read(&image).expect("read") == before, "a reader writes nothing");

    // The open may have met it already, because other inodes are in the same block.
    let volume = Volume::open(&image, Access::Write).expect("open");
    assert!(matches!(volume.read_file("/f"), Err(Error::Damaged { .. })));
    let now = superblock(&image);
    assert!(now.errors && now.clean, "it is recorded at once, and nothing else changed");
    assert!(volume.read_file("/f").is_err());
    assert_eq!(superblock(&image).sequence, now.sequence, "it is recorded once");
    assert!(!volume.check(false, &|_, _| {}).expect("check").findings.is_empty());
    assert!(superblock(&image).errors, "a check that leaves damage leaves the bit");
    volume.close().expect("close");
    assert!(superblock(&image).errors);

    let volume = Volume::open(&image, Access::Repair).expect("open");
    let report = volume.check(true, &|_, _| {}).expect("check");
    assert!(!report.findings.is_empty() && report.findings.iter().all(|finding| finding.repaired));
    assert!(!superblock(&image).errors);
    volume.close().expect("close");
    let now = superblock(&image);
    assert!(!now.errors && now.clean);
}

#[test]
fn a_change_that_meets_damage_records_it() {
    let (_dir, image) = image();
    damage(&image);
    let volume = Volume::open(&image, Access::Write).expect("open");
    assert!(volume.unlink(&Caller::OWNER, volume.root(), b"f").is_err());
    assert!(superblock(&image).errors);
}

#[test]
fn a_volume_that_became_read_only_writes_no_superblock() {
    let (_dir, image) = image();
    let volume = Volume::open(&image, Access::Write).expect("open");
    let ino = volume.resolve("/f").expect("resolve").ino;
    volume.setxattr(&Caller::OWNER, ino, b"user.a", &[7; 3000], XattrMode::Set).expect("setxattr");
    volume.close().expect("close");
    // The block of the attribute, which no open reads, after its copies in the journal.
    let mut bytes = std::fs::read(&image).expect("read");
    let is_it = |block: &[u8]| block[0] == BlockKind::Xattr as u8 && block[8..16] == ino.0.to_le_bytes();
    let block = bytes.chunks_exact_mut(BLOCK as usize).rfind(|block| is_it(block)).expect("a block");
    block[100] ^= 1;
    std::fs::write(&image, &bytes).expect("write");

    let volume = Volume::open(&image, Access::Write).expect("open");
    volume.set_read_only(true).expect("read-only");
    let before = std::fs::read(&image).expect("read");
    assert!(volume.getxattr(&Caller::OWNER, ino, b"user.a").is_err() && volume.superblock().errors);
    assert_eq!(volume.set_identity(Some([1; 16]), None).map_err(|e| e.code()), Err(Code::ReadOnly));
    assert!(std::fs::read(&image).expect("read") == before);
    // The next write of the superblock records it.
    volume.set_read_only(false).expect("writable");
    volume.set_identity(None, Some("label")).expect("renamed");
    assert!(superblock(&image).errors);
}

#[test]
fn ordinary_errors_are_no_damage() {
    let (_dir, image) = image();
    let volume = Volume::open(&image, Access::Write).expect("open");
    assert!(volume.read_file("/none").is_err());
    assert!(volume.mkdir(&Caller::OWNER, volume.root(), b"f", 0o755).is_err());
    assert!(volume.getattr(Ino(123_456)).is_err());
    assert!(!volume.superblock().errors);
}

#[test]
fn copies_of_two_moments_are_no_damage() {
    for newer in [0, SUPERBLOCK_COPY] {
        let (_dir, image) = image();
        let mut bytes = std::fs::read(&image).expect("read");
        let block = &mut bytes[newer as usize..][..BLOCK as usize];
        let mut superblock = Superblock::decode(block).expect("superblock");
        superblock.sequence += 3;
        // The name of a volume changes while its seed stays.
        superblock.uuid = [9; 16];
        block.copy_from_slice(&superblock.encode());
        std::fs::write(&image, bytes).expect("write");
        let volume = Volume::open(&image, Access::Read).expect("open");
        assert_eq!(volume.uuid(), [9; 16]);
        let report = volume.check(false, &|_, _| {}).expect("check");
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        let number = superblock.sequence.to_string();
        assert!(matches!(&report.notes[..], [note] if note.contains(&number)), "{:?}", report.notes);
        drop(volume);
        // A writer makes them equal.
        Volume::open(&image, Access::Write).expect("open").close().expect("close");
        let volume = Volume::open(&image, Access::Read).expect("open");
        assert!(volume.check(false, &|_, _| {}).expect("check").notes.is_empty());
    }
}

#[test]
fn copies_of_two_volumes_are_damage_and_the_first_counts() {
    let (_dir, image) = image();
    let mut bytes = std::fs::read(&image).expect("read");
    let block = &mut bytes[SUPERBLOCK_COPY as usize..][..BLOCK as usize];
    let mut superblock = Superblock::decode(block).expect("superblock");
    (superblock.sequence, superblock.checksum_seed, superblock.label[0]) = (1 << 40, 77, b'x');
    block.copy_from_slice(&superblock.encode());
    std::fs::write(&image, bytes).expect("write");
    let volume = Volume::open(&image, Access::Read).expect("open");
    assert_eq!(volume.label(), "");
    let report = volume.check(false, &|_, _| {}).expect("check");
    assert!(matches!(&report.findings[..], [only] if only.invariant == "superblock-copy"));
}

#[test]
fn the_stamp_tells_of_each_session_that_changes_the_volume() {
    let (dir, image) = image();
    let on_disk = || {
        let file = std::fs::File::open(&image).expect("a file");
        VolumeStamp::of_image(&file).expect("read").expect("a superblock")
    };
    let first = on_disk();
    assert!(first.is_closed);
    // A session that changes nothing writes nothing.
    let times = || image.metadata().and_then(|file| file.modified()).expect("a time");
    let before = times();
    let volume = Volume::open(&image, Access::Write).expect("open");
    assert_eq!(volume.read_file("/f").expect("read"), b"content");
    volume.sync().expect("sync");
    assert_eq!(volume.stamp(), first);
    volume.close().expect("close");
    assert_eq!((on_disk(), times()), (first, before));
    let volume = Volume::open(&image, Access::Write).expect("open");
    volume.write_file("/g", b"more").expect("write");
    let open = VolumeStamp { sequence: first.sequence + 1, is_closed: false, ..first };
    assert_eq!((volume.stamp(), on_disk()), (open, open));
    volume.close().expect("close");
    assert_eq!(on_disk(), VolumeStamp { sequence: first.sequence + 2, ..first });
    std::fs::write(dir.path().join("other"), vec![0; 1 << 16]).expect("write");
    let other = std::fs::File::open(dir.path().join("other")).expect("a file");
    assert_eq!(VolumeStamp::of_image(&other).expect("read"), None);
}
