//! A part of the tree that was listed ahead, by a device, all directories of a level at once.

use crate::context::Context;
use crate::engine::EngineArgs;
use crate::exit::Failure;
use lanefs::{Attr, DirEntry, Ino};
use lanefs_gpu::{Gpu, Listed};
use std::collections::HashMap;

/// Entries of directories, and attributes; nothing of what was not listed ahead.
#[derive(Default)]
pub(crate) struct Ahead {
    entries: HashMap<Ino, Vec<Listed>>,
    attrs: HashMap<Ino, Attr>,
}

impl Ahead {
    /// Lists directories and those below, down to `depth` levels, where the GPU engine was asked for; else nothing.
    ///
    /// # Errors
    /// No device, or one that answers wrongly; the volume's.
    pub(crate) fn load(
        engine: &EngineArgs,
        context: &Context<'_>,
        tops: &[Ino],
        depth: Option<usize>,
        attributes: bool,
    ) -> Result<Ahead, Failure> {
        // One command does not pay for a mirror, so only who asks for it gets a device.
        let gpu: Option<Gpu> = if engine.is_gpu() { engine.open()? } else { None };
        let Some(gpu) = gpu else { return Ok(Ahead::default()) };
        let mirrored = EngineArgs::mirror(&gpu, context)?;
        let (entries, _) = mirrored.list_below(tops, depth, attributes);
        if let Some(error) = mirrored.failure() {
            crate::context::say(&format!("{error}; the CPU engine went on"));
        }
        let attrs = entries.values().flatten().filter_map(|one| one.attr.map(|attr| (one.entry.ino, attr)));
        Ok(Ahead { attrs: attrs.collect(), entries })
    }

    /// The entries of a directory, taken out: it is gone through once.
    pub(crate) fn take(&mut self, dir: Ino) -> Option<Vec<DirEntry>> {
        let listed = self.entries.remove(&dir)?;
        Some(listed.into_iter().map(|one| one.entry).collect())
    }

    /// Attributes of an inode.
    pub(crate) fn attr(&self, ino: Ino) -> Option<Attr> {
        self.attrs.get(&ino).copied()
    }
}
