//! A mounted volume compared with the model. The runner that compares the model with the host's file systems
//! runs on a mounted directory, so every operation passes the kernel with its caches, permissions and name
//! rules.

use lanefs::{CreateOptions, Volume};
use lanefs_fuse::{Mount, Options};
use lanefs_testkit::engine::Engine;
use lanefs_testkit::host::Host;
use lanefs_testkit::ops::{PROFILES, Profile};
use lanefs_testkit::run::{Setup, sequence};
use lanefs_testkit::settings::Seeds;

/// The profiles without the one that fills the volume, because all of them use one volume in turn.
fn profiles() -> impl Iterator<Item = Profile> {
    PROFILES.into_iter().filter(|profile| profile.name != "full")
}

#[test]
fn a_mounted_volume_does_what_the_model_says() {
    if !crate::is_alone("model::a_mounted_volume_does_what_the_model_says") {
        return;
    }
    let options = CreateOptions { size: 4 << 30, ..CreateOptions::default() };
    let volume = Volume::create_memory(&options).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mount = Mount::start(volume, dir.path(), &Options { allow_other: true, ..crate::mount_options() })
        .unwrap_or_else(|error| panic!("this test needs root, or fusermount3, and /dev/fuse: {error}"));
    let limits = Host::limits(dir.path());
    if !limits.users {
        eprintln!("not root: no callers, owners, devices and trusted attributes");
    }
    let replay = "LANEFS_SEED={seed} LANEFS_SEQUENCES=1 cargo test -p lanefs-fuse --test it model::";
    let seeds = Seeds::from_environment("LANEFS_SEQUENCES", 1, 2);
    for (profile, seed) in seeds.flat_map(|seed| profiles().map(move |profile| (profile, seed))) {
        let setup = Setup { profile, limits, compare_every: 100, replay, make_small: true };
        let engines = || Ok(vec![Box::new(Host::new(dir.path())?) as Box<dyn Engine>]);
        if let Err(failure) = sequence(seed, &setup, &engines) {
            drop(mount);
            panic!("{failure}");
        }
    }
    mount.stop().unwrap();
}
