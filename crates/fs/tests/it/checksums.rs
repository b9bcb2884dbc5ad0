//! Checksums of file data: wrong bytes are found, and right ones are not taken for wrong.

use lanefs::format::{BLOCK, BlockKind, GROUP, SumPlace, sums_chunk};
use lanefs::*;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

const SIZE: u64 = 64 << 20;
const CALLER: Caller = Caller::OWNER;

/// A device in memory whose bytes a test can change. Clones are the same device.
#[derive(Clone)]
struct Disk(Arc<Mutex<Vec<u8>>>);

impl Disk {
    fn new() -> Self {
        Disk(Arc::new(Mutex::new(vec![0; SIZE as usize])))
    }

    fn flip(&self, at: u64) {
        self.0.lock()[at as usize] ^= 0x10;
    }

    fn block(&self, at: u64) -> Vec<u8> {
        self.0.lock()[at as usize..][..BLOCK as usize].to_vec()
    }
}

impl Device for Disk {
    fn len(&self) -> u64 {
        self.0.lock().len() as u64
    }
    fn read_at(&self, at: u64, mut buffer: IoBufMut<'_>) -> io::Result<()> {
        let len = buffer.len();
        buffer.copy_from(&self.0.lock()[at as usize..][..len]);
        Ok(())
    }
    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        data.copy_to(&mut self.0.lock()[at as usize..][..data.len()]);
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
    fn discard(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
    fn resize(&self, len: u64) -> io::Result<()> {
        self.0.lock().resize(len as usize, 0);
        Ok(())
    }
}

fn create(disk: &Disk, data_checksums: bool) -> Volume {
    let options = CreateOptions { size: SIZE, data_checksums, ..CreateOptions::default() };
    Volume::create_device(Box::new(disk.clone()), &options).expect("create")
}

fn open(disk: &Disk, access: Access) -> Volume {
    Volume::open_device(Box::new(disk.clone()), access).expect("open")
}

fn content(salt: u8, blocks: usize) -> Vec<u8> {
    (0..blocks * BLOCK as usize).map(|i| (i / 7) as u8 ^ salt).collect()
}

/// Position of a file's byte on the volume.
fn position(volume: &Volume, ino: Ino, offset: u64) -> u64 {
    let extents = volume.extents(ino).expect("extents");
    let holds = |e: &&FileExtent| e.offset <= offset && offset < e.offset + e.bytes;
    let extent = extents.iter().find(holds).expect("data there");
    extent.position + offset - extent.offset
}

fn findings(volume: &Volume, repair: bool) -> Vec<&'static str> {
    let report = volume.check(repair, &|_, _| {}).expect("check");
    report.findings.iter().map(|finding| finding.invariant).collect()
}

fn scrub(volume: &Volume) -> ScrubReport {
    volume.scrub(0, &mut |_, _| true).expect("scrub")
}

/// A closed volume with two files of 100 blocks; the position of a byte in the 51st block of the first.
fn with_files(disk: &Disk) -> u64 {
    let volume = create(disk, true);
    volume.mkdir_all("/dir", 0o755).expect("mkdir");
    let ino = volume.write_file("/dir/first", content(1, 100)).expect("write").ino;
    volume.write_file("/dir/second", content(2, 100)).expect("write");
    let at = position(&volume, ino, 50 * BLOCK + 77);
    volume.close().expect("close");
    at
}

#[test]
fn wrong_data_in_a_batch_cost_their_own_file_only() {
    let disk = Disk::new();
    let at = with_files(&disk);
    disk.flip(at);
    let volume = open(&disk, Access::Read);
    let (set, mut files) =
        (PathSet::from_iter(["/dir/second", "/dir/first", "/dir/second"]), FileContents::new());
    // The second batch finds the other file resident.
    for _ in 0..2 {
        assert_eq!(volume.read_files(&ReadFiles::default(), &set, &mut files).expect("read"), 2);
        assert_eq!(files.codes(), [Code::Success, Code::WrongData, Code::Success]);
        assert_eq!(files.bytes(), [content(2, 100), content(2, 100)].concat());
    }
    assert!(volume.stats().data_wrong > 0);
    // A range beside the wrong block is right.
    let ranges = [ByteRange { offset: 0, len: 50 * BLOCK }, ByteRange { offset: 50 * BLOCK, len: 1 }];
    let options = ReadFiles { ranges: Some(&ranges), ..ReadFiles::default() };
    let set = PathSet::from_iter(["/dir/first", "/dir/first"]);
    assert_eq!(volume.read_files(&options, &set, &mut files).expect("read"), 1);
    assert_eq!(files.codes(), [Code::Success, Code::WrongData]);
    assert_eq!(files.bytes(), &content(1, 100)[..50 * BLOCK as usize]);
}

#[test]
fn a_flipped_bit_of_data_is_an_error_with_path_and_offset() {
    let disk = Disk::new();
    let at = with_files(&disk);
    disk.flip(at);
    let volume = open(&disk, Access::Read);
    let error = volume.read_file("/dir/first").expect_err("wrong data");
    assert_eq!((error.code(), error.errno()), (Code::WrongData, 5));
    let text = error.to_string();
    let offset = format!("offset {}", 50 * BLOCK);
    assert!(text.contains("/dir/first") && text.contains(&offset), "{text}");
    assert!(text.contains(&format!("{:#x}", at & !(BLOCK - 1))), "{text}");
    assert_eq!(volume.stats().data_wrong, 1);
    assert_eq!(volume.read_file("/dir/second").expect("read"), content(2, 100));
    assert!(volume.stats().data_verified >= 100);
    // The rest of the file can be read.
    let ino = volume.resolve("/dir/first").expect("resolve").ino;
    let mut buffer = vec![0; 50 * BLOCK as usize];
    assert_eq!(volume.read(&CALLER, ino, 0, &mut buffer).expect("read"), buffer.len());
}

#[test]
fn a_scrub_names_the_files_of_wrong_blocks() {
    let disk = Disk::new();
    let at = with_files(&disk);
    let volume = open(&disk, Access::Read);
    let clean = scrub(&volume);
    assert!(clean.wrong.is_empty() && clean.data >= 200 && clean.metadata > 32, "{clean:?}");
    disk.flip(at);
    let report = scrub(&volume);
    let ino = volume.resolve("/dir/first").expect("resolve").ino;
    let path = Some(b"/dir/first".to_vec());
    let content = WrongContent::Data { ino, offset: 50 * BLOCK, path };
    assert_eq!(report.wrong, [WrongBlock { at: at & !(BLOCK - 1), content }]);
    assert_eq!((report.data, report.next), (clean.data - 1, None));
    // Metadata too; and a scrub that stops continues where it was.
    let root = volume.root().0 * 256 / BLOCK * BLOCK;
    disk.flip(root + 8);
    let stopped = volume.scrub(0, &mut |at, _| at < root).expect("scrub");
    let next = stopped.next.expect("stopped");
    let rest = volume.scrub(next, &mut |_, _| true).expect("scrub");
    let mut all: Vec<u64> = stopped.wrong.iter().chain(&rest.wrong).map(|wrong| wrong.at).collect();
    all.sort_unstable();
    let mut both = [root, at & !(BLOCK - 1)];
    both.sort_unstable();
    assert_eq!(all, both);
}

#[test]
fn a_wrong_block_of_checksums_is_found_by_reading_scrub_and_fsck_and_costs_no_data() {
    let disk = Disk::new();
    let at = with_files(&disk);
    let sums = SumPlace::of(at).at;
    disk.flip(sums + 3000);
    let volume = open(&disk, Access::Write);
    let error = volume.read_file("/dir/first").expect_err("no checksums");
    assert!(matches!(error, Error::Damaged { at, .. } if at == sums), "{error}");
    let wrong = scrub(&volume).wrong;
    assert_eq!(wrong, [WrongBlock { at: sums, content: WrongContent::Metadata(BlockKind::Sums) }]);
    assert_eq!(findings(&volume, false), ["sums-checksum"]);
    assert_eq!(findings(&volume, true), ["sums-checksum"]);
    assert!(findings(&volume, false).is_empty());
    assert_eq!(volume.read_file("/dir/first").expect("read"), content(1, 100));
    volume.close().expect("close");
    let volume = open(&disk, Access::Write);
    let report = scrub(&volume);
    assert!(report.wrong.is_empty() && report.without >= 200, "{report:?}");
    // New data have checksums from now on.
    volume.write_file("/dir/first", content(3, 100)).expect("write");
    volume.close().expect("close");
    let report = scrub(&open(&disk, Access::Read));
    assert!(report.wrong.is_empty() && report.data >= 100, "{report:?}");
}

#[test]
fn a_flipped_bit_under_an_open_volume_is_found_once_the_block_has_left_memory() {
    let disk = Disk::new();
    let at = with_files(&disk);
    let options = OpenOptions { cache: Some(1 << 20), ..OpenOptions::from(Access::Write) };
    let volume = Volume::open_device(Box::new(disk.clone()), options).expect("open");
    assert_eq!(volume.read_file("/dir/first").expect("read"), content(1, 100));
    disk.flip(at);
    volume.write_file("/large", content(9, 2000)).expect("write");
    volume.sync().expect("sync");
    let large = volume.resolve("/large").expect("resolve").ino;
    // A block that an attempt used twice, because it missed the next one, gets more rounds than others. A
    // block leaves when others are missed again and again.
    let read = |first: u64| {
        let mut buffer = vec![0; 50 * BLOCK as usize];
        volume.read(&CALLER, large, first * BLOCK, &mut buffer).expect("read");
    };
    let mut rounds = (0..100).map(|_| {
        (0..2000 / 50).for_each(|piece| (0..2).for_each(|_| read(piece * 50)));
        volume.read_file("/dir/first")
    });
    let error = rounds.find_map(Result::err).expect("the block never leaves memory");
    assert!(matches!(error, Error::WrongData { .. }), "{error}");
    // A part of the wrong block cannot be written, the whole block can.
    let ino = volume.resolve("/dir/first").expect("resolve").ino;
    assert_eq!(
        volume.write(&CALLER, ino, 50 * BLOCK + 9, b"part").map_err(|e| e.code()),
        Err(Code::WrongData)
    );
    volume.write(&CALLER, ino, 50 * BLOCK, &content(1, 51)[50 * BLOCK as usize..]).expect("write");
    assert_eq!(volume.read_file("/dir/first").expect("read"), content(1, 100));
}

/// Any sequence of changes leaves right checksums.
#[test]
fn overwritten_appended_and_cut_files_match_their_checksums() {
    let disk = Disk::new();
    let volume = create(&disk, true);
    let mut expected = content(1, 300);
    let ino = volume.write_file("/f", &expected).expect("write").ino;
    let mut number = 1u64;
    for round in 0..200u64 {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (at, len) = ((number >> 33) as usize % expected.len(), (number >> 20) as usize % 20_000);
        match round % 10 {
            9 => {
                expected.truncate(at);
                let size = Some(at as u64);
                volume.setattr(&CALLER, ino, &SetAttr { size, ..SetAttr::default() }).expect("truncate");
                expected.resize(1_200_000, 0);
                let size = Some(expected.len() as u64);
                volume.setattr(&CALLER, ino, &SetAttr { size, ..SetAttr::default() }).expect("grow");
            }
            8 => {
                let end = (at + len).min(expected.len());
                if at < end {
                    expected[at..end].fill(0);
                    let len = (end - at) as u64;
                    volume.fallocate(&CALLER, ino, Allocate::ZeroRange, at as u64, len).expect("zero");
                }
            }
            _ => {
                let data = content(round as u8, 5)[..len].to_vec();
                let end = (at + len).min(expected.len());
                expected[at..end].copy_from_slice(&data[..end - at]);
                volume.write(&CALLER, ino, at as u64, &data[..end - at]).expect("write");
            }
        }
        if round % 3 == 0 {
            volume.fsync(ino, true).expect("fsync");
        }
        if round % 20 == 19 {
            let report = scrub(&volume);
            assert!(report.wrong.is_empty(), "round {round}: {report:?}");
        }
    }
    assert!(volume.read_file("/f").expect("read") == expected);
    volume.close().expect("close");
    let volume = open(&disk, Access::Write);
    assert!(volume.read_file("/f").expect("read") == expected);
    assert!(scrub(&volume).wrong.is_empty());
    assert!(findings(&volume, false).is_empty());
}

#[test]
fn a_committed_block_is_never_overwritten_in_place() {
    let disk = Disk::new();
    let volume = create(&disk, true);
    let ino = volume.write_file("/f", content(1, 100)).expect("write").ino;
    volume.sync().expect("sync");
    let before = position(&volume, ino, 5 * BLOCK);
    volume.write(&CALLER, ino, 5 * BLOCK + 100, b"new").expect("write");
    let after = position(&volume, ino, 5 * BLOCK);
    assert_ne!(before, after);
    // A block of this generation is.
    volume.write(&CALLER, ino, 5 * BLOCK + 200, b"newer").expect("write");
    assert_eq!(position(&volume, ino, 5 * BLOCK), after);
    volume.sync().expect("sync");
    assert_eq!(disk.block(before)[100..103], content(1, 100)[5 * BLOCK as usize + 100..][..3]);
    volume.write(&CALLER, ino, 5 * BLOCK + 300, b"newest").expect("write");
    assert_ne!(position(&volume, ino, 5 * BLOCK), after);
    let mut expected = content(1, 100);
    for (at, data) in [(100, &b"new"[..]), (200, b"newer"), (300, b"newest")] {
        expected[5 * BLOCK as usize + at..][..data.len()].copy_from_slice(data);
    }
    assert!(volume.read_file("/f").expect("read") == expected);
}

#[test]
fn a_file_without_checksums_is_overwritten_in_place() {
    let disk = Disk::new();
    let volume = create(&disk, true);
    let dir = volume.mkdir_all("/db", 0o755).expect("mkdir").ino;
    assert!(volume.has_data_checksums(dir).expect("flag"));
    volume.set_data_checksums(&CALLER, dir, false).expect("switch");
    volume.mkdir_all("/db/below", 0o755).expect("mkdir");
    // The block had a checksum before.
    volume.write_file("/old", content(7, 10)).expect("write");
    volume.sync().expect("sync");
    volume.unlink(&CALLER, volume.root(), b"old").expect("unlink");
    volume.sync().expect("sync");
    let ino = volume.write_file("/db/below/f", content(1, 10)).expect("write").ino;
    assert!(!volume.has_data_checksums(ino).expect("flag"));
    assert_eq!(volume.set_data_checksums(&CALLER, ino, true).map_err(|e| e.code()), Err(Code::Invalid));
    volume.sync().expect("sync");
    let at = position(&volume, ino, 0);
    volume.write(&CALLER, ino, 3, b"in place").expect("write");
    assert_eq!(position(&volume, ino, 0), at);
    volume.close().expect("close");
    let volume = open(&disk, Access::Write);
    volume.write(&CALLER, ino, 30, b"in place").expect("write");
    assert_eq!(position(&volume, ino, 0), at);
    volume.sync().expect("sync");
    let report = scrub(&volume);
    // The journal still has the block that was written last.
    assert!(report.wrong.is_empty() && report.without >= 9, "{report:?}");
    disk.flip(at + BLOCK);
    assert!(scrub(&volume).wrong.is_empty());
    assert!(findings(&volume, false).is_empty());
}

#[test]
fn a_volume_without_checksums_has_none() {
    let disk = Disk::new();
    let volume = create(&disk, false);
    assert!(!volume.superblock().has_data_checksums());
    let ino = volume.write_file("/f", content(1, 10)).expect("write").ino;
    volume.sync().expect("sync");
    let at = position(&volume, ino, 0);
    volume.write(&CALLER, ino, 3, b"in place").expect("write");
    assert_eq!(position(&volume, ino, 0), at);
    volume.close().expect("close");
    disk.flip(at + 100);
    let volume = open(&disk, Access::Read);
    assert!(volume.read_file("/f").is_ok());
    let report = scrub(&volume);
    assert!(report.wrong.is_empty() && report.data == 0 && report.without >= 10, "{report:?}");
    assert!(findings(&volume, false).is_empty());
}

#[test]
fn bytes_that_are_cut_off_are_zero_in_the_last_block() {
    for data_checksums in [true, false] {
        let disk = Disk::new();
        let volume = create(&disk, data_checksums);
        let ino = volume.write_file("/f", content(3, 2)).expect("write").ino;
        volume.close().expect("close");
        let volume = open(&disk, Access::Write);
        volume.setattr(&CALLER, ino, &SetAttr { size: Some(4106), ..SetAttr::default() }).expect("truncate");
        let at = position(&volume, ino, 4096);
        volume.close().expect("close");
        let block = disk.block(at);
        assert_eq!(block[..10], content(3, 2)[4096..4106]);
        assert!(block[10..].iter().all(|byte| *byte == 0), "checksums: {data_checksums}");
        assert!(scrub(&open(&disk, Access::Read)).wrong.is_empty());
    }
}

#[test]
fn a_full_volume_can_be_truncated_and_emptied() {
    let disk = Disk::new();
    let volume = create(&disk, true);
    let file = volume.create_file(&CALLER, volume.root(), b"f", 0o644).expect("create").ino;
    let data = content(5, 64);
    let mut size = 0;
    loop {
        match volume.write(&CALLER, file, size, &data[..]) {
            Ok(written) => size += written as u64,
            Err(error) if error.code() == Code::NoSpace => break,
            Err(error) => panic!("{error}"),
        }
    }
    volume.sync().expect("sync");
    let almost = Some(size - 123);
    volume
        .setattr(&CALLER, file, &SetAttr { size: almost, ..SetAttr::default() })
        .expect("no block to spare");
    let half = size / 2 + 123;
    volume.setattr(&CALLER, file, &SetAttr { size: Some(half), ..SetAttr::default() }).expect("truncate");
    volume.write(&CALLER, file, 1000, b"overwritten").expect("write");
    volume.sync().expect("sync");
    let mut tail = [1; 10];
    volume.setattr(&CALLER, file, &SetAttr { size: Some(half + 10), ..SetAttr::default() }).expect("grow");
    volume.read(&CALLER, file, half, &mut tail).expect("read");
    assert_eq!(tail, [0; 10], "what was cut off comes back");
    assert!(scrub(&volume).wrong.is_empty());
    assert!(findings(&volume, false).is_empty());
}

#[test]
fn groups_have_checksums_when_they_are_used_and_a_volume_that_grows_gets_them() {
    let disk = Disk::new();
    let volume = create(&disk, true);
    volume.grow(3 * GROUP + (1 << 20)).expect("grow");
    assert!(findings(&volume, false).is_empty());
    let is_set_up = |number: u64| disk.block(sums_chunk(number))[0] == BlockKind::ChunkHeader as u8;
    let data = content(3, 256);
    let ino = volume.create_file(&CALLER, volume.root(), b"f", 0o644).expect("create").ino;
    let mut size = 0;
    loop {
        match volume.write(&CALLER, ino, size, &data) {
            Ok(written) => size += written as u64,
            Err(error) if error.code() == Code::NoSpace => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(size > 3 * GROUP * 9 / 10, "only {size} bytes fit");
    volume.close().expect("close");
    assert!((0..3).all(is_set_up) && !is_set_up(3), "the last group is too short for its checksums");
    let volume = open(&disk, Access::Write);
    assert!(findings(&volume, false).is_empty());
    let report = scrub(&volume);
    assert!(report.wrong.is_empty() && report.data >= size / BLOCK, "{report:?}");
    volume.grow(4 * GROUP).expect("grow");
    volume.write_file("/g", content(4, 2000)).expect("write");
    volume.close().expect("close");
    assert!(is_set_up(3));
    let volume = open(&disk, Access::Read);
    assert!(findings(&volume, false).is_empty() && scrub(&volume).wrong.is_empty());
}
