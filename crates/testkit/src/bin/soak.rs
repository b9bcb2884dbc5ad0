//! Random tests until the time is over, or until one fails.
//!
//! `soak [--seconds N] [--seed N]`: volumes in memory and in a file are compared with the model, with hostile
//! images in between, one seed after the other, the first one in any case. The default seed comes from the
//! clock. Exit code 0: nothing was found; 1: the failure is on standard output; 2: the arguments are wrong.

use lanefs::InodeSize;
use lanefs_testkit::engine::Engine;
use lanefs_testkit::mutate::{bases, run_case};
use lanefs_testkit::ops::{Limits, PROFILES};
use lanefs_testkit::run::{Setup, sequence};
use lanefs_testkit::seeded::Seeded;
use lanefs_testkit::settings::SoakArguments;
use lanefs_testkit::volume::{VolumeEngine, options};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: soak [--seconds N] [--seed N]";

/// Hostile images for each seed.
const IMAGES: u64 = 200;
const REPORT_EVERY: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let arguments = SoakArguments::of_process(USAGE, &["--seconds", "--seed"]);
    let limits = arguments.and_then(|given| Ok((given.seconds()?, given.seed()?)));
    let (seconds, seed) = match limits {
        Ok(limits) => limits,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    eprintln!("seed {seed}, {seconds} seconds");
    match soak(Duration::from_secs(seconds), seed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            println!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn soak(limit: Duration, first: u64) -> Result<(), String> {
    let start = Instant::now();
    let dir = tempfile::tempdir().map_err(|error| format!("no directory for temporary files: {error}"))?;
    let image = dir.path().join("volume.lane");
    let hostile = bases()?;
    let weights: Vec<u64> = hostile.iter().map(|base| base.weight).collect();
    let (mut reported, mut done) = (Instant::now(), 0u64);
    for seed in first.. {
        for profile in PROFILES {
            let inode_size = if seed % 3 == 0 { InodeSize::B128 } else { InodeSize::B256 };
            let setup = Setup {
                profile,
                limits: Limits::VOLUME,
                compare_every: 50,
                replay: "make soak SEED={seed} SECONDS=0",
                make_small: true,
            };
            let in_file = seed % 4 == 0;
            let engines = || {
                let options = options(profile.volume_bytes, inode_size);
                let volume = if in_file {
                    VolumeEngine::file(image.clone(), &options)?
                } else {
                    VolumeEngine::memory(&options)?
                };
                Ok(vec![Box::new(volume) as Box<dyn Engine>])
            };
            sequence(seed, &setup, &engines).map_err(|failure| failure.to_string())?;
        }
        for number in 0..IMAGES {
            let seed = Seeded::new(seed ^ number << 40).bits();
            run_case(&hostile[Seeded::new(!seed).weighted(&weights)], seed)?;
        }
        done += 1;
        if start.elapsed() >= limit {
            break;
        }
        if reported.elapsed() > REPORT_EVERY {
            eprintln!("{done} seeds, the last one {seed}: nothing found");
            reported = Instant::now();
        }
    }
    eprintln!("{done} seeds: nothing found");
    Ok(())
}
