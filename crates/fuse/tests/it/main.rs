//! Volumes that are mounted.
//!
//! All tests are modules of one program: each program costs a link.

mod coherence;
mod cold;
mod direct;
mod endings;
mod model;
mod posix;
mod remount;
mod versions;

use lanefs::{CreateOptions, Volume};
use lanefs_fuse::{Mount, Options, Transport};

/// Runs a test that sets the umask in a process of its own: the umask is the process's, and other tests have
/// theirs. Returns true in that process.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "LANEFS_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut child = std::process::Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", test, "--nocapture"]).env(ALONE, "1");
    assert!(child.status().expect("run").success(), "{test} failed");
    false
}

/// Environment of a run whose mounts all have their requests through rings.
const THROUGH_RINGS: &str = "LANEFS_TEST_RINGS";
/// Switch of the kernel's fuse module.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// Returns the options with which the tests of this run mount.
pub(crate) fn mount_options() -> Options {
    let is_through_rings = std::env::var_os(THROUGH_RINGS).is_some();
    let transport = if is_through_rings { Transport::Uring } else { Transport::Device };
    Options { transport, ..Options::default() }
}

/// Puts the kernel's switch back.
struct Switched(String);

impl Drop for Switched {
    fn drop(&mut self) {
        let _ = std::fs::write(SWITCH, &self.0);
    }
}

fn one_mount_through_rings() -> lanefs_fuse::Result<()> {
    let volume = Volume::create_memory(&CreateOptions { size: 16 << 20, ..CreateOptions::default() });
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options { transport: Transport::Uring, ..Options::default() };
    Mount::start(volume.expect("a volume"), dir.path(), &options)?.stop().map(drop)
}

#[test]
fn all_tests_pass_with_requests_through_rings() {
    if std::env::var_os(THROUGH_RINGS).is_some() {
        return;
    }
    let switched = std::fs::read_to_string(SWITCH).and_then(|before| {
        let switched = Switched(before);
        std::fs::write(SWITCH, "Y").map(|()| switched)
    });
    let _switched = match switched {
        Ok(switched) => switched,
        Err(error) => {
            eprintln!(
                "no test through rings: {SWITCH}: {error} (Linux has it from 6.14 on, root switches it)"
            );
            return;
        }
    };
    if let Err(error) = one_mount_through_rings() {
        // A container may forbid rings; any other error is a fault.
        assert!(error.to_string().contains("making a ring"), "{error}");
        eprintln!("no test through rings: {error}");
        return;
    }
    let mut child = std::process::Command::new(std::env::current_exe().expect("this program"));
    child.args(["--skip", "through_rings"]).env(THROUGH_RINGS, "1");
    assert!(child.status().expect("run").success(), "tests fail with requests through rings");
}
