//! Visits every inode: each claims the blocks that it owns.

use super::inodes::check_fields;
use super::pass::{ChainRebuild, Pass};
use crate::check::inodes::maps::MapScan;
use crate::check::inodes::xattrs::Chain;
use crate::check::outcome::findings::{Findings, Tally};
use crate::check::outcome::invariants as iv;
use crate::check::outcome::progress::Progress;
use crate::check::pass::block_set::BlockSet;
use crate::check::pass::inode_table::InodeBlock;
use crate::vocabulary::acl::AclKind;
use crate::vocabulary::error::Outcome;
use lanefs_format::{BLOCK, FileKind, INODE_DEPTH_SHIFT, INODE_INLINE, inode as f};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Blocks of inodes in a batch.
const BLOCKS: usize = 16;

impl Pass<'_, '_> {
    /// Walks all inodes in order of their numbers, so that of two owners of a block the first keeps it.
    /// Inodes that were found without the tables come last, so that left-overs take nothing from inodes in
    /// use.
    ///
    /// In several threads the order is another one. That matters only where something is wrong: then the walk
    /// begins again, in one thread.
    pub(super) fn walk_inodes(&mut self, progress: &Progress<'_>) -> Outcome<()> {
        let inodes = Arc::clone(&self.inodes);
        let count = inodes.blocks.len();
        let all_early = inodes.blocks.iter().all(|block| !block.is_late());
        let done = AtomicU64::new(0);
        let threads = self.threads;
        if !self.mends() && threads > 1 && self.findings.is_empty() && all_early {
            // One finding is enough, and a maze of large blocks costs every batch its patience.
            let found = AtomicBool::new(false);
            self.in_batches(count, BLOCKS, |pass, range| {
                if found.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let walked = pass.walk_blocks(&inodes.blocks[range], false, &done, progress);
                found.fetch_or(!pass.findings.is_empty() || !pass.suspects.is_empty(), Ordering::Relaxed);
                walked
            })?;
            if self.findings.is_empty() && self.suspects.is_empty() {
                return Ok(());
            }
            self.findings = Findings::default();
            self.suspects.clear();
            self.claimed = Arc::new(BlockSet::new(self.blocks()));
            self.claim_fixed();
            inodes.forget_links();
            done.store(0, Ordering::Relaxed);
        }
        self.threads = 1;
        for late in [false, true] {
            self.in_batches(count, BLOCKS, |pass, range| {
                pass.walk_blocks(&inodes.blocks[range], late, &done, progress)
            })?;
        }
        self.threads = threads;
        Ok(())
    }

    fn walk_blocks(
        &mut self,
        blocks: &[InodeBlock],
        late: bool,
        done: &AtomicU64,
        progress: &Progress<'_>,
    ) -> Outcome<()> {
        for block in blocks.iter().filter(|block| block.is_late() == late) {
            let walked = self.walk_block(block.at())?;
            progress.set(done.fetch_add(walked, Ordering::Relaxed) + walked);
        }
        Ok(())
    }

    /// Walks the inodes of a block. Returns their number.
    fn walk_block(&mut self, at: u64) -> Outcome<u64> {
        let size = self.core.store.inode_size().bytes();
        let (bytes, _) = self.read_inodes(at)?;
        let mut walked = 0;
        for (index, one) in bytes.chunks_exact(size as usize).enumerate() {
            if f::MODE.read(one) != Some(0) {
                self.walk_inode(at / size + index as u64, one)?;
                walked += 1;
            }
        }
        Ok(walked)
    }

    fn walk_inode(&mut self, ino: u64, bytes: &[u8]) -> Outcome<()> {
        let size = self.core.store.inode_size();
        let at = ino * size.bytes();
        let mut tally = Tally::new(ino);
        let mut copy = [0; 256];
        let copy = &mut copy[..bytes.len()];
        copy.copy_from_slice(bytes);
        // Faults of its fields are reported already; here the fields are only not used.
        let kind = check_fields(copy, size, &mut Tally::new(ino), (at, self.is_orphan_directory(ino)));
        let claims = self.claims.len();
        let flags = f::FLAGS.read(copy).unwrap_or(0);
        let is_directory = kind == FileKind::Directory;
        let depth = (flags >> INODE_DEPTH_SHIFT & 0xf) as u8;
        if kind == FileKind::Symlink && flags & INODE_INLINE == 0 {
            // A target whose block does not stay below is empty in the next pass.
            self.check_target(&mut tally, copy, at)?;
        }
        // Without extents, as inline, that is an empty map.
        let length = f::BYTES.read(copy).unwrap_or(0).div_ceil(BLOCK);
        let mut map = MapScan::new(if kind == FileKind::Symlink { length } else { u64::MAX });
        if depth == 0 && !is_directory {
            self.walk_extents(&mut tally, &mut map, copy, at);
        } else {
            let root = (f::MAP.read(copy).unwrap_or(0), depth);
            self.walk_map(&mut tally, &mut map, is_directory, root, at)?;
        }
        if !is_directory && map.end > length {
            tally.note(at, &iv::INODE_END);
            f::BYTES.write(copy, map.end * BLOCK);
        }
        if !map.good {
            f::MAP.write(copy, 0);
            f::FLAGS.write(copy, flags & !(0xf << INODE_DEPTH_SHIFT));
        }
        let before_xattrs = self.claims.len();
        let chain = self.check_xattrs(&mut tally, copy, size.attributes(is_directory), at)?;
        check_list_flags(&mut tally, copy, &chain, at);
        if let Some(attributes) = chain.saved
            && self.mends()
        {
            let blocks = self.claims_since(before_xattrs, |_| true).into_iter().map(|(at, _)| at).collect();
            self.chains.push(ChainRebuild { ino, attributes, blocks });
        }
        let mut blocks = map.blocks + chain.blocks;
        let mut rebuilt = false;
        if is_directory {
            match self.check_directory(&mut tally, copy, map.leaves, claims, !map.good)? {
                Some(more) => blocks += more,
                None => rebuilt = true,
            }
        }
        // The count of a directory that is emptied is set then.
        if !rebuilt {
            if f::BLOCKS.read(copy) != Some(blocks) {
                tally.note(at, &iv::INODE_BLOCKS);
            }
            f::BLOCKS.write(copy, blocks);
        }
        self.findings.take(tally);
        if copy != bytes {
            self.write_inode(ino, copy)?;
        }
        Ok(())
    }
}

/// Compares the flags of access control lists with the attributes. Attributes that are put back bring their
/// flags with them.
fn check_list_flags(tally: &mut Tally, inode: &mut [u8], chain: &Chain, at: u64) {
    let lists = AclKind::Access.flag() | AclKind::Default.flag();
    let flags = f::FLAGS.read(inode).unwrap_or(0);
    if chain.saved.is_none() && flags & lists != chain.lists {
        tally.note(at, &iv::ACL_FLAG);
    }
    f::FLAGS.write(inode, flags & !lists | chain.lists);
}
