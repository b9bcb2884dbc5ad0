//! The tests of lookups, searches, changes and files once more, on a device whose memory the host does not
//! map, so over copies.
//!
//! A process of this program executes them: a second program of the same tests would be compiled for half a
//! minute.

use std::process::Command;

/// Variable of the environment with which tests open such a device.
pub(crate) const SWITCH: &str = "LANEFS_GPU_OWN_MEMORY";

/// Modules whose tests are executed again.
const MODULES: [&str; 7] =
    ["changes::", "device_files::", "directories::", "find::", "flight::", "list::", "lookup::"];

#[test]
fn again_over_copies() {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    let output = command.args(MODULES).env(SWITCH, "1").output().expect("run");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for module in MODULES {
        assert!(text.contains(&format!("test {module}")), "no test of {module} ran: {text}");
    }
}
