//! Volumes that are larger than a process's address space.

use lanefs::format::superblock::Superblock;
use lanefs::format::{BLOCK, BlockKind, Checksummer, GROUP, MAX_VOLUME, SUPERBLOCK_COPY, group};
use lanefs::*;
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::collections::BTreeMap;
use std::io;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const TIB: u64 = 1 << 40;

/// Groups of the volume that is made, some TiB.
const GROUPS: u64 = 8192;

/// Group in which the table of a larger volume begins.
const TABLE: u64 = 9000;

/// A group table that is computed: of a volume that mkfs would take hours to make. Groups that the first
/// volume has are those of its table.
#[derive(Clone)]
struct Table {
    sums: Checksummer,
    count: u64,
    /// Position of the first volume's table.
    old: u64,
    /// Groups below this one have no free block, but the first one, which has the first files.
    full: u64,
    /// Calls that have read of the table, and blocks that they have read.
    reads: Arc<[AtomicU64; 2]>,
}

impl Table {
    fn covers(&self, at: u64) -> bool {
        (TABLE * GROUP..TABLE * GROUP + self.count * BLOCK).contains(&at)
    }

    /// Returns the block at `at`. `stored` are those of the first volume.
    fn block(&self, at: u64, stored: &BTreeMap<u64, Vec<u8>>) -> Vec<u8> {
        let number = (at - TABLE * GROUP) / BLOCK;
        let known = number.min(GROUPS - 1);
        let mut block =
            stored.get(&(self.old + known * BLOCK)).cloned().expect("a group of the first volume");
        let end = TABLE + (self.count * BLOCK).div_ceil(GROUP);
        let is_full = (1..self.full).contains(&number);
        if (TABLE..end).contains(&number) || number + 1 == self.count || is_full {
            (0..group::BITMAP.len).for_each(|i| group::BITMAP.index(i).write(&mut block, u64::MAX));
            group::FREE.write(&mut block, 0);
        }
        group::OWNER.write(&mut block, number);
        let _ = self.sums.seal(BlockKind::Group, at, &mut block, 0);
        block
    }
}

/// A device that keeps the blocks that were written. Clones are the same device.
#[derive(Clone)]
struct Sparse {
    bytes: Arc<AtomicU64>,
    blocks: Arc<Mutex<BTreeMap<u64, Vec<u8>>>>,
    table: Option<Table>,
    /// Writes, and blocks of the largest one.
    writes: Arc<[AtomicU64; 2]>,
}

impl Sparse {
    fn new(bytes: u64) -> Self {
        Sparse { bytes: Arc::new(bytes.into()), blocks: Arc::default(), table: None, writes: Arc::default() }
    }

    /// Returns a device with the content of a small volume, as part of one of `bytes` bytes.
    fn enlarged(&self, bytes: u64) -> Self {
        self.enlarged_and_full(bytes, 0)
    }

    /// Returns it so, with full groups below group `full`.
    fn enlarged_and_full(&self, bytes: u64, full: u64) -> Self {
        let blocks = self.blocks.lock().clone();
        let mut superblock = Superblock::decode(&blocks[&0]).expect("a superblock");
        let (old, count) = (superblock.groups, bytes.div_ceil(GROUP));
        (superblock.volume_bytes, superblock.group_count) = (bytes, count);
        // The last group is full in any case.
        if full + 1 >= count {
            superblock.free_blocks = group::FREE.read(&blocks[&superblock.groups]).expect("the first group");
        }
        superblock.groups = TABLE * GROUP;
        let table = Table { sums: superblock.sums(), count, old, full, reads: Arc::default() };
        let device = Sparse { blocks: Arc::new(blocks.into()), table: Some(table), ..Sparse::new(bytes) };
        let block = superblock.encode();
        for at in [0, SUPERBLOCK_COPY] {
            device.blocks.lock().insert(at, block.to_vec());
        }
        device
    }
}

impl Device for Sparse {
    fn len(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    fn read_at(&self, at: u64, mut buffer: IoBufMut<'_>) -> io::Result<()> {
        let stored = self.blocks.lock();
        let mut bytes = Vec::with_capacity(buffer.len());
        if let Some(table) = self.table.as_ref().filter(|table| table.covers(at)) {
            table.reads[0].fetch_add(1, Relaxed);
            table.reads[1].fetch_add(buffer.len() as u64 / BLOCK, Relaxed);
        }
        for at in (at..at + buffer.len() as u64).step_by(BLOCK as usize) {
            let computed = || match &self.table {
                Some(table) if table.covers(at) => table.block(at, &stored),
                _ => vec![0; BLOCK as usize],
            };
            bytes.extend(stored.get(&at).cloned().unwrap_or_else(computed));
        }
        bytes.truncate(buffer.len());
        buffer.copy_from(&bytes);
        Ok(())
    }

    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        self.writes[0].fetch_add(1, Relaxed);
        self.writes[1].fetch_max(data.len() as u64 / BLOCK, Relaxed);
        let mut bytes = vec![0; data.len()];
        data.copy_to(&mut bytes);
        let positions = (at..).step_by(BLOCK as usize);
        self.blocks.lock().extend(positions.zip(bytes.chunks(BLOCK as usize).map(<[u8]>::to_vec)));
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn resize(&self, len: u64) -> io::Result<()> {
        self.bytes.store(len, Relaxed);
        self.blocks.lock().split_off(&len);
        Ok(())
    }
}

fn open(device: &Sparse, access: Access) -> Result<Volume> {
    let options = OpenOptions { cache: Some(64 << 20), access, ..OpenOptions::default() };
    Volume::open_device(Box::new(device.clone()), options)
}

fn make(bytes: u64) -> Sparse {
    let device = Sparse::new(bytes);
    let options = CreateOptions { size: bytes, ..CreateOptions::default() };
    let volume = Volume::create_device(Box::new(device.clone()), &options).expect("create");
    volume.write_file("/first", b"of the first volume").expect("write");
    volume.close().expect("close");
    device
}

fn content(file: usize) -> Vec<u8> {
    (0..[10, 10_000, 3 << 20][file % 3]).map(|i| (i * 7 + file) as u8).collect()
}

const FILES: usize = 30;

fn path(file: usize) -> String {
    format!("/d{}/file-{file}", file % 4)
}

/// Makes files.
fn fill(device: &Sparse) {
    let volume = open(device, Access::Write).expect("open");
    (0..4).for_each(|i| volume.mkdir_all(format!("/d{i}"), 0o755).map(drop).expect("mkdir"));
    (0..FILES).for_each(|file| volume.write_file(path(file), content(file)).map(drop).expect("write"));
    volume.close().expect("close");
}

/// Makes and changes a file, and finds the bytes of all after the volume was closed.
fn change_and_read(device: &Sparse) {
    let volume = open(device, Access::Write).expect("open");
    let changed: Vec<u8> = content(2).iter().map(|byte| !byte).collect();
    let ino = volume.resolve(path(2)).expect("a file").ino;
    volume.write(&Caller::OWNER, ino, 0, &changed).expect("write");
    volume.write_file("/made", b"in a huge volume").expect("make");
    volume.close().expect("close");
    let volume = open(device, Access::Read).expect("open again");
    assert_eq!(volume.read_file("/made").expect("read"), b"in a huge volume");
    assert_eq!(volume.read_file("/first").expect("read"), b"of the first volume");
    let paths: PathSet = (0..FILES).map(path).collect();
    let views = volume.view_files(&ReadFiles::default(), &paths).expect("views");
    for file in 0..FILES {
        let expected = if file == 2 { changed.clone() } else { content(file) };
        assert!(volume.read_file(path(file)).expect("read") == expected, "{}", path(file));
        assert!(views.get(file) == Some(Ok(&expected)), "{} in place", path(file));
    }
}

#[test]
fn a_volume_of_a_tib_is_made_used_and_checked() {
    let device = make(GROUPS * GROUP);
    fill(&device);
    change_and_read(&device);
    let volume = open(&device, Access::Read).expect("open");
    let report = volume.check(false, &|_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn volumes_larger_than_address_space_are_used_up_to_the_limit_of_the_format() {
    let small = make(GROUPS * GROUP);
    fill(&small);
    for bytes in [130 * TIB, 1024 * TIB, MAX_VOLUME] {
        change_and_read(&small.enlarged(bytes));
    }
}

/// Opens a volume of `bytes` bytes whose groups below `full` are full, and works on it. Returns how many
/// blocks of the group table that read.
fn blocks_read_by_work(small: &Sparse, bytes: u64, full: u64) -> u64 {
    let device = small.enlarged_and_full(bytes, full);
    let volume = open(&device, Access::Write).expect("open");
    volume.write_file("/d0/one", b"the first change").expect("make");
    for number in 0..2000 {
        volume.write_file(format!("/d1/{number}"), content(number)).expect("make");
    }
    volume.mkdir_all("/d3/e/f", 0o755).expect("make");
    volume.sync().expect("sync");
    volume.write_file("/d2/large", vec![7; 40 << 20]).expect("make");
    volume.remove_all("/d1").expect("remove");
    assert!(volume.statfs().is_ok());
    volume.close().expect("close");
    device.table.expect("a table").reads[1].load(Relaxed)
}

#[test]
fn work_on_a_volume_does_not_visit_its_groups() {
    let small = make(GROUPS * GROUP);
    fill(&small);
    for bytes in [TIB * 2, 16 * TIB, 1024 * TIB] {
        let read = blocks_read_by_work(&small, bytes, 0);
        assert!(read < 100, "{read} blocks of {} TiB", bytes / TIB);
        // Half of the volume is full: its end is found.
        let read = blocks_read_by_work(&small, bytes, bytes / GROUP / 2);
        assert!(read < 1200, "{read} blocks of {} TiB, half full", bytes / TIB);
    }
}

#[test]
fn the_last_free_blocks_of_a_volume_are_found_by_a_walk_that_reads_ahead() {
    let small = make(GROUPS * GROUP);
    fill(&small);
    let groups = 2 * TIB / GROUP;
    // All but the last two groups.
    let device = small.enlarged_and_full(2 * TIB, groups - 2);
    let volume = open(&device, Access::Write).expect("open");
    volume.write_file("/d2/large", vec![7; 200 << 20]).expect("make");
    let full = volume.write_file("/d2/larger", vec![7; 200 << 20]).expect_err("no space");
    assert_eq!(full.code(), Code::NoSpace);
    volume.write_file("/d2/small", vec![7; 9000]).expect("make");
    volume.close().expect("close");
    let table = device.table.expect("a table");
    let [calls, blocks] = [0, 1].map(|i| table.reads[i].load(Relaxed));
    assert!(calls < groups / 8 && blocks < 12 * groups, "{calls} reads of {blocks} blocks, {groups} groups");
}

/// Takes all free blocks.
fn take_all(volume: &Volume) {
    let file = volume.write_file("/all", b"").expect("make").ino;
    let (mut at, mut piece) = (0, 1 << 20);
    while piece >= BLOCK {
        match volume.write(&Caller::OWNER, file, at, &vec![3; piece as usize]) {
            Ok(done) => at += done as u64,
            Err(error) if error.code() == Code::NoSpace => piece /= 2,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Makes empty files until there is no room for inodes. Returns their number.
fn take_inodes(volume: &Volume, dir: &str) -> usize {
    volume.write_file(format!("{dir}/0"), b"").expect("the first file");
    let refused = (1..).find(|i| volume.write_file(format!("{dir}/{i}"), b"").is_err());
    refused.expect("a full volume")
}

#[test]
fn a_full_volume_refuses_changes_without_a_walk() {
    let small = make(GROUPS * GROUP);
    fill(&small);
    let groups = 2 * TIB / GROUP;
    let device = small.enlarged_and_full(2 * TIB, groups);
    let volume = open(&device, Access::Write).expect("open");
    let read = || device.table.as_ref().expect("a table").reads[1].load(Relaxed);
    let file = volume.resolve(path(1)).expect("a file").ino;
    let refused = |what: &str, done: Result<()>| {
        let error = done.expect_err(what);
        assert_eq!(error.code(), Code::NoSpace, "{what}: {error}");
    };
    let refuses_all = || {
        refused("a write", volume.write(&Caller::OWNER, file, 1 << 30, &[7; 9000]).map(drop));
        refused("a large write", volume.write(&Caller::OWNER, file, 1 << 30, &[7; 3 << 20]).map(drop));
        refused("a file", volume.write_file("/d2/more", content(1)).map(drop));
    };
    take_all(&volume);
    let made = take_inodes(&volume, "/d0");
    let first = read();
    refuses_all();
    let second = read();
    (0..20).for_each(|_| refuses_all());
    // Some were evicted since. A walk reads all groups.
    assert!(read() - second < groups / 8, "{} blocks of the table; {first}, {second}", read() - second);
    // Free space is found, also where a change that needed more was refused in between.
    volume.remove_file(format!("/d0/{}", made - 1)).expect("remove");
    volume.write_file("/d0/again", b"").expect("the inode");
    volume.remove_file(path(5)).expect("remove");
    refused("more than that", volume.write(&Caller::OWNER, file, 1 << 30, &[7; 8 << 20]).map(drop));
    volume.write(&Caller::OWNER, file, 1 << 30, &[7; 2 << 20]).expect("write");
    take_all(&volume);
    let before = read();
    (0..20).for_each(|_| refuses_all());
    assert!(read() - before < 6 * groups, "{} blocks of the table", read() - before);
    volume.close().expect("close");
}

/// Opens a copy of the device as a crash now leaves it. Returns its counts of free blocks and inodes, and how
/// many blocks of the group table that read.
fn recover(device: &Sparse) -> ((u64, u64), u64) {
    let mut crashed = device.clone();
    crashed.blocks = Arc::new(Mutex::new(device.blocks.lock().clone()));
    let table = crashed.table.as_mut().expect("a table");
    table.reads = Arc::default();
    let volume = open(&crashed, Access::Write).expect("open");
    let read = crashed.table.as_ref().expect("a table").reads[1].load(Relaxed);
    (counts(&volume), read)
}

fn counts(volume: &Volume) -> (u64, u64) {
    (volume.superblock().free_blocks, volume.superblock().inodes)
}

#[test]
fn an_open_after_a_crash_does_not_visit_the_groups() {
    let small = make(GROUPS * GROUP);
    fill(&small);
    let device = small.enlarged(16 * TIB);
    let volume = open(&device, Access::Write).expect("open");
    let first = counts(&volume);
    let recovered = |expected: (u64, u64), when: &str| {
        let (found, read) = recover(&device);
        assert_eq!(found, expected, "{when}");
        assert!(read < 100, "{read} blocks {when}");
    };
    volume.write_file("/one", content(1)).expect("make");
    recovered(first, "before the first commit");
    volume.sync().expect("sync");
    let with_one = counts(&volume);
    assert_ne!(with_one, first);
    recovered(with_one, "after a commit");
    for number in 0..3000 {
        volume.write_file(format!("/d1/{number}"), content(number % 2)).expect("make");
    }
    volume.remove_all("/d2").expect("remove");
    volume.sync().expect("sync");
    recovered(counts(&volume), "after many commits");
    for number in 0..60_000 {
        volume.write_file(format!("/d3/{number}"), b"").expect("make");
    }
    volume.sync().expect("sync");
    recovered(counts(&volume), "after checkpoints");
    volume.close().expect("close");
}

/// Opens a volume with room to grow.
fn open_to_grow(device: &Sparse, growth: u64) -> Volume {
    let options = OpenOptions { growth: Some(growth), cache: Some(64 << 20), ..Access::Write.into() };
    Volume::open_device(Box::new(device.clone()), options).expect("open")
}

fn is_sound(device: &Sparse) {
    let volume = open(device, Access::Read).expect("open");
    let report = volume.check(false, &|_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!(volume.read_file("/first").expect("read"), b"of the first volume");
}

/// Blocks (16 MiB) of which growing may have this many in memory, or write at once.
const FEW: u64 = 4096;

/// Grows the volume to `groups` groups. No part of the growth takes memory for all groups.
fn grows_in_pieces(device: &Sparse, groups: u64) {
    let volume = open_to_grow(device, groups * GROUP);
    device.writes.iter().for_each(|count| count.store(0, Relaxed));
    let before = volume.stats();
    volume.grow(groups * GROUP).expect("grow");
    let (now, largest) = (volume.stats(), device.writes[1].load(Relaxed));
    assert!(now.blocks_resident < FEW, "{} blocks are resident", now.blocks_resident);
    assert!(now.blocks_fetched - before.blocks_fetched < FEW, "{now:?}");
    assert!(largest < FEW, "{largest} blocks in one write");
    assert_eq!(volume.superblock().group_count, groups);
    volume.write_file("/after", b"it grew").expect("write");
    volume.close().expect("close");
    is_sound(device);
}

#[test]
fn a_volume_grows_in_pieces_that_do_not_depend_on_its_size() {
    let device = make(8 * GROUP);
    grows_in_pieces(&device, 3 * GROUPS);
    // The new table has more blocks than the new space.
    grows_in_pieces(&device, 3 * GROUPS + 1);
}

#[test]
fn a_group_that_had_the_old_table_keeps_its_journal() {
    let device = make(32_300 * GROUP);
    // The group table covers the first chunk of the group in which the journal lies.
    let superblock = Superblock::decode(&device.blocks.lock()[&0]).expect("a superblock");
    let table = superblock.groups..superblock.groups + superblock.group_count * BLOCK;
    assert!(table.contains(&(superblock.journal / GROUP * GROUP)), "{superblock:?}");
    grows_in_pieces(&device, 32_400);
}

#[test]
fn growth_that_is_interrupted_leaves_the_volume_as_it_was() {
    let device = make(8 * GROUP);
    let volume = open_to_grow(&device, GROUPS * GROUP);
    let writes = Arc::clone(&device.writes);
    let stop_at = Arc::new(AtomicU64::new(u64::MAX));
    let limit = Arc::clone(&stop_at);
    volume.interrupt_waits_by(move || writes[0].load(Relaxed) >= limit.load(Relaxed));
    volume.write_file("/before", b"it grew").expect("write");
    volume.sync().expect("sync");
    let (space, superblock) = (volume.statfs().expect("statfs"), volume.superblock());
    for pieces in [0, 3, 20] {
        stop_at.store(device.writes[0].load(Relaxed) + pieces, Relaxed);
        let stopped = volume.grow(GROUPS * GROUP).expect_err("interrupted");
        assert!(
            matches!(&stopped, Error::Io { source, .. } if source.raw_os_error() == Some(4)),
            "{stopped}"
        );
        stop_at.store(u64::MAX, Relaxed);
        assert_eq!(device.len(), 8 * GROUP);
        assert_eq!(volume.statfs().expect("statfs"), space);
        let now = volume.superblock();
        assert_eq!((now.groups, now.group_count), (superblock.groups, superblock.group_count));
        volume.write_file(format!("/{pieces}"), content(2)).expect("write");
        volume.remove_file(format!("/{pieces}")).expect("remove");
        volume.sync().expect("sync");
    }
    volume.close().expect("close");
    is_sound(&device);
    grows_in_pieces(&device, GROUPS);
}

/// Says that this process is the child of a test.
const LIMITED: &str = "LANEFS_HUGE_LIMITED";

#[test]
fn a_volume_larger_than_the_limit_of_the_process_is_used() {
    const NAME: &str = "volume::huge::a_volume_larger_than_the_limit_of_the_process_is_used";
    if std::env::var_os(LIMITED).is_none() {
        let program = std::env::current_exe().expect("this program");
        let child =
            Command::new(program).args(["--exact", NAME]).env(LIMITED, "1").output().expect("a child");
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
        return;
    }
    let small = make(GROUPS * GROUP);
    let limit = Some(2 << 30);
    setrlimit(Resource::As, Rlimit { current: limit, maximum: limit }).expect("a lower limit");
    // 64 GiB, 32 times the limit.
    let device = make(512 * GROUP);
    fill(&device);
    change_and_read(&device);
    let volume = open(&device, Access::Write).expect("open");
    assert!(volume.check(false, &|_, _| {}).expect("check").findings.is_empty());
    drop(volume);
    let refused = open(&small.enlarged(MAX_VOLUME), Access::Read).expect_err("too little address space");
    let why = format!("{refused}");
    assert!(why.contains("ulimit -v") && why.contains(&MAX_VOLUME.to_string()), "{why}");
}
