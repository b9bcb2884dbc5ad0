//! The model against the host's file systems, and a volume against both. This test puts the model's knowledge
//! of POSIX and Linux to the kernel, permissions included when run as root.

use lanefs::InodeSize;
use lanefs_testkit::engine::Engine;
use lanefs_testkit::host::Host;
use lanefs_testkit::ops::{PROFILES, Profile};
use lanefs_testkit::run::{Setup, sequence};
use lanefs_testkit::settings::Seeds;
use lanefs_testkit::volume::{VolumeEngine, options};
use std::path::PathBuf;

/// A directory in memory and the one for temporary files, mostly on a disk.
fn parents() -> Vec<PathBuf> {
    let memory = PathBuf::from("/dev/shm");
    let mut parents = vec![std::env::temp_dir()];
    if memory.is_dir() && Host::new(&memory).is_ok() {
        parents.push(memory);
    } else {
        eprintln!("no /dev/shm here: only the directory for temporary files is compared with");
    }
    parents
}

/// Profiles for a directory of the host, which must not be filled up.
fn profiles() -> impl Iterator<Item = Profile> {
    PROFILES.into_iter().filter(|profile| profile.name != "full")
}

fn compare(with_volume: bool, replay: &'static str, sequences: u64) {
    let seeds = Seeds::from_environment("LANEFS_SEQUENCES", 1, sequences);
    for parent in parents() {
        let limits = Host::limits(&parent);
        if !limits.users {
            eprintln!("not root: no callers, owners, devices and trusted attributes on the host");
        }
        for (profile, seed) in seeds.clone().flat_map(|seed| profiles().map(move |profile| (profile, seed))) {
            let setup = Setup { profile, limits, compare_every: 100, replay, make_small: true };
            let engines = || {
                let mut engines: Vec<Box<dyn Engine>> = vec![Box::new(Host::new(&parent)?)];
                if with_volume {
                    let options = options(profile.volume_bytes, InodeSize::B256);
                    engines.push(Box::new(VolumeEngine::memory(&options)?));
                }
                Ok(engines)
            };
            if let Err(failure) = sequence(seed, &setup, &engines) {
                panic!("in {}: {failure}", parent.display());
            }
        }
    }
}

#[test]
fn the_model_agrees_with_the_host() {
    let replay =
        "LANEFS_SEED={seed} LANEFS_SEQUENCES=1 cargo test -p lanefs-testkit --test it model_host::the_model";
    compare(false, replay, 2);
}

#[test]
fn a_volume_agrees_with_the_host() {
    let replay =
        "LANEFS_SEED={seed} LANEFS_SEQUENCES=1 cargo test -p lanefs-testkit --test it model_host::a_volume";
    compare(true, replay, 1);
}
