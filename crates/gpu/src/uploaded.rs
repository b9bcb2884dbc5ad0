//! Paths that stay in device memory, and answers that stay there: the cost of lookups for another program
//! on the device.

use crate::batch::{BatchShape, PathBatch};
use crate::error::Result;
use crate::mirrored::Mirrored;
use crate::pending::next_batch;
use crate::query::LookupQuery;
use crate::tables::MirrorTables;
use crate::vulkan::Direction;
use lanefs::format::Code;
use lanefs::{ANSWER_BLOCK, Paths, Resolution, Resolutions, ResolveOptions, Rows};

/// Paths in the device's memory, which resolve in the volume as the mirror had it when they were uploaded.
pub struct UploadedPaths<'m, 'g, 'v> {
    mirrored: &'m Mirrored<'g, 'v>,
    batches: Vec<(PathBatch, usize)>,
    query: LookupQuery,
    /// Epoch of the directory-path table that the batches know.
    epoch: u32,
}

impl<'g, 'v> Mirrored<'g, 'v> {
    /// Copies paths to the device.
    ///
    /// # Errors
    /// An error of the device, also for want of memory.
    pub fn upload<'p>(
        &self,
        options: &ResolveOptions,
        paths: impl Into<Paths<'p>>,
    ) -> Result<UploadedPaths<'_, 'g, 'v>> {
        let paths = paths.into();
        let tables = self.with_mirror(|mirror| Ok(MirrorTables::of(mirror)))?;
        let query = self.query(options);
        let epoch = tables.epoch();
        let (mut batches, mut first) = (Vec::new(), 0);
        while first < paths.len() {
            let count = next_batch(paths.slice(first..paths.len()));
            let now = paths.slice(first..first + count);
            first += count;
            let shape = BatchShape::of(now, options.attributes);
            let mut batch = PathBatch::new(self.device(), self.kernels(), shape, true)?;
            batch.set_paths(now);
            batch.set_parameters(&tables, self.cache(), &query, false);
            batch.transfer(self.device(), Direction::ToDevice)?;
            batches.push((batch, count));
        }
        Ok(UploadedPaths { mirrored: self, batches, query, epoch })
    }
}

impl UploadedPaths<'_, '_, '_> {
    /// Resolves all paths, and waits for the device. A lookup that one dispatch does not finish stays
    /// unanswered.
    ///
    /// # Errors
    /// An error of the device.
    pub fn resolve(&mut self) -> Result<()> {
        let UploadedPaths { mirrored, batches, query, epoch } = self;
        // No epoch of the table ends between the parameters and the submissions.
        let last = mirrored.with_tables(|tables| {
            let mut last = None;
            for (batch, _) in batches {
                if *epoch != tables.epoch() {
                    batch.set_parameters(tables, mirrored.cache(), query, false);
                    batch.transfer(mirrored.device(), Direction::ToDevice)?;
                }
                last = Some(batch.resubmit()?);
            }
            *epoch = tables.epoch();
            Ok(last)
        })?;
        last.map_or(Ok(()), |number| self.mirrored.device().wait(number))
    }

    /// Copies the answers to the host; [`lanefs::Code::NotResident`] for a path that the device left open.
    ///
    /// # Errors
    /// An error of the device.
    pub fn answers(&self) -> Result<Vec<Resolution>> {
        let mut answers = Vec::new();
        for (batch, count) in &self.batches {
            batch.transfer(self.mirrored.device(), Direction::ToHost)?;
            let mut list = vec![Resolution::failed(Code::NotResident); *count];
            let mut rows = Resolutions { list: &mut list, attributes: self.query.attributes };
            for first in (0..*count).step_by(ANSWER_BLOCK) {
                rows.answered(first, &batch.answers(first));
            }
            answers.extend(list);
        }
        Ok(answers)
    }
}
