//! The twins of the kernels that change directories, together an engine: for tests and proofs.

use super::build::build;
use super::gather::gather;
use super::host::HostCopy;
use super::links::Words;
use super::memory::Memory;
use super::merge::merge;
use super::seek::seek;
use super::settings::KernelSettings;
use crate::limits::{FUEL, WORKGROUP};
use crate::tasks::Tasks;
use lanefs::bulk::{Batch, DirEngine, Frozen, Lookup, LookupRequest, Rebuilt, Undecided};
use lanefs::{Volume, Watch};

/// The kernels' answers without a device, from a copy of the volume's metadata.
pub struct TwinEngine<'v> {
    setting: KernelSettings,
    watch: Watch<'v>,
    copy: HostCopy,
}

impl<'v> TwinEngine<'v> {
    /// With as many rounds of loops as a hardware device has, and workgroups of the usual size.
    ///
    /// # Errors
    /// Somebody else watches the volume; the host's.
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

    /// As [`begin`](DirEngine::begin), where nobody changes the volume anyway.
    pub fn look(&mut self) {
        let TwinEngine { watch, copy, .. } = self;
        watch.changes(&mut |block| copy.update(&block));
    }
}

impl DirEngine for TwinEngine<'_> {
    fn begin(&mut self, still: &Frozen<'_>) -> Result<(), Undecided> {
        still.changes(&mut |block| self.copy.update(&block));
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

/// What the kernel `seek` answers; `None` where it is not certain.
pub fn seen<M: Memory>(memory: &M, setting: &KernelSettings, name: &LookupRequest<'_>) -> Option<Lookup> {
    seek(memory, setting, name)
}

/// What the kernels `gather`, `merge` and `build` answer; words in another order.
///
/// # Errors
/// [`Undecided`] where they are not certain of one of the tasks.
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
