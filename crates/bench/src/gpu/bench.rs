//! What the parts have in common: new systems.

use crate::lane::Lane;
use crate::peers::{Host, Medium, SpaceRequest};
use crate::session::Session;
use crate::system::System;
use crate::workload::Sizes;
use crate::{Error, Result};
use lanefs_gpu::{Gpu, MirrorOptions, Mirrored};
use std::sync::Arc;

/// The whole benchmark.
pub(super) type GpuBench = Session<Settings>;

/// What only this benchmark has.
pub(super) struct Settings {
    pub(super) sizes: Sizes,
    pub(super) gpu: Arc<Gpu>,
}

/// New, empty systems: a volume for both engines, and ext4 where it could be had.
pub(super) struct GpuSystems {
    pub(super) lane: Lane,
    pub(super) hosts: Vec<Host>,
}

impl GpuSystems {
    /// All of them, LaneFS first.
    pub(super) fn all(&self) -> Vec<&dyn System> {
        let hosts = self.hosts.iter().map(|host| host as &dyn System);
        [&self.lane as &dyn System].into_iter().chain(hosts).collect()
    }

    /// The volume on the device, with all of its entries in the directory cache.
    pub(super) fn mirrored<'g>(&self, gpu: &'g Gpu) -> Result<Mirrored<'g, '_>> {
        // All of it, also where the device's memory is the host's, of which a mirror else takes a quarter at most.
        let options = MirrorOptions { room: Some(gpu.info().memory / 4 * 3), ..MirrorOptions::default() };
        let mirrored = gpu.mirror(self.lane.volume(), &options);
        let mirrored = mirrored.map_err(Error::device("mirroring the volume"))?;
        mirrored.warm().map_err(Error::device("filling the directory cache"))?;
        Ok(mirrored)
    }
}

impl GpuBench {
    /// New systems with room for `need`.
    pub(super) fn systems(&mut self, need: SpaceRequest) -> Result<GpuSystems> {
        let mut hosts = self.hosts(need, Medium::Memory)?;
        hosts.retain(|host| crate::system::Named::name(host) == "ext4");
        let bytes = (512 << 20) + need.inodes * 1024 + need.bytes * 2;
        Ok(GpuSystems { lane: Lane::new(bytes)?, hosts })
    }
}
