//! The runner must find each planted bug, within a number of sequences that a test run executes many times
//! over.

use lanefs::InodeSize;
use lanefs_testkit::canary::{Bug, Buggy};
use lanefs_testkit::engine::Engine;
use lanefs_testkit::model::Model;
use lanefs_testkit::ops::{Limits, PROFILES};
use lanefs_testkit::run::{Engines, Setup, sequence};
use lanefs_testkit::volume::{VolumeEngine, options};

/// Sequences of each profile within which a bug must show.
const MOST_SEEDS: u64 = 30;
/// Most operations of a shrunk sequence that shows a bug.
const MOST_OPS: usize = 12;

/// The model's cookies are ranks, which shift when names are added or removed.
const MODEL: Limits = Limits { stable_cookies: false, ..Limits::VOLUME };

fn must_be_found(bug: Bug, limits: Limits, make_small: bool, engines: &Engines<'_>) {
    for seed in 0..MOST_SEEDS {
        for profile in PROFILES.into_iter().filter(|profile| profile.name != "full") {
            let setup = Setup { profile, limits, compare_every: 100, replay: "", make_small };
            if let Err(failure) = sequence(seed, &setup, engines) {
                let small = !make_small || failure.ops.len() <= MOST_OPS;
                assert!(small, "{bug:?} is found, but not made small: {failure}");
                return;
            }
        }
    }
    panic!("{bug:?} is not found");
}

#[test]
fn the_runner_finds_faults_planted_in_the_model() {
    for bug in Bug::ALL {
        let engines = || Ok(vec![Box::new(Buggy::new(Box::new(Model::default()), bug)) as Box<dyn Engine>]);
        must_be_found(bug, MODEL, true, &engines);
    }
}

#[test]
fn the_runner_finds_faults_planted_in_a_volume() {
    for bug in Bug::ALL {
        let engines = || {
            let volume = VolumeEngine::memory(&options(48 << 20, InodeSize::B256))?;
            Ok(vec![Box::new(Buggy::new(Box::new(volume), bug)) as Box<dyn Engine>])
        };
        must_be_found(bug, Limits::VOLUME, false, &engines);
    }
}

#[test]
fn the_runner_finds_nothing_in_the_model_itself() {
    for profile in PROFILES {
        let engines = || Ok(vec![Box::new(Model::default()) as Box<dyn Engine>]);
        let setup = Setup { profile, limits: MODEL, compare_every: 50, replay: "", make_small: true };
        for seed in 0..5 {
            if let Err(failure) = sequence(seed, &setup, &engines) {
                panic!("{failure}");
            }
        }
    }
}
