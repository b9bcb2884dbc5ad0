//! State that the parts share, and the start of new systems.

use crate::error::Result;
use crate::session::Session;
use crate::systems::lane::{Lane, bytes_for};
use crate::systems::peers::{Host, Medium, SpaceRequest};
use crate::systems::system::System;
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

/// New, empty systems: LaneFS and every available peer.
pub(super) struct NamespaceSystems {
    pub(super) lane: Lane,
    pub(super) hosts: Vec<Host>,
}

impl NamespaceSystems {
    /// Lists all systems, LaneFS first.
    pub(super) fn all(&self) -> Vec<&dyn System> {
        let hosts = self.hosts.iter().map(|host| host as &dyn System);
        [&self.lane as &dyn System].into_iter().chain(hosts).collect()
    }
}

impl NamespaceBench {
    /// Makes new systems with room for `need`.
    pub(super) fn systems(&mut self, need: SpaceRequest) -> Result<NamespaceSystems> {
        let hosts = self.hosts(need, Medium::Memory)?;
        Ok(NamespaceSystems { lane: Lane::new(bytes_for(need))?, hosts })
    }
}
