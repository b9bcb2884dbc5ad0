//! Engine that creates the files of an import: the GPU engine, if the user chose it or a batch is large
//! enough.

use super::args::EngineArgs;
use crate::console::say;
use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt;
use lanefs::bulk::{Applied, Change};
use lanefs::{Ino, Volume};
use lanefs_gpu::{Gpu, MirrorOptions, Mirrored};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Changes in a batch from which on `auto` copies all metadata to a device.
const WORTHWHILE_CHANGES: usize = 8192;

/// A device that creates the files of a volume.
pub struct ImportEngine<'g, 'v> {
    gpu: &'g Gpu,
    volume: &'v Volume,
    /// Set by the first batch that is large enough; `None` if mirroring failed.
    mirrored: OnceLock<Option<Mirrored<'v>>>,
    /// The failure of the device has been reported.
    is_reported: AtomicBool,
}

impl<'g, 'v> ImportEngine<'g, 'v> {
    /// Uses the device that [`EngineArgs::open`] opened.
    ///
    /// # Errors
    /// Mirroring fails on a device that the user chose; the user stops it.
    pub fn new(args: &EngineArgs, gpu: &'g Gpu, context: &Context<'v>) -> Result<Self, Failure> {
        let mirrored = OnceLock::new();
        if args.is_gpu() {
            let _ = mirrored.set(Some(EngineArgs::mirror(gpu, context)?));
        }
        Ok(ImportEngine { gpu, volume: context.volume, mirrored, is_reported: AtomicBool::new(false) })
    }

    fn mirror(&self) -> Option<Mirrored<'v>> {
        self.volume.load_metadata(&|_, _| !interrupt::raised()).ok()?;
        let mirrored = self.gpu.mirror(self.volume, &MirrorOptions::default());
        mirrored.map_err(|error| self.report(&error.to_string())).ok()
    }

    fn report(&self, error: &str) {
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            say(&format!("{error}; the CPU engine continues"));
        }
    }
}

impl lanefs_transfer::Maker for ImportEngine<'_, '_> {
    fn make(&self, base: Ino, changes: &[Change<'_>]) -> lanefs::Result<Vec<Applied>> {
        let is_worthwhile = changes.len() >= WORTHWHILE_CHANGES;
        let mirrored = match self.mirrored.get() {
            None if is_worthwhile => Some(self.mirrored.get_or_init(|| self.mirror())),
            other => other,
        };
        let Some(Some(mirrored)) = mirrored else { return self.volume.apply(base, changes) };
        let (answers, _) = mirrored.apply(base, changes)?;
        if let Some(error) = mirrored.failure() {
            self.report(&error);
        }
        Ok(answers)
    }
}
