//! Many workloads on all cores, and reports of failures.

use super::case::Case;
use super::explore::{Effort, Tally, WrongState, explore};
use super::recording::record;
use super::workload::{Family, Workload};
use parking_lot::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// A wrong crash state, or a workload that failed without a crash.
#[derive(Clone, Debug)]
pub struct CrashFailure {
    /// Its name.
    pub case: Case,
    /// The workload's steps, shrunk where that was cheap.
    pub steps: Vec<String>,
    /// The error.
    pub text: String,
}

impl fmt::Display for CrashFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "crash case {}", self.case)?;
        for (index, step) in self.steps.iter().enumerate() {
            writeln!(f, "  {}. {step}", index + 1)?;
        }
        writeln!(f, "{}", self.text)?;
        write!(
            f,
            "again: LANEFS_CRASH_CASE={} cargo test -p lanefs-testkit --test it crash::one_case",
            self.case
        )
    }
}

/// Workloads that one shrink tries at most. (A limit of time would make the result depend on the machine.)
const MOST_TRIED: u32 = 60;

fn failure(case: Case, workload: &Workload, text: String) -> CrashFailure {
    CrashFailure { case, steps: workload.steps.iter().map(ToString::to_string).collect(), text }
}

/// Tries one workload.
///
/// # Errors
/// The first state that is wrong.
pub fn run_workload(
    family: Family,
    number: u64,
    effort: &Effort,
    tally: &mut Tally,
) -> Result<(), Box<CrashFailure>> {
    let workload = Workload::new(family, number);
    let case = Case { family, number, crash: None, again: None };
    tally.workloads += 1;
    match attempt(&workload, effort, tally) {
        Ok(()) => Ok(()),
        Err(Wrong::Workload(text)) => Err(Box::new(failure(case, &workload, text))),
        Err(Wrong::State(found)) => {
            let case = Case { crash: Some(found.crash), again: found.again, ..case };
            let mut whole = failure(case, &workload, found.text);
            if !matches!(family, Family::Seq1 | Family::Seq2 | Family::Seq3) {
                make_small(workload, effort, &mut whole);
            }
            Err(Box::new(whole))
        }
    }
}

enum Wrong {
    Workload(String),
    State(WrongState),
}

fn attempt(workload: &Workload, effort: &Effort, tally: &mut Tally) -> Result<(), Wrong> {
    let recording = record(workload).map_err(Wrong::Workload)?;
    explore(&recording, effort, None, tally).map_err(Wrong::State)
}

/// Drops steps as long as the rest still fails in any way, and adds the shorter list to the report.
fn make_small(mut workload: Workload, effort: &Effort, failure: &mut CrashFailure) {
    let mut tried = 0;
    let all = workload.steps.len();
    let (mut piece, mut text) = (all.div_ceil(2), String::new());
    while piece > 0 && tried < MOST_TRIED {
        let (mut from, mut shorter) = (0, false);
        while from < workload.steps.len() && tried < MOST_TRIED {
            tried += 1;
            let mut fewer = workload.clone();
            fewer.steps.drain(from..(from + piece).min(fewer.steps.len()));
            match attempt(&fewer, effort, &mut Tally::default()) {
                Err(Wrong::State(found)) => {
                    text = found.text;
                    (workload, shorter) = (fewer, true);
                }
                _ => from += piece,
            }
        }
        piece = if shorter && piece == 1 { 1 } else { piece / 2 };
    }
    if workload.steps.len() < all {
        failure.steps = workload.steps.iter().map(ToString::to_string).collect();
        let kept = failure.steps.len();
        failure.text = format!("{}\nof {all} steps these {kept} are enough for: {text}", failure.text);
    }
}

/// Replays a case. Where this exact state does not exist or is not wrong (a volume's own threads may have
/// written in another order), it tries all states of its workload.
///
/// # Errors
/// The failure.
pub fn run_case(case: &Case, tally: &mut Tally) -> Result<(), Box<CrashFailure>> {
    let workload = Workload::new(case.family, case.number);
    let recording = record(&workload)
        .map_err(|text| Box::new(failure(Case { crash: None, again: None, ..*case }, &workload, text)))?;
    if let Some(crash) = case.crash {
        explore(&recording, &Effort::TEST, Some((crash, case.again)), tally).map_err(|found| {
            let case = Case { crash: Some(found.crash), again: found.again, ..*case };
            Box::new(failure(case, &workload, found.text))
        })?;
    }
    run_workload(case.family, case.number, &Effort { again_every: 3, ..Effort::TEST }, tally)
}

/// Tries workloads in `threads` threads until there are no more, `stop` is set, `progress` returns false, or
/// one fails. `progress` gets the counts after each workload.
///
/// # Errors
/// The first failure.
pub fn run_many(
    workloads: impl Iterator<Item = (Family, u64)> + Send,
    effort: &Effort,
    threads: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(&Tally) -> bool + Sync),
) -> Result<Tally, Box<CrashFailure>> {
    let workloads = Mutex::new(workloads);
    let total = Mutex::new((Tally::default(), None));
    let worker = || {
        while !stop.load(Ordering::Relaxed) {
            let next = workloads.lock().next();
            let Some((family, number)) = next else { break };
            let mut tally = Tally::default();
            let done = run_workload(family, number, effort, &mut tally);
            let mut total = total.lock();
            total.0.add(tally);
            if let Err(failure) = done {
                stop.store(true, Ordering::Relaxed);
                total.1.get_or_insert(failure);
            }
            if !progress(&total.0) {
                break;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(worker);
        }
    });
    let (tally, failure) = total.into_inner();
    failure.map_or(Ok(tally), Err)
}

/// Returns all short workloads, then random ones without end: pairs and triples, and sometimes a long one,
/// one that grows the volume, or one among names of one hash.
pub fn all_workloads(seed: u64) -> impl Iterator<Item = (Family, u64)> + Send {
    let short = (0..Family::Seq1.count().unwrap_or(0)).map(|number| (Family::Seq1, number));
    let random = random_workloads(seed).enumerate();
    short.chain(random.map(|(index, (family, number))| match index % 16 {
        10 => (Family::Grow, number),
        14 => (Family::OneHash, number),
        _ => (family, number),
    }))
}

/// Random workloads without end, on volumes that keep their size and journal.
pub fn random_workloads(seed: u64) -> impl Iterator<Item = (Family, u64)> + Send {
    (0u64..).map(move |index| {
        let family = match index % 16 {
            0 | 8 => Family::Long,
            4 => Family::Wide,
            12 => Family::Churn,
            6 => Family::Copies,
            1..=3 => Family::Seq3,
            _ => Family::Seq2,
        };
        (family, seed.wrapping_add(index))
    })
}
