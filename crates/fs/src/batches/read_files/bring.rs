//! The content of files that are read next, and the names that are looked up next, fetched as those of a
//! batch.

use super::planned::blocks_of;
use super::read::WINDOW_BLOCKS;
use super::rounds::in_rounds;
use crate::attempt::Core;
use crate::by_inode::ops;
use crate::by_inode::pieces::PIECE_BYTES;
use crate::files::inode::Inode;
use crate::names::lookup;
use crate::running::volume::Volume;
use crate::vocabulary::types::{Caller, Ino};
use lanefs_format::BLOCK;
use lanefs_store::{BlockRange, Want};

/// Files that are looked at together at most.
const TOGETHER: usize = 512;

/// # Many files, one after the other
impl Volume {
    /// Fetches the content of files that the caller reads next, in this order: all absent blocks of the first
    /// of them at once, as [`read_files`](Self::read_files) does. Returns the number of these files, one at
    /// least where there is one: so many that their blocks take a small part of the cache. The caller reads
    /// them, and asks for the others then.
    ///
    /// A file of more than 1 MiB is left out, for it is read ahead while it is read. A block that cannot be
    /// had here fails when it is read.
    pub fn bring_files(&self, files: &[Ino]) -> usize {
        let store = &self.shared.state.store;
        if store.is_memory() {
            return files.len();
        }
        let mut found: Vec<(Ino, Vec<BlockRange>)> =
            files.iter().take(TOGETHER).map(|ino| (*ino, Vec::new())).collect();
        in_rounds(
            &self.shared,
            &mut found,
            true,
            |core, (ino, _)| {
                let node = ops::regular(core, *ino)?;
                match node.is_inline() || node.size() > PIECE_BYTES as u64 {
                    true => Ok(Vec::new()),
                    false => blocks_of(core, node, 0, node.size()),
                }
            },
            |(_, ranges), found| *ranges = found,
        );
        let most = (store.stats().blocks_allowed / 16).clamp(16, WINDOW_BLOCKS);
        let mut sum = 0;
        let fits = found.iter().take_while(|(_, ranges)| {
            sum += ranges.iter().map(|range| u64::from(range.count)).sum::<u64>();
            sum <= most
        });
        let count = fits.count().max(1).min(found.len());
        let want =
            |range: &BlockRange| (range.first * BLOCK, Want::Data { need: range.count, extent: range.count });
        let misses: Vec<_> = found[..count].iter().flat_map(|(_, ranges)| ranges).map(want).collect();
        if !misses.is_empty() {
            store.fetch_many(&misses);
        }
        count
    }

    /// Fetches what the caller looks up next: each name in its directory, and the inode of its file. All
    /// absent blocks of all names come together, and no others with them. A block that cannot be had here
    /// fails when it is looked up, and so does a name that is not there.
    pub fn bring_names(&self, names: &[(Ino, &[u8])]) {
        if self.shared.state.store.is_memory() {
            return;
        }
        let look = |core: &Core<'_>, (dir, name): &mut (Ino, &[u8])| {
            let (ino, _) = lookup::lookup(core, &Caller::OWNER, dir.0, name)?;
            Inode::load(core, ino).map(drop)
        };
        in_rounds(&self.shared, &mut names.to_vec(), true, look, |_, ()| ());
    }
}
