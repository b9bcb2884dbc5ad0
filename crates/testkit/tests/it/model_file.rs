//! Volumes in a file against the model, closed and reopened in the middle.

use lanefs::InodeSize;
use lanefs_testkit::engine::Engine;
use lanefs_testkit::ops::{Limits, PROFILES};
use lanefs_testkit::run::{Setup, sequence};
use lanefs_testkit::settings::Seeds;
use lanefs_testkit::volume::{VolumeEngine, options};

#[test]
fn a_volume_in_a_file_agrees_with_the_model() {
    let replay = "LANEFS_SEED={seed} LANEFS_SEQUENCES=1 cargo test -p lanefs-testkit --test it model_file::";
    let dir = tempfile::tempdir().expect("a directory for temporary files");
    let image = dir.path().join("volume.lane");
    for seed in Seeds::from_environment("LANEFS_SEQUENCES", 1, 30) {
        for mut profile in PROFILES {
            // Each sequence reopens the volume about ten times.
            profile.whole[3] += profile.whole.iter().sum::<u64>() / 4 + 8;
            let inode_size = if seed % 2 == 0 { InodeSize::B128 } else { InodeSize::B256 };
            let setup =
                Setup { profile, limits: Limits::VOLUME, compare_every: 80, replay, make_small: true };
            let engines = || {
                let options = options(profile.volume_bytes, inode_size);
                let volume = VolumeEngine::file(image.clone(), &options)?;
                Ok(vec![Box::new(volume) as Box<dyn Engine>])
            };
            if let Err(failure) = sequence(seed, &setup, &engines) {
                panic!("{inode_size:?}: {failure}");
            }
        }
    }
}
