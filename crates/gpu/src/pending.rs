//! Batches of paths: submitting them to the device, and their answers.

use crate::batch::{BatchShape, PathBatch, text_bytes};
use crate::error::Result;
use crate::limits::MAX_DISPATCHES;
use crate::mirrored::{EngineState, Mirrored, Report};
use crate::query::LookupQuery;
use crate::tables::MirrorTables;
use lanefs::format::Code;
use lanefs::{Resolution, ResolveOptions};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Paths of one submission at most, and bytes of their text.
pub(crate) const MAX_PATHS: usize = 1 << 18;
const MAX_TEXT: u64 = 32 << 20;

// Offsets in the text have 32 bits.
const _: () = assert!(MAX_TEXT <= u32::MAX as u64);

/// Submissions of one call that are in flight at a time: one that the device works on, one that waits, one
/// that is prepared.
const IN_FLIGHT: usize = 3;

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
pub struct Pending<'m, 'g, 'v, 'p, P> {
    mirrored: &'m Mirrored<'g, 'v>,
    options: ResolveOptions,
    paths: &'p [P],
    query: LookupQuery,
    submission: Submission,
}

impl<'g, 'v> Mirrored<'g, 'v> {
    /// Resolves paths, as [`Volume::resolve_batch`](lanefs::Volume::resolve_batch) does and with the same
    /// answers. Many paths go in several submissions; the device has the next ones while it works on one.
    /// Where the device fails, the CPU engine continues ([`failure`](Self::failure)).
    ///
    /// # Errors
    /// An error of the volume.
    pub fn resolve_batch<P: AsRef<[u8]> + Sync>(
        &self,
        options: &ResolveOptions,
        paths: &[P],
    ) -> lanefs::Result<(Vec<Resolution>, Report)> {
        let mut rest = paths;
        let (mut pending, mut sum) = (VecDeque::new(), Report::default());
        let mut answers = Vec::new();
        loop {
            while !rest.is_empty() && pending.len() < IN_FLIGHT {
                let (now, later) = rest.split_at(next_batch(rest));
                rest = later;
                pending.push_back(self.submit(options, now));
            }
            let numbers = pending.iter().filter_map(Pending::number);
            debug_assert!(numbers.is_sorted(), "batches are answered in order");
            let Some(first) = pending.pop_front() else {
                debug_assert_eq!(answers.len(), paths.len(), "a batch was lost");
                return Ok((answers, sum));
            };
            let (some, report) = first.wait()?;
            if answers.is_empty() {
                answers = some;
                answers.reserve(paths.len() - answers.len());
            } else {
                answers.extend(some);
            }
            sum.add(report);
        }
    }

    /// Submits paths to the device, which resolves them in the volume as it is now: about a quarter of a
    /// million at most, more are for [`resolve_batch`](Self::resolve_batch). The call blocks only while
    /// blocks that changed are copied, where they are many.
    pub fn submit<'m, 'p, P: AsRef<[u8]> + Sync>(
        &'m self,
        options: &ResolveOptions,
        paths: &'p [P],
    ) -> Pending<'m, 'g, 'v, 'p, P> {
        let query = self.query(options);
        let is_for_device = self.can_answer(options) && next_batch(paths) == paths.len();
        let submission = if is_for_device {
            let shape = BatchShape::of(paths, options.attributes);
            self.submit_to_device(&mut self.state(), &query, shape, paths)
        } else {
            None
        };
        let submission = submission.unwrap_or_default();
        Pending { mirrored: self, options: options.clone(), paths, query, submission }
    }

    /// Refreshes the mirror and submits a batch.
    fn submit_to_device<P: AsRef<[u8]>>(
        &self,
        state: &mut EngineState<'v>,
        query: &LookupQuery,
        shape: BatchShape,
        paths: &[P],
    ) -> Option<Submission> {
        state.attempt_with_kept(|mirror, watch, kept| {
            let before = mirror.generation();
            mirror.refresh(|take| watch.changes(take))?;
            let mut batch = match kept.iter().position(|batch| batch.shape() == shape) {
                Some(i) => kept.swap_remove(i),
                None => PathBatch::new(self.device(), self.kernels(), self.cache(), shape, false)?,
            };
            batch.set_paths(paths);
            let number = batch.submit(&MirrorTables::of(mirror), self.cache(), query, false)?;
            let mirror_generation = mirror.generation();
            let copied = mirror_generation - before;
            Ok(Submission { copied, mirror_generation, work: Some((batch, number)) })
        })
    }
}

impl<P: AsRef<[u8]> + Sync> Pending<'_, '_, '_, '_, P> {
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
    pub fn wait(mut self) -> lanefs::Result<(Vec<Resolution>, Report)> {
        self.answers()
    }

    fn answers(&mut self) -> lanefs::Result<(Vec<Resolution>, Report)> {
        let mut answers = Vec::with_capacity(self.paths.len());
        if let Some((mut batch, number)) = self.submission.work.take() {
            match self.finish(&mut batch, number) {
                Ok(()) => {
                    answers.extend((0..self.paths.len()).map(|i| batch.resolution(i)));
                    self.mirrored.keep(batch);
                }
                Err(error) => self.mirrored.fail(error),
            }
        }
        let unanswered = Resolution { code: Code::NotResident, ino: None, kind: None, attr: None };
        answers.resize(self.paths.len(), unanswered);
        let left: Vec<usize> = (0..answers.len()).filter(|i| answers[*i].code == Code::NotResident).collect();
        let texts: Vec<&[u8]> = left.iter().map(|i| self.paths[*i].as_ref()).collect();
        let found = self.mirrored.volume().resolve_batch(&self.options, &texts)?;
        for (i, answer) in left.iter().zip(found) {
            answers[*i] = answer;
        }
        let by_host = left.len() as u64;
        let by_device = answers.len() as u64 - by_host;
        Ok((answers, Report { by_device, by_host, copied: self.submission.copied }))
    }

    /// Waits for the device, and resumes the lookups that one dispatch did not finish.
    fn finish(&self, batch: &mut PathBatch, mut number: u64) -> Result<()> {
        for _ in 1..MAX_DISPATCHES {
            self.mirrored.device().wait(number)?;
            if !batch.is_unfinished() {
                break;
            }
            // A lookup must not see half of an older volume and half of a newer one.
            let mirror_generation = self.submission.mirror_generation;
            let Some(next) = self.mirrored.resume(batch, &self.query, mirror_generation)? else { break };
            debug_assert!(next > number, "submissions are numbered in order");
            number = next;
        }
        self.mirrored.device().wait(number)
    }
}

impl<P: AsRef<[u8]> + Sync> Future for Pending<'_, '_, '_, '_, P> {
    type Output = lanefs::Result<(Vec<Resolution>, Report)>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.is_done() {
            return Poll::Ready(this.answers());
        }
        // Vulkan has no callback, so a thread waits.
        if let Some(number) = this.number() {
            let device = this.mirrored.device().clone();
            let waker = context.waker().clone();
            std::thread::spawn(move || {
                let _ = device.wait(number);
                waker.wake();
            });
        }
        Poll::Pending
    }
}

/// Returns how many of the paths go in one submission.
pub(crate) fn next_batch<P: AsRef<[u8]>>(paths: &[P]) -> usize {
    let mut text = 0;
    let fits = |path: &&P| {
        text += text_bytes(path.as_ref());
        text <= MAX_TEXT
    };
    paths.iter().take(MAX_PATHS).take_while(fits).count().max(1).min(paths.len())
}
