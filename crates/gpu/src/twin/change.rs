//! The twins of the kernels that change directories, together an engine for tests and probes.

use super::host::HostCopy;
use crate::shared::limits::{FUEL, WORKGROUP};
use crate::shared::tasks::Tasks;
use crate::twin::headers::links::Words;
use crate::twin::headers::memory::Memory;
use crate::twin::headers::settings::KernelSettings;
use crate::twin::kernels::build::build;
use crate::twin::kernels::gather::gather;
use crate::twin::kernels::merge::merge;
use crate::twin::kernels::seek::seek;
use lanefs::bulk::{Batch, DirEngine, Frozen, Lookup, LookupRequest, Rebuilt, Undecided};
use lanefs::{Volume, Watch};

/// An engine that answers as the kernels do, without a device, from a copy of the volume's metadata.
pub struct TwinEngine<'v> {
    setting: KernelSettings,
    watch: Watch<'v>,
    copy: HostCopy,
}

impl<'v> TwinEngine<'v> {
    /// Makes an engine with the fuel of a hardware device and workgroups of the usual size.
    ///
    /// # Errors
    /// Another engine watches the volume (`Busy`); an error of the volume.
    pub fn of(volume: &'v Volume) -> lanefs::Result<TwinEngine<'v>> {
        let superblock = volume.superblock();
        let setting = KernelSettings {
            seed: superblock.seed,
            inode_size: superblock.inode_size,
            fuel: FUEL,
            workgroup: WORKGROUP,
        };
        let watch = volume.watch()?.ok_or_else(|| lanefs::Error::from(lanefs::Code::Busy))?;
        Ok(TwinEngine { setting, watch, copy: HostCopy::empty(volume) })
    }

    /// Refreshes the copy as [`begin`](DirEngine::begin) does, on a volume that no thread changes.
    pub fn refresh(&mut self) {
        let TwinEngine { watch, copy, .. } = self;
        watch.changes(&mut |block| copy.update(&block));
    }
}

impl DirEngine for TwinEngine<'_> {
    fn begin(&mut self, frozen: &Frozen<'_>) -> Result<(), Undecided> {
        frozen.changes(&mut |block| self.copy.update(&block));
        Ok(())
    }

    fn seek(&mut self, names: &[LookupRequest<'_>]) -> Result<Vec<Lookup>, Undecided> {
        let seen = names.iter().map(|name| seen(&self.copy, &self.setting, name));
        seen.collect::<Option<_>>().ok_or(Undecided)
    }

    fn rebuild(&mut self, batch: &Batch) -> Result<Rebuilt, Undecided> {
        rebuilt(&self.copy, &self.setting, batch)
    }
}

/// Returns the result of the kernel `seek`; `None` where it cannot decide.
pub fn seen<M: Memory>(memory: &M, setting: &KernelSettings, name: &LookupRequest<'_>) -> Option<Lookup> {
    seek(memory, setting, name)
}

/// Returns the results of the kernels `gather`, `merge` and `build`, with the words in another order.
///
/// # Errors
/// [`Undecided`] where the kernels cannot decide one of the tasks.
pub fn rebuilt<M: Memory>(memory: &M, setting: &KernelSettings, batch: &Batch) -> Result<Rebuilt, Undecided> {
    let tasks = Tasks::of(batch)?;
    rebuild(memory, setting, &tasks).ok_or(Undecided)
}

fn rebuild<M: Memory>(memory: &M, setting: &KernelSettings, tasks: &Tasks<'_>) -> Option<Rebuilt> {
    let mut words = Words::new();
    let mut lists = Vec::with_capacity(tasks.parts.len());
    for part in &tasks.parts {
        let gathered = gather(memory, setting, part, &mut words)?;
        lists.push((merge(part, &gathered.items)?, gathered.after));
    }
    let mut heads = Vec::with_capacity(tasks.batch.heads.len());
    for head in &tasks.batch.heads {
        let part = tasks.parts.get(head.task as usize)?;
        let (merged, after) = lists.get(head.task as usize)?;
        heads.push(build(memory, setting, part, head, (merged, *after), &mut words)?);
    }
    Some(Rebuilt { words, heads })
}
