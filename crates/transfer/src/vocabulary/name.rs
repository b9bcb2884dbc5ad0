//! Names: their form in messages, the valid ones, temporary ones.

/// Formats a path or name for a message: any name is one line, and none acts on a terminal.
pub use lanefs::escape::escape as shown;
pub(crate) use lanefs::escape::escape_path as shown_path;
pub(crate) use lanefs::path::is_name as is_entry_name;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Returns a name that nothing else uses.
pub(crate) fn temporary_name() -> Vec<u8> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!(".lanefs-{}-{}.tmp", rustix::process::getpid(), NEXT.fetch_add(1, Relaxed)).into_bytes()
}
