//! A service compared with the model, by the runner that compares the model with volumes, with the host's
//! file systems and with mounted directories.

use crate::client::{Client, ServedEngine};
use lanefs::{AccessTimes, CreateOptions, Volume};
use lanefs_serve::ServeOptions;
use lanefs_testkit::engine::{Engine, EngineError};
use lanefs_testkit::ops::{Limits, PROFILES};
use lanefs_testkit::run::{Setup, sequence};
use lanefs_testkit::settings::Seeds;

/// The abilities of a service: its client checks permissions, `trusted.` attributes are root's, and the codes
/// are the errno of Linux.
const LIMITS: Limits =
    Limits { users: false, shift_range: false, bases: false, whole_files: false, ..Limits::VOLUME };

#[test]
fn a_service_does_what_the_model_says() {
    let replay = "LANEFS_SEED={seed} LANEFS_SEQUENCES=1 cargo test -p lanefs-serve --test it model::";
    // Listings have no flag by which they leave times of access.
    let options = ServeOptions { access_times: AccessTimes::Never, ..ServeOptions::default() };
    let engines = || {
        let volume = Volume::create_memory(&CreateOptions { size: 1 << 30, ..CreateOptions::default() });
        let client = Client::of(volume.map_err(EngineError::from)?, &options);
        Ok(vec![Box::new(ServedEngine::new(client)) as Box<dyn Engine>])
    };
    let seeds = Seeds::from_environment("LANEFS_SEQUENCES", 1, 4);
    for seed in seeds {
        for profile in PROFILES.into_iter().filter(|profile| profile.name != "full") {
            let setup = Setup { profile, limits: LIMITS, compare_every: 100, replay, make_small: true };
            if let Err(failure) = sequence(seed, &setup, &engines) {
                panic!("{failure}");
            }
        }
    }
}
