//! Views of the store from outside: bytes for inspection, scrubs, watches, statistics.

mod raw;
pub(crate) mod scrub;
pub(crate) mod stats;
pub(crate) mod watch;
