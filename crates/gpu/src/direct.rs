//! The kernels' own results, without the host's part, for probes and tests.

use crate::batch::{BatchShape, PathBatch, Wanted};
use crate::error::Result;
use crate::limits::MAX_DISPATCHES;
use crate::mirrored::Mirrored;
use crate::query::{LookupQuery, PathResult};
use crate::structures::PackedAnswers;
use crate::tables::MirrorTables;
use crate::twin::walk::Requests;
use lanefs::{PathSet, Paths};

impl Mirrored<'_, '_> {
    /// Resolves paths by the kernels alone. Returns the results, and the work that the last dispatch of
    /// lookups left to later kernels.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn lookup_directly<P: AsRef<[u8]>>(
        &self,
        query: &LookupQuery,
        paths: &[P],
    ) -> Result<(Vec<PathResult>, Requests)> {
        let set: PathSet = paths.iter().collect();
        let batch = self.run_directly(query, set.view(), Wanted::entries(query.attributes))?;
        let results = (0..paths.len()).map(|i| batch.result(i)).collect();
        Ok((results, batch.requests(self.device())?))
    }

    /// Resolves paths by the kernels alone, for a host that asks only whether they exist. Returns the
    /// results on the device, and the bits that come to the host.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn pack_directly<P: AsRef<[u8]>>(
        &self,
        query: &LookupQuery,
        paths: &[P],
    ) -> Result<(Vec<PathResult>, Vec<PackedAnswers>)> {
        let set: PathSet = paths.iter().collect();
        let batch = self.run_directly(query, set.view(), Wanted::Existence)?;
        Ok((batch.results_on_device(self.device())?, batch.packed()))
    }

    fn run_directly(&self, query: &LookupQuery, paths: Paths<'_>, wanted: Wanted) -> Result<PathBatch> {
        let tables = self.with_mirror(|mirror| Ok(MirrorTables::of(mirror)))?;
        let shape = BatchShape::of(paths, wanted);
        let mut batch = PathBatch::new(self.device(), self.kernels(), shape, false)?;
        batch.set_paths(paths);
        for dispatch in 0..MAX_DISPATCHES {
            let number = batch.submit(&tables, self.cache(), query, dispatch > 0)?;
            self.device().wait(number)?;
            if !batch.is_unfinished() {
                break;
            }
        }
        Ok(batch)
    }
}
