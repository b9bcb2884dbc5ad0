//! Runs a test under many schedules.

use crate::planted::{Planted, with_planted};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Preemptions of the highest-ranked thread in a schedule, plus one: the bug depth of Burckhardt et al.
/// (ASPLOS 2010).
const DEPTH: usize = 4;

/// Stack of an explored thread. Calls of the crates that use this have whole blocks or bitmaps on it.
const STACK_BYTES: usize = 256 << 10;

/// Steps after which a schedule counts as endless.
const MAX_STEPS: usize = 50_000;

/// A series of schedules, the same for each equal seed.
///
/// Half of them switch threads at random. In the other half threads have ranks that change a few times.
#[derive(Clone, Copy, Debug)]
pub struct Explorer {
    seed: u64,
}

impl Explorer {
    /// Creates the series of schedules of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Explorer { seed }
    }

    /// Runs `body` under `schedules` random schedules and as many ranked ones.
    ///
    /// # Panics
    /// Panics if a schedule does, and prints the schedule as a string that replays it.
    pub fn explore(&self, schedules: usize, body: fn()) {
        self.run(self.random(schedules), FailurePersistence::Print, body);
        self.run(self.ranked(schedules), FailurePersistence::Print, body);
    }

    /// Does the same with a bug planted, and expects that a schedule fails.
    ///
    /// # Panics
    /// Panics if all schedules pass.
    pub fn expect_failure(&self, bug: impl Planted + std::fmt::Debug, schedules: usize, body: fn()) {
        let has_failed = with_planted(bug, || {
            self.fails(self.random(schedules), body) || self.fails(self.ranked(schedules), body)
        });
        assert!(has_failed, "{bug:?} was not found");
    }

    fn random(&self, schedules: usize) -> RandomScheduler {
        RandomScheduler::new_from_seed(self.seed, schedules)
    }

    fn ranked(&self, schedules: usize) -> PctScheduler {
        PctScheduler::new_from_seed(self.seed, DEPTH, schedules)
    }

    fn fails(&self, scheduler: impl Scheduler + 'static, body: fn()) -> bool {
        let run = AssertUnwindSafe(|| self.run(scheduler, FailurePersistence::None, body));
        catch_unwind(run).is_err()
    }

    fn run(&self, scheduler: impl Scheduler + 'static, persistence: FailurePersistence, body: fn()) {
        let mut config = Config::new();
        config.stack_size = STACK_BYTES;
        config.failure_persistence = persistence;
        config.silence_warnings = true;
        config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
        Runner::new(scheduler, config).run(body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mutex, is_planted, point};
    use shuttle::thread;
    use std::sync::Arc;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct LostIncrement;

    impl Planted for LostIncrement {}

    /// Two threads increment a counter.
    fn a_counter() {
        let count = Arc::new(Mutex::new(0));
        let increment = |count: &Mutex<u32>| {
            let mut guard = count.lock();
            let old = *guard;
            if is_planted(LostIncrement) {
                drop(guard);
                point();
                guard = count.lock();
            }
            *guard = old + 1;
        };
        let other = count.clone();
        let thread = thread::spawn(move || increment(&other));
        increment(&count);
        thread.join().expect("the thread ends");
        assert_eq!(*count.lock(), 2);
    }

    #[test]
    fn a_correct_counter_passes_every_schedule() {
        Explorer::new(1).explore(200, a_counter);
    }

    #[test]
    fn canary_a_lost_increment_is_found() {
        Explorer::new(1).expect_failure(LostIncrement, 200, a_counter);
    }
}
