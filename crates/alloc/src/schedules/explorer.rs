//! Trying many schedules of one test.

use crate::planted;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The same schedules each time.
const SEED: u64 = 0x4ea9_0001;

/// How often in a schedule the thread with the highest rank is overtaken, plus one (Burckhardt et al., ASPLOS 2010).
const DEPTH: usize = 4;

/// A carve has whole bitmaps of a region on the stack.
const STACK_BYTES: usize = 256 << 10;

/// A schedule with more steps goes on for ever.
const MOST_STEPS: usize = 50_000;

fn run(scheduler: impl Scheduler + 'static, persistence: FailurePersistence, body: fn()) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.failure_persistence = persistence;
    config.silence_warnings = true;
    config.max_steps = MaxSteps::FailAfter(MOST_STEPS);
    Runner::new(scheduler, config).run(body);
}

/// Tries `schedules` schedules in which any thread may go on at any moment, and as many in which threads have ranks that
/// change a few times.
pub(super) fn explore(schedules: usize, body: fn()) {
    run(RandomScheduler::new_from_seed(SEED, schedules), FailurePersistence::Print, body);
    run(PctScheduler::new_from_seed(SEED, DEPTH, schedules), FailurePersistence::Print, body);
}

/// The same with a fault planted, which one of the schedules must show.
pub(super) fn finds(fault: planted::Fault, schedules: usize, body: fn()) {
    let found = planted::with(fault, || {
        let random = RandomScheduler::new_from_seed(SEED, schedules);
        let ranked = PctScheduler::new_from_seed(SEED, DEPTH, schedules);
        catch_unwind(AssertUnwindSafe(|| run(random, FailurePersistence::None, body))).is_err()
            || catch_unwind(AssertUnwindSafe(|| run(ranked, FailurePersistence::None, body))).is_err()
    });
    assert!(found, "{fault:?} was not found");
}
