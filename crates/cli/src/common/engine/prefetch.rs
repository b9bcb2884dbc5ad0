//! Listings by a device ahead of a walk, all directories of a level at once.

use super::args::{EngineArgs, report};
use crate::session::context::Context;
use crate::terminal::failure::Failure;
use lanefs::{Attr, DirEntry, Ino};
use lanefs_gpu::Listed;
use std::collections::HashMap;

/// Entries of directories, and attributes, that were listed ahead. Empty without a device.
#[derive(Default)]
pub struct Prefetched {
    entries: HashMap<Ino, Vec<Listed>>,
    attrs: HashMap<Ino, Attr>,
}

impl Prefetched {
    /// Lists directories and those below, down to `depth` levels, if the user chose the GPU engine; otherwise
    /// returns an empty set.
    ///
    /// # Errors
    /// There is no device, or it answers wrongly; the volume's.
    pub fn load(
        engine: &EngineArgs,
        context: &Context<'_>,
        tops: &[Ino],
        depth: Option<usize>,
        attributes: bool,
    ) -> Result<Self, Failure> {
        let engines = engine.open(context, 1)?;
        let Some((_, mirrored)) = engines.chosen() else { return Ok(Prefetched::default()) };
        let (entries, _) = mirrored.list_below(tops, depth, attributes);
        report(engines.take_failure());
        let attrs = entries.values().flatten().filter_map(|one| one.attr.map(|attr| (one.entry.ino, attr)));
        Ok(Prefetched { attrs: attrs.collect(), entries })
    }

    /// Removes and returns the entries of a directory; a walk needs them once.
    pub fn take(&mut self, dir: Ino) -> Option<Vec<DirEntry>> {
        let listed = self.entries.remove(&dir)?;
        Some(listed.into_iter().map(|one| one.entry).collect())
    }

    /// Attributes of an inode.
    pub fn attr(&self, ino: Ino) -> Option<Attr> {
        self.attrs.get(&ino).copied()
    }
}
