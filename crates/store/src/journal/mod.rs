//! The journal: changed metadata reaches the device as a whole or not at all.
//!
//! Mkfs sets a range of blocks aside. Its first two blocks are the headers, the others form a **ring** in
//! which commits follow each other, block by block around the end. A commit consists of revocations,
//! descriptors with copies of the changed blocks, and a record with a checksum over all before it. One write
//! and one flush make it durable. The blocks are written in place later ([`Pending`] keeps them until then);
//! when those writes are durable, the headers free the commits' space. So a block that many commits change is
//! written in place once.
//!
//! Why it is right, on a device where any 512-byte sectors of the writes since the last flush may have
//! landed:
//!
//! * **A commit counts as a whole or not at all.** The record counts only where it verifies and its checksum
//!   is that of all blocks before it, so it needs no flush after them.
//! * **The commits that count are a prefix.** A commit begins when the one before it is durable, and only the
//!   last may be torn. The log ends at the first incomplete commit; where blocks of a later one are found,
//!   that is rot and not a crash, and is reported.
//! * **A header is right, old or new.** All its changing bytes are in one sector. Both copies become durable
//!   after the blocks of the commits that they free are in place, and before their space is written. With the
//!   old header recovery replays these commits again, with the new one it does not; as long as the space is
//!   not written, both are right. So one copy is enough.
//! * **Nothing old is taken for new.** Each descriptor, revocation and record has its commit's number, and
//!   its own checksum covers the volume's identity and its position. Numbers only rise, and none is used
//!   twice, not even that of a lost commit:
//!   - in one session each commit has the next number;
//!   - at most one commit, the last begun, can have left blocks in the ring without being counted. After an
//!     open its number is skipped: before the first new commit a header with the number after that is made
//!     durable. (Otherwise sectors of a new commit in the same blocks with the same number could complete a
//!     torn one.)
//!   - a new journal, made by repair or by mkfs with the checksum seed of an older volume, begins above all
//!     numbers that its blocks have.
//! * **The log implies some checksums of file data**, see [`Implied`]. Recovery has the block of checksums
//!   from an earlier commit of the log, and all data that later ones changed in it.
//! * **Older metadata does not overwrite file data.** A commit revokes the blocks that it frees. They may be
//!   written when it is durable, and from then on recovery takes no older copy of them. A later commit may
//!   have them again.
//! * **Recovery may be interrupted.** It only reads the log, writes the newest copies, and writes the header
//!   when they are durable. A second recovery finds the same log and writes the same bytes.
//!
//! Duties of the callers: they flush file data before they append the commit that makes it reachable; they
//! revoke every metadata block that a commit frees, pending or not, because the log may still have it; they
//! use it for file data only when the commit is durable, and when no write of its old image is in flight.

mod aligned;
mod commit;
mod copies;
mod header;
mod implied;
mod pending;
mod recover;
mod ring;
// (Not in Miri, where the checksum of a block takes seconds. The only unsafe code is that of `aligned`.)
#[cfg(all(test, not(miri)))]
mod tests;

pub(crate) use aligned::AlignedBuffer;
pub(crate) use commit::Commit;
pub(crate) use copies::Copies;
pub(crate) use implied::Implied;
pub(crate) use pending::{Image, Pending};

use crate::device::Device;
use crate::vocabulary::fault::{Fault, io_fault};
use crate::vocabulary::totals::Totals;
use commit::blocks_in_log;
use header::Tail;
use lanefs_format::{BLOCK, Checksummer, Code, journal_descriptor as d};
use ring::{Ring, SEQUENCE_END, SEQUENCE_WORN};
use std::collections::VecDeque;

/// The ring and its commits.
pub(crate) struct Journal {
    ring: Ring,
    /// Slot of the next commit.
    head: u64,
    /// Number of the next commit.
    next: u64,
    /// The commits in the log, oldest first.
    log: VecDeque<Logged>,
    /// The counts of the volume before the oldest commit in the log, where they are known.
    totals: Option<Totals>,
    /// Sum of the blocks in `log`.
    used: u64,
    /// The header on the device has a number that must not be used again.
    header_is_stale: bool,
    /// A write failed: the content of the ring is unknown, so nothing is added any more.
    failed: bool,
    /// Number of bytes written.
    written: u64,
    /// Memory of a piece of an encoded commit. It is kept, because new memory costs more than filling it.
    staging: AlignedBuffer,
}

/// A commit in the log.
#[derive(Clone, Copy)]
struct Logged {
    sequence: u64,
    blocks: u64,
    /// The counts of the volume with it, where they are known.
    totals: Option<Totals>,
}

/// The damage of a journal that only a forger can have brought so far.
const WORN: &str = "a journal whose commit numbers are used up";

impl Journal {
    /// Makes an empty journal in the `blocks` blocks at `at`, whatever their content. It is durable on
    /// return.
    ///
    /// # Errors
    /// [`Fault::Io`]; [`Fault::Damaged`] for a size that no journal has.
    pub(crate) fn format(
        device: &dyn Device,
        sums: &Checksummer,
        at: u64,
        blocks: u64,
    ) -> Result<Self, Fault> {
        let ring = Ring::new(at, blocks)?;
        let highest = recover::highest(device, sums, ring);
        for (first, blocks) in highest.unreadable {
            // The blocks may become readable again, with unknown numbers.
            ring.write(device, first, &AlignedBuffer::zeroed((blocks * BLOCK) as usize))?;
        }
        // One more number is skipped: that of a commit so torn that none of its blocks verifies.
        let mut sequence = highest.number.max(header::highest(device, sums, ring)) + 2;
        if sequence >= SEQUENCE_WORN {
            // No number is left above those of the blocks, so the blocks go.
            ring.clear(device)?;
            sequence = 1;
        }
        device.flush().map_err(|e| io_fault(at, "flushing", &e))?;
        let mut journal = Self::with(ring, Tail { slot: 0, sequence, totals: None });
        journal.write_header(device, sums)?;
        Ok(journal)
    }

    /// Opens the journal at `at`, `blocks` long with its headers, of a volume of `volume_len` bytes, and
    /// replays the commits that a crash left in it. Returns it with whether there were any. An empty journal
    /// is not written.
    ///
    /// # Errors
    /// [`Fault::Io`]; [`Fault::Damaged`], with the position of the damaged block of the journal.
    pub(crate) fn open(
        device: &dyn Device,
        sums: &Checksummer,
        at: u64,
        blocks: u64,
        volume_len: u64,
    ) -> Result<(Self, bool), Fault> {
        let ring = Ring::new(at, blocks)?;
        let tail = header::read(device, sums, ring)?;
        let mut found = recover::scan(device, sums, ring, tail, volume_len)?;
        let recovered = found.next != tail.sequence;
        // The commit with the number `found.next` may have been begun.
        let slot = (tail.slot + found.blocks) % ring.len();
        let head = Tail { slot, sequence: found.next + 1, totals: found.totals };
        let mut journal = Self::with(ring, head);
        if recovered {
            found.replay(sums)?;
        }
        if journal.next >= SEQUENCE_WORN {
            return Err(Fault::damaged(at, WORN));
        }
        if recovered {
            journal.write_header(device, sums)?;
        }
        Ok((journal, recovered))
    }

    /// Opens the journal of a volume that was closed: its log counts for nothing, and only the headers are
    /// read.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn open_closed(
        device: &dyn Device,
        sums: &Checksummer,
        at: u64,
        blocks: u64,
    ) -> Result<Self, Fault> {
        let ring = Ring::new(at, blocks)?;
        let tail = header::read(device, sums, ring)?;
        if tail.sequence + 1 >= SEQUENCE_WORN {
            return Err(Fault::damaged(at, WORN));
        }
        // A torn commit may have left blocks with the header's number.
        // The superblock has the counts.
        Ok(Self::with(ring, Tail { slot: tail.slot, sequence: tail.sequence + 1, totals: None }))
    }

    /// Checks that both headers are good, and that no block of the ring has a number from `next` on, or above
    /// the headers' where that is `None`. Nothing is written.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn examine(
        device: &dyn Device,
        sums: &Checksummer,
        at: u64,
        blocks: u64,
        next: Option<u64>,
    ) -> Result<(), Fault> {
        let ring = Ring::new(at, blocks)?;
        header::examine(device, sums, ring)?;
        let tail = header::read(device, sums, ring)?;
        if tail.sequence + 1 >= SEQUENCE_WORN {
            return Err(Fault::damaged(at, WORN));
        }
        if recover::highest(device, sums, ring).number >= next.unwrap_or(tail.sequence + 1) {
            return Err(Fault::damaged(at, "a journal header with a number below those of later commits"));
        }
        Ok(())
    }

    /// Returns the positions of the headers of the journal at `at` that are not good.
    pub(crate) fn wrong_headers(device: &dyn Device, sums: &Checksummer, at: u64, blocks: u64) -> Vec<u64> {
        Ring::new(at, blocks).map_or_else(|_| vec![at], |ring| header::wrong(device, sums, ring))
    }

    /// Returns the highest number of a commit of which the journal at `at` has a block, 0 for none.
    pub(crate) fn highest(device: &dyn Device, sums: &Checksummer, at: u64, blocks: u64) -> u64 {
        Ring::new(at, blocks).map_or(0, |ring| recover::highest(device, sums, ring).number)
    }

    /// Checks that a journal can have this size.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub(crate) fn check_size(at: u64, blocks: u64) -> Result<(), Fault> {
        Ring::new(at, blocks).map(drop)
    }

    /// Returns its position, and its number of blocks with the headers.
    pub(crate) fn place(&self) -> (u64, u64) {
        (self.ring.header(0), self.ring.len() + lanefs_format::JOURNAL_HEADERS)
    }

    /// Returns the number of the next commit.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    fn with(ring: Ring, head: Tail) -> Self {
        Journal {
            ring,
            head: head.slot,
            next: head.sequence,
            log: VecDeque::new(),
            totals: head.totals,
            used: 0,
            header_is_stale: true,
            failed: false,
            written: 0,
            staging: AlignedBuffer::default(),
        }
    }

    /// Returns the largest number of blocks of a commit without revocations, in an empty journal.
    pub(crate) fn capacity(&self) -> usize {
        // The record takes one block; a descriptor serves 500.
        let room = self.ring.len() - 1;
        (room - room.div_ceil(d::POSITIONS.len as u64 + 1)) as usize
    }

    /// Returns true when a commit of `blocks` blocks and `revoked` revocations can be appended now.
    pub(crate) fn fits(&self, blocks: usize, revoked: usize) -> bool {
        blocks_in_log(blocks, revoked) <= self.ring.len() - self.used
    }

    /// Returns the used part of the ring, from 0 to 1.
    pub(crate) fn used(&self) -> f64 {
        self.used as f64 / self.ring.len() as f64
    }

    /// Returns the number of used blocks of the ring: at most so many images wait.
    pub(crate) fn used_blocks(&self) -> u64 {
        self.used
    }

    /// Returns the number of the last commit.
    pub(crate) fn last(&self) -> u64 {
        self.next - 1
    }

    /// Returns the number of bytes that were written to the journal so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Adds a commit, which is durable on return. One without blocks and revocations is not written.
    ///
    /// # Errors
    /// [`Fault::Io`]: the device then has the state of this commit or of the one before, and the journal
    /// takes no more commits. `NoSpace` for a commit that does not [fit](Self::fits), `InvariantViolated` for
    /// one that is not as [`Commit`] requires; nothing was written then.
    pub(crate) fn append(
        &mut self,
        device: &dyn Device,
        sums: &Checksummer,
        commit: &Commit<'_>,
    ) -> Result<(), Fault> {
        if commit.is_empty() {
            return Ok(());
        }
        commit.check()?;
        if !self.fits(commit.blocks.len(), commit.revoked.len()) || self.next >= SEQUENCE_END {
            return Err(Fault::Code(Code::NoSpace));
        }
        self.guarded(|journal| journal.append_unguarded(device, sums, commit))
    }

    fn append_unguarded(
        &mut self,
        device: &dyn Device,
        sums: &Checksummer,
        commit: &Commit<'_>,
    ) -> Result<(), Fault> {
        if self.header_is_stale {
            self.write_header(device, sums)?;
        }
        let (ring, head) = (self.ring, self.head);
        let write = |slot, piece: &[u8]| ring.write(device, slot, piece);
        commit.encode(sums, ring, (head, self.next), &mut self.staging, write)?;
        device.flush().map_err(|e| io_fault(ring.position(head), "flushing", &e))?;
        let blocks = blocks_in_log(commit.blocks.len(), commit.revoked.len());
        self.written += blocks * BLOCK;
        self.log.push_back(Logged { sequence: self.next, blocks, totals: commit.totals });
        self.used += blocks;
        self.head = (self.head + blocks) % self.ring.len();
        self.next += 1;
        self.assert_whole();
        Ok(())
    }

    /// Returns the counts of the volume with the last commit, where they are known.
    pub(crate) fn totals(&self) -> Option<Totals> {
        self.log.back().map_or(self.totals, |commit| commit.totals)
    }

    /// Writes the headers of a log that is empty with the counts of the volume as it is, `None` where they
    /// are about to become wrong: a commit in place follows. Durable on return.
    ///
    /// # Errors
    /// [`Fault::Io`]: the journal then takes no more commits.
    pub(crate) fn begin(
        &mut self,
        device: &dyn Device,
        sums: &Checksummer,
        totals: Option<Totals>,
    ) -> Result<(), Fault> {
        debug_assert!(self.log.is_empty(), "the counts before commits in the log are known already");
        self.totals = totals;
        self.guarded(|journal| journal.write_header(device, sums))
    }

    /// Frees the space of commits up to number `done`. The caller has written their blocks in place, except
    /// those that later commits changed or revoked, and has flushed. Durable on return.
    ///
    /// # Errors
    /// [`Fault::Io`]: the journal then takes no more commits.
    pub(crate) fn advance(
        &mut self,
        device: &dyn Device,
        sums: &Checksummer,
        done: u64,
    ) -> Result<(), Fault> {
        let freed = self.log.iter().take_while(|commit| commit.sequence <= done).count();
        let Some(last) = freed.checked_sub(1).map(|last| self.log[last]) else { return Ok(()) };
        self.totals = last.totals;
        self.used -= self.log.drain(..freed).map(|commit| commit.blocks).sum::<u64>();
        self.guarded(|journal| journal.write_header(device, sums))
    }

    /// Calls `write`, but not after a failure of an earlier call.
    fn guarded(&mut self, write: impl FnOnce(&mut Self) -> Result<(), Fault>) -> Result<(), Fault> {
        if self.failed {
            return Err(Fault::Io { at: self.ring.header(0), doing: "writing", errno: Code::Io.errno() });
        }
        // A panic counts as a failure.
        self.failed = true;
        self.assert_whole();
        let done = write(self);
        self.failed = done.is_err();
        done
    }

    /// Asserts that the log is a part of the ring that ends at the head, and that its numbers ascend to the
    /// last.
    fn assert_whole(&self) {
        let len = self.ring.len();
        assert!(self.head < len && self.used <= len, "{} blocks up to {} of {len}", self.used, self.head);
        debug_assert_eq!(self.used, self.log.iter().map(|commit| commit.blocks).sum::<u64>());
        debug_assert!(
            self.log.iter().map(|commit| commit.sequence).rev().eq((0..self.next).rev().take(self.log.len()))
        );
    }

    /// Writes the headers with the log's present tail. Durable on return.
    fn write_header(&mut self, device: &dyn Device, sums: &Checksummer) -> Result<(), Fault> {
        let slot = (self.head + self.ring.len() - self.used) % self.ring.len();
        let sequence = self.log.front().map_or(self.next, |commit| commit.sequence);
        let tail = Tail { slot, sequence, totals: self.totals };
        self.written += header::write(device, sums, self.ring, tail)?;
        self.header_is_stale = false;
        Ok(())
    }
}

/// Most blocks of one write in place (1 MiB).
const PIECE_BLOCKS: usize = 256;

/// Writes blocks in place, consecutive ones in one piece. Positions ascend; `copy` fills in the block of a
/// position.
///
/// # Errors
/// [`Fault::Io`].
pub(crate) fn write_in_place(
    device: &dyn Device,
    positions: &[u64],
    copy: impl Fn(u64, &mut [u8]),
) -> Result<(), Fault> {
    assert!(positions.is_sorted_by(|a, b| a < b), "positions ascend");
    let mut buffer = AlignedBuffer::default();
    let mut rest = positions;
    while let Some(first) = rest.first().copied() {
        let count =
            (0..rest.len().min(PIECE_BLOCKS)).take_while(|i| rest[*i] == first + *i as u64 * BLOCK).count();
        buffer.reuse(count * BLOCK as usize);
        for (at, block) in rest[..count].iter().zip(buffer.chunks_exact_mut(BLOCK as usize)) {
            copy(*at, block);
        }
        device.write_slice(first, &buffer).map_err(|e| io_fault(first, "writing", &e))?;
        rest = &rest[count..];
    }
    Ok(())
}
