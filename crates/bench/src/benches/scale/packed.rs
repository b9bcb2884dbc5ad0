//! A device of any size in little room on the host, for volumes that the host's file system cannot hold: ext4
//! ends a file at 16 TiB, and the group table of a volume of 1 PiB has 33 GiB.
//!
//! Each block has a *slot* of 64 bytes. A block of zeros but for six words, such as that of an empty group,
//! is in its slot; any other lies in a file of blocks, and the slot has its number there. So the memory of a
//! process that uses the device is that of LaneFS.

use lanefs::{Device, IoBuf, IoBufMut};
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of a block and of its slot.
const BLOCK: usize = 4096;
const SLOT: usize = 64;
/// Words that a slot has room for, and the count that says that the block lies in the file of blocks.
const WORDS: usize = 6;
const STORED: u64 = 7;
/// Bytes of the volume that one call handles, and those whose slots are in one file.
const PIECE_BYTES: u64 = 1 << 20;
const PART: u64 = 1 << 46;

type IndexSlot = [u64; SLOT / 8];

/// The device. Nothing is durable: a flush does nothing.
pub(super) struct Packed {
    bytes: AtomicU64,
    slots: Vec<File>,
    blocks: File,
    /// Number of the next block of the file of blocks.
    next: AtomicU64,
}

impl Packed {
    /// Opens the device of `bytes` bytes in the directory `dir`, which grows to `room` bytes at most. It is
    /// made if it is missing.
    pub(super) fn open(dir: &Path, bytes: u64, room: u64) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let file = |name: String| {
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(dir.join(name))
        };
        let blocks = file("blocks".into())?;
        let next = blocks.metadata()?.len() / BLOCK as u64;
        let parts = room.max(bytes).div_ceil(PART);
        let slots = (0..parts).map(|part| file(format!("slots-{part}"))).collect::<io::Result<_>>()?;
        Ok(Packed { bytes: bytes.into(), slots, blocks, next: next.into() })
    }

    fn check(&self, at: u64, len: usize) -> io::Result<()> {
        let end = at.checked_add(len as u64).filter(|&end| end <= self.len());
        end.map(drop).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Returns the file with the slots of a block, and the position of its slot.
    fn slot_at(&self, at: u64) -> io::Result<(&File, u64)> {
        let file = self.slots.get((at / PART) as usize).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((file, at % PART / BLOCK as u64 * SLOT as u64))
    }

    /// Reads the slots of blocks of one piece.
    fn slots(&self, at: u64, count: usize) -> io::Result<Vec<IndexSlot>> {
        let (file, position) = self.slot_at(at)?;
        let mut bytes = vec![0; count * SLOT];
        read_or_zeros(file, &mut bytes, position)?;
        Ok(bytes.chunks_exact(SLOT).map(|slot| std::array::from_fn(|i| word(slot, i))).collect())
    }

    /// Fills `out` with whole blocks of one piece.
    fn read_piece(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let slots = self.slots(at, out.len() / BLOCK)?;
        for (slot, block) in slots.iter().zip(out.chunks_exact_mut(BLOCK)) {
            if slot[0] & STORED == STORED {
                read_or_zeros(&self.blocks, block, slot[1] * BLOCK as u64)?;
            } else {
                unpack(slot, block);
            }
        }
        Ok(())
    }

    /// Writes whole blocks of one piece.
    fn write_piece(&self, at: u64, data: &[u8]) -> io::Result<()> {
        let mut slots = self.slots(at, data.len() / BLOCK)?;
        for (slot, block) in slots.iter_mut().zip(data.chunks_exact(BLOCK)) {
            *slot = match pack(block) {
                Some(packed) => packed,
                None => {
                    let is_stored = slot[0] & STORED == STORED;
                    let number = if is_stored { slot[1] } else { self.next.fetch_add(1, Relaxed) };
                    self.blocks.write_all_at(block, number * BLOCK as u64)?;
                    [STORED, number, 0, 0, 0, 0, 0, 0]
                }
            };
        }
        let bytes: Vec<u8> = slots.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
        let (file, position) = self.slot_at(at)?;
        file.write_all_at(&bytes, position)
    }
}

impl Device for Packed {
    fn len(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    fn read_at(&self, at: u64, mut buffer: IoBufMut<'_>) -> io::Result<()> {
        self.check(at, buffer.len())?;
        for (piece, range) in pieces(at, buffer.len()) {
            let start = piece.start & !(BLOCK as u64 - 1);
            let mut bytes = vec![0; ((piece.end - start) as usize).next_multiple_of(BLOCK)];
            self.read_piece(start, &mut bytes)?;
            let first = (piece.start - start) as usize;
            buffer.part(range.clone()).copy_from(&bytes[first..first + range.len()]);
        }
        Ok(())
    }

    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        self.check(at, data.len())?;
        if !at.is_multiple_of(BLOCK as u64) || !data.len().is_multiple_of(BLOCK) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        pieces(at, data.len())
            .try_for_each(|(piece, range)| self.write_piece(piece.start, &data.part(range).to_vec()))
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn resize(&self, len: u64) -> io::Result<()> {
        if len > self.slots.len() as u64 * PART {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.store(len, Relaxed);
        Ok(())
    }
}

/// Divides a request: positions on the device, and those in the request's memory.
fn pieces(at: u64, len: usize) -> impl Iterator<Item = (Range<u64>, Range<usize>)> {
    let end = at + len as u64;
    let next = move |start: &u64| Some((start / PIECE_BYTES + 1) * PIECE_BYTES).filter(|&next| next < end);
    std::iter::successors(Some(at).filter(|&at| at < end), next).map(move |start| {
        let stop = ((start / PIECE_BYTES + 1) * PIECE_BYTES).min(end);
        (start..stop, (start - at) as usize..(stop - at) as usize)
    })
}

/// Fills `out` from `at` on; what is after the file's end is zero.
fn read_or_zeros(file: &File, mut out: &mut [u8], mut at: u64) -> io::Result<()> {
    while !out.is_empty() {
        match file.read_at(out, at) {
            Ok(0) => {
                out.fill(0);
                break;
            }
            Ok(count) => {
                at += count as u64;
                out = &mut out[count..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns word `i`, or 0 past the end.
fn word(bytes: &[u8], i: usize) -> u64 {
    bytes.as_chunks::<8>().0.get(i).map_or(0, |word| u64::from_le_bytes(*word))
}

/// Makes the slot of a block: the number of words, their places (9 bits each), then the words. `None` for one
/// that has too many.
fn pack(block: &[u8]) -> Option<IndexSlot> {
    let (mut slot, mut count) = ([0; SLOT / 8], 0);
    let words = (0..BLOCK / 8).map(|i| (i, word(block, i))).filter(|(_, word)| *word != 0);
    for (i, word) in words {
        if count == WORDS {
            return None;
        }
        slot[0] |= (i as u64) << (3 + 9 * count);
        slot[1 + count] = word;
        count += 1;
    }
    slot[0] |= count as u64;
    Some(slot)
}

/// Writes the block of a slot over `block`.
fn unpack(slot: &IndexSlot, block: &mut [u8]) {
    block.fill(0);
    for i in 0..(slot[0] & STORED) as usize {
        let at = (slot[0] >> (3 + 9 * i)) as usize % (BLOCK / 8) * 8;
        block[at..at + 8].copy_from_slice(&slot[1 + i].to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_as_they_went() {
        let dir = tempfile::tempdir().unwrap();
        let device = Packed::open(dir.path(), 1 << 50, 0).unwrap();
        let full: Vec<u8> = (0..BLOCK).map(|i| i as u8).collect();
        let mut few = vec![0; BLOCK];
        for at in [0, 8, 1024, 2047, 4080, 4095] {
            few[at] = 7;
        }
        let blocks = [&few[..], &full, &[0; BLOCK], &full, &few].concat();
        // The second position begins two blocks before the end of a piece.
        for at in [0, (1 << 49) - 2 * BLOCK as u64, (1 << 50) - blocks.len() as u64] {
            device.write_slice(at, &blocks).unwrap();
            let device = Packed::open(dir.path(), 1 << 50, 0).unwrap();
            let mut read = vec![1; blocks.len()];
            device.read_slice(at, &mut read).unwrap();
            assert!(read == blocks, "at {at}");
            device.read_slice(at + 5000, &mut read[..3000]).unwrap();
            assert!(read[..3000] == blocks[5000..8000], "part at {at}");
        }
        assert_eq!(std::fs::metadata(dir.path().join("blocks")).unwrap().len(), 6 * BLOCK as u64);
        device.write_slice(0, &full).unwrap();
        device.write_slice(0, &few).unwrap();
        let mut read = vec![1; BLOCK];
        device.read_slice(0, &mut read).unwrap();
        assert!(read == few);
        assert!(device.read_slice((1 << 50) - 1, &mut read).is_err());
        assert!(device.write_slice(1, &full).is_err());
        assert!(device.resize(1 << 51).is_err());
    }
}
