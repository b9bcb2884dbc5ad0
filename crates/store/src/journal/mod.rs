//! The journal: changed metadata reaches the device as a whole or not at all.
//!
//! A run of blocks is set aside at mkfs. Its first block is the header, the others form a **ring** in which commits
//! follow each other, block by block around the end. A commit is made of revocations, descriptors with copies of the
//! changed blocks, and a record with a checksum over all that stands before it. It is written at once and made durable
//! by one flush; the blocks go to their places later ([`Pending`] keeps them until then), and when those are durable,
//! the header gives the space up. So a block that many commits change is written in place once.
//!
//! Why it holds, on a device where of the writes since the last flush any 512-byte sectors may have landed:
//!
//! * **A commit counts as a whole or not at all.** The record counts only where it verifies and its checksum is that of
//!   all blocks before it, so it need not be flushed after them.
//! * **The commits that count are a prefix.** One is begun when the one before it is durable, and only the last may be
//!   torn. The log ends at the first that is not whole; where blocks of a later one are found, that is rot and no
//!   crash, and is reported.
//! * **The header is right, old or new.** All that changes of it lies in one sector. It is made durable after the
//!   blocks of the commits that it gives up are, and before their space is written to. With the old header recovery
//!   brings commits in place once more, with the new one it does not; as long as the space is not written to, both can
//!   be done.
//! * **Nothing old is taken for new.** Each descriptor, revocation and record has its commit's number, and its own
//!   checksum covers the volume's identity and its position. Numbers only rise, and none is used twice, even by a
//!   commit that was lost:
//!   - in one session each commit has the next number;
//!   - at most one commit, the last begun, can have left blocks in the ring without being counted. After an open its
//!     number is skipped: before the first new commit a header with the number after that is made durable. (Otherwise
//!     what was lost of a torn commit might be completed by sectors of a new one in the same blocks with the same
//!     number.)
//!   - a journal that is made anew, be it that repair does it or that a volume is made with the identity of one that
//!     was there, begins above all numbers that its blocks hold.
//! * **File data is not overwritten by older metadata.** Blocks that a commit frees are revoked in it. They may be
//!   written to when it is durable, and from then on recovery takes no older copy of them. A later commit may have them
//!   again.
//! * **Recovery can be cut short.** It only reads the log, writes the newest copies, and writes the header when they
//!   are durable. Begun anew, it finds the same log and writes the same bytes.
//!
//! What callers must keep: file data is flushed before the commit that makes it reachable is appended; every metadata
//! block that a commit frees is revoked in it, whether it is pending or not, for the log may still have it; it is used
//! for file data only when the commit is durable, and when no write of its old image is still under way.

mod aligned;
mod commit;
mod header;
mod pending;
mod recover;
mod ring;
// (Not in Miri, where the checksum of a block takes seconds; the journal has no unsafe code.)
#[cfg(all(test, not(miri)))]
mod tests;

pub(crate) use aligned::AlignedBuffer;
pub(crate) use commit::Commit;
pub(crate) use pending::{Image, Pending};

use crate::fault::io_fault;
use crate::{Device, Fault};
use commit::blocks_in_log;
use header::Tail;
use lanefs_format::{BLOCK, Checksummer, Code, journal_descriptor as d};
use ring::{Ring, SEQUENCE_END};
use std::collections::VecDeque;

/// The ring and what is in it.
pub(crate) struct Journal {
    ring: Ring,
    /// Place where the next commit goes.
    head: u64,
    /// Number of the next commit.
    next: u64,
    /// The commits that the log holds, oldest first: number, and blocks that it takes.
    log: VecDeque<(u64, u64)>,
    /// Sum of the blocks in `log`.
    used: u64,
    /// The header on the device names a number that must not be used again.
    header_is_behind: bool,
    /// A write failed: what the ring holds is unknown, so nothing is added to it any more.
    failed: bool,
    /// Bytes.
    written: u64,
    /// Where commits are laid out; kept, for fresh memory costs more than filling it.
    staging: AlignedBuffer,
}

/// No more memory than this is kept between commits, in bytes.
const STAGING_KEPT: usize = 4 << 20;

impl Journal {
    /// Makes an empty journal in the `blocks` blocks at `at`, whatever they hold. It is durable on return.
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
            // It may become readable again, with who knows which numbers.
            ring.write(device, first, &AlignedBuffer::zeroed((blocks * BLOCK) as usize))?;
        }
        device.flush().map_err(|e| io_fault(at, "flushing", &e))?;
        // One number more is left out: that of a commit so torn that none of its blocks verifies.
        let mut journal = Self::with(ring, Tail { place: 0, sequence: highest.number + 2 });
        journal.write_header(device, sums)?;
        Ok(journal)
    }

    /// Takes over the journal at `at`, `blocks` long with its header, of a volume of `volume_len` bytes, and brings in
    /// place what a crash left in it. Returns it with whether there was anything. An empty one is not written to.
    ///
    /// # Errors
    /// [`Fault::Io`]; [`Fault::Damaged`], which names the block of the journal that is.
    pub(crate) fn open(
        device: &dyn Device,
        sums: &Checksummer,
        at: u64,
        blocks: u64,
        volume_len: u64,
    ) -> Result<(Self, bool), Fault> {
        let ring = Ring::new(at, blocks)?;
        let tail = header::read(device, sums, ring)?;
        let found = recover::scan(device, sums, ring, tail, volume_len)?;
        let recovered = found.next != tail.sequence;
        // The commit with the number `found.next` may have been begun.
        let head = Tail { place: (tail.place + found.blocks) % ring.len(), sequence: found.next + 1 };
        let mut journal = Self::with(ring, head);
        if recovered {
            found.bring_in_place()?;
            journal.write_header(device, sums)?;
        }
        Ok((journal, recovered))
    }

    fn with(ring: Ring, head: Tail) -> Self {
        Journal {
            ring,
            head: head.place,
            next: head.sequence,
            log: VecDeque::new(),
            used: 0,
            header_is_behind: true,
            failed: false,
            written: 0,
            staging: AlignedBuffer::default(),
        }
    }

    /// Most blocks that a commit without revocations may have, in an empty journal.
    pub(crate) fn capacity(&self) -> usize {
        // The record takes one block; a descriptor serves 500.
        let room = self.ring.len() - 1;
        (room - room.div_ceil(d::POSITIONS.len as u64 + 1)) as usize
    }

    /// True when a commit of `blocks` blocks and `revoked` revocations can be appended now.
    pub(crate) fn fits(&self, blocks: usize, revoked: usize) -> bool {
        blocks_in_log(blocks, revoked) <= self.ring.len() - self.used
    }

    /// How full the ring is, from 0 to 1.
    pub(crate) fn used(&self) -> f64 {
        self.used as f64 / self.ring.len() as f64
    }

    /// Number of the last commit.
    pub(crate) fn last(&self) -> u64 {
        self.next - 1
    }

    /// Bytes that were written to the journal so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Adds a commit, which is durable on return. One without blocks and revocations is not written.
    ///
    /// # Errors
    /// [`Fault::Io`]: what is on the device is then the state of this commit or of the one before, and the journal
    /// takes nothing more. `NoSpace` for a commit that does not [fit](Self::fits), `InvariantViolated` for one that is
    /// not as [`Commit`] says; nothing was written then.
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
        if self.header_is_behind {
            self.write_header(device, sums)?;
        }
        commit.encode(sums, self.ring, self.head, self.next, &mut self.staging);
        self.ring.write(device, self.head, &self.staging)?;
        device.flush().map_err(|e| io_fault(self.ring.position(self.head), "flushing", &e))?;
        let blocks = self.staging.len() as u64 / BLOCK;
        self.written += blocks * BLOCK;
        if self.staging.capacity() > STAGING_KEPT {
            self.staging = AlignedBuffer::default();
        }
        self.log.push_back((self.next, blocks));
        self.used += blocks;
        self.head = (self.head + blocks) % self.ring.len();
        self.next += 1;
        self.assert_whole();
        Ok(())
    }

    /// Gives up the space of commits up to number `done`. The caller has written their blocks in place, but for those
    /// that later commits changed or revoked, and has flushed. Durable on return.
    ///
    /// # Errors
    /// [`Fault::Io`]: the journal then takes nothing more.
    pub(crate) fn advance(
        &mut self,
        device: &dyn Device,
        sums: &Checksummer,
        done: u64,
    ) -> Result<(), Fault> {
        let gone = self.log.iter().take_while(|(sequence, _)| *sequence <= done).count();
        if gone == 0 {
            return Ok(());
        }
        self.used -= self.log.drain(..gone).map(|(_, blocks)| blocks).sum::<u64>();
        self.assert_whole();
        self.guarded(|journal| journal.write_header(device, sums))
    }

    /// Runs what writes; after a failure nothing runs any more.
    fn guarded(&mut self, write: impl FnOnce(&mut Self) -> Result<(), Fault>) -> Result<(), Fault> {
        if self.failed {
            return Err(Fault::Io { at: self.ring.header(), doing: "writing", errno: Code::Io.errno() });
        }
        let done = write(self);
        self.failed = done.is_err();
        done
    }

    /// The log is a part of the ring that ends at the head, and its numbers ascend to the last.
    fn assert_whole(&self) {
        debug_assert!(self.head < self.ring.len() && self.used <= self.ring.len());
        debug_assert_eq!(self.used, self.log.iter().map(|(_, blocks)| blocks).sum::<u64>());
        debug_assert!(
            self.log
                .iter()
                .map(|(sequence, _)| *sequence)
                .rev()
                .eq((0..self.next).rev().take(self.log.len()))
        );
    }

    /// Writes where the log begins now; durable on return.
    fn write_header(&mut self, device: &dyn Device, sums: &Checksummer) -> Result<(), Fault> {
        let place = (self.head + self.ring.len() - self.used) % self.ring.len();
        let sequence = self.log.front().map_or(self.next, |(sequence, _)| *sequence);
        self.written += header::write(device, sums, self.ring, Tail { place, sequence })?;
        self.header_is_behind = false;
        Ok(())
    }
}

/// Blocks are written in place in pieces of this many at most (1 MiB).
const PIECE: usize = 256;

/// Writes blocks to their places, neighbours in one piece. Positions ascend; `copy` fills in the block of a position.
///
/// # Errors
/// [`Fault::Io`].
pub(crate) fn write_in_place(
    device: &dyn Device,
    positions: &[u64],
    copy: impl Fn(u64, &mut [u8]),
) -> Result<(), Fault> {
    debug_assert!(positions.is_sorted_by(|a, b| a < b), "positions ascend");
    let mut buffer = AlignedBuffer::default();
    let mut rest = positions;
    while let Some(first) = rest.first().copied() {
        let run = (0..rest.len().min(PIECE)).take_while(|i| rest[*i] == first + *i as u64 * BLOCK).count();
        buffer.reuse(run * BLOCK as usize);
        for (at, block) in rest[..run].iter().zip(buffer.chunks_exact_mut(BLOCK as usize)) {
            copy(*at, block);
        }
        device.write_slice(first, &buffer).map_err(|e| io_fault(first, "writing", &e))?;
        rest = &rest[run..];
    }
    Ok(())
}
