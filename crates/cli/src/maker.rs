//! Who makes the files of an import: the GPU engine, where it was asked for or is worth it.

use crate::context::{Context, say};
use crate::engine::EngineArgs;
use crate::exit::Failure;
use lanefs::bulk::{Applied, Change};
use lanefs::{Ino, Volume};
use lanefs_gpu::{Gpu, MirrorOptions, Mirrored};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Changes from which on a device is worth the copying of all metadata to it, where nobody asked for it by name.
const WORTH_IT: usize = 8192;

/// A device as the maker of a volume's files.
pub(crate) struct Maker<'g, 'v> {
    gpu: &'g Gpu,
    volume: &'v Volume,
    /// Made with the first batch that is worth it; `None`: it could not be had.
    mirrored: OnceLock<Option<Mirrored<'g, 'v>>>,
    /// The user knows that the device failed.
    is_told: AtomicBool,
}

impl<'g, 'v> Maker<'g, 'v> {
    /// With the device that [`EngineArgs::open`] gave.
    ///
    /// # Errors
    /// Of a device that was asked for by name; the user stops it.
    pub(crate) fn new(args: &EngineArgs, gpu: &'g Gpu, context: &Context<'v>) -> Result<Self, Failure> {
        let mirrored = OnceLock::new();
        if args.is_gpu() {
            let _ = mirrored.set(Some(EngineArgs::mirror(gpu, context)?));
        }
        Ok(Maker { gpu, volume: context.volume, mirrored, is_told: AtomicBool::new(false) })
    }

    fn mirror(&self) -> Option<Mirrored<'g, 'v>> {
        self.volume.load_metadata(&|_, _| crate::interrupt::check().is_ok()).ok()?;
        let mirrored = self.gpu.mirror(self.volume, &MirrorOptions::default());
        mirrored.map_err(|error| self.tell(&error.to_string())).ok()
    }

    fn tell(&self, error: &str) {
        if !self.is_told.swap(true, Ordering::Relaxed) {
            say(&format!("{error}; the CPU engine goes on"));
        }
    }
}

impl lanefs_transfer::Maker for Maker<'_, '_> {
    fn make(&self, base: Ino, changes: &[Change<'_>]) -> lanefs::Result<Vec<Applied>> {
        let is_worth_it = changes.len() >= WORTH_IT;
        let mirrored =
            self.mirrored.get().or_else(|| is_worth_it.then(|| self.mirrored.get_or_init(|| self.mirror())));
        let Some(Some(mirrored)) = mirrored else { return self.volume.apply(base, changes) };
        let (answers, _) = mirrored.apply(base, changes)?;
        if let Some(error) = mirrored.failure() {
            self.tell(&error);
        }
        Ok(answers)
    }
}
