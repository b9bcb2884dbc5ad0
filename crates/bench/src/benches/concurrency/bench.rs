//! State that the parts share.

use super::sizes::Sizes;
use crate::session::Session;

/// The benchmark under way.
pub(super) type ConcurrencyBench = Session<Settings>;

/// Settings of this benchmark alone.
pub(super) struct Settings {
    pub(super) sizes: Sizes,
}
