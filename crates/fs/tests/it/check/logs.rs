//! Journals that claim much: the memory and the reads of an open have a bound.

use crate::check::image::Overlay;
use crate::check::log_writer::{Log, NAMES, leave_open};
use lanefs::format::superblock::Superblock;
use lanefs::format::{
    BLOCK, JOURNAL_DESCRIPTOR, JOURNAL_REVOCATION, MAX_JOURNAL, SUPERBLOCK_COPY, journal_header as h,
};
use lanefs::*;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes that the child may use for its cache.
const CACHE: u64 = 8 << 20;
/// Bytes of memory that the child may use for all: its program, its threads, and the cache.
const MOST: u64 = 48 << 20;

/// A volume of 8 GiB, sparse, whose journal is the largest that mkfs makes.
fn large(image: &Path) -> Superblock {
    let options = CreateOptions { size: 8 << 30, ..CreateOptions::default() };
    let volume = Volume::create(image, &options).expect("create");
    let superblock = volume.superblock();
    volume.close().expect("close");
    assert!(superblock.journal_blocks > 30_000 && superblock.journal_blocks <= MAX_JOURNAL);
    superblock
}

/// Started by the tests below in a process of its own, which opens the volume and says how much memory it has
/// needed at most.
#[test]
#[ignore = "the child that the tests of large logs start"]
fn opens_a_volume_with_a_log() {
    let Some(image) = std::env::var_os("LANEFS_TEST_IMAGE") else { return };
    let writes = std::env::var_os("LANEFS_TEST_WRITES").is_some();
    let access = if writes { Access::Write } else { Access::Read };
    let options = OpenOptions { cache: Some(CACHE), ..OpenOptions::from(access) };
    let volume = Volume::open(image, options).expect("open");
    assert!(volume.superblock().clean || volume.journal_damage().is_none());
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the most memory");
    println!("\nmost: {}", most.trim().trim_end_matches(" kB"));
}

/// Opens a volume in a process of its own, and returns the most bytes of memory that this had.
fn memory_to_open(image: &Path, access: Access) -> u64 {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--ignored", "--exact", "--nocapture", "check::logs::opens_a_volume_with_a_log"]);
    if access == Access::Write {
        child.env("LANEFS_TEST_WRITES", "1");
    }
    let output = child.env("LANEFS_TEST_IMAGE", image).output().expect("a process");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let most = text.lines().find_map(|line| line.strip_prefix("most: ")).expect("the child's answer");
    most.parse::<u64>().expect("a number") << 10
}

#[test]
fn a_log_of_copies_is_replayed_in_little_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("volume.lane");
    let superblock = large(&image);
    let file = File::options().read(true).write(true).open(&image).expect("open");
    let mut log = Log::new(&file, &superblock);
    let fits = log.room / (NAMES + 1);
    for n in 0..fits {
        log.name(JOURNAL_DESCRIPTOR, (1 << 30) + n * NAMES * BLOCK);
        log.holes();
    }
    log.end();
    // The replay is seen where something else was before.
    let last = (1 << 30) + (fits * NAMES - 1) * BLOCK;
    file.write_all_at(b"old", last).expect("write");
    leave_open(&file, &superblock);
    // A reader replays it in memory, and needs no more of it.
    let most = memory_to_open(&image, Access::Read);
    assert!(most <= MOST, "{} MiB to read", most >> 20);
    let mut now = [1; 3];
    file.read_exact_at(&mut now, last).expect("read");
    assert_eq!(&now, b"old", "a reader wrote");
    let most = memory_to_open(&image, Access::Write);
    file.read_exact_at(&mut now, last).expect("read");
    assert_eq!(now, [0; 3], "the log was replayed");
    assert!(most <= MOST, "{} MiB", most >> 20);
}

#[test]
fn a_log_of_revocations_is_read_in_little_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("volume.lane");
    let superblock = large(&image);
    let file = File::options().read(true).write(true).open(&image).expect("open");
    let mut log = Log::new(&file, &superblock);
    for _ in 0..log.room {
        log.name(JOURNAL_REVOCATION, 1 << 30);
    }
    let sequence = log.sequence;
    log.end();
    leave_open(&file, &superblock);
    let most = memory_to_open(&image, Access::Write);
    let mut header = [0; BLOCK as usize];
    file.read_exact_at(&mut header, superblock.journal).expect("read");
    assert!(h::SEQUENCE.read(&header) > Some(sequence), "the commit was a whole one");
    assert!(most <= MOST, "{} MiB", most >> 20);
}

/// Opens a volume whose superblock claims a journal of `blocks` blocks.
fn with_journal(blocks: u64, clean: bool, access: Access) -> Result<Volume> {
    let device = Overlay::new(&Arc::new(vec![0; 256 << 20]));
    let options = CreateOptions { size: 256 << 20, ..CreateOptions::default() };
    let volume = Volume::create_device(Box::new(device.clone()), &options).expect("create");
    volume.write_file("/file", vec![7; 9000]).expect("write");
    let superblock = volume.superblock();
    volume.close().expect("close");
    let sequence = superblock.sequence + 9;
    let superblock = Superblock { journal_blocks: blocks, clean, sequence, ..superblock };
    for at in [0, SUPERBLOCK_COPY] {
        device.write_slice(at, &superblock.encode()).expect("write");
    }
    Volume::open_device(Box::new(device), access)
}

#[test]
fn a_journal_larger_than_any_can_be_is_damage() {
    for clean in [true, false] {
        let error = with_journal(MAX_JOURNAL + 1, clean, Access::Write).expect_err("refused");
        assert!(error.to_string().contains("larger than any can be"), "{error}");
        let volume = with_journal(MAX_JOURNAL + 1, clean, Access::Read).expect("open");
        assert_eq!(volume.journal_damage().is_some(), !clean);
        assert_eq!(volume.read_file("/file").expect("read"), vec![7; 9000]);
        let volume = with_journal(MAX_JOURNAL + 1, clean, Access::Repair).expect("open");
        let report = volume.check(true, &|_, _| {}).expect("check");
        assert!(report.findings.iter().any(|finding| finding.invariant == "journal" && finding.repaired));
        assert!(volume.superblock().journal_blocks <= MAX_JOURNAL);
    }
}

/// A device such as that of a publication, which counts reads.
struct Published(Overlay, Arc<AtomicU64>);

impl Device for Published {
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn is_for_closed_volumes(&self) -> bool {
        true
    }
    fn read_at(&self, at: u64, buffer: IoBufMut<'_>) -> io::Result<()> {
        self.1.fetch_add(buffer.len() as u64, Relaxed);
        self.0.read_at(at, buffer)
    }
    fn write_at(&self, _at: u64, _data: IoBuf<'_>) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
    fn discard(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
    fn resize(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

#[test]
fn a_place_for_closed_volumes_takes_no_other() {
    let device = Overlay::new(&Arc::new(vec![0; 64 << 20]));
    let options = CreateOptions { size: 64 << 20, ..CreateOptions::default() };
    let volume = Volume::create_device(Box::new(device.clone()), &options).expect("create");
    volume.write_file("/file", b"in the log").expect("write");
    volume.sync().expect("sync");
    let crashed = device.copy();
    volume.close().expect("close");
    let read = Arc::new(AtomicU64::new(0));
    let open = |device| Volume::open_device(Box::new(Published(device, read.clone())), Access::Read);
    let error = open(crashed).expect_err("refused").to_string();
    assert!(error.contains("not closed cleanly"), "{error}");
    assert_eq!(read.load(Relaxed), 2 * BLOCK, "the superblocks, and no block of the log");
    assert_eq!(open(device).expect("open").read_file("/file").expect("read"), b"in the log");
}
