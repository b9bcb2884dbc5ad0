//! Damaged journals.

use crate::input::{Input, edit};
use lanefs::{Access, Caller, InodeSize, OpenOptions, Volume};
use lanefs_format::superblock::Superblock;
use lanefs_format::{BLOCK, BlockKind};
use lanefs_testkit::volume::options;
use std::sync::OnceLock;

/// Size of the volume: the smallest.
const BYTES: u64 = lanefs_format::MIN_VOLUME;
/// Blocks of the journal that edits reach: all commits are there.
const REACHED_BLOCKS: u64 = 64;

/// The bytes of a volume with some commits in its journal, taken while it is open.
fn unclosed() -> &'static (Vec<u8>, Superblock) {
    static IMAGE: OnceLock<(Vec<u8>, Superblock)> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("volume.lane");
        let volume = Volume::create(&path, &options(BYTES, InodeSize::B256)).expect("a volume");
        for number in 0..4 {
            volume.mkdir_all(format!("/d{number}"), 0o755).expect("a directory");
            volume.write_file(format!("/d{number}/f"), vec![number; 9000].as_slice()).expect("a file");
            volume.sync().expect("a commit");
        }
        volume.unlink(&Caller::OWNER, volume.resolve("/d0").expect("it is there").ino, b"f").expect("unlink");
        volume.sync().expect("a commit");
        let bytes = std::fs::read(&path).expect("the image");
        let superblock = Superblock::decode(&bytes).expect("a superblock");
        assert!(!superblock.clean && superblock.journal_blocks > 0, "the journal is in use");
        (bytes, superblock)
    })
}

/// Edits blocks of the journal, makes their own checksums good again or not, and opens the volume, for repair
/// where it cannot be opened for writing; then checks it.
pub fn journal(data: &[u8]) {
    let (image, superblock) = unclosed();
    let mut bytes = image.clone();
    let mut input = Input::new(data);
    let flags = input.u8();
    let sums = superblock.sums();
    while !input.is_empty() {
        let number = input.number(1) % superblock.journal_blocks.min(REACHED_BLOCKS);
        let at = superblock.journal + number * BLOCK;
        let block = &mut bytes[at as usize..][..BLOCK as usize];
        edit(&mut input, block);
        // Copies of other blocks have no checksum of their own in the journal.
        if flags & 1 == 1 && block[0] == BlockKind::Journal as u8 {
            sums.seal(BlockKind::Journal, at, block, 0);
        }
    }
    let open = |bytes: Vec<u8>, access: Access| {
        let device = Box::new(lanefs::MemoryDevice::new(bytes));
        Volume::open_device(device, OpenOptions { access, ..OpenOptions::default() })
    };
    let access = if flags & 2 == 2 { Access::Read } else { Access::Write };
    let volume = open(bytes.clone(), access).or_else(|_| open(bytes, Access::Repair));
    let Ok(volume) = volume else { return };
    let _ = volume.check(false, &|_, _| {});
    if volume.access() == Access::Read || volume.check(true, &|_, _| {}).is_err() {
        return;
    }
    let report = volume.check(false, &|_, _| {}).expect("a check after a repair");
    assert!(report.findings.is_empty(), "a repair does not last: {:?}", report.findings);
}
