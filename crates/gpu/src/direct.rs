//! The kernels' own results, without the host's part, for probes and tests.

use crate::batch::{BatchShape, PathBatch};
use crate::error::Result;
use crate::limits::MAX_DISPATCHES;
use crate::mirrored::Mirrored;
use crate::query::{LookupQuery, PathResult};
use crate::tables::MirrorTables;
use crate::twin::walk::Requests;
use lanefs::PathSet;

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
        let tables = self.with_mirror(|mirror| Ok(MirrorTables::of(mirror)))?;
        let set: PathSet = paths.iter().collect();
        let shape = BatchShape::of(set.view(), query.attributes);
        let mut batch = PathBatch::new(self.device(), self.kernels(), shape, false)?;
        batch.set_paths(set.view());
        for dispatch in 0..MAX_DISPATCHES {
            let number = batch.submit(&tables, self.cache(), query, dispatch > 0)?;
            self.device().wait(number)?;
            if !batch.is_unfinished() {
                break;
            }
        }
        let results = (0..paths.len()).map(|i| batch.result(i)).collect();
        Ok((results, batch.requests(self.device())?))
    }
}
