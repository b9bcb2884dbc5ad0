//! Volumes that are mounted.
//!
//! All tests are modules of one program: each program costs a link.

mod coherence;
mod cold;
mod direct;
mod model;
mod posix;
mod remount;
mod versions;

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
