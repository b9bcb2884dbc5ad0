//! Bitmaps and chunk tables, compared with the blocks in use.

use super::blocks::{Naive, SUMS_IN_GROUP};
use super::bytes::Words;
use super::claims::BlockUser;
use super::superblock::COPY;
use super::{BLOCK, CHUNK_BLOCKS, CHUNK_TABLE_BLOCKS, GROUP_BLOCKS, GROUP_CHUNKS, Read, ensure};

impl Naive<'_> {
    /// Claims the blocks that no inode owns.
    pub(super) fn claim_system(&self) -> Read<()> {
        let s = &self.superblock;
        self.claims.claim(0, 1, BlockUser::System)?;
        self.claims.claim(COPY, 1, BlockUser::System)?;
        self.claims.claim(s.groups, s.group_count, BlockUser::System)?;
        self.claims.claim(s.journal, s.journal_blocks, BlockUser::System)
    }

    /// Compares bitmaps and chunk tables with the claims, after all inodes were visited.
    pub(super) fn check_space(&self) -> Read<()> {
        let mut free = 0;
        for number in 0..self.superblock.group_count {
            let group = self.group(number)?;
            let mut clear = 0;
            for word in 0..GROUP_BLOCKS / 64 {
                clear += self.check_word(number, &group, word)?;
            }
            ensure(group.u64(16) == clear, || format!("group {number} has {clear} free blocks"))?;
            free += clear;
            for chunk in (0..GROUP_CHUNKS).filter(|chunk| group.u64(24) >> chunk & 1 != 0) {
                self.check_chunk(number, chunk, &group)?;
            }
        }
        let recorded = self.superblock.free_blocks;
        ensure(!self.superblock.clean || recorded == free, || {
            format!("the superblock says {recorded} free blocks, and {free} are")
        })
    }

    /// Compares 64 bits of a group's bitmap with the claims. Returns how many are clear.
    fn check_word(&self, number: u64, group: &[u8], word: u64) -> Read<u64> {
        let bits = group.u64(64 + 8 * word as usize);
        let (chunk, first) = (word * 64 / CHUNK_BLOCKS, number * GROUP_BLOCKS + word * 64);
        let in_chunk = group.u64(24) >> chunk & 1 != 0;
        // Most of the group of a small volume lies past the end.
        if bits == u64::MAX && (in_chunk || first * BLOCK >= self.superblock.bytes) {
            return Ok(0);
        }
        for bit in 0..64 {
            let (block, is_set) = (first + bit, bits >> bit & 1 != 0);
            let past_the_end = block * BLOCK >= self.superblock.bytes;
            let reserved = self.is_reserved_for_sums(number, block);
            let in_use = in_chunk || past_the_end || reserved || self.claims.get(block).is_some();
            ensure(is_set == in_use, || {
                let user = self.claims.get(block);
                format!("bit of block {:#x} is {is_set}; it is used by {user:?}", block * BLOCK)
            })?;
        }
        Ok(u64::from(bits.count_zeros()))
    }

    fn check_chunk(&self, number: u64, chunk: u64, group: &[u8]) -> Read<()> {
        let at = (number * GROUP_BLOCKS + chunk * CHUNK_BLOCKS) * BLOCK;
        let table = self.chunk_table(at)?;
        let mut used = CHUNK_TABLE_BLOCKS;
        for b in CHUNK_TABLE_BLOCKS..CHUNK_BLOCKS {
            let entry = &table[b as usize * 16..b as usize * 16 + 16];
            let (kind, owner) = (entry.u8(0), entry.u64(8));
            let position = at + b * BLOCK;
            used += u64::from(kind != 0);
            ensure(entry.u16(2) == 0, || format!("reserved bytes in the entry of {position:#x}"))?;
            match (kind, self.claims.get(position / BLOCK)) {
                (0, None) => ensure(entry == [0; 16], || format!("entry of the free block {position:#x}"))?,
                (4, user) => self.check_inode_block(position, entry, user)?,
                (SUMS_IN_GROUP, None) if self.sums_block_of(number, position) => {}
                (kind, Some(BlockUser::Metadata(k, o))) if (k, o) == (kind, owner) => {
                    ensure(entry.u8(1) == 0, || format!("entry of {position:#x}"))?;
                    ensure(kind == 5 || entry.u32(4) == 0, || {
                        format!("checksum in the entry of {position:#x}")
                    })?;
                }
                (kind, user) => {
                    return Err(format!("block {position:#x}: kind {kind}, owner {owner}, used by {user:?}"));
                }
            }
        }
        ensure(u64::from(table.u32(16)) == used, || format!("chunk {at:#x} has {used} used blocks"))?;
        let has_room = group.u64(32) >> chunk & 1 != 0;
        ensure(has_room || used == CHUNK_BLOCKS, || format!("chunk {at:#x} has room, and its bit is clear"))
    }

    /// A block of inodes: as many in use as its entry says, and all of them visited.
    fn check_inode_block(&self, position: u64, entry: &[u8], user: Option<BlockUser>) -> Read<()> {
        ensure(user.is_none() && entry.u64(8) == 0 && entry.u32(4) == 0, || {
            format!("block of inodes {position:#x}: {entry:?}, used by {user:?}")
        })?;
        let numbers = self.inodes_of_block(position)?;
        ensure(usize::from(entry.u8(1)) == numbers.len(), || {
            format!("block of inodes {position:#x}: {} in use, not {}", numbers.len(), entry.u8(1))
        })?;
        let visited = self.visited.borrow();
        match numbers.iter().find(|number| !visited.contains_key(number)) {
            Some(number) => Err(format!("inode {number} is in use and has no name")),
            None => Ok(()),
        }
    }

    /// Numbers of the inodes in use in a block.
    fn inodes_of_block(&self, position: u64) -> Read<Vec<u64>> {
        let block = self.metadata(position, 4, 0)?;
        let size = self.superblock.inode_bytes as usize;
        let in_use = (0..BLOCK as usize).step_by(size).filter(|at| block.u16(*at) != 0);
        Ok(in_use.map(|at| (position + at as u64) / size as u64).collect())
    }

    /// Numbers of all inodes in use.
    pub(super) fn inodes_in_use(&self) -> Read<Vec<u64>> {
        let mut all = Vec::new();
        for number in 0..self.superblock.group_count {
            let group = self.group(number)?;
            for chunk in (0..GROUP_CHUNKS).filter(|chunk| group.u64(24) >> chunk & 1 != 0) {
                let at = (number * GROUP_BLOCKS + chunk * CHUNK_BLOCKS) * BLOCK;
                let table = self.chunk_table(at)?;
                for b in (CHUNK_TABLE_BLOCKS..CHUNK_BLOCKS).filter(|b| table.u8(*b as usize * 16) == 4) {
                    all.extend(self.inodes_of_block(at + b * BLOCK)?);
                }
            }
        }
        Ok(all)
    }
}
