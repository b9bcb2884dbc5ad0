//! Hostile images by the ten thousand, with `make hostile-soak` by the hundred thousand: no panic, no hang,
//! no repair that does not last, and work afterwards.
//!
//! `LANEFS_IMAGES`, `LANEFS_SEED` and `LANEFS_SECONDS` set the number, the first seed, and the time limit.
//! Each image is a base and a seed; `LANEFS_BASE` chooses a single base. `LANEFS_TRACE=1` prints each case
//! and its mutations before the test tries it, for bugs that end the whole process, such as an exhausted
//! stack or memory.

use lanefs_testkit::mutate::{ExerciseEffort, KEPT_CASES, MutationBase, bases, describe, run_case, run_kept};
use lanefs_testkit::seeded::Seeded;
use lanefs_testkit::settings::Seeds;
use lanefs_testkit::watchdog::Watchdog;
use std::cell::RefCell;
use std::time::Instant;

const THREADS: u64 = 2;
/// Orders of work that are tried on each kept case.
const KEPT_ORDERS: u64 = 8;
/// Failures after which a thread stops.
const MOST_FAILURES: usize = 10;

fn base_for(bases: &[MutationBase], seed: u64) -> &MutationBase {
    if let Ok(name) = std::env::var("LANEFS_BASE") {
        return bases.iter().find(|base| base.name == name).expect("LANEFS_BASE names a base image");
    }
    let weights: Vec<u64> = bases.iter().map(|base| base.weight).collect();
    &bases[Seeded::new(!seed).weighted(&weights)]
}

thread_local! {
    /// Location of this thread's last panic, where it tries images.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Tries an image; a failure comes with the location of the panic.
fn tried<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    PANIC.set(Some(String::new()));
    let done = run();
    let location = PANIC.take().unwrap_or_default();
    done.map_err(|text| format!("{text}\n  {location}"))
}

fn attempt(base: &MutationBase, seed: u64, watchdog: &Watchdog) -> Result<ExerciseEffort, String> {
    watchdog.at(|| format!("seed {seed} of {}", base.name));
    if std::env::var_os("LANEFS_TRACE").is_some() {
        eprintln!("case {} {seed}: {}", base.name, describe(base, seed));
    }
    tried(|| run_case(base, seed)).map_err(|text| {
        format!(
            "{text}\n  again: LANEFS_BASE={} LANEFS_SEED={seed} LANEFS_IMAGES=1 \
             cargo test -p lanefs-testkit --test it hostile::; then keep the damage in mutate/kept.rs",
            base.name
        )
    })
}

/// Tries the kept cases, each with several orders of work. Returns the failures.
fn kept(bases: &[MutationBase]) -> Vec<String> {
    let watchdog = Watchdog::new("kept cases");
    let mut failures = Vec::new();
    for case in KEPT_CASES {
        for name in case.bases {
            let base = bases.iter().find(|base| base.name == *name).expect("a base of this name");
            for seed in 0..KEPT_ORDERS {
                watchdog.at(|| format!("{} in {name}, work {seed}", case.name));
                failures.extend(tried(|| run_kept(case, base, seed)).err());
            }
        }
    }
    failures
}

/// Tries the images of one thread's seeds. Failures are collected, because one bug fails many images.
fn work(bases: &[MutationBase], seeds: Seeds) -> (Vec<ExerciseEffort>, Vec<String>) {
    let watchdog = Watchdog::new("a worker");
    let (mut efforts, mut failures) = (Vec::new(), Vec::new());
    for seed in seeds {
        match attempt(base_for(bases, seed), seed, &watchdog) {
            Ok(effort) => efforts.push(effort),
            Err(text) => failures.push(text),
        }
        if failures.len() >= MOST_FAILURES {
            break;
        }
    }
    (efforts, failures)
}

#[test]
fn hostile_images_are_survived() {
    let bases = bases().expect("sound volumes can be made");
    let other_tests = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let is_here = PANIC.with_borrow_mut(|location| {
            let at = info.location().map_or_else(String::new, |at| format!("at {at}"));
            location.as_mut().map(|location| *location = at).is_some()
        });
        if !is_here {
            other_tests(info);
        }
    }));
    let mut failures = kept(bases);
    let seeds = Seeds::from_environment("LANEFS_IMAGES", 1, 10_000);
    let start = Instant::now();
    let mut efforts = Vec::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|part| {
                let seeds = seeds.part(part, THREADS);
                scope.spawn(move || work(bases, seeds))
            })
            .collect();
        for worker in workers {
            match worker.join() {
                Ok((done, failed)) => {
                    efforts.extend(done);
                    failures.extend(failed);
                }
                Err(_) => failures.push("a worker of the test itself panicked".to_owned()),
            }
        }
    });
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    let count = |what: fn(&ExerciseEffort) -> bool| efforts.iter().filter(|effort| what(effort)).count();
    let (opened, found, repaired) = (count(|e| e.opened), count(|e| e.found), count(|e| e.repaired));
    let rate = efforts.len() as f64 / start.elapsed().as_secs_f64();
    eprintln!(
        "{} images: {opened} opened, {found} found damaged, {repaired} repaired; {rate:.0} images/s",
        efforts.len()
    );
    // If hardly any image opens, the mutations are too coarse to test the code after the first verification.
    if efforts.len() > 1000 {
        assert!(opened * 2 > efforts.len() && found * 10 > efforts.len(), "most images do not get far");
    }
}
