//! What proofs and probes want of a device: what the kernels themselves answer, and what is in its memory.

pub mod batches;

use crate::batch::{Batch, Shape, Tables};
use crate::engine::Mirrored;
use crate::error::Result;
use crate::filter::Filter;
use crate::twin::find::{Search, Unit};
use crate::twin::host::Snapshot;
use crate::twin::leaves::Place;
use crate::twin::lookup::{Found, MAX_DISPATCHES, Note, Question};
use lanefs::ResolveOptions;
use lanefs::format::INODE_CORE;

impl Mirrored<'_, '_> {
    /// What the lookup kernel itself answers, and what it noted for the cache (in the last dispatch, where there were several).
    ///
    /// # Errors
    /// The device's.
    pub fn found<P: AsRef<[u8]>>(&self, question: &Question, paths: &[P]) -> Result<(Vec<Found>, Vec<Note>)> {
        let tables = self.with_mirror(|mirror| Ok(Tables::of(mirror)))?;
        let shape = Shape::of(paths, false);
        let mut batch = Batch::new(self.device(), self.gpu().kernels(), self.cache(), shape, false)?;
        batch.take(paths);
        for dispatch in 0..MAX_DISPATCHES {
            let submission = batch.submit(&tables, self.cache(), question, dispatch > 0)?;
            self.device().wait(submission)?;
            if !batch.is_unfinished() {
                break;
            }
        }
        Ok(((0..paths.len()).map(|i| batch.found(i)).collect(), batch.notes(self.device())?))
    }

    /// What the kernels are asked with these options.
    pub fn question_of(&self, options: &ResolveOptions) -> Question {
        self.question(options)
    }

    /// What the kernel itself gives of these leaf blocks, in any order of blocks; those of the mirror where none are named.
    ///
    /// # Errors
    /// The device's.
    pub fn records_of(&self, search: &Search<'_>, leaves: Option<&[u64]>) -> Result<(Vec<Unit>, Vec<u64>)> {
        self.with_mirror(|mirror| {
            let leaves = leaves.map_or_else(|| mirror.leaves.iter().copied().collect(), <[u64]>::to_vec);
            Ok((self.records(mirror, search, &leaves)?, leaves))
        })
    }

    /// What the kernels themselves say of inodes, and of places in file maps.
    ///
    /// # Errors
    /// The device's.
    #[expect(clippy::type_complexity, reason = "two lists")]
    pub fn cores_and_leaves(
        &self,
        inos: &[u64],
        places: &[Place],
    ) -> Result<(Vec<[u8; INODE_CORE]>, Vec<Option<u64>>)> {
        self.with_mirror(|mirror| Ok((self.cores_of(mirror, inos)?, self.leaves_at(mirror, places)?)))
    }

    /// What the kernel is asked by a search.
    pub fn search_of<'f>(&self, filter: &'f Filter, directories: bool) -> Search<'f> {
        self.search(filter, directories)
    }

    /// The directory cache as it is now.
    ///
    /// # Errors
    /// The device's.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let (versions, copies) = self.with_mirror(|mirror| Ok(mirror.snapshot()))?;
        Ok(Snapshot { cache: self.cache().snapshot(self.device())?, versions, copies })
    }
}
