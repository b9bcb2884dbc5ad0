//! Checksums of file data that the log implies.

use super::medium::{Random, Recorder, block};
use crate::device::Device;
use crate::journal::{AlignedBuffer, Commit, Copies, Image, Implied, Journal, Pending};
use crate::vocabulary::fault::Fault;
use lanefs_format::{
    BLOCK, BlockKind, Checksummer, JOURNAL_HEADERS, JOURNAL_SUMMED, SumPlace, journal_descriptor as d,
    sums as s,
};
use std::collections::BTreeMap;

/// Byte position of the journal, and its blocks.
const AT: u64 = 2 * BLOCK;
const BLOCKS: u64 = 64;
/// Length of the volume in blocks: more than two blocks of checksums serve.
const VOLUME: u64 = 2200;

fn checksummer() -> Checksummer {
    Checksummer::new(3)
}

/// The positions of file data of the tests: around the border between two blocks of checksums.
fn data(n: u64) -> u64 {
    (2010 + n) * BLOCK
}

/// The position of the block with the checksum of some data.
fn sums_of(at: u64) -> u64 {
    SumPlace::of(at).at
}

type Blocks = BTreeMap<u64, [u8; 4096]>;

/// A block of checksums without any.
fn empty_sums(at: u64) -> [u8; 4096] {
    let mut bytes = [0; 4096];
    s::KIND.write(&mut bytes, BlockKind::Sums as u8);
    s::NUMBER.write(&mut bytes, (at - sums_of(0)) / BLOCK);
    checksummer().seal(BlockKind::Sums, at, &mut bytes, 0);
    bytes
}

/// Stores the checksum of a block of data.
fn set_sum(blocks: &mut Blocks, at: u64, sum: u32) {
    let place = SumPlace::of(at);
    let bytes = blocks.entry(place.at).or_insert_with(|| empty_sums(place.at));
    place.field.write(bytes, sum);
    checksummer().seal(BlockKind::Sums, place.at, bytes, 0);
}

fn copies(blocks: &Blocks) -> Copies {
    let mut images = AlignedBuffer::zeroed(blocks.len() * BLOCK as usize);
    for (bytes, image) in blocks.values().zip(images.chunks_exact_mut(BLOCK as usize)) {
        image.copy_from_slice(bytes);
    }
    Copies::new(blocks.keys().copied().collect(), images)
}

/// A writer, whose device has nonsense in the home positions of the blocks of checksums: a checkpoint that
/// was cut may leave any sectors there.
struct Writer {
    device: Recorder,
    journal: Journal,
    pending: Pending,
    /// All blocks as of the last commit.
    now: Blocks,
}

impl Writer {
    fn new() -> Self {
        let device = Recorder::new(vec![0; (VOLUME * BLOCK) as usize]);
        let journal = Journal::format(&device, &checksummer(), AT, BLOCKS).expect("format");
        let writer = Writer { device, journal, pending: Pending::default(), now: Blocks::new() };
        writer.tear(&[sums_of(data(0)), sums_of(data(9))]);
        writer
    }

    fn tear(&self, positions: &[u64]) {
        let mut nonsense = AlignedBuffer::zeroed(BLOCK as usize);
        nonsense.fill(0xa5);
        positions.iter().for_each(|at| self.device.write_slice(*at, &nonsense).expect("memory"));
    }

    /// Appends a commit as a store does. Returns what it left out.
    fn commit(&mut self, changed: &Blocks) -> Implied {
        let copies = copies(changed);
        let implied = Implied::find(&checksummer(), &copies, &self.pending);
        let logged: Vec<(u64, &[u8])> =
            copies.iter().filter(|(at, _)| !implied.left_out.contains(at)).collect();
        let commit = Commit { blocks: &logged, summed: &implied.summed, revoked: &[], totals: None };
        assert!(self.journal.fits(copies.positions.len(), 0));
        self.journal.append(&self.device, &checksummer(), &commit).expect("append");
        for (index, at) in copies.positions.iter().enumerate() {
            let image = Image::of(&copies.images, index).expect("whole blocks");
            self.pending.add(self.journal.last(), *at, image);
        }
        self.now.extend(changed);
        implied
    }

    /// Writes all in place. Afterwards the home positions of the blocks of checksums are nonsense again.
    fn checkpoint(&mut self) {
        let last = self.journal.last();
        let batch = self.pending.batch(0, last, usize::MAX);
        batch.iter().for_each(|block| self.device.write_slice(block.position, &block.image).expect("memory"));
        let written: Vec<(u64, u64)> = batch.iter().map(|block| (block.position, block.sequence)).collect();
        self.pending.done(&written);
        self.journal.advance(&self.device, &checksummer(), last).expect("advance");
    }

    /// Cuts the power, recovers, and compares all blocks.
    fn check(&self) -> Result<(), Fault> {
        let copy = Recorder::new(self.device.bytes());
        Journal::open(&copy, &checksummer(), AT, BLOCKS, VOLUME * BLOCK)?;
        for (at, expected) in &self.now {
            let mut found = [0; 4096];
            copy.read_slice(*at, &mut found).expect("memory");
            assert!(found == *expected, "block {at:#x}");
        }
        Ok(())
    }
}

/// A commit that writes these data, with the blocks of their checksums.
fn written(now: &Blocks, cells: &[(u64, u64)]) -> Blocks {
    let mut changed = Blocks::new();
    for (n, tag) in cells {
        let at = data(*n);
        if let Some(bytes) = now.get(&sums_of(at)) {
            changed.entry(sums_of(at)).or_insert(*bytes);
        }
        let bytes = block(*tag);
        changed.insert(at, bytes);
        set_sum(&mut changed, at, checksummer().of_data(at, &bytes));
    }
    changed
}

#[test]
fn later_commits_do_without_the_block_of_checksums() {
    let mut writer = Writer::new();
    let first = writer.commit(&written(&writer.now, &[(0, 1)]));
    assert!(first.left_out.is_empty() && first.summed.is_empty(), "the log has no copy yet");
    for tag in 2..9 {
        let later = writer.commit(&written(&writer.now, &[(0, tag), (tag % 4, tag + 50)]));
        assert_eq!(later.left_out, [sums_of(data(0))]);
        assert!(later.summed.contains(&data(tag % 4)), "{tag}");
        writer.check().expect("a sound log");
    }
    writer.checkpoint();
    assert!(writer.commit(&written(&writer.now, &[(0, 99)])).left_out.is_empty(), "the log is empty again");
    writer.check().expect("a sound log");
}

#[test]
fn random_commits_leave_each_block_as_it_was_committed() {
    let mut random = Random(77);
    let mut writer = Writer::new();
    let (mut left_out, mut whole) = (0, 0);
    for step in 0..600 {
        let cells: Vec<(u64, u64)> =
            (0..1 + random.below(4)).map(|_| (random.below(12), 1 + random.below(1 << 40))).collect();
        let mut changed = written(&writer.now, &cells);
        let at = data(random.below(12));
        match random.below(6) {
            // Data that the journal does not have were written in place, or the file has no checksums.
            0 => {
                let sums = writer.now.get(&sums_of(at)).copied();
                changed.entry(sums_of(at)).or_insert_with(|| sums.unwrap_or(empty_sums(sums_of(at))));
                set_sum(&mut changed, at, random.below(2) as u32 * 77);
            }
            // A block of checksums is listed and did not change.
            1 => {
                if let Some(sums) = writer.now.get(&sums_of(at)) {
                    changed.entry(sums_of(at)).or_insert(*sums);
                }
            }
            _ => {}
        }
        if !writer.journal.fits(changed.len(), 0) || random.one_in(25) {
            writer.checkpoint();
            writer.tear(&[sums_of(data(0)), sums_of(data(9))]);
            writer.now.retain(|at, _| ![sums_of(data(0)), sums_of(data(9))].contains(at));
            changed = written(&writer.now, &cells);
        }
        let implied = writer.commit(&changed);
        left_out += implied.left_out.len();
        whole += usize::from(implied.left_out.is_empty());
        if step % 3 == 0 {
            writer.check().expect("a sound log");
        }
    }
    assert!(left_out > 200 && whole > 50, "{left_out} left out, {whole} whole");
}

#[test]
fn a_block_of_checksums_is_logged_where_the_copies_do_not_say_all() {
    let base = written(&Blocks::new(), &[(0, 1), (1, 2)]);
    let at = sums_of(data(0));
    let find = |change: &dyn Fn(&mut Blocks)| {
        let mut writer = Writer::new();
        writer.commit(&base);
        let mut changed = written(&writer.now, &[(0, 3)]);
        change(&mut changed);
        let implied = writer.commit(&changed);
        writer.check().expect("a sound log");
        implied.left_out == [at]
    };
    let seal = |bytes: &mut [u8; 4096]| checksummer().seal(BlockKind::Sums, at, bytes, 0);
    assert!(find(&|_| {}));
    assert!(!find(&|changed| set_sum(changed, data(1), 0)), "a checksum that is taken away");
    assert!(!find(&|changed| set_sum(changed, data(2), 5)), "data that are not in the commit");
    assert!(!find(&|changed| set_sum(changed, data(0), 5)), "a checksum that is not that of the copy");
    assert!(!find(&|changed| changed.retain(|of, _| *of != data(0))), "the data are not in the commit");
    for field in [s::OWNER, s::NUMBER] {
        assert!(!find(&|changed| {
            let bytes = changed.get_mut(&at).expect("it changed");
            field.write(bytes, 7);
            seal(bytes);
        }));
    }
}

#[test]
fn a_summed_copy_without_its_block_of_checksums_is_damage() {
    let mut writer = Writer::new();
    let bytes = block(1);
    let blocks = [(data(0), &bytes[..])];
    let commit = Commit { blocks: &blocks, summed: &[data(0)], revoked: &[], totals: None };
    writer.journal.append(&writer.device, &checksummer(), &commit).expect("append");
    let ring = AT + JOURNAL_HEADERS * BLOCK;
    let why = "a copy in the journal whose block of checksums the journal lacks";
    assert_eq!(writer.check(), Err(Fault::Damaged { at: ring + BLOCK, why }));

    // A commit that revokes the block takes it from the log, too.
    let mut writer = Writer::new();
    writer.commit(&written(&Blocks::new(), &[(0, 1)]));
    let revoked = Commit { blocks: &[], summed: &[], revoked: &[sums_of(data(0))], totals: None };
    writer.journal.append(&writer.device, &checksummer(), &revoked).expect("append");
    writer.journal.append(&writer.device, &checksummer(), &commit).expect("append");
    assert_eq!(writer.check(), Err(Fault::Damaged { at: ring + 7 * BLOCK, why }));
}

#[test]
fn a_revocation_and_other_flags_are_damage() {
    let why = "a journal that names a block outside the volume";
    for (revoked, flags) in [(true, JOURNAL_SUMMED), (false, 2), (false, JOURNAL_SUMMED | 8), (false, 2048)] {
        let mut writer = Writer::new();
        writer.commit(&written(&Blocks::new(), &[(0, 1)]));
        let bytes = block(2);
        let blocks = [(data(0), &bytes[..])];
        let commit = match revoked {
            true => Commit { blocks: &[], summed: &[], revoked: &[data(0) | flags], totals: None },
            false => Commit { blocks: &blocks, summed: &[], revoked: &[], totals: None },
        };
        writer.journal.append(&writer.device, &checksummer(), &commit).expect("append");
        let at = AT + (JOURNAL_HEADERS + 4) * BLOCK;
        if !revoked {
            forge(&writer.device, at, |block| d::POSITIONS.index(0).write(block, data(0) | flags));
        }
        assert_eq!(writer.check(), Err(Fault::Damaged { at, why }), "revoked {revoked}, flags {flags}");
    }
}

/// Changes a descriptor with one copy, which is followed by the record, and seals both again.
fn forge(device: &Recorder, at: u64, change: impl FnOnce(&mut [u8])) {
    let mut commit = AlignedBuffer::zeroed(3 * BLOCK as usize);
    device.read_slice(at, &mut commit).expect("memory");
    let (before, record) = commit.split_at_mut(2 * BLOCK as usize);
    change(&mut before[..BLOCK as usize]);
    checksummer().seal(BlockKind::Journal, at, &mut before[..BLOCK as usize], 0);
    lanefs_format::journal_commit::CONTENT.write(record, Checksummer::append(0, before));
    checksummer().seal(BlockKind::Journal, at + 2 * BLOCK, record, 0);
    device.write_slice(at, &commit).expect("memory");
}
