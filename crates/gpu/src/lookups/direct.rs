//! The kernels' own results, without the host's part, for probes and tests.

use super::batch::{BatchShape, PathBatch};
use super::mirrored::Mirrored;
use crate::error::Result;
use crate::resident::tables::MirrorTables;
use crate::shared::column_layout::AnswerRow;
use crate::shared::limits::MAX_DISPATCHES;
use crate::shared::query::{LookupQuery, PathResult};
use crate::shared::structures::PackedAnswers;
use crate::twin::kernels::walk::Requests;
use lanefs::{Column, ColumnSet, NamesUnder, PathSet};

impl Mirrored<'_> {
    /// Resolves paths by the kernels alone. Returns the results, and the work that the last dispatch of
    /// lookups left to later kernels.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn lookup_directly<P: lanefs::AsPath>(
        &self,
        query: &LookupQuery,
        paths: &[P],
    ) -> Result<(Vec<PathResult>, Requests)> {
        let batch = self.run_directly(query, paths, ColumnSet::ENTRIES)?;
        Ok((batch.results(self.device())?, batch.requests(self.device())?))
    }

    /// Resolves paths by the kernels alone, for a host that asks only whether they exist. Returns the
    /// results on the device, and the bits that come to the host.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn pack_directly<P: lanefs::AsPath>(
        &self,
        query: &LookupQuery,
        paths: &[P],
    ) -> Result<(Vec<PathResult>, Vec<PackedAnswers>)> {
        let batch = self.run_directly(query, paths, ColumnSet::of(&[Column::Exists]))?;
        let packed = batch.output().map_or(Vec::new(), |output| output.packed(paths.len()));
        Ok((batch.results(self.device())?, packed))
    }

    /// Resolves paths by the kernels alone, for a host that wants these columns. Returns the results on the
    /// device, and the rows that come to the host.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn columns_directly<P: lanefs::AsPath>(
        &self,
        query: &LookupQuery,
        wanted: ColumnSet,
        paths: &[P],
    ) -> Result<(Vec<PathResult>, Vec<AnswerRow>)> {
        let batch = self.run_directly(query, paths, wanted)?;
        let rows = batch.output().map_or(Vec::new(), |output| output.rows(paths.len()));
        Ok((batch.results(self.device())?, rows))
    }

    /// Looks up names by the kernels alone, each in the directory with its number. Returns the results, and
    /// the work that the last dispatch left to later kernels.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn names_directly(
        &self,
        query: &LookupQuery,
        names: NamesUnder<'_>,
        directories: &[u64],
    ) -> Result<(Vec<PathResult>, Requests)> {
        let shape = BatchShape::of_names(names.names(), directories.len());
        let wanted = ColumnSet::ENTRIES;
        let mut batch = PathBatch::new(self.device(), self.kernels(), shape, wanted)?;
        batch.set_names(names, directories, self.packers())?;
        self.dispatch_directly(query, &mut batch)?;
        Ok((batch.results(self.device())?, batch.requests(self.device())?))
    }

    fn run_directly<P: lanefs::AsPath>(
        &self,
        query: &LookupQuery,
        paths: &[P],
        wanted: ColumnSet,
    ) -> Result<PathBatch> {
        let paths: PathSet = paths.iter().collect();
        let paths = paths.view();
        let mut batch = PathBatch::new(self.device(), self.kernels(), BatchShape::of(paths), wanted)?;
        batch.set_paths(paths, self.packers())?;
        self.dispatch_directly(query, &mut batch)?;
        Ok(batch)
    }

    fn dispatch_directly(&self, query: &LookupQuery, batch: &mut PathBatch) -> Result<()> {
        let tables = self.with_mirror(|mirror| Ok(MirrorTables::of(mirror)))?;
        for dispatch in 0..MAX_DISPATCHES {
            let number = batch.submit(&tables, self.cache(), query, dispatch > 0)?;
            self.device().wait(number)?;
            if !batch.is_unfinished() {
                break;
            }
        }
        Ok(())
    }
}
