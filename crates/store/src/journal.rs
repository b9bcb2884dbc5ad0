//! The journal: changed metadata reaches the device as a whole or not at all.
//!
//! A commit writes, into a run of blocks set aside at mkfs:
//!
//! 1. file data that became reachable is flushed (the store wrote it already),
//! 2. descriptors and copies of all changed blocks, then a commit record with a checksum over all of them; flush,
//! 3. the blocks to their places; flush,
//! 4. the header, which says that this commit is done.
//!
//! A crash before the end of 2 leaves a record that is missing or does not verify: the volume is as after the commit
//! before. A crash later finds a record that verifies: recovery does 3 and 4 again, as often as need be, for copying the
//! same blocks twice changes nothing. Each commit begins at the same place; what it overwrites belongs to a commit whose
//! step 3 was flushed.

use crate::{Device, Fault};
use lanefs_format::{
    BLOCK, BlockKind, Checksummer, JOURNAL_COMMIT, JOURNAL_DESCRIPTOR, JOURNAL_HEADER, journal_commit as c,
    journal_descriptor as d, journal_header as h,
};
use std::io;

/// A run of blocks, and the number of the last commit.
pub(crate) struct Journal {
    at: u64,
    blocks: u64,
    sequence: u64,
}

/// Blocks are written in pieces of this many (1 MiB).
const PIECE: usize = 256;

impl Journal {
    /// Takes over the journal at `at`, `blocks` long, and finishes the commit that a crash may have left in it. Returns
    /// it with whether there was one.
    ///
    /// # Errors
    /// [`Fault::Io`]; [`Fault::Damaged`] for a header that does not verify.
    pub(crate) fn open(
        device: &dyn Device,
        sums: &Checksummer,
        at: u64,
        blocks: u64,
        len: u64,
    ) -> Result<(Self, bool), Fault> {
        let mut journal = Journal { at, blocks, sequence: 0 };
        let header = read(device, at)?;
        if !is_role(sums, at, &header, JOURNAL_HEADER) {
            return Err(Fault::damaged(at, "no valid journal header"));
        }
        journal.sequence = h::DONE.read(&header).unwrap_or(0);
        let Some(copies) = journal.pending(device, sums, len)? else { return Ok((journal, false)) };
        for (from, to) in copies {
            device.write_at(to, &read(device, from)?).map_err(|e| fault(to, "writing", &e))?;
        }
        device.flush().map_err(|e| fault(at, "flushing", &e))?;
        journal.sequence += 1;
        journal.write_header(device, sums)?;
        device.flush().map_err(|e| fault(at, "flushing", &e))?;
        Ok((journal, true))
    }

    /// Makes an empty journal.
    ///
    /// # Errors
    /// [`Fault::Io`].
    pub(crate) fn format(
        device: &dyn Device,
        sums: &Checksummer,
        at: u64,
        blocks: u64,
    ) -> Result<Self, Fault> {
        let journal = Journal { at, blocks, sequence: 0 };
        journal.write_header(device, sums)?;
        Ok(journal)
    }

    /// Most blocks that a commit may have.
    pub(crate) fn capacity(&self) -> usize {
        // The header and the record take one block each; a descriptor serves 500.
        let room = self.blocks.saturating_sub(2);
        (room - room.div_ceil(d::POSITIONS.len as u64 + 1)) as usize
    }

    /// The copies of a commit that is whole but perhaps not in place: from where, to where.
    fn pending(
        &self,
        device: &dyn Device,
        sums: &Checksummer,
        len: u64,
    ) -> Result<Option<Vec<(u64, u64)>>, Fault> {
        let sequence = self.sequence + 1;
        let (mut block, mut content, mut copies) = (1, 0, Vec::new());
        while block < self.blocks {
            let at = self.at + block * BLOCK;
            let bytes = read(device, at)?;
            if is_role(sums, at, &bytes, JOURNAL_COMMIT) {
                let whole = c::SEQUENCE.read(&bytes) == Some(sequence)
                    && c::BLOCKS.read(&bytes) == Some(block - 1)
                    && c::CONTENT.read(&bytes) == Some(content);
                return Ok((whole && !copies.is_empty()).then_some(copies));
            }
            if !is_role(sums, at, &bytes, JOURNAL_DESCRIPTOR) || d::SEQUENCE.read(&bytes) != Some(sequence) {
                return Ok(None);
            }
            content = append(content, &bytes);
            let count = u64::from(d::COUNT.read(&bytes).unwrap_or(0));
            if count == 0 || count > d::POSITIONS.len as u64 || block + count + 1 >= self.blocks {
                return Ok(None);
            }
            for i in 0..count {
                let from = at + (i + 1) * BLOCK;
                let to = d::POSITIONS.index(i as usize).read(&bytes).unwrap_or(u64::MAX);
                let inside = to.is_multiple_of(BLOCK) && to > 0 && to <= len - BLOCK;
                let own = to >= self.at && to < self.at + self.blocks * BLOCK;
                if !inside || own {
                    return Err(Fault::damaged(at, "a journal that names a block outside the volume"));
                }
                content = append(content, &read(device, from)?);
                copies.push((from, to));
            }
            block += count + 1;
        }
        Ok(None)
    }

    /// Commits blocks: their positions, and a function that copies one. `data`: file data was written since the last
    /// flush. The caller has sealed the blocks and holds writers off.
    ///
    /// # Errors
    /// [`Fault::Io`]: what is on the device is then the state of this commit or of the one before.
    pub(crate) fn commit(
        &mut self,
        device: &dyn Device,
        sums: &Checksummer,
        data: bool,
        positions: &[u64],
        copy: impl Fn(u64, &mut [u8]),
    ) -> Result<(), Fault> {
        let flush = || device.flush().map_err(|e| fault(self.at, "flushing", &e));
        if data {
            flush()?;
        }
        if positions.is_empty() {
            return Ok(());
        }
        let sequence = self.sequence + 1;
        let mut out = Out { device, at: self.at + BLOCK, buffer: Vec::new(), content: 0, blocks: 0 };
        for part in positions.chunks(d::POSITIONS.len) {
            let mut block = vec![0; BLOCK as usize];
            d::KIND.write(&mut block, BlockKind::Journal as u8);
            d::ROLE.write(&mut block, JOURNAL_DESCRIPTOR);
            d::COUNT.write(&mut block, part.len() as u16);
            d::SEQUENCE.write(&mut block, sequence);
            for (i, at) in part.iter().enumerate() {
                d::POSITIONS.index(i).write(&mut block, *at);
            }
            sums.seal(BlockKind::Journal, out.next(), &mut block, 0);
            out.push(&block)?;
            for at in part {
                copy(*at, &mut block);
                out.push(&block)?;
            }
        }
        let mut record = vec![0; BLOCK as usize];
        c::KIND.write(&mut record, BlockKind::Journal as u8);
        c::ROLE.write(&mut record, JOURNAL_COMMIT);
        c::SEQUENCE.write(&mut record, sequence);
        c::BLOCKS.write(&mut record, out.blocks);
        c::CONTENT.write(&mut record, out.content);
        sums.seal(BlockKind::Journal, out.next(), &mut record, 0);
        out.push(&record)?;
        out.flush()?;
        flush()?;
        write_in_place(device, positions, copy)?;
        flush()?;
        self.sequence = sequence;
        self.write_header(device, sums)
    }

    fn write_header(&self, device: &dyn Device, sums: &Checksummer) -> Result<(), Fault> {
        let mut header = vec![0; BLOCK as usize];
        h::KIND.write(&mut header, BlockKind::Journal as u8);
        h::ROLE.write(&mut header, JOURNAL_HEADER);
        h::DONE.write(&mut header, self.sequence);
        sums.seal(BlockKind::Journal, self.at, &mut header, 0);
        device.write_at(self.at, &header).map_err(|e| fault(self.at, "writing", &e))
    }
}

/// Writes blocks to their places, neighbours in one piece. Positions ascend.
pub(crate) fn write_in_place(
    device: &dyn Device,
    positions: &[u64],
    copy: impl Fn(u64, &mut [u8]),
) -> Result<(), Fault> {
    let mut buffer = Vec::new();
    let mut rest = positions;
    while let Some(first) = rest.first().copied() {
        let run = (0..rest.len().min(PIECE)).take_while(|i| rest[*i] == first + *i as u64 * BLOCK).count();
        buffer.resize(run * BLOCK as usize, 0);
        for (at, block) in rest[..run].iter().zip(buffer.chunks_exact_mut(BLOCK as usize)) {
            copy(*at, block);
        }
        device.write_at(first, &buffer).map_err(|e| fault(first, "writing", &e))?;
        rest = &rest[run..];
    }
    Ok(())
}

/// Blocks on their way into the journal.
struct Out<'a> {
    device: &'a dyn Device,
    at: u64,
    buffer: Vec<u8>,
    content: u32,
    blocks: u64,
}

impl Out<'_> {
    /// Where the next block goes.
    fn next(&self) -> u64 {
        self.at + self.buffer.len() as u64
    }

    fn push(&mut self, block: &[u8]) -> Result<(), Fault> {
        self.buffer.extend_from_slice(block);
        self.content = append(self.content, block);
        self.blocks += 1;
        if self.buffer.len() >= PIECE * BLOCK as usize { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Fault> {
        self.device.write_at(self.at, &self.buffer).map_err(|e| fault(self.at, "writing", &e))?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

fn append(sum: u32, block: &[u8]) -> u32 {
    Checksummer::append(sum, block)
}

fn is_role(sums: &Checksummer, at: u64, block: &[u8], role: u8) -> bool {
    sums.verify(BlockKind::Journal, at, block, 0, &[]) && h::ROLE.read(block) == Some(role)
}

fn read(device: &dyn Device, at: u64) -> Result<Vec<u8>, Fault> {
    let mut block = vec![0; BLOCK as usize];
    device.read_at(at, &mut block).map_err(|e| fault(at, "reading", &e))?;
    Ok(block)
}

#[cold]
pub(crate) fn fault(at: u64, doing: &'static str, error: &io::Error) -> Fault {
    // A short read means that the file ends before the volume does; the host has no errno for it.
    let errno = error.raw_os_error().unwrap_or(lanefs_format::Code::Io.errno());
    Fault::Io { at, doing, errno }
}
