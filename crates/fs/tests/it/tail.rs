//! Content, extents and attributes share the bytes of an inode.

use lanefs::*;

const OWNER: Caller = Caller::OWNER;

fn volume(inode_size: InodeSize) -> Volume {
    Volume::create_memory(&CreateOptions { size: 32 << 20, inode_size, ..CreateOptions::default() })
        .expect("create")
}

fn blocks(volume: &Volume, ino: Ino) -> u64 {
    let report = volume.check(false, &|_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    volume.getattr(ino).expect("attr").blocks
}

fn set(volume: &Volume, ino: Ino, name: &str, bytes: usize) {
    volume.setxattr(&OWNER, ino, name.as_bytes(), &vec![7; bytes], XattrMode::Set).expect("setxattr");
}

fn has(volume: &Volume, ino: Ino, name: &str, bytes: usize) {
    assert_eq!(volume.getxattr(&OWNER, ino, name.as_bytes()).expect("getxattr"), vec![7; bytes]);
}

/// Writes a block of its own extent: each second block of the file.
fn extent(volume: &Volume, ino: Ino, number: u64) {
    volume.write(&OWNER, ino, number * 8192, &[number as u8 + 1; 4096]).expect("write");
}

#[test]
fn a_file_that_is_not_fragmented_needs_no_pointers() {
    for (inode_size, room) in [(InodeSize::B256, 10), (InodeSize::B128, 2)] {
        let volume = volume(inode_size);
        let ino = volume.create_file(&OWNER, volume.root(), b"f", 0o644).expect("create").ino;
        for number in 0..room {
            extent(&volume, ino, number);
            assert_eq!(blocks(&volume, ino), number + 1);
        }
        extent(&volume, ino, room);
        assert_eq!(blocks(&volume, ino), room + 2, "one block of pointers");
        let content = volume.read_file("/f").expect("read");
        for (number, block) in content.chunks(4096).enumerate() {
            let byte = if number.is_multiple_of(2) { number as u8 / 2 + 1 } else { 0 };
            assert!(block.iter().all(|b| *b == byte), "block {number}");
        }
        volume.setattr(&OWNER, ino, &SetAttr { size: Some(0), ..SetAttr::default() }).expect("truncate");
        assert_eq!(blocks(&volume, ino), 0);
        extent(&volume, ino, 0);
        assert_eq!(blocks(&volume, ino), 1, "extents again");
        // A file of consecutive blocks, without a hole, has one extent, whatever its size.
        let long = volume.write_file("/long", vec![3; 5 << 20]).expect("write").ino;
        assert_eq!(blocks(&volume, long), 5 << 8);
        volume.write(&OWNER, long, 5 << 20, &[4; 9000]).expect("append");
        volume.unlink(&OWNER, volume.root(), b"f").expect("unlink");
        assert_eq!(blocks(&volume, long), (5 << 8) + 3);
    }
}

#[test]
fn small_attributes_cost_no_block() {
    let volume = volume(InodeSize::B256);
    let root = volume.root();
    let dir = volume.mkdir(&OWNER, root, b"dir", 0o755).expect("mkdir").ino;
    let made = [
        dir,
        volume.create_file(&OWNER, root, b"empty", 0o644).expect("create").ino,
        volume.write_file("/inline", b"content").expect("write").ino,
        volume.write_file("/blocks", vec![1; 20_000]).expect("write").ino,
        volume.symlink_at(&OWNER, root, b"link", b"target").expect("symlink").ino,
        volume.mknod(&OWNER, root, b"fifo", FileKind::Fifo, 0o600, 0).expect("mknod").ino,
    ];
    for ino in made {
        let before = blocks(&volume, ino);
        set(&volume, ino, "trusted.a", 10);
        set(&volume, ino, "trusted.b", 20);
        assert_eq!(blocks(&volume, ino), before);
        set(&volume, ino, "trusted.a", 40);
        has(&volume, ino, "trusted.a", 40);
        has(&volume, ino, "trusted.b", 20);
        assert_eq!(blocks(&volume, ino), before + u64::from(ino == dir), "88 bytes in a directory");
        volume.removexattr(&OWNER, ino, b"trusted.a").expect("remove");
        has(&volume, ino, "trusted.b", 20);
        assert_eq!(blocks(&volume, ino), before, "in the inode again");
        set(&volume, ino, "trusted.c", 300);
        assert_eq!(blocks(&volume, ino), before + 1);
        let copy = Volume::from_bytes(volume.to_bytes().expect("bytes")).expect("open");
        has(&copy, ino, "trusted.b", 20);
        has(&copy, ino, "trusted.c", 300);
        volume.removexattr(&OWNER, ino, b"trusted.c").expect("remove");
        volume.removexattr(&OWNER, ino, b"trusted.b").expect("remove");
        assert_eq!(blocks(&volume, ino), before);
        assert_eq!(volume.listxattr(ino).expect("list"), Vec::<Vec<u8>>::new());
    }
    // The entries of the directory are not in the way, and stay.
    for number in 0..20 {
        volume.create_file(&OWNER, dir, format!("{number}").as_bytes(), 0o644).expect("create");
    }
    set(&volume, dir, "trusted.a", 70);
    assert_eq!(blocks(&volume, dir), 1);
    assert_eq!(volume.readdir(&OWNER, dir, 0, 100).expect("readdir").len(), 20);
}

#[test]
fn a_directory_of_128_bytes_has_no_room_for_attributes() {
    let volume = volume(InodeSize::B128);
    let dir = volume.mkdir(&OWNER, volume.root(), b"dir", 0o755).expect("mkdir").ino;
    set(&volume, dir, "user.a", 1);
    assert_eq!(blocks(&volume, dir), 1);
    let file = volume.create_file(&OWNER, volume.root(), b"file", 0o644).expect("create").ino;
    set(&volume, file, "user.a", 20);
    assert_eq!(blocks(&volume, file), 0, "all 32 bytes");
    set(&volume, file, "user.a", 21);
    assert_eq!(blocks(&volume, file), 1);
}

#[test]
fn attributes_stay_and_content_gives_way() {
    let volume = volume(InodeSize::B256);
    let ino = volume.create_file(&OWNER, volume.root(), b"f", 0o644).expect("create").ino;
    // 12 bytes and 93: 55 of the 160 are left.
    set(&volume, ino, "user.a", 93);
    volume.write(&OWNER, ino, 0, &[1; 55]).expect("write");
    assert_eq!(blocks(&volume, ino), 0);
    volume.write(&OWNER, ino, 55, &[1]).expect("write");
    assert_eq!(blocks(&volume, ino), 1, "the content moved to a block");
    assert_eq!(volume.read_file("/f").expect("read"), vec![1; 56]);
    for number in 1..3 {
        extent(&volume, ino, number);
        assert_eq!(blocks(&volume, ino), number + 1);
    }
    extent(&volume, ino, 3);
    assert_eq!(blocks(&volume, ino), 5, "three extents fit, the fourth needs a block of pointers");
    has(&volume, ino, "user.a", 93);
    // A tree leaves the whole tail to attributes.
    set(&volume, ino, "user.a", 148);
    assert_eq!(blocks(&volume, ino), 5);
    set(&volume, ino, "user.a", 149);
    assert_eq!(blocks(&volume, ino), 6);
    // Content that is there stays; attributes that do not fit beside it get a block.
    let other = volume.write_file("/g", vec![2; 150]).expect("write").ino;
    set(&volume, other, "user.a", 1);
    assert_eq!(blocks(&volume, other), 1);
    assert_eq!(volume.read_file("/g").expect("read"), vec![2; 150]);
    for (length, kept) in [(20, 0), (55, 0), (200, 1)] {
        let file = volume.create_file(&OWNER, volume.root(), b"cut", 0o644).expect("create").ino;
        set(&volume, file, "user.a", 93);
        volume.fallocate(&OWNER, file, Allocate::Extend, 0, length).expect("fallocate");
        assert_eq!(blocks(&volume, file), kept, "{length}");
        volume.fallocate(&OWNER, file, Allocate::ZeroRange, 0, 100).expect("fallocate");
        has(&volume, file, "user.a", 93);
        volume.unlink(&OWNER, volume.root(), b"cut").expect("unlink");
    }
}

#[test]
fn a_range_is_removed_or_inserted() {
    for (inode_size, pieces) in [(InodeSize::B256, 3), (InodeSize::B256, 30), (InodeSize::B128, 4)] {
        let volume = volume(inode_size);
        let ino = volume.create_file(&OWNER, volume.root(), b"f", 0o644).expect("create").ino;
        let mut expected = Vec::new();
        for number in 0..pieces {
            extent(&volume, ino, number);
            expected.resize(number as usize * 8192, 0);
            expected.resize(number as usize * 8192 + 4096, number as u8 + 1);
        }
        volume.write(&OWNER, ino, expected.len() as u64, b"end").expect("write");
        expected.extend(b"end");
        let shift = |mode, offset, len| volume.fallocate(&OWNER, ino, mode, offset, len);
        let size = expected.len() as u64;
        for (mode, offset, len) in [
            (Allocate::CollapseRange, 1, 4096),
            (Allocate::CollapseRange, 0, 4095),
            (Allocate::CollapseRange, 0, size.next_multiple_of(4096)),
            (Allocate::CollapseRange, 4096, 0),
            (Allocate::InsertRange, 4096, 1),
            (Allocate::InsertRange, size.next_multiple_of(4096), 4096),
        ] {
            let refused = shift(mode, offset, len).expect_err("a range that cannot be");
            assert_eq!(refused.code(), Code::Invalid, "{mode:?} {offset} {len}");
        }
        let far = format::MAX_FILE_SIZE - 4096;
        assert_eq!(shift(Allocate::InsertRange, 0, far).expect_err("too far").code(), Code::FileTooLarge);
        for (mode, offset, len) in [
            (Allocate::InsertRange, 4096, 8192),
            (Allocate::CollapseRange, 0, 4096),
            (Allocate::InsertRange, 0, 4096),
            (Allocate::CollapseRange, 8192, 4096),
            (Allocate::InsertRange, 8192, 4 << 20),
            (Allocate::CollapseRange, 12_288, 4 << 20),
        ] {
            shift(mode, offset, len).expect("fallocate");
            let (from, to) = (offset as usize, (offset + len) as usize);
            if mode == Allocate::InsertRange {
                expected.splice(from..from, vec![0; to - from]);
            } else {
                expected.drain(from..to);
            }
            assert!(volume.read_file("/f").expect("read") == expected, "{mode:?} {offset} {len}");
            blocks(&volume, ino);
        }
        let inline = volume.write_file("/inline", b"a few bytes").expect("write").ino;
        volume.fallocate(&OWNER, inline, Allocate::InsertRange, 0, 4096).expect("insert");
        assert_eq!(volume.read_file("/inline").expect("read")[4096..], *b"a few bytes");
        volume.fallocate(&OWNER, inline, Allocate::CollapseRange, 0, 4096).expect("collapse");
        assert_eq!(volume.read_file("/inline").expect("read"), b"a few bytes");
        blocks(&volume, inline);
    }
}

#[test]
fn blocks_behind_the_end_move_no_further_than_a_file_may() {
    let volume = volume(InodeSize::B256);
    let ino = volume.write_file("/f", vec![1; 8192]).expect("write").ino;
    let most = format::MAX_FILE_SIZE;
    volume.fallocate(&OWNER, ino, Allocate::KeepSize, most - 8192, 8192).expect("fallocate");
    volume.fallocate(&OWNER, ino, Allocate::InsertRange, 0, 4096).expect("insert");
    let last = volume.extents(ino).expect("extents").pop().expect("an extent");
    assert_eq!((last.offset + last.bytes, last.bytes), (most, 4096));
    blocks(&volume, ino);
}
