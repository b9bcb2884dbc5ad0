//! The cases of POSIX that a service without a kernel passes, too.

use crate::posix::support::Mounted;
use lanefs_testkit::posix::TestDirectory;
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
