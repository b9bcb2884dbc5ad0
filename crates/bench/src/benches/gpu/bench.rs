//! State that the parts share, and the start of new systems.

use super::column_args::ColumnArgs;
use crate::error::{Error, Result};
use crate::session::Session;
use crate::systems::lane::Lane;
use crate::systems::peers::{Host, Medium, SpaceRequest};
use crate::systems::system::{Named, System};
use crate::systems::workload::Sizes;
use lanefs_gpu::{Gpu, MirrorOptions, Mirrored};
use std::sync::Arc;

/// The benchmark under way.
pub(super) type GpuBench = Session<Settings>;

/// Settings of this benchmark alone.
pub(super) struct Settings {
    pub(super) sizes: Sizes,
    pub(super) columns: ColumnArgs,
    pub(super) gpu: Arc<Gpu>,
}

/// New, empty systems: a volume for both engines, and ext4 if available.
pub(super) struct GpuSystems {
    pub(super) lane: Lane,
    pub(super) hosts: Vec<Host>,
}

impl GpuSystems {
    /// Lists all systems, LaneFS first.
    pub(super) fn all(&self) -> Vec<&dyn System> {
        let hosts = self.hosts.iter().map(|host| host as &dyn System);
        [&self.lane as &dyn System].into_iter().chain(hosts).collect()
    }

    /// Mirrors the volume on the device, with all of its entries in the directory cache.
    pub(super) fn mirrored(&self, gpu: &Gpu) -> Result<Mirrored<'_>> {
        // All of it, even if the device shares the host's memory, of which a mirror otherwise takes at most a
        // quarter.
        let options = MirrorOptions { room: Some(gpu.info().memory / 4 * 3), ..MirrorOptions::default() };
        let mirrored = gpu.mirror(self.lane.volume(), &options);
        let mirrored = mirrored.map_err(Error::device("mirroring the volume"))?;
        mirrored.warm().map_err(Error::device("filling the directory cache"))?;
        Ok(mirrored)
    }
}

impl GpuBench {
    /// Makes new systems with room for `need`.
    pub(super) fn systems(&mut self, need: SpaceRequest) -> Result<GpuSystems> {
        let mut hosts = self.hosts(need, Medium::Memory)?;
        hosts.retain(|host| Named::name(host) == "ext4");
        let bytes = (512 << 20) + need.inodes * 1024 + need.bytes * 2;
        Ok(GpuSystems { lane: Lane::new(bytes)?, hosts })
    }
}
