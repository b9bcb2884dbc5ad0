//! Recovery: the commits in the log after a crash, and their replay.

use super::aligned::AlignedBuffer;
use super::commit::POSITIONS;
use super::header::Tail;
use super::ring::{Ring, SEQUENCE_END, identify, number};
use super::write_in_place;
use crate::device::Device;
use crate::vocabulary::fault::{Fault, io_fault};
use crate::vocabulary::totals::Totals;
use lanefs_format::{
    BLOCK, BlockKind, Checksummer, Code, Field, JOURNAL_COMMIT, JOURNAL_DESCRIPTOR, JOURNAL_REVOCATION,
    JOURNAL_SUMMED, SUPERBLOCK_COPY, SumPlace, journal_commit as c, journal_descriptor as d,
};
use std::collections::BTreeMap;

/// Number of blocks of one read (1 MiB).
const PIECE_BLOCKS: u64 = 256;

const IMPOSSIBLE_COUNT: &str = "an impossible count in the journal";

/// The operation that fails where a replay cannot go on. The volume may have a part of the log then, and the
/// next open goes on.
const REPLAYING: &str = "replaying the journal to";

/// A reader of the log, whose blocks are numbered from the tail on. It has one piece in memory: a log may be
/// longer than the memory that a cache may take.
struct LogReader<'a> {
    device: &'a dyn Device,
    ring: Ring,
    tail: u64,
    piece: AlignedBuffer,
    /// Number of the piece in memory.
    number: Option<u64>,
    /// Blocks of the piece that could not be read. They matter only where they are needed: those after the
    /// log's end do not.
    unreadable: BTreeMap<u64, Fault>,
}

impl LogReader<'_> {
    /// Returns block `n`, which is below the ring's length.
    ///
    /// # Errors
    /// [`Fault::Io`].
    fn block(&mut self, n: u64) -> Result<&[u8], Fault> {
        if self.number != Some(n / PIECE_BLOCKS) {
            self.read_piece(n / PIECE_BLOCKS);
        }
        match self.unreadable.get(&n) {
            Some(fault) => Err(*fault),
            None => Ok(self.get(n)),
        }
    }

    /// Returns a block of the piece in memory.
    fn get(&self, n: u64) -> &[u8] {
        debug_assert_eq!(self.number, Some(n / PIECE_BLOCKS));
        let start = (n % PIECE_BLOCKS * BLOCK) as usize;
        &self.piece[start..start + BLOCK as usize]
    }

    /// Returns true when the first piece has a trace of the commit `sequence` or a later one. Only then the
    /// rest is read: a closed volume opens without a read of its whole journal. The whole piece is searched,
    /// because its first block may have rotted.
    ///
    /// # Errors
    /// [`Fault::Io`] for the first block.
    fn begins(&mut self, sums: &Checksummer, sequence: u64) -> Result<bool, Fault> {
        self.block(0)?;
        let blocks = self.piece.chunks_exact(BLOCK as usize);
        let mut known = (self.tail..).zip(blocks).filter_map(|(slot, block)| {
            identify(sums, self.ring.position(slot), block).filter(|(_, number)| *number < SEQUENCE_END)
        });
        Ok(known.any(|(_, number)| number >= sequence))
    }

    fn read_piece(&mut self, number: u64) {
        let first = number * PIECE_BLOCKS;
        let blocks = PIECE_BLOCKS.min(self.ring.len() - first);
        self.piece.reuse((blocks * BLOCK) as usize);
        self.unreadable.clear();
        if self.ring.read(self.device, self.tail + first, &mut self.piece).is_err() {
            for (n, block) in (first..).zip(self.piece.chunks_exact_mut(BLOCK as usize)) {
                if let Err(fault) = self.ring.read(self.device, self.tail + n, block) {
                    self.unreadable.insert(n, fault);
                }
            }
        }
        self.number = Some(number);
    }
}

/// A copy of a block in the log.
#[derive(Clone, Copy)]
struct LoggedCopy {
    /// Block of the log.
    n: u64,
    /// Checksum of its bytes: they are read once more when they are written in place.
    content: u32,
}

/// The complete commits of a log.
pub(super) struct ScanResult<'a> {
    log: LogReader<'a>,
    /// Number of their blocks, from the tail on.
    pub(super) blocks: u64,
    /// Number of the first commit that is incomplete or missing.
    pub(super) next: u64,
    /// The counts of the volume with these commits, where they are known.
    pub(super) totals: Option<Totals>,
    /// The newest copy of each block that was not revoked, by the position of the block.
    copies: BTreeMap<u64, LoggedCopy>,
    /// Checksums of file data that are newer than the newest copy of their block of checksums, by the
    /// position of that block and the offset in it.
    data_sums: BTreeMap<u64, BTreeMap<usize, u32>>,
}

/// The contents of one commit. It has as many entries as the commit has blocks.
#[derive(Default)]
struct Contents {
    blocks: u64,
    totals: Option<Totals>,
    copies: Vec<(u64, LoggedCopy)>,
    /// Those of the copies that are summed: position, block of the log, and checksum of the data.
    summed: Vec<(u64, u64, u32)>,
    /// Blocks of the log that are revocations. Each names up to 500 blocks, so they are read again where the
    /// commit is whole.
    revocations: Vec<u64>,
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
    let piece = AlignedBuffer::default();
    let log = LogReader { device, ring, tail: tail.slot, piece, number: None, unreadable: BTreeMap::new() };
    let mut found = ScanResult {
        log,
        blocks: 0,
        next: tail.sequence,
        totals: tail.totals,
        copies: BTreeMap::new(),
        data_sums: BTreeMap::new(),
    };
    if !found.log.begins(sums, tail.sequence)? {
        return Ok(found);
    }
    while let Some(contents) = read_commit(&mut found.log, sums, found.blocks, found.next, volume_len)? {
        found.apply(sums, &contents, volume_len)?;
        debug_assert!(found.blocks <= ring.len(), "{} blocks of commits in the ring", found.blocks);
    }
    // A commit begins when the one before it is durable. So the first incomplete one is the last that was
    // begun.
    if highest(device, sums, ring).number > found.next {
        let at = ring.position(tail.slot + found.blocks);
        return Err(Fault::damaged(
            at,
            "a commit in the journal that does not verify, with a later one after it",
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
            contents.totals = Totals::decode(c::FREE_BLOCKS.read(block), c::INODES.read(block));
            return Ok(whole.then_some(contents));
        }
        content = Checksummer::append(content, block);
        let is_descriptor = role == JOURNAL_DESCRIPTOR;
        let copies = if is_descriptor { u64::from(d::COUNT.read(block).unwrap_or(0)) } else { 0 };
        if n + copies + 1 >= ring.len() {
            return Err(Fault::damaged(at, IMPOSSIBLE_COUNT));
        }
        let words = positions(ring, at, block, is_descriptor, volume_len)?;
        if !is_descriptor {
            contents.revocations.push(n);
        }
        for (word, n) in words.into_iter().zip(n + 1..n + 1 + copies) {
            let to = word & !JOURNAL_SUMMED;
            let block = log.block(n)?;
            content = Checksummer::append(content, block);
            contents.copies.push((to, LoggedCopy { n, content: Checksummer::append(0, block) }));
            if to != word {
                contents.summed.push((to, n, sums.of_data(to, block)));
            }
        }
        n += copies + 1;
    }
    Ok(None)
}

/// Returns the words of a descriptor or a revocation at `at`: positions, with flags.
///
/// The block verifies and has the expected number, so a writer made it as it is, and no crash explains
/// impossible values.
///
/// # Errors
/// [`Fault::Damaged`].
fn positions(
    ring: Ring,
    at: u64,
    block: &[u8],
    is_descriptor: bool,
    volume_len: u64,
) -> Result<Vec<u64>, Fault> {
    let count = usize::from(d::COUNT.read(block).unwrap_or(0));
    if count == 0 || count > POSITIONS {
        return Err(Fault::damaged(at, IMPOSSIBLE_COUNT));
    }
    let flags = if is_descriptor { JOURNAL_SUMMED } else { 0 };
    let words: Vec<u64> = (0..count).map(|i| d::POSITIONS.index(i).read(block).unwrap_or(0)).collect();
    if !words.iter().all(|word| may_be_copied_to(ring, word & !flags, volume_len)) {
        return Err(Fault::damaged(at, "a journal that names a block outside the volume"));
    }
    Ok(words)
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
    /// [`Fault::Damaged`] where the log has no copy of a block of checksums that the commit changes;
    /// [`Fault::Io`].
    fn apply(&mut self, sums: &Checksummer, contents: &Contents, volume_len: u64) -> Result<(), Fault> {
        for (at, copy) in &contents.copies {
            self.copies.insert(*at, *copy);
            self.data_sums.remove(at);
        }
        for (at, n, sum) in &contents.summed {
            let place = SumPlace::of(*at);
            if !self.copies.contains_key(&place.at) {
                return Err(Fault::damaged(
                    self.log.ring.position(self.log.tail + n),
                    "a copy in the journal whose block of checksums the journal lacks",
                ));
            }
            self.data_sums.entry(place.at).or_default().insert(place.field.offset, *sum);
        }
        // The scan meets the oldest commit first, so a revocation removes all copies so far: those of earlier
        // commits and of its own.
        for n in &contents.revocations {
            let (ring, at) = (self.log.ring, self.log.ring.position(self.log.tail + n));
            let block = self.log.block(*n)?;
            if identify(sums, at, block) != Some((JOURNAL_REVOCATION, self.next)) {
                return Err(changed(at));
            }
            for at in positions(ring, at, block, false, volume_len)? {
                self.copies.remove(&at);
                self.data_sums.remove(&at);
            }
        }
        self.blocks += contents.blocks;
        self.next += 1;
        self.totals = contents.totals;
        Ok(())
    }

    /// Writes the newest copy of each block in place, and makes it durable. A second replay changes nothing.
    /// The copies are read again, piece by piece of the log, so the memory for this does not grow with the
    /// log.
    ///
    /// # Errors
    /// [`Fault::Io`].
    pub(super) fn replay(&mut self, sums: &Checksummer) -> Result<(), Fault> {
        let mut newest: Vec<(u64, LoggedCopy)> = self.copies.iter().map(|(at, copy)| (*at, *copy)).collect();
        newest.sort_unstable_by_key(|(_, copy)| copy.n);
        for of_piece in newest.chunk_by_mut(|(_, a), (_, b)| a.n / PIECE_BLOCKS == b.n / PIECE_BLOCKS) {
            for (at, copy) in &*of_piece {
                let block = self.log.block(copy.n).map_err(|fault| replaying(*at, fault))?;
                if Checksummer::append(0, block) != copy.content {
                    return Err(replaying(*at, changed(*at)));
                }
            }
            of_piece.sort_unstable_by_key(|(at, _)| *at);
            self.write_piece(sums, of_piece)?;
        }
        let header = self.log.ring.header(0);
        self.log.device.flush().map_err(|e| io_fault(header, "flushing", &e))
    }

    /// Writes copies of the piece in memory in place. Their positions ascend.
    fn write_piece(&self, sums: &Checksummer, copies: &[(u64, LoggedCopy)]) -> Result<(), Fault> {
        let (log, is_as_in_log) = (&self.log, |at: &u64| !self.data_sums.contains_key(at));
        let taken = |(at, copy): &&(u64, LoggedCopy)| {
            is_as_in_log(at) && log.device.take_from(*at, log.ring.position(log.tail + copy.n))
        };
        let positions: Vec<u64> = copies.iter().filter(|copy| !taken(copy)).map(|(at, _)| *at).collect();
        write_in_place(self.log.device, &positions, |at, out| {
            if let Some(copy) = self.copies.get(&at) {
                out.copy_from_slice(self.log.get(copy.n));
            }
            if let Some(data_sums) = self.data_sums.get(&at) {
                data_sums.iter().for_each(|(offset, sum)| Field::at(*offset).write(out, *sum));
                sums.seal(BlockKind::Sums, at, out, 0);
            }
        })
    }
}

/// A block of the log is not the one that was read before.
fn changed(at: u64) -> Fault {
    Fault::Io { at, doing: "reading", errno: Code::Io.errno() }
}

/// The fault of a replay that cannot read the log. Nobody may do without the journal then: a part of it may
/// be in place.
fn replaying(at: u64, fault: Fault) -> Fault {
    match fault {
        Fault::Io { errno, .. } => Fault::Io { at, doing: REPLAYING, errno },
        fault => fault,
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
    let mut piece = AlignedBuffer::zeroed((PIECE_BLOCKS.min(ring.len()) * BLOCK) as usize);
    for first in (0..ring.len()).step_by(PIECE_BLOCKS as usize) {
        let blocks = PIECE_BLOCKS.min(ring.len() - first);
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
