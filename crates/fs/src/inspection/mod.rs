//! Views of a volume as a whole: its blocks, their use, snapshots, scrubs, changes that an engine follows.
//!
//! It changes nothing but what a scrub finds out.

pub(crate) mod group_use;
mod inspect;
pub(crate) mod scrub;
pub(crate) mod snapshot;
pub(crate) mod stamp;
#[cfg(feature = "_testing")]
pub(crate) mod unchecked;
pub(crate) mod used;
pub(crate) mod watch;
