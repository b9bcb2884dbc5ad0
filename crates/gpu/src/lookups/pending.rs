//! Batches of paths: submitting them to the device, and their answers.

use super::batch::{BatchShape, PathBatch};
use super::mirrored::{Mirrored, refresh};
use crate::error::Result;
use crate::resident::tables::MirrorTables;
use crate::shared::query::LookupQuery;
use lanefs::format::{Code, FileKind};
use lanefs::{
    ANSWER_BLOCK, Attr, BatchReport, ColumnSet, Engine, Ino, PathSet, Paths, Resolution, Resolutions,
    ResolveOptions, Rows,
};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Paths of one submission at most, and bytes of their text.
pub(crate) const MAX_PATHS: usize = 1 << 18;
const MAX_TEXT: usize = 32 << 20;

// Offsets in the text have 32 bits.
const _: () = assert!(MAX_TEXT <= u32::MAX as usize);

/// Submissions of one call that are in flight at a time: one that the device works on, one that waits, one
/// that is prepared.
pub(crate) const IN_FLIGHT: usize = 3;

/// A batch on the device, or none: then the host answers.
#[derive(Default)]
struct Submission {
    /// Blocks copied to the device before it.
    copied: u64,
    /// Generation of the mirror, at which the batch sees the volume.
    mirror_generation: u64,
    /// The batch and the number of its submission.
    work: Option<(PathBatch, u64)>,
}

/// The answers to a batch, as soon as they exist. Only [`wait`](Self::wait) blocks; as a future it can be
/// awaited.
#[must_use = "the answers are in it"]
pub struct Pending<'m, 'v, 'p> {
    mirrored: &'m Mirrored<'v>,
    options: ResolveOptions,
    paths: Paths<'p>,
    query: LookupQuery,
    submission: Submission,
}

/// Answers to some of the paths of a batch: the row of each.
struct Selected<'r> {
    rows: &'r mut dyn Rows,
    row_of: &'r [usize],
}

impl Rows for Selected<'_> {
    fn wants(&self) -> ColumnSet {
        self.rows.wants()
    }

    fn found(&mut self, row: usize, ino: Ino, kind: FileKind, attr: Option<&Attr>) {
        self.rows.found(self.row_of[row], ino, kind, attr);
    }

    fn failed(&mut self, row: usize, code: Code) {
        self.rows.failed(self.row_of[row], code);
    }
}

impl<'v> Mirrored<'v> {
    /// Gives the answers to a batch, which has ended, to the rows from `first` on. The CPU engine answers the
    /// paths that the device left open, and all without a batch.
    ///
    /// # Errors
    /// An error of the volume.
    pub(crate) fn write_answers(
        &self,
        options: &ResolveOptions,
        paths: Paths<'_>,
        batch: Option<&PathBatch>,
        first: usize,
        rows: &mut dyn Rows,
    ) -> lanefs::Result<BatchReport> {
        let (count, mut found) = (paths.len(), 0);
        let mut left = Vec::new();
        match batch {
            Some(batch) => {
                for at in (0..count).step_by(ANSWER_BLOCK) {
                    let answers = batch.answers(at);
                    found += answers.found();
                    left.extend(answers.open().map(|i| first + at + i));
                    rows.answered(first + at, &answers);
                }
            }
            None => left.extend(first..first + count),
        }
        let texts: PathSet = left.iter().map(|row| paths.get(row - first).unwrap_or(&[])).collect();
        let mut open = Selected { rows, row_of: &left };
        found += self.volume().resolve_rows(options, texts.view(), &mut open)?;
        let by_host = left.len() as u64;
        Ok(BatchReport { by_device: count as u64 - by_host, by_host, found: found as u64, copied: 0 })
    }

    /// Submits paths to the device, which resolves them in the volume as it is now: about a quarter of a
    /// million at most, more are for [`resolve_batch`](lanefs::EngineExt::resolve_batch). The call blocks
    /// only while blocks that changed are copied, where they are many.
    pub fn submit<'m, 'p>(
        &'m self,
        options: &ResolveOptions,
        paths: impl Into<Paths<'p>>,
    ) -> Pending<'m, 'v, 'p> {
        let wanted = if options.attributes { ColumnSet::ALL } else { ColumnSet::ENTRIES };
        self.submit_for(options, wanted, paths.into())
    }

    fn submit_for<'m, 'p>(
        &'m self,
        options: &ResolveOptions,
        wanted: ColumnSet,
        paths: Paths<'p>,
    ) -> Pending<'m, 'v, 'p> {
        let query = self.query(options);
        let fits = paths.len() <= MAX_PATHS && paths.text().len() <= MAX_TEXT;
        let is_for_device = fits && self.can_answer(options);
        let submission = if is_for_device { self.submit_to_device(&query, wanted, paths) } else { None };
        let submission = submission.unwrap_or_default();
        Pending { mirrored: self, options: options.clone(), paths, query, submission }
    }

    /// Packs a batch, refreshes the mirror and submits it. Threads pack at the same time; the state is locked
    /// for the rest only.
    fn submit_to_device(
        &self,
        query: &LookupQuery,
        wanted: ColumnSet,
        paths: Paths<'_>,
    ) -> Option<Submission> {
        let shape = BatchShape::of(paths);
        let mut batch = self.state().attempt_with_kept(|_, _, kept| {
            let is_same = |batch: &PathBatch| batch.shape() == shape && batch.wanted() == Some(wanted);
            match kept.iter().position(is_same) {
                Some(i) => Ok(kept.swap_remove(i)),
                None => PathBatch::new(self.device(), self.kernels(), shape, wanted),
            }
        })?;
        batch.set_paths(paths);
        self.state().attempt(|mirror, watch| {
            let before = mirror.generation();
            refresh(mirror, watch)?;
            let number = batch.submit(&MirrorTables::of(mirror), self.cache(), query, false)?;
            let mirror_generation = mirror.generation();
            let copied = mirror_generation - before;
            Ok(Submission { copied, mirror_generation, work: Some((batch, number)) })
        })
    }
}

impl Pending<'_, '_, '_> {
    /// Returns the number of the submission; `None` where the host answers.
    fn number(&self) -> Option<u64> {
        self.submission.work.as_ref().map(|(_, number)| *number)
    }

    /// Tells whether the device has done its part.
    pub fn is_done(&self) -> bool {
        // A device that is lost does nothing more.
        self.number().is_none_or(|number| self.mirrored.device().is_over(number).unwrap_or(true))
    }

    /// Waits for the answers, in the order of the paths. The CPU engine answers the paths that the device
    /// left open, or all where it fails.
    ///
    /// # Errors
    /// An error of the volume.
    pub fn wait(mut self) -> lanefs::Result<(Vec<Resolution>, BatchReport)> {
        self.resolutions()
    }

    fn resolutions(&mut self) -> lanefs::Result<(Vec<Resolution>, BatchReport)> {
        let mut list = vec![Resolution::failed(Code::NotResident); self.paths.len()];
        let mut rows = Resolutions { list: &mut list, attributes: self.options.attributes };
        let report = self.answers(0, &mut rows)?;
        Ok((list, report))
    }

    /// Waits, and gives the answers to the rows from `first` on.
    fn answers(&mut self, first: usize, rows: &mut dyn Rows) -> lanefs::Result<BatchReport> {
        let batch = self.submission.work.take().and_then(|(mut batch, number)| {
            self.finish(&mut batch, number).map_err(|error| self.mirrored.fail(error)).ok()?;
            Some(batch)
        });
        let report = self.mirrored.write_answers(&self.options, self.paths, batch.as_ref(), first, rows)?;
        batch.into_iter().for_each(|batch| self.mirrored.reuse(batch));
        Ok(BatchReport { copied: self.submission.copied, ..report })
    }

    /// Waits for the device, and resumes the lookups that one dispatch did not finish.
    fn finish(&self, batch: &mut PathBatch, number: u64) -> Result<()> {
        self.mirrored.finish(batch, number, &self.query, self.submission.mirror_generation)
    }
}

/// Many paths go in several submissions; the device has the next ones while it works on one. Where the device
/// fails, the CPU engine continues ([`failure`](Mirrored::failure)).
impl Engine for Mirrored<'_> {
    fn resolve_rows(
        &self,
        options: &ResolveOptions,
        paths: Paths<'_>,
        rows: &mut dyn Rows,
    ) -> lanefs::Result<BatchReport> {
        let wanted = rows.wants();
        let options = ResolveOptions { attributes: !wanted.attributes().is_empty(), ..options.clone() };
        let (mut pending, mut sum) = (VecDeque::new(), BatchReport::default());
        let (mut submitted, mut answered) = (0, 0);
        loop {
            while submitted < paths.len() && pending.len() < IN_FLIGHT {
                let next = next_batch(paths.slice(submitted..paths.len()));
                let now = paths.slice(submitted..submitted + next);
                pending.push_back(self.submit_for(&options, wanted, now));
                submitted += next;
            }
            let numbers = pending.iter().filter_map(Pending::number);
            debug_assert!(numbers.is_sorted(), "batches are answered in order");
            let Some(mut first) = pending.pop_front() else {
                debug_assert_eq!(answered, paths.len(), "a batch was lost");
                return Ok(sum);
            };
            sum.add(first.answers(answered, rows)?);
            answered += first.paths.len();
        }
    }
}

impl Future for Pending<'_, '_, '_> {
    type Output = lanefs::Result<(Vec<Resolution>, BatchReport)>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.is_done() {
            return Poll::Ready(this.resolutions());
        }
        if let Some(number) = this.number() {
            this.mirrored.device().wake_after(number, context.waker());
        }
        Poll::Pending
    }
}

/// Returns how many of the paths go in one submission.
pub(crate) fn next_batch(paths: Paths<'_>) -> usize {
    let mut count = paths.len().min(MAX_PATHS);
    while count > 1 && paths.slice(0..count).text().len() > MAX_TEXT {
        count = count.div_ceil(2);
    }
    count
}
