//! An open volume, and the engines that answer its batches of lookups.

use crate::publication::{LastFailure, RemoteError};
use crate::writers::Writers;
use lanefs::{Access, Attr, Code, ColumnsMut, EngineExt, Ino, NamesUnder, Paths, ResolveOptions, Volume};
use lanefs_gpu::{EngineChoice, EngineOptions, Engines, Gpu, KeptTexts, Mirrored};
use lanefs_sync::lock::Mutex;
use self_cell::self_cell;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// The reason why a volume is not open.
pub(crate) enum OpenError {
    Volume(lanefs::Error),
    Gpu(lanefs_gpu::Error),
    Remote(RemoteError),
}

impl From<RemoteError> for OpenError {
    fn from(error: RemoteError) -> Self {
        OpenError::Remote(error)
    }
}

impl From<lanefs::Error> for OpenError {
    fn from(error: lanefs::Error) -> Self {
        OpenError::Volume(error)
    }
}

impl From<lanefs_gpu::Error> for OpenError {
    fn from(error: lanefs_gpu::Error) -> Self {
        OpenError::Gpu(error)
    }
}

self_cell!(
    /// The engines borrow the volume.
    struct EngineCell {
        owner: Arc<Volume>,
        #[not_covariant]
        dependent: Engines,
    }
);

/// A volume as a handle has it open. Other handles may have the same volume.
pub(crate) struct OpenVolume {
    cell: EngineCell,
    choice: EngineChoice,
    /// Contents of files on the device, from searches.
    kept: OnceLock<Arc<KeptTexts>>,
    /// The use that the handle may make of the volume, which may be open for more.
    access: Access,
    writers: Writers,
    /// Inodes that file objects hold, and how often.
    held: Mutex<HashMap<Ino, u64>>,
    failure: LastFailure,
}

/// The parts of an open volume that go on while another volume takes its place.
pub(crate) struct Parts {
    choice: EngineChoice,
    access: Access,
    held: HashMap<Ino, u64>,
    failure: LastFailure,
}

impl Parts {
    /// Ends the use of a volume that is open for reading.
    pub(crate) fn of(open: Arc<OpenVolume>) -> Self {
        let held = std::mem::take(&mut *open.held.lock());
        Parts { choice: open.choice, access: open.access, held, failure: open.failure.clone() }
    }

    /// Goes on with another volume of the same file. A device that fails now is done without.
    pub(crate) fn on(self, volume: Arc<Volume>) -> OpenVolume {
        let Parts { choice, access, held, failure } = self;
        for (ino, times) in &held {
            // The last inode that is gone is an error of the next call.
            let _ = (0..*times).try_for_each(|_| volume.hold(*ino).map(drop));
        }
        let cell = EngineCell::try_new(volume.clone(), |volume| engines(volume, choice));
        let cell = cell.unwrap_or_else(|_| EngineCell::new(volume, |volume| Engines::cpu(volume)));
        OpenVolume { held: Mutex::new(held), ..OpenVolume::on(cell, access, choice, failure) }
    }
}

fn engines(volume: &Volume, engine: EngineChoice) -> lanefs_gpu::Result<Engines<'_>> {
    Engines::open(volume, EngineOptions { engine, ..EngineOptions::default() })
}

impl OpenVolume {
    /// Takes an open volume; with [`EngineChoice::Gpu`] copies its metadata to a device.
    ///
    /// # Errors
    /// There is no device, or it fails.
    pub(crate) fn new(
        volume: Arc<Volume>,
        access: Access,
        choice: EngineChoice,
        failure: LastFailure,
    ) -> Result<Self, OpenError> {
        let cell = EngineCell::try_new(volume, |volume| engines(volume, choice))?;
        Ok(OpenVolume::on(cell, access, choice, failure))
    }

    fn on(cell: EngineCell, access: Access, choice: EngineChoice, failure: LastFailure) -> Self {
        let (kept, writers, held) = (OnceLock::new(), Writers::default(), Mutex::default());
        OpenVolume { cell, choice, kept, access, writers, held, failure }
    }

    /// Holds an inode for a file object, until it is released.
    ///
    /// # Errors
    /// As [`Volume::hold`].
    pub(crate) fn hold(&self, ino: Ino) -> lanefs::Result<Attr> {
        let attr = self.volume().hold(ino)?;
        *self.held.lock().entry(ino).or_default() += 1;
        Ok(attr)
    }

    /// Releases an inode.
    ///
    /// # Errors
    /// As [`Volume::release`].
    pub(crate) fn release(&self, ino: Ino) -> lanefs::Result<()> {
        {
            let mut held = self.held.lock();
            match held.get_mut(&ino) {
                Some(times) if *times > 1 => *times -= 1,
                Some(_) => drop(held.remove(&ino)),
                None => return Ok(()),
            }
        }
        self.volume().release(ino, 1)
    }

    /// Refuses a change where the handle is for reading.
    ///
    /// # Errors
    /// [`Code::ReadOnly`], as of a volume that is open for reading.
    pub(crate) fn check_writes(&self) -> lanefs::Result<()> {
        match self.access {
            Access::Read => Err(Code::ReadOnly.into()),
            Access::Write | Access::Repair => Ok(()),
        }
    }

    /// Returns the message of the last read of a store that failed, and forgets it.
    pub(crate) fn take_failure(&self) -> Option<String> {
        self.failure.take()
    }

    pub(crate) fn volume(&self) -> &Volume {
        self.cell.borrow_owner()
    }

    /// The volume, for threads that use it after the call.
    pub(crate) fn shared(&self) -> Arc<Volume> {
        Arc::clone(self.cell.borrow_owner())
    }

    /// The files that get a new content when they are closed.
    pub(crate) fn writers(&self) -> &Writers {
        &self.writers
    }

    /// Ends the writers and the use of the device, then makes all changes durable. The volume closes with its
    /// last handle and the last epoch.
    ///
    /// # Errors
    /// The volume's.
    pub(crate) fn close(self) -> lanefs::Result<()> {
        let volume = self.volume();
        for (ino, times) in std::mem::take(&mut *self.held.lock()) {
            volume.release(ino, times)?;
        }
        drop(self.writers);
        match Arc::try_unwrap(self.cell.into_owner()) {
            Ok(volume) => volume.close(),
            Err(shared) if shared.access() == Access::Read => Ok(()),
            Err(shared) => shared.sync(),
        }
    }

    /// The device, if the user chose the GPU engine.
    pub(crate) fn gpu(&self) -> Option<Gpu> {
        self.cell.with_dependent(|_, engines| Some(engines.chosen()?.0.clone()))
    }

    /// The contents of files that the device keeps. They must not change, so the volume must be open for
    /// reading only.
    pub(crate) fn kept_texts(&self) -> Option<Arc<KeptTexts>> {
        let gpu = self.gpu().filter(|_| self.volume().access() == Access::Read)?;
        Some(self.kept.get_or_init(|| Arc::new(gpu.kept_texts(None))).clone())
    }

    /// Works with the device's copy of the metadata; `None` where the user did not choose the GPU engine.
    pub(crate) fn with_mirrored<T>(&self, work: impl FnOnce(&Mirrored<'_>) -> T) -> Option<T> {
        self.cell.with_dependent(|_, engines| Some(work(engines.chosen()?.1)))
    }

    /// Most paths in one call.
    pub(crate) fn batch(&self) -> usize {
        self.cell.with_dependent(|_, engines| engines.batch())
    }

    /// Names the engine, with the device where it has one.
    pub(crate) fn engine_name(&self) -> String {
        self.cell.with_dependent(|_, engines| engines.to_string())
    }

    /// Returns in words that the device has failed, once.
    pub(crate) fn take_device_failure(&self) -> Option<String> {
        self.cell.with_dependent(|_, engines| engines.take_failure())
    }

    /// Resolves a batch. Where a device fails, the CPU engine answers.
    ///
    /// # Errors
    /// The volume's.
    pub(crate) fn resolve(
        &self,
        options: &ResolveOptions,
        paths: Paths<'_>,
        columns: &mut ColumnsMut<'_>,
    ) -> lanefs::Result<()> {
        self.cell.with_dependent(|_, engines| engines.resolve_into(options, paths, columns).map(drop))
    }

    /// As [`resolve`](Self::resolve), for names under directories.
    ///
    /// # Errors
    /// The volume's.
    pub(crate) fn resolve_names(
        &self,
        options: &ResolveOptions,
        names: NamesUnder<'_>,
        columns: &mut ColumnsMut<'_>,
    ) -> lanefs::Result<()> {
        self.cell.with_dependent(|_, engines| engines.resolve_names_into(options, names, columns).map(drop))
    }
}
