//! The tests of lookups, searches, changes and files once more, on a device whose memory the host does not
//! map, so over copies.
//!
//! A process of this program executes them: a second program of the same tests would be compiled for half a
//! minute. Tests that no copy can change are left out.

use std::process::Command;

/// Variable of the environment with which tests open such a device.
pub(crate) const SWITCH: &str = "LANEFS_GPU_OWN_MEMORY";

/// Modules whose tests are executed again.
const MODULES: [&str; 7] =
    ["changes::", "device_files::", "directories::", "find::", "flight::", "list::", "lookup::"];

/// Tests of these modules that are not executed again, each with the reason.
const LEFT_OUT: [(&str, &str); 9] = [
    ("changes::what_the_twins_give_is_sound", "no device takes part"),
    ("changes::a_word_that_is_bent_is_seen", "no device takes part"),
    ("changes::regions_are_rebuilt_as_by_the_twins_in_workgroups_of_any_size", "of kernels; others rebuild"),
    ("changes::hostile_images_give_some_answer_and_the_same_as_the_twins", "of kernels; others rebuild"),
    ("find::the_kernel_is_equal_to_its_twin", "of a kernel; others find"),
    ("list::the_kernels_are_equal_to_their_twins", "of kernels; others list"),
    ("flight::two_processes_use_the_device_at_once", "of the driver: processes share no copies"),
    ("lookup::a_device_that_is_not_there_is_named", "no device is opened"),
    (
        "lookup::one_engine_mirrors_a_volume_at_a_time_and_two_devices_can_be_open",
        "of mirrors that stay empty",
    ),
];

#[test]
fn again_over_copies() {
    let this = std::env::current_exe().expect("this program");
    let all = Command::new(&this).arg("--list").output().expect("run");
    let all = String::from_utf8_lossy(&all.stdout);
    let mut command = Command::new(this);
    for (test, _) in LEFT_OUT {
        assert!(all.contains(&format!("{test}: test\n")), "no test {test}");
        command.args(["--skip", test]);
    }
    let output = command.args(MODULES).env(SWITCH, "1").output().expect("run");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for module in MODULES {
        assert!(text.contains(&format!("test {module}")), "no test of {module} ran: {text}");
    }
}
