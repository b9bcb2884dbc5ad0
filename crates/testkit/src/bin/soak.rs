//! Random tests until `LANEFS_SECONDS` have passed (default: an hour), or until one fails.
//!
//! Volumes in memory and in a file are compared with the model, with hostile images in between. `LANEFS_SEED`
//! is the first seed; by default it comes from the clock. Exit code 0: nothing was found; 1: the failure is
//! on standard output.

use lanefs::InodeSize;
use lanefs_testkit::engine::Engine;
use lanefs_testkit::mutate::{bases, run_case};
use lanefs_testkit::ops::{Limits, PROFILES};
use lanefs_testkit::run::{Setup, sequence};
use lanefs_testkit::seeded::Seeded;
use lanefs_testkit::settings::Seeds;
use lanefs_testkit::volume::{VolumeEngine, options};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

/// Hostile images for each seed.
const IMAGES: u64 = 200;
const REPORT_EVERY: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    match soak() {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            println!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn soak() -> Result<(), String> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let default_count = if std::env::var_os("LANEFS_SEQUENCES").is_none() { u64::MAX } else { 1 };
    let seeds = Seeds::from_environment("LANEFS_SEQUENCES", now.as_nanos() as u64 >> 10, default_count);
    let hour = Instant::now() + Duration::from_secs(3600);
    let bounded =
        std::env::var_os("LANEFS_SECONDS").is_some() || std::env::var_os("LANEFS_SEQUENCES").is_some();
    let dir = tempfile::tempdir().map_err(|error| format!("no directory for temporary files: {error}"))?;
    let image = dir.path().join("volume.lane");
    let hostile = bases()?;
    let weights: Vec<u64> = hostile.iter().map(|base| base.weight).collect();
    let (mut reported, mut done) = (Instant::now(), 0u64);
    for seed in seeds.take_while(|_| bounded || Instant::now() < hour) {
        for profile in PROFILES {
            let inode_size = if seed % 3 == 0 { InodeSize::B128 } else { InodeSize::B256 };
            let setup = Setup {
                profile,
                limits: Limits::VOLUME,
                compare_every: 50,
                replay: "LANEFS_SEED={seed} LANEFS_SEQUENCES=1 make soak",
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
        if reported.elapsed() > REPORT_EVERY {
            eprintln!("{done} seeds, the last one {seed}: nothing found");
            reported = Instant::now();
        }
    }
    eprintln!("{done} seeds: nothing found");
    Ok(())
}
