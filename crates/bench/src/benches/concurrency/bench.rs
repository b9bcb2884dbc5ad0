//! State that the parts share, and the start of new systems.

use super::sizes::Sizes;
use crate::error::Result;
use crate::session::Session;
use crate::systems::lane::Lane;
use crate::systems::peers::{Host, Medium, SpaceRequest};

/// The benchmark under way.
pub(super) type ConcurrencyBench = Session<Settings>;

/// Settings of this benchmark alone.
pub(super) struct Settings {
    pub(super) sizes: Sizes,
}

/// New, empty systems: a memory volume of LaneFS and every available peer.
pub(super) struct ConcurrencySystems {
    pub(super) lane: Lane,
    pub(super) hosts: Vec<Host>,
}

impl ConcurrencyBench {
    /// Makes new systems in memory with room for `need`.
    pub(super) fn systems(&mut self, need: SpaceRequest) -> Result<ConcurrencySystems> {
        let hosts = self.hosts(need, Medium::Memory)?;
        Ok(ConcurrencySystems { lane: Lane::new((512 << 20) + need.inodes * 1024 + need.bytes * 2)?, hosts })
    }
}
