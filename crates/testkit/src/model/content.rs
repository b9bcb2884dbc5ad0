//! Contents of a regular file: a size and the blocks that were ever written.

use lanefs_format::BLOCK;
use std::collections::BTreeMap;

/// Content of a regular file, sparse.
#[derive(Clone, Debug, Default)]
pub struct Content {
    size: u64,
    /// 4 KiB each; bytes past the end of the file are zero, so that growing shows zeros.
    blocks: BTreeMap<u64, Box<[u8]>>,
}

impl Content {
    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes kept in memory.
    pub fn allocated_bytes(&self) -> u64 {
        self.blocks.len() as u64 * BLOCK
    }

    /// Fills as much of `buffer` as the file reaches, and says how much that is.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let len = self.size.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let buffer = &mut buffer[..len];
        buffer.fill(0);
        if len == 0 {
            return 0;
        }
        let last = offset + len as u64 - 1;
        for (index, block) in self.blocks.range(offset / BLOCK..=last / BLOCK) {
            let start = index * BLOCK;
            let from = start.max(offset);
            let to = (start + BLOCK).min(last + 1);
            buffer[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&block[(from - start) as usize..(to - start) as usize]);
        }
        len
    }

    /// Writes all of `data`; the file grows where it must. The caller has checked the bounds.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let within = (at % BLOCK) as usize;
            let n = (BLOCK as usize - within).min(data.len() - done);
            let block = self.blocks.entry(at / BLOCK).or_insert_with(|| vec![0; BLOCK as usize].into());
            block[within..within + n].copy_from_slice(&data[done..done + n]);
            done += n;
        }
        self.size = self.size.max(offset + data.len() as u64);
    }

    /// Cuts the file off or grows it with a hole.
    pub fn truncate(&mut self, size: u64) {
        if size < self.size {
            self.clear(size, u64::MAX);
        }
        self.size = size;
    }

    /// The file grows to `end` if it is shorter.
    pub fn extend(&mut self, end: u64) {
        self.size = self.size.max(end);
    }

    /// Bytes from `from` up to `to` become zero; whole blocks among them become holes.
    pub fn clear(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let touched: Vec<u64> = self.blocks.range(from / BLOCK..=(to - 1) / BLOCK).map(|(i, _)| *i).collect();
        for index in touched {
            let start = index * BLOCK;
            let (first, end) = (from.max(start) - start, to.min(start + BLOCK) - start);
            if (first, end) == (0, BLOCK) {
                self.blocks.remove(&index);
            } else if let Some(block) = self.blocks.get_mut(&index) {
                block[first as usize..end as usize].fill(0);
            }
        }
    }

    /// Moves the bytes from `from` on to `to`, with the end of the file. Both begin a block. Bytes between
    /// are gone, or zeros come between.
    pub fn move_tail(&mut self, from: u64, to: u64) {
        let tail = self.blocks.split_off(&(from / BLOCK));
        if to < from {
            self.clear(to, from);
        }
        self.blocks.extend(tail.into_iter().map(|(index, block)| (index - from / BLOCK + to / BLOCK, block)));
        self.size = self.size - from + to;
    }

    /// The first byte from `from` on, up to the end of the file, that is not zero.
    pub fn first_nonzero(&self, from: u64) -> Option<u64> {
        self.blocks.range(from / BLOCK..).find_map(|(index, block)| {
            let start = index * BLOCK;
            let skip = from.saturating_sub(start).min(BLOCK) as usize;
            block[skip..].iter().position(|byte| *byte != 0).map(|p| start + (skip + p) as u64)
        })
    }

    /// Blocks with a byte other than zero: their index and bytes.
    pub fn nonzero_blocks(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.blocks
            .iter()
            .filter(|(_, block)| block.iter().any(|b| *b != 0))
            .map(|(i, block)| (*i, &block[..]))
    }

    /// True where no block of the file was ever written from `from` up to `to`.
    pub fn untouched(&self, from: u64, to: u64) -> bool {
        from >= to || self.blocks.range(from / BLOCK..=(to - 1) / BLOCK).next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_plain_vector() {
        let mut numbers = crate::seeded::Seeded::new(5);
        let (mut content, mut plain) = (Content::default(), Vec::<u8>::new());
        for round in 0..2000u32 {
            let (from, len) = (numbers.below(20_000) as usize, numbers.below(9000) as usize);
            match numbers.below(6) {
                0 => {
                    plain.resize(from, 0);
                    content.truncate(from as u64);
                }
                1 => {
                    content.clear(from as u64, (from + len) as u64);
                    let end = plain.len();
                    plain[from.min(end)..(from + len).min(end)].fill(0);
                }
                2 if plain.len() > 8192 => {
                    content.move_tail(8192, 4096);
                    plain.drain(4096..8192);
                }
                3 if (4096..20_000).contains(&plain.len()) => {
                    content.move_tail(4096, 12_288);
                    plain.splice(4096..4096, [0; 8192]);
                }
                _ => {
                    content.write(from as u64, &vec![round as u8; len]);
                    plain.resize(plain.len().max(from + len), 0);
                    plain[from..from + len].fill(round as u8);
                }
            }
            let mut seen = vec![1; 40_000];
            let n = content.read(0, &mut seen);
            assert_eq!((n, &seen[..n]), (plain.len(), &plain[..]), "round {round}");
            assert_eq!(content.first_nonzero(0), plain.iter().position(|b| *b != 0).map(|p| p as u64));
        }
    }
}
