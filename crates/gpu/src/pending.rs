//! A batch that is on its way.

use crate::batch::Batch;
use crate::engine::{Mirrored, Report};
use crate::error::Result;
use crate::twin::lookup::{MAX_DISPATCHES, Question};
use lanefs::format::Code;
use lanefs::{Resolution, ResolveOptions};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What is on its way.
#[derive(Default)]
pub(crate) struct Begun {
    /// Blocks copied to the device before it.
    pub(crate) copied: u64,
    /// The mirror's moment.
    pub(crate) moment: u64,
    /// A batch and its submission's number; nothing: the host answers.
    pub(crate) work: Option<(Batch, u64)>,
}

/// The answers to a batch, as soon as they are there. Nobody waits but who calls [`wait`](Self::wait); as a future it can be awaited.
#[must_use = "the answers are in it"]
pub struct Pending<'m, 'g, 'v, 'p, P> {
    mirrored: &'m Mirrored<'g, 'v>,
    options: ResolveOptions,
    paths: &'p [P],
    question: Question,
    copied: u64,
    /// The mirror's moment, at which the batch sees the volume.
    moment: u64,
    /// What is on the device, and the submission's number; nothing: the host answers.
    work: Option<(Batch, u64)>,
}

impl<'m, 'g, 'v, 'p, P: AsRef<[u8]> + Sync> Pending<'m, 'g, 'v, 'p, P> {
    pub(crate) fn new(
        mirrored: &'m Mirrored<'g, 'v>,
        options: &ResolveOptions,
        paths: &'p [P],
        question: Question,
        begun: Begun,
    ) -> Self {
        let Begun { copied, moment, work } = begun;
        Pending { mirrored, options: options.clone(), paths, question, copied, moment, work }
    }

    /// Has the device done its part?
    pub fn is_done(&self) -> bool {
        let Some((_, submission)) = &self.work else { return true };
        // One that is lost does nothing more.
        self.mirrored.device().is_over(*submission).unwrap_or(true)
    }

    /// Waits for the answers, in the order of the paths. What the device leaves open, or all where it fails, the CPU engine answers.
    ///
    /// # Errors
    /// The volume's.
    pub fn wait(mut self) -> lanefs::Result<(Vec<Resolution>, Report)> {
        self.answers()
    }

    fn answers(&mut self) -> lanefs::Result<(Vec<Resolution>, Report)> {
        let mut answers = Vec::with_capacity(self.paths.len());
        if let Some((mut batch, submission)) = self.work.take() {
            match self.finish(&mut batch, submission) {
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
        Ok((answers, Report { by_device, by_host, copied: self.copied }))
    }

    /// Waits for the device, and has it go on with what one dispatch did not finish.
    fn finish(&self, batch: &mut Batch, mut submission: u64) -> Result<()> {
        for _ in 1..MAX_DISPATCHES {
            self.mirrored.device().wait(submission)?;
            if !batch.is_unfinished() {
                break;
            }
            // Half of a lookup in an older volume and half of it in a newer one is none.
            let Some(next) = self.mirrored.go_on(batch, &self.question, self.moment)? else { break };
            submission = next;
        }
        self.mirrored.device().wait(submission)
    }
}

impl<P: AsRef<[u8]> + Sync> Future for Pending<'_, '_, '_, '_, P> {
    type Output = lanefs::Result<(Vec<Resolution>, Report)>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.is_done() {
            return Poll::Ready(this.answers());
        }
        // Vulkan wakes nobody, so a thread waits.
        if let Some((_, submission)) = &this.work {
            let (device, submission) = (this.mirrored.device().clone(), *submission);
            let waker = context.waker().clone();
            std::thread::spawn(move || {
                let _ = device.wait(submission);
                waker.wake();
            });
        }
        Poll::Pending
    }
}
