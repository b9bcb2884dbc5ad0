//! State that the parts share.

use crate::session::Session;
use crate::systems::workload::Sizes;
use std::path::PathBuf;

/// The benchmark under way.
pub(super) type NamespaceBench = Session<Settings>;

/// Settings of this benchmark alone.
pub(super) struct Settings {
    pub(super) quick: bool,
    pub(super) sizes: Sizes,
    pub(super) tree: Option<PathBuf>,
}
