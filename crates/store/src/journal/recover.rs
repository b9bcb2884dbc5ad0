//! What the log holds after a crash, and bringing it in place.

use super::aligned::AlignedBuffer;
use super::commit::POSITIONS;
use super::header::Tail;
use super::ring::{Ring, SEQUENCE_END, identify};
use super::write_in_place;
use crate::fault::io_fault;
use crate::{Device, Fault};
use lanefs_format::{
    BLOCK, Checksummer, JOURNAL_COMMIT, JOURNAL_DESCRIPTOR, SUPERBLOCK_COPY, journal_commit as c,
    journal_descriptor as d,
};
use std::collections::BTreeMap;

/// Blocks that are read at once (1 MiB).
const PIECE: u64 = 256;

/// The log from its tail on. Blocks are counted from there; what was read is kept, which is no more than the journal.
struct Tape<'a> {
    device: &'a dyn Device,
    ring: Ring,
    tail: u64,
    pieces: Vec<AlignedBuffer>,
    /// Blocks that could not be read. They only matter to who wants them: what lies behind the log's end does not.
    unreadable: BTreeMap<u64, Fault>,
}

impl Tape<'_> {
    /// Block `n`, which must be below the ring's length.
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

    /// A block that was read already.
    fn get(&self, n: u64) -> &[u8] {
        let start = (n % PIECE * BLOCK) as usize;
        &self.pieces[(n / PIECE) as usize][start..start + BLOCK as usize]
    }

    /// True when there is a trace of the commit `sequence` or a later one. Only then is it worth while to read the rest: a
    /// volume that was closed is opened without reading its whole journal. The first piece is looked through, and not
    /// its first block alone, which may have rotted.
    ///
    /// # Errors
    /// [`Fault::Io`] for the first block.
    fn begins(&mut self, sums: &Checksummer, sequence: u64) -> Result<bool, Fault> {
        self.block(0)?;
        let blocks = self.pieces.iter().flat_map(|piece| piece.chunks_exact(BLOCK as usize));
        let mut known = (self.tail..).zip(blocks).filter_map(|(place, block)| {
            identify(sums, self.ring.position(place), block).filter(|(_, number)| *number < SEQUENCE_END)
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

/// The whole commits of a log.
pub(super) struct Found<'a> {
    tape: Tape<'a>,
    /// Blocks that they take, from the tail on.
    pub(super) blocks: u64,
    /// Number of the first commit that is not there.
    pub(super) next: u64,
    /// Of each block the newest copy that was not revoked: where it belongs, and its block of the log.
    copies: BTreeMap<u64, u64>,
}

/// Contents of one commit.
#[derive(Default)]
struct Contents {
    blocks: u64,
    copies: Vec<(u64, u64)>,
    revoked: Vec<u64>,
}

/// Finds all whole commits from the tail on. Nothing is written.
///
/// # Errors
/// [`Fault::Io`]; [`Fault::Damaged`] for a block of the log that verifies but says what cannot be, and for a commit that
/// does not verify though a later one was begun, which no crash leaves.
pub(super) fn scan<'a>(
    device: &'a dyn Device,
    sums: &Checksummer,
    ring: Ring,
    tail: Tail,
    volume_len: u64,
) -> Result<Found<'a>, Fault> {
    let tape = Tape { device, ring, tail: tail.place, pieces: Vec::new(), unreadable: BTreeMap::new() };
    let mut found = Found { tape, blocks: 0, next: tail.sequence, copies: BTreeMap::new() };
    if !found.tape.begins(sums, tail.sequence)? {
        return Ok(found);
    }
    while let Some(contents) = read_commit(&mut found.tape, sums, found.blocks, found.next, volume_len)? {
        // The commits come oldest first, so a revocation takes back all copies that are known by now: those of
        // earlier commits and of its own.
        found.copies.extend(contents.copies);
        for at in contents.revoked {
            found.copies.remove(&at);
        }
        found.blocks += contents.blocks;
        found.next += 1;
    }
    // A commit is begun when the one before it is durable. So the first that is not whole is the last that was begun.
    if highest(device, sums, ring).number > found.next {
        let at = ring.position(tail.place + found.blocks);
        return Err(Fault::damaged(
            at,
            "a commit in the journal that does not verify, with a later one behind it",
        ));
    }
    Ok(found)
}

/// The commit `sequence` at block `first` of the log; `None` when it is not whole.
fn read_commit(
    tape: &mut Tape<'_>,
    sums: &Checksummer,
    first: u64,
    sequence: u64,
    volume_len: u64,
) -> Result<Option<Contents>, Fault> {
    let ring = tape.ring;
    let (mut n, mut content, mut contents) = (first, 0, Contents::default());
    while n < ring.len() {
        let at = ring.position(tape.tail + n);
        let block = tape.block(n)?;
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
        // The block verifies and has the number that is due, so a writer made it as it is, and what cannot be in it is no
        // trace of a crash.
        let count = usize::from(d::COUNT.read(block).unwrap_or(0));
        let copies = if role == JOURNAL_DESCRIPTOR { count as u64 } else { 0 };
        if count == 0 || count > POSITIONS || n + copies + 1 >= ring.len() {
            return Err(Fault::damaged(at, "an impossible count in the journal"));
        }
        for i in 0..count {
            let to = d::POSITIONS.index(i).read(block).unwrap_or(0);
            if !may_be_copied_to(ring, to, volume_len) {
                return Err(Fault::damaged(at, "a journal that names a block outside the volume"));
            }
            match role {
                JOURNAL_DESCRIPTOR => contents.copies.push((to, n + 1 + i as u64)),
                _ => contents.revoked.push(to),
            }
        }
        for copy in n + 1..=n + copies {
            content = Checksummer::append(content, tape.block(copy)?);
        }
        n += copies + 1;
    }
    Ok(None)
}

/// The superblock's copies are written apart from commits, and a journal has no business in itself.
fn may_be_copied_to(ring: Ring, to: u64, volume_len: u64) -> bool {
    let inside = to.checked_add(BLOCK).is_some_and(|end| end <= volume_len);
    inside && to.is_multiple_of(BLOCK) && to != 0 && to != SUPERBLOCK_COPY && !ring.contains(to)
}

impl Found<'_> {
    /// Writes the newest copy of each block to its place, and makes it durable. Doing it twice changes nothing.
    ///
    /// # Errors
    /// [`Fault::Io`].
    pub(super) fn bring_in_place(&self) -> Result<(), Fault> {
        let positions: Vec<u64> = self.copies.keys().copied().collect();
        write_in_place(self.tape.device, &positions, |at, out| {
            if let Some(n) = self.copies.get(&at) {
                out.copy_from_slice(self.tape.get(*n));
            }
        })?;
        let header = self.tape.ring.header();
        self.tape.device.flush().map_err(|e| io_fault(header, "flushing", &e))
    }
}

/// What a whole ring says.
pub(super) struct Highest {
    /// Highest number of a commit in any block that verifies, 0 where there is none.
    pub(super) number: u64,
    /// Blocks that cannot be read: first place and number of blocks.
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
        for (place, block) in (first..).zip(piece.chunks_exact(BLOCK as usize)) {
            // Numbers from the end on cannot come up, so they cannot be mistaken either.
            if let Some((_, number)) = identify(sums, ring.position(place), block)
                && number < SEQUENCE_END
            {
                found.number = found.number.max(number);
            }
        }
    }
    found
}
