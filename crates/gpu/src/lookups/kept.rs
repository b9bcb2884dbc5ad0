//! Manifests: paths that stay in device memory, to be asked again and again without an upload.

use super::batch::PathBatch;
use super::mirrored::{Mirrored, refresh};
use super::pending::{MAX_PATHS, next_batch};
use crate::error::Result;
use crate::resident::tables::MirrorTables;
use crate::shared::query::LookupQuery;
use crate::vulkan::DeviceKind;
use lanefs::{BatchReport, ColumnSet, ColumnsMut, Paths, ResolveOptions, Rows};

/// Paths of one submission at most, and bytes of their text. A batch has some microseconds of its own on a
/// device: on an H100 a path took 0.75 to 1.6 ns in batches of 2^18, and 0.18 to 0.21 in those of 2^21.
const MOST_KEPT: usize = 1 << 21;
const MAX_TEXT: usize = 128 << 20;

// Offsets in the text have 32 bits.
const _: () = assert!(MAX_TEXT <= u32::MAX as usize);

/// Paths in the device's memory. Each call resolves all of them in the volume as it is then.
pub struct KeptPaths<'m, 'v, 'p> {
    mirrored: &'m Mirrored<'v>,
    options: ResolveOptions,
    query: LookupQuery,
    paths: Paths<'p>,
    batches: Vec<KeptBatch>,
}

/// A batch, its paths among all, and its last submission.
struct KeptBatch {
    batch: PathBatch,
    first: usize,
    count: usize,
    submission: u64,
}

/// The last submission of all batches.
#[derive(Clone, Copy)]
struct Submitted {
    mirror_generation: u64,
    /// Blocks copied to the device before it.
    copied: u64,
}

impl<'v> Mirrored<'v> {
    /// Copies paths to the device, which keeps them. The host needs them as well, for those that the device
    /// leaves open. A path takes its text and 76 bytes of device memory, and what each call wants of the
    /// answers: a quarter of a byte for existence, else 8 bytes, and 4 or 8 for each attribute. The options
    /// say who asks and from where; the columns of each call say what is wanted.
    ///
    /// # Errors
    /// An error of the device, also for want of memory.
    pub fn keep<'m, 'p>(
        &'m self,
        options: &ResolveOptions,
        paths: impl Into<Paths<'p>>,
    ) -> Result<KeptPaths<'m, 'v, 'p>> {
        let paths = paths.into();
        // A processor that plays a device gains nothing by a wide dispatch.
        let is_software = self.device().info.kind == DeviceKind::Software;
        let most_paths = if is_software { MAX_PATHS } else { MOST_KEPT };
        let (mut batches, mut first) = (Vec::new(), 0);
        while first < paths.len() {
            let count = next_batch(paths.slice(first..paths.len()), most_paths, MAX_TEXT);
            let now = paths.slice(first..first + count);
            let batch = PathBatch::kept(self.device(), self.kernels(), self.packers(), now)?;
            batches.push(KeptBatch { batch, first, count, submission: 0 });
            first += count;
        }
        Ok(KeptPaths { mirrored: self, options: options.clone(), query: self.query(options), paths, batches })
    }
}

impl KeptPaths<'_, '_, '_> {
    /// Returns the number of paths.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Tells whether there are no paths.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Resolves all paths and waits for the device, where the answers stay. A lookup that one dispatch does
    /// not finish stays unanswered. Returns false where the device failed, now or before.
    pub fn resolve(&mut self) -> bool {
        let last = |batches: &[KeptBatch]| batches.last().map_or(0, |kept| kept.submission);
        self.submit(None).is_some() && self.mirrored.device().wait(last(&self.batches)).is_ok()
    }

    /// Resolves all paths and writes the answers to columns, as
    /// [`Volume::resolve_into`](lanefs::Volume::resolve_into) does. Where the device fails, the CPU engine
    /// answers.
    ///
    /// # Errors
    /// An error of the volume; [`Code::Invalid`](lanefs::Code::Invalid) for a column that is too short.
    pub fn resolve_into(&mut self, columns: &mut ColumnsMut<'_>) -> lanefs::Result<BatchReport> {
        columns.check(self.paths.len())?;
        self.resolve_rows(columns)
    }

    /// As [`resolve_into`](Self::resolve_into), for any receiver of answers.
    ///
    /// # Errors
    /// As there.
    pub fn resolve_rows(&mut self, rows: &mut dyn Rows) -> lanefs::Result<BatchReport> {
        let submitted = self.submit(Some(rows.wants()));
        let mut sum =
            BatchReport { copied: submitted.map_or(0, |last| last.copied), ..BatchReport::default() };
        for kept in 0..self.batches.len() {
            let is_done = submitted.is_some_and(|last| {
                self.finish(kept, last).map_err(|error| self.mirrored.fail(error)).is_ok()
            });
            let KeptBatch { batch, first, count, .. } = &self.batches[kept];
            let batch = is_done.then_some(batch);
            let paths = self.paths.slice(*first..first + count);
            sum.add(self.mirrored.write_answers(&self.options, paths.into(), batch, *first, rows)?);
        }
        Ok(sum)
    }

    /// Refreshes the mirror and submits all batches, for a host that wants these columns or nothing. Returns
    /// `None` where the device failed, or cannot answer.
    fn submit(&mut self, wanted: Option<ColumnSet>) -> Option<Submitted> {
        let KeptPaths { mirrored, options, query, batches, .. } = self;
        if !mirrored.can_answer(options) {
            return None;
        }
        // Before the lock: this waits for the submissions before.
        let (device, kernels) = (mirrored.device(), mirrored.kernels());
        for kept in batches.iter_mut() {
            kept.batch.want(device, kernels, wanted).map_err(|error| mirrored.fail(error)).ok()?;
        }
        mirrored.state().attempt(|mirror, watch| {
            let before = mirror.generation();
            refresh(mirror, watch)?;
            let tables = MirrorTables::of(mirror);
            for kept in batches {
                kept.submission = kept.batch.submit(&tables, mirrored.cache(), query, false)?;
            }
            let mirror_generation = mirror.generation();
            Ok(Submitted { mirror_generation, copied: mirror_generation - before })
        })
    }

    /// Waits for a batch, and resumes the lookups that one dispatch did not finish.
    fn finish(&mut self, kept: usize, last: Submitted) -> Result<()> {
        let kept = &mut self.batches[kept];
        self.mirrored.finish(&mut kept.batch, kept.submission, &self.query, last.mirror_generation)
    }
}
