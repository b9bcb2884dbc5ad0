//! The cases of POSIX that a service without a kernel passes, too.

use crate::posix::support::{Mounted, host_directory};
use lanefs_testkit::host::Host;
use lanefs_testkit::posix::{TestDirectory, names};
use lanefs_testkit::posix_tests;

fn on(size: u64, run: impl FnOnce(&TestDirectory)) {
    let m = Mounted::with(size, &crate::mount_options());
    run(&TestDirectory::new(m.dir.path()));
    m.end();
}

fn on_mount(run: impl FnOnce(&TestDirectory)) {
    on(256 << 20, run);
}

fn on_small_mount(run: impl FnOnce(&TestDirectory)) {
    on(16 << 20, run);
}

posix_tests!(on_mount, on_small_mount);

#[test]
fn a_whiteout_is_as_on_the_hosts_file_system() {
    let host = host_directory();
    if !Host::limits(host.path()).whiteouts {
        eprintln!("not compared: the file system of the build leaves no whiteouts");
        return;
    }
    names::a_rename_leaves_a_whiteout(&TestDirectory::new(host.path()));
}
