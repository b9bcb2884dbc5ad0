//! Changes of the metadata, for an engine that keeps a copy of it in memory of its own.

use crate::attempt::Core;
use crate::names::dir;
use crate::running::volume::Volume;
use crate::space;
use crate::vocabulary::error::{Error, Outcome, Result};
use crate::vocabulary::types::{DirEntry, Ino};
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, BlockKind, CHUNK_HEADER_BLOCKS, CHUNKS_PER_GROUP, chunk_entry, group as g,
};
use lanefs_store::{Want, Watched};

/// A watch over the metadata of a volume. A volume has one at a time.
pub struct Watch<'v> {
    volume: &'v Volume,
}

/// # Metadata for an engine beside the volume
impl Volume {
    /// Begins to watch the metadata; `None` where there is a watch already.
    ///
    /// # Errors
    /// The host's, without address space.
    pub fn watch(&self) -> Result<Option<Watch<'_>>> {
        let shared = &self.shared;
        let _closed = shared.state.gate.close(&shared.state.store);
        let kept = shared.state.store.keep_watch();
        let kept = kept.map_err(|source| Error::Io { what: "watching the metadata".into(), source })?;
        Ok(kept.then_some(Watch { volume: self }))
    }

    /// Passes the entries of all directories, leaf block by leaf block, with the directory of each leaf.
    /// Leaves at positions that are `known` are skipped. Changes wait meanwhile.
    ///
    /// # Errors
    /// The device's, and those of a damaged volume.
    pub fn leaves(
        &self,
        known: &dyn Fn(u64) -> bool,
        take: &mut dyn FnMut(Ino, Vec<DirEntry>),
    ) -> Result<()> {
        let shared = &self.shared;
        let closed = shared.state.gate.close(&shared.state.store);
        for group in 0..shared.state.group_count() {
            for (at, kind) in shared.view_exclusive(&closed, |core| metadata_of(core, group))? {
                if kind == BlockKind::Leaf && !known(at) {
                    let (dir, entries) =
                        shared.view_exclusive(&closed, |core| dir::leaf_entries(core, at))?;
                    take(Ino(dir), entries);
                }
            }
        }
        Ok(())
    }

    /// Loads all metadata of a volume on a device into memory, as far as there is room. Returns the number of
    /// blocks. `progress` gets the number of groups done, and of all groups; false stops the loading.
    ///
    /// # Errors
    /// The device's. Damaged blocks are skipped. Of a [join](Self::is_joined) groups that cannot be read are
    /// skipped, too, unless all are: a shard that is absent costs its own blocks, which stay misses.
    pub fn load_metadata(&self, progress: &dyn Fn(u64, u64) -> bool) -> Result<u64> {
        let groups = self.shared.state.group_count();
        let (mut count, mut lost) = (0, None);
        for group in 0..groups {
            if !progress(group, groups) {
                break;
            }
            match self.load_group(group) {
                Ok(loaded) => count += loaded,
                Err(error) if self.is_joined() => {
                    self.shared.state.store.check_interrupt(0)?;
                    lost = lost.or(Some(error));
                }
                Err(error) => return Err(error),
            }
        }
        match lost {
            Some(error) if count == 0 => Err(error),
            _ => Ok(count),
        }
    }

    /// Loads the metadata of a group. Returns the number of its blocks.
    fn load_group(&self, group: u64) -> Result<u64> {
        let wanted = self.view(|core| metadata_of(core, group))?;
        let count = wanted.len() as u64;
        let store = &self.shared.state.store;
        for (at, kind) in wanted {
            if !store.is_resident(at, kind)
                && let Err(fault @ lanefs_store::Fault::Io { .. }) = store.fetch(at, Want::Block(kind))
            {
                return Err(fault.into());
            }
        }
        Ok(count)
    }
}

/// Positions and kinds of the metadata blocks of a group.
fn metadata_of(core: &Core<'_>, group: u64) -> Outcome<Vec<(u64, BlockKind)>> {
    let view = space::group(core, group)?;
    let mut found = Vec::new();
    for chunk in (0..CHUNKS_PER_GROUP).filter(|chunk| view.get(g::METADATA) >> chunk & 1 != 0) {
        let at = (group * CHUNKS_PER_GROUP + chunk) * BLOCKS_PER_CHUNK * BLOCK;
        for slot in CHUNK_HEADER_BLOCKS..BLOCKS_PER_CHUNK {
            let at = at + slot * BLOCK;
            let kind = space::table_entry(core, at)?.get(chunk_entry::KIND);
            found.extend(BlockKind::from_number(kind).map(|kind| (at, kind)));
        }
    }
    Ok(found)
}

impl Watch<'_> {
    /// Returns the volume.
    pub fn volume(&self) -> &Volume {
        self.volume
    }

    /// Has the next call of [`changes`](Self::changes) pass all resident blocks, as the first one does, for
    /// an engine that lost some.
    pub fn again(&mut self) {
        let shared = &self.volume.shared;
        let _closed = shared.state.gate.close(&shared.state.store);
        shared.state.store.mark_resident();
    }

    /// Passes every metadata block that was changed, added or freed since the last call, in order of
    /// position; the first call passes all resident blocks. The blocks are a consistent snapshot: changes
    /// wait meanwhile.
    ///
    /// Returns how often directories were moved or removed so far, as of the same moment. While the number
    /// stays the same, the path of a directory leads where it led.
    pub fn changes(&mut self, take: &mut dyn FnMut(Watched<'_>)) -> u64 {
        let shared = &self.volume.shared;
        let _closed = shared.state.gate.close(&shared.state.store);
        shared.state.store.watched(take);
        shared.state.directories.moves.all()
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.volume.shared.state.store.end_watch();
    }
}
