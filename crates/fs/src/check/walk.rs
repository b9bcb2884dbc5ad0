//! Visits every inode: each claims the blocks that it owns.

use super::findings::Tally;
use super::inodes::check_fields;
use super::invariants as iv;
use super::pass::Pass;
use crate::error::Outcome;
use lanefs_format::INODE_DEPTH_SHIFT;
use lanefs_format::{BLOCK, FileKind, inode as f};

/// Inodes between two reports of progress.
const STEP: u64 = 4096;

impl Pass<'_, '_> {
    /// Walks all inodes in order of their numbers, so that of two owners of a block the first keeps it.
    /// Inodes that were found without the tables come last, so that left-overs take nothing from inodes in
    /// use.
    pub(super) fn walk_inodes(&mut self, progress: &dyn Fn(u64, u64)) -> Outcome<()> {
        let size = self.core.store.inode_size().bytes();
        let mut done = 0;
        for late in [false, true] {
            for rank in 0..self.inodes.blocks.len() {
                let block = self.inodes.blocks[rank];
                if block.late != late {
                    continue;
                }
                let (bytes, _) = self.read_inodes(block.at)?;
                for (place, one) in bytes.chunks_exact(size as usize).enumerate() {
                    if f::MODE.read(one) == Some(0) {
                        continue;
                    }
                    self.walk_inode(block.at / size + place as u64, one)?;
                    done += 1;
                    if done % STEP == 0 {
                        progress(done, self.inodes.used);
                    }
                }
            }
        }
        progress(done, self.inodes.used);
        Ok(())
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
        // Without extents, as inline, that is an empty map.
        let map = match depth == 0 && !is_directory {
            true => self.walk_extents(&mut tally, copy, at),
            false => self.walk_map(&mut tally, is_directory, f::MAP.read(copy).unwrap_or(0), depth, at)?,
        };
        if !map.good {
            f::MAP.write(copy, 0);
            f::FLAGS.write(copy, flags & !(0xf << INODE_DEPTH_SHIFT));
        }
        let tail = size.attributes(is_directory);
        let chain = self.check_xattrs(&mut tally, copy, tail.clone(), at)?;
        if let Some(saved) = chain.saved {
            let here = f::XATTR.read(copy).filter(|word| *word < BLOCK).unwrap_or(0) as usize;
            copy[tail.end - here..tail.end].fill(0);
            f::XATTR.write(copy, 0);
            if self.mends() {
                self.attributes.push((ino, saved));
            }
        }
        let mut blocks = map.blocks + chain.blocks;
        let mut rebuilt = false;
        if is_directory {
            match self.check_directory(&mut tally, copy, map.leaves, claims, !map.good)? {
                Some(more) => blocks += more,
                None => (blocks, rebuilt) = (chain.blocks, true),
            }
        }
        if f::BLOCKS.read(copy) != Some(blocks) && !rebuilt {
            tally.note(at, &iv::INODE_BLOCKS);
        }
        f::BLOCKS.write(copy, blocks);
        self.findings.take(tally);
        if copy != bytes {
            self.write_inode(ino, copy)?;
        }
        Ok(())
    }
}
