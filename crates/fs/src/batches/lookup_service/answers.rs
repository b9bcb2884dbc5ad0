//! The answers to a batch, and the lookups that wait for them.

use super::planted::PlantedBug;
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::types::Resolution;
use lanefs_format::Code;
use lanefs_sync::{Condvar, Mutex, is_planted};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The answers to a batch, for all of its lookups.
#[derive(Default)]
pub(super) struct Answers {
    state: Mutex<AnswersState>,
    done: Condvar,
}

#[derive(Default)]
struct AnswersState {
    /// One for each lookup, from the end of the batch on; a lookup takes its own.
    answers: Option<Vec<Option<Result<Resolution>>>>,
    /// Tasks that wait, by lookup.
    wakers: Vec<Option<Waker>>,
}

impl Answers {
    /// Gives the answers of a batch to its lookups. Only the first call counts.
    pub(super) fn finish(&self, answers: impl Iterator<Item = Result<Resolution>>) {
        let mut state = self.state.lock();
        if state.answers.is_some() {
            return;
        }
        drop(state);
        // An engine may work while it gives the answers, so the lock is free meanwhile.
        let answers: Vec<_> = answers.map(Some).collect();
        state = self.state.lock();
        state.answers = Some(answers);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        if !is_planted(PlantedBug::UnwokenThread) {
            self.done.notify_all();
        }
        if !is_planted(PlantedBug::UnwokenTask) {
            wakers.into_iter().flatten().for_each(Waker::wake);
        }
    }
}

impl AnswersState {
    /// Takes the answer to a lookup; `None` before the end of the batch.
    fn take(&mut self, number: usize) -> Option<Result<Resolution>> {
        let answer = self.answers.as_mut()?.get_mut(number).and_then(Option::take);
        // A future is not polled past its end.
        Some(answer.unwrap_or(Err(Error::Code(Code::Invalid))))
    }

    /// Keeps a task that waits for a lookup.
    fn keep(&mut self, number: usize, waker: &Waker) {
        if self.wakers.len() <= number {
            self.wakers.resize(number + 1, None);
        }
        match &mut self.wakers[number] {
            Some(known) if known.will_wake(waker) => {}
            kept => *kept = Some(waker.clone()),
        }
    }
}

/// A lookup in progress: a future, or [`wait`](Self::wait) for it. Dropping it leaves its answer to nobody.
#[must_use = "the answer comes by `await` or `wait`"]
pub struct Lookup {
    answers: Arc<Answers>,
    number: usize,
}

impl Lookup {
    pub(super) fn new(answers: &Arc<Answers>, number: usize) -> Self {
        Lookup { answers: Arc::clone(answers), number }
    }

    /// Returns a lookup that has failed.
    pub(super) fn failed(error: Error) -> Self {
        let answers = Arc::new(Answers::default());
        answers.finish(std::iter::once(Err(error)));
        Lookup { answers, number: 0 }
    }

    /// Tells whether the answer is there.
    pub fn is_done(&self) -> bool {
        self.answers.state.lock().answers.is_some()
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// The volume's, or that of a service that was closed.
    pub fn wait(self) -> Result<Resolution> {
        let mut state = self.answers.state.lock();
        loop {
            if let Some(answer) = state.take(self.number) {
                return answer;
            }
            self.answers.done.wait(&mut state);
        }
    }
}

impl Future for Lookup {
    type Output = Result<Resolution>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.answers.state.lock();
        match state.take(self.number) {
            Some(answer) => Poll::Ready(answer),
            None => {
                state.keep(self.number, context.waker());
                Poll::Pending
            }
        }
    }
}
