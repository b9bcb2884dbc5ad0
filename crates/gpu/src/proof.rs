//! What proofs and probes want of a device: what the kernels themselves answer, and what is in its memory.

use crate::batch::{Batch, Shape, Tables};
use crate::engine::Mirrored;
use crate::error::Result;
use crate::twin::host::Snapshot;
use crate::twin::lookup::{Found, MAX_DISPATCHES, Note, Question};
use lanefs::ResolveOptions;

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
        Ok(((0..paths.len()).map(|i| batch.found(i)).collect(), batch.notes()))
    }

    /// What the kernels are asked with these options.
    pub fn question_of(&self, options: &ResolveOptions) -> Question {
        self.question(options)
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
