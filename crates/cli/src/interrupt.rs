//! Ctrl-C and requests to terminate: noted here, acted on where a command can stop cleanly.

use crate::exit::{self, Failure, Outcome};
use std::sync::atomic::{AtomicU32, Ordering};

/// Requests since the last [`clear`]. Relaxed: a request guards no data, it only has to be seen soon.
static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// After so many requests in one command the process ends at once, for a device that no longer answers.
const IMPATIENT: u32 = 3;

/// Installs the handler. Without one (a host that refuses it) Ctrl-C ends the process as ever.
pub fn install() {
    let _ = ctrlc::set_handler(|| {
        if REQUESTS.fetch_add(1, Ordering::Relaxed) + 1 >= IMPATIENT {
            std::process::exit(i32::from(exit::INTERRUPTED));
        }
    });
}

/// Has requests do something else than be noted, in place of [`install`].
pub fn install_instead(on_request: impl FnMut() + Send + 'static) {
    let _ = ctrlc::set_handler(on_request);
}

/// True once the user asked to stop, or the client for whom this thread works.
pub fn raised() -> bool {
    if let Some(is_gone) = crate::console::client_is_gone() {
        return is_gone;
    }
    REQUESTS.load(Ordering::Relaxed) > 0
}

/// Forgets the requests: the next command of a shell starts afresh.
pub fn clear() {
    REQUESTS.store(0, Ordering::Relaxed);
}

/// [`Failure::Interrupted`] once the user asked to stop.
pub fn check() -> Outcome {
    if raised() { Err(Failure::Interrupted) } else { Ok(()) }
}
