//! Ctrl-C and requests to terminate.
//!
//! Until a volume is open they end the process at once: opening may wait for a device, a server or a lock,
//! and nothing has begun that an end could harm. From [`wait_for_commands`] on the handler only counts them,
//! and commands check the count where they can stop cleanly.

use super::{console, exit};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Requests since the last [`clear`]. Relaxed: a request guards no data, threads only have to see it soon.
static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// True once commands check the count.
static COMMANDS_CHECK: AtomicBool = AtomicBool::new(false);

/// Called before the process ends at once.
static BEFORE_EXIT: OnceLock<fn()> = OnceLock::new();

/// Number of requests in one command that ends the process at once, for a device that no longer answers.
const FORCED_EXIT_REQUESTS: u32 = 3;

/// Installs the handler. If the host refuses it, Ctrl-C ends the process as usual.
pub fn install() {
    let _ = ctrlc::set_handler(|| {
        let requests = REQUESTS.fetch_add(1, Ordering::Relaxed) + 1;
        if requests >= FORCED_EXIT_REQUESTS || ends_at_once() {
            BEFORE_EXIT.get().iter().for_each(|call| call());
            std::process::exit(i32::from(exit::INTERRUPTED));
        }
    });
}

/// From now on the process ends by its commands, which check for requests: the volume is open, or there is
/// none to wait for.
pub fn wait_for_commands() {
    COMMANDS_CHECK.store(true, Ordering::Relaxed);
}

/// True where a request ends the process at once.
pub fn ends_at_once() -> bool {
    !COMMANDS_CHECK.load(Ordering::Relaxed)
}

/// Calls `call` before requests end the process at once. Only the first call of this function counts.
pub fn before_exit(call: fn()) {
    let _ = BEFORE_EXIT.set(call);
}

/// Calls `on_request` for each request, in place of [`install`].
pub fn install_instead(on_request: impl FnMut() + Send + 'static) {
    let _ = ctrlc::set_handler(on_request);
}

/// True once the user, or the client of this thread, asked to stop.
pub fn raised() -> bool {
    match console::client() {
        Some(client) => client.is_cancelled(),
        None => process_is_interrupted(),
    }
}

/// [`raised`] as seen by this thread, for use in any thread.
pub fn flag() -> impl Fn() -> bool + Sync {
    let client = console::client();
    move || match &client {
        Some(client) => client.is_cancelled(),
        None => process_is_interrupted(),
    }
}

fn process_is_interrupted() -> bool {
    requests() > 0
}

/// Requests to stop so far, of this process.
pub fn requests() -> u32 {
    REQUESTS.load(Ordering::Relaxed)
}

/// Forgets the requests, so that the next command of a shell starts afresh.
pub fn clear() {
    REQUESTS.store(0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::console::as_client;
    use crate::terminal::console::tests::TestClient;
    use std::sync::Arc;

    #[test]
    fn a_client_that_is_gone_interrupts_every_thread_of_its_command() {
        let client = Arc::new(TestClient::default());
        as_client(client.clone(), || {
            let stop = flag();
            assert!(!stop() && !raised());
            client.cancelled.store(true, Ordering::Relaxed);
            assert!(raised());
            assert!(std::thread::scope(|scope| scope.spawn(&stop).join().expect("no panic")));
        });
        assert!(!raised());
    }
}
