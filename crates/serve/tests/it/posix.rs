//! The cases of POSIX that a mounted directory passes, too.

use crate::client::Client;
use lanefs_testkit::posix_tests;

fn on(size: u64, run: impl FnOnce(&Client)) {
    let client = Client::new(size);
    run(&client);
    client.end();
}

fn on_service(run: impl FnOnce(&Client)) {
    on(256 << 20, run);
}

fn on_small_service(run: impl FnOnce(&Client)) {
    on(16 << 20, run);
}

posix_tests!(on_service, on_small_service);
