//! Volumes in memory against the model: thousands of random sequences.
//!
//! `LANEFS_SEQUENCES`, `LANEFS_SEED` and `LANEFS_SECONDS` set the number, the first seed, and the time limit.

use lanefs::InodeSize;
use lanefs_testkit::engine::Engine;
use lanefs_testkit::ops::{Limits, PROFILES, Profile};
use lanefs_testkit::run::{Setup, sequence};
use lanefs_testkit::settings::Seeds;
use lanefs_testkit::volume::{VolumeEngine, options};

const REPLAY: &str =
    "LANEFS_SEED={seed} LANEFS_SEQUENCES=1 cargo test -p lanefs-testkit --test it model_memory::";

fn profile(name: &str) -> Profile {
    PROFILES.into_iter().find(|profile| profile.name == name).expect("a profile of this name")
}

fn compare(name: &str, sequences: u64) {
    let profile = profile(name);
    for seed in Seeds::from_environment("LANEFS_SEQUENCES", 1, sequences) {
        // Both sizes of inodes, and comparisons sometimes often and sometimes seldom, so that bugs have time
        // to take effect.
        let inode_size = if seed % 3 == 0 { InodeSize::B128 } else { InodeSize::B256 };
        let compare_every = if seed % 2 == 0 { 25 } else { 100 };
        let setup =
            Setup { profile, limits: Limits::VOLUME, compare_every, replay: REPLAY, make_small: true };
        let engines = || {
            let volume = VolumeEngine::memory(&options(profile.volume_bytes, inode_size))?;
            Ok(vec![Box::new(volume) as Box<dyn Engine>])
        };
        if let Err(failure) = sequence(seed, &setup, &engines) {
            panic!("{inode_size:?}: {failure}");
        }
    }
}

#[test]
fn one_directory() {
    compare("one-directory", 150);
}

#[test]
fn deep() {
    compare("deep", 200);
}

#[test]
fn data() {
    compare("data", 175);
}

#[test]
fn attributes() {
    compare("attributes", 200);
}

#[test]
fn users() {
    compare("users", 275);
}

#[test]
fn mixed() {
    compare("mixed", 150);
}

#[test]
fn full() {
    compare("full", 150);
}
