//! State that the parts share, and the start of new systems.

use super::column_args::ColumnArgs;
use crate::error::{Error, Result};
use crate::session::{Session, Systems};
use crate::systems::lane::Lane;
use crate::systems::peers::SpaceRequest;
use crate::systems::system::Named;
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

impl GpuBench {
    /// Makes new systems with room for `need`: a volume for both engines, and ext4 if available.
    pub(super) fn beside_ext4(&mut self, need: SpaceRequest) -> Result<Systems> {
        let mut systems = self.systems(need)?;
        systems.hosts.retain(|host| Named::name(host) == "ext4");
        Ok(systems)
    }
}

/// Mirrors a volume on the device, with all of its entries in the directory cache.
pub(super) fn mirrored<'v>(lane: &'v Lane, gpu: &Gpu) -> Result<Mirrored<'v>> {
    // All of it, even if the device shares the host's memory, of which a mirror otherwise takes at most a
    // quarter.
    let options = MirrorOptions { room: Some(gpu.info().memory / 4 * 3), ..MirrorOptions::default() };
    let mirrored = gpu.mirror(lane.volume(), &options).map_err(Error::device("mirroring the volume"))?;
    mirrored.warm().map_err(Error::device("filling the directory cache"))?;
    Ok(mirrored)
}
