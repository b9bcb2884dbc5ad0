//! Recovery: the commits in the log after a crash, and their replay.

use super::aligned::AlignedBuffer;
use super::commit::POSITIONS;
use super::header::Tail;
use super::ring::{Ring, SEQUENCE_END, identify, number};
use super::write_in_place;
use crate::fault::io_fault;
use crate::{Device, Fault};
use lanefs_format::{
    BLOCK, BlockKind, Checksummer, Field, JOURNAL_COMMIT, JOURNAL_DESCRIPTOR, JOURNAL_SUMMED,
    SUPERBLOCK_COPY, SumPlace, journal_commit as c, journal_descriptor as d,
};
use std::collections::BTreeMap;

/// Number of blocks of one read (1 MiB).
const PIECE: u64 = 256;

/// A reader of the log, whose blocks are numbered from the tail on. It keeps the blocks that it read, which
/// are no more than the journal.
struct LogReader<'a> {
    device: &'a dyn Device,
    ring: Ring,
    tail: u64,
    pieces: Vec<AlignedBuffer>,
    /// Blocks that could not be read. They matter only where they are needed: those behind the log's end do
    /// not.
    unreadable: BTreeMap<u64, Fault>,
}

impl LogReader<'_> {
    /// Returns block `n`, which is below the ring's length.
    ///
    /// # Errors
    /// [`Fault::Io`].
    fn block(&mut self, n: u64) -> Result<&[u8], Fault> {
        while self.pieces.len() as u64 <= n / PIECE {
            self.read_piece();
        }
        match self.unreadable.get(&n) {
            Some(fault) => Err(*fault),
            None => Ok(self.get(n)),
        }
    }

    /// Returns a block that was read already.
    fn get(&self, n: u64) -> &[u8] {
        let start = (n % PIECE * BLOCK) as usize;
        &self.pieces[(n / PIECE) as usize][start..start + BLOCK as usize]
    }

    /// Returns true when the first piece has a trace of the commit `sequence` or a later one. Only then the
    /// rest is read: a closed volume opens without a read of its whole journal. The whole piece is searched,
    /// because its first block may have rotted.
    ///
    /// # Errors
    /// [`Fault::Io`] for the first block.
    fn begins(&mut self, sums: &Checksummer, sequence: u64) -> Result<bool, Fault> {
        self.block(0)?;
        let blocks = self.pieces.iter().flat_map(|piece| piece.chunks_exact(BLOCK as usize));
        let mut known = (self.tail..).zip(blocks).filter_map(|(slot, block)| {
            identify(sums, self.ring.position(slot), block).filter(|(_, number)| *number < SEQUENCE_END)
        });
        Ok(known.any(|(_, number)| number >= sequence))
    }

    fn read_piece(&mut self) {
        let first = self.pieces.len() as u64 * PIECE;
        let blocks = PIECE.min(self.ring.len() - first);
        let mut piece = AlignedBuffer::zeroed((blocks * BLOCK) as usize);
        if self.ring.read(self.device, self.tail + first, &mut piece).is_err() {
            for (n, block) in (first..).zip(piece.chunks_exact_mut(BLOCK as usize)) {
                if let Err(fault) = self.ring.read(self.device, self.tail + n, block) {
                    self.unreadable.insert(n, fault);
                }
            }
        }
        self.pieces.push(piece);
    }
}

/// The complete commits of a log.
pub(super) struct ScanResult<'a> {
    log: LogReader<'a>,
    /// Number of their blocks, from the tail on.
    pub(super) blocks: u64,
    /// Number of the first commit that is incomplete or missing.
    pub(super) next: u64,
    /// The newest copy of each block that was not revoked: the position of the block, and the block of the
    /// log.
    copies: BTreeMap<u64, u64>,
    /// Checksums of file data that are newer than the newest copy of their block of checksums, by the
    /// position of that block and the offset in it.
    data_sums: BTreeMap<u64, BTreeMap<usize, u32>>,
}

/// The contents of one commit.
#[derive(Default)]
struct Contents {
    blocks: u64,
    copies: Vec<(u64, u64)>,
    /// Those of the copies that are summed.
    summed: Vec<(u64, u64)>,
    revoked: Vec<u64>,
}

/// Finds all complete commits from the tail on. Nothing is written.
///
/// # Errors
/// [`Fault::Io`]; [`Fault::Damaged`] for a block of the log that verifies but has impossible values, and for
/// a commit that does not verify although a later one was begun, which no crash leaves.
pub(super) fn scan<'a>(
    device: &'a dyn Device,
    sums: &Checksummer,
    ring: Ring,
    tail: Tail,
    volume_len: u64,
) -> Result<ScanResult<'a>, Fault> {
    let log = LogReader { device, ring, tail: tail.slot, pieces: Vec::new(), unreadable: BTreeMap::new() };
    let mut found = ScanResult {
        log,
        blocks: 0,
        next: tail.sequence,
        copies: BTreeMap::new(),
        data_sums: BTreeMap::new(),
    };
    if !found.log.begins(sums, tail.sequence)? {
        return Ok(found);
    }
    while let Some(contents) = read_commit(&mut found.log, sums, found.blocks, found.next, volume_len)? {
        found.apply(sums, &contents)?;
        debug_assert!(found.blocks <= ring.len(), "{} blocks of commits in the ring", found.blocks);
    }
    // A commit begins when the one before it is durable. So the first incomplete one is the last that was
    // begun.
    if highest(device, sums, ring).number > found.next {
        let at = ring.position(tail.slot + found.blocks);
        return Err(Fault::damaged(
            at,
            "a commit in the journal that does not verify, with a later one behind it",
        ));
    }
    Ok(found)
}

/// Reads the commit `sequence` at block `first` of the log; `None` where it is incomplete.
fn read_commit(
    log: &mut LogReader<'_>,
    sums: &Checksummer,
    first: u64,
    sequence: u64,
    volume_len: u64,
) -> Result<Option<Contents>, Fault> {
    let ring = log.ring;
    let (mut n, mut content, mut contents) = (first, 0, Contents::default());
    while n < ring.len() {
        let at = ring.position(log.tail + n);
        let block = log.block(n)?;
        let Some((role, number)) = identify(sums, at, block) else { return Ok(None) };
        if number != sequence {
            return Ok(None);
        }
        if role == JOURNAL_COMMIT {
            let whole = c::BLOCKS.read(block) == Some(n - first) && c::CONTENT.read(block) == Some(content);
            contents.blocks = n - first + 1;
            return Ok(whole.then_some(contents));
        }
        content = Checksummer::append(content, block);
        // The block verifies and has the expected number, so a writer made it as it is, and no crash explains
        // impossible values.
        let count = usize::from(d::COUNT.read(block).unwrap_or(0));
        let copies = if role == JOURNAL_DESCRIPTOR { count as u64 } else { 0 };
        if count == 0 || count > POSITIONS || n + copies + 1 >= ring.len() {
            return Err(Fault::damaged(at, "an impossible count in the journal"));
        }
        for i in 0..count {
            let word = d::POSITIONS.index(i).read(block).unwrap_or(0);
            let is_summed = role == JOURNAL_DESCRIPTOR && word & JOURNAL_SUMMED != 0;
            let to = if is_summed { word - JOURNAL_SUMMED } else { word };
            if !may_be_copied_to(ring, to, volume_len) {
                return Err(Fault::damaged(at, "a journal that names a block outside the volume"));
            }
            let copy = (to, n + 1 + i as u64);
            match role {
                JOURNAL_DESCRIPTOR => contents.copies.push(copy),
                _ => contents.revoked.push(to),
            }
            if is_summed {
                contents.summed.push(copy);
            }
        }
        for copy in n + 1..=n + copies {
            content = Checksummer::append(content, log.block(copy)?);
        }
        n += copies + 1;
    }
    Ok(None)
}

/// Returns true for a position to which commits write: not the superblock's copies, which are written apart,
/// and not the journal itself.
fn may_be_copied_to(ring: Ring, to: u64, volume_len: u64) -> bool {
    let inside = to.checked_add(BLOCK).is_some_and(|end| end <= volume_len);
    inside && to.is_multiple_of(BLOCK) && to != 0 && to != SUPERBLOCK_COPY && !ring.contains(to)
}

impl ScanResult<'_> {
    /// Adds a whole commit, which follows those so far.
    ///
    /// # Errors
    /// [`Fault::Damaged`] where the log has no copy of a block of checksums that the commit changes.
    fn apply(&mut self, sums: &Checksummer, contents: &Contents) -> Result<(), Fault> {
        for (at, n) in &contents.copies {
            self.copies.insert(*at, *n);
            self.data_sums.remove(at);
        }
        for (at, n) in &contents.summed {
            let place = SumPlace::of(*at);
            if !self.copies.contains_key(&place.at) {
                return Err(Fault::damaged(
                    self.log.ring.position(self.log.tail + n),
                    "a copy in the journal whose block of checksums the journal lacks",
                ));
            }
            let of_block = self.data_sums.entry(place.at).or_default();
            of_block.insert(place.field.offset, sums.of_data(*at, self.log.get(*n)));
        }
        // The scan meets the oldest commit first, so a revocation removes all copies so far: those of earlier
        // commits and of its own.
        for at in &contents.revoked {
            self.copies.remove(at);
            self.data_sums.remove(at);
        }
        self.blocks += contents.blocks;
        self.next += 1;
        Ok(())
    }

    /// Writes the newest copy of each block in place, and makes it durable. A second replay changes nothing.
    ///
    /// # Errors
    /// [`Fault::Io`].
    pub(super) fn replay(&self, sums: &Checksummer) -> Result<(), Fault> {
        let positions: Vec<u64> = self.copies.keys().copied().collect();
        write_in_place(self.log.device, &positions, |at, out| {
            if let Some(n) = self.copies.get(&at) {
                out.copy_from_slice(self.log.get(*n));
            }
            if let Some(data_sums) = self.data_sums.get(&at) {
                data_sums.iter().for_each(|(offset, sum)| Field::at(*offset).write(out, *sum));
                sums.seal(BlockKind::Sums, at, out, 0);
            }
        })?;
        let header = self.log.ring.header(0);
        self.log.device.flush().map_err(|e| io_fault(header, "flushing", &e))
    }
}

/// The result of a read of the whole ring.
pub(super) struct Highest {
    /// Highest commit number in any block that verifies, 0 where there is none.
    pub(super) number: u64,
    /// Blocks that cannot be read: first slot and number of blocks.
    pub(super) unreadable: Vec<(u64, u64)>,
}

/// Reads the whole ring, in pieces that are not kept.
pub(super) fn highest(device: &dyn Device, sums: &Checksummer, ring: Ring) -> Highest {
    let mut found = Highest { number: 0, unreadable: Vec::new() };
    let mut piece = AlignedBuffer::zeroed((PIECE.min(ring.len()) * BLOCK) as usize);
    for first in (0..ring.len()).step_by(PIECE as usize) {
        let blocks = PIECE.min(ring.len() - first);
        piece.reuse((blocks * BLOCK) as usize);
        if ring.read(device, first, &mut piece).is_err() {
            found.unreadable.push((first, blocks));
            continue;
        }
        for (slot, block) in (first..).zip(piece.chunks_exact(BLOCK as usize)) {
            // No commit has a number from the end on, so these cannot be mistaken.
            if let Some(number) = number(sums, ring.position(slot), block)
                && number < SEQUENCE_END
            {
                found.number = found.number.max(number);
            }
        }
    }
    found
}
