//! An open volume, and the engine that answers its batches of lookups.

use crate::publication::{LastFailure, RemoteError};
use crate::writers::Writers;
use lanefs::{Access, Attr, Code, ColumnsMut, Ino, Paths, ResolveOptions, Volume};
use lanefs_gpu::{Auto, Choice, Gpu, KeptTexts, MirrorOptions, Mirrored};
use lanefs_sync::lock::Mutex;
use self_cell::self_cell;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// Paths in a batch from which on `auto` copies all metadata to a device.
const WORTHWHILE: usize = 8192;

/// Most paths in one call of each engine.
const CPU_BATCH: usize = 65_536;
const GPU_BATCH: usize = 1 << 20;

/// The engine that a user chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineChoice {
    Auto,
    Cpu,
    Gpu,
}

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

/// A volume and its device.
struct Owner {
    volume: Arc<Volume>,
    choice: EngineChoice,
    gpu: OnceLock<Option<Gpu>>,
    /// Contents of files on the device, from searches.
    kept: OnceLock<Arc<KeptTexts>>,
}

/// The engine that answers batches, from the first one on that is worth a device.
struct Engine<'v> {
    backend: OnceLock<Backend<'v>>,
    /// Held while the metadata are copied, so that one thread does it.
    starting: Mutex<()>,
}

enum Backend<'v> {
    Cpu,
    Gpu(Box<Mirrored<'v>>),
    Auto(Box<Auto<'v>>),
}

self_cell!(
    /// The engine borrows the volume and the device.
    struct EngineCell {
        owner: Owner,
        #[not_covariant]
        dependent: Engine,
    }
);

/// A volume as a handle has it open. Other handles may have the same volume.
pub(crate) struct OpenVolume {
    cell: EngineCell,
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
        let choice = open.cell.borrow_owner().choice;
        let held = std::mem::take(&mut *open.held.lock());
        Parts { choice, access: open.access, held, failure: open.failure.clone() }
    }

    /// Goes on with another volume of the same file. A device that fails now is done without.
    pub(crate) fn on(self, volume: Arc<Volume>) -> OpenVolume {
        let Parts { choice, access, held, failure } = self;
        for (ino, times) in &held {
            // The last inode that is gone is an error of the next call.
            let _ = (0..*times).try_for_each(|_| volume.hold(*ino).map(drop));
        }
        let open = OpenVolume::on(volume, access, choice, failure);
        if choice == EngineChoice::Gpu {
            let _ = open.start();
        }
        *open.held.lock() = held;
        open
    }
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
        let open = OpenVolume::on(volume, access, choice, failure);
        if choice == EngineChoice::Gpu {
            open.start()?;
        }
        Ok(open)
    }

    fn on(volume: Arc<Volume>, access: Access, choice: EngineChoice, failure: LastFailure) -> Self {
        let owner = Owner { volume, choice, gpu: OnceLock::new(), kept: OnceLock::new() };
        let cell = EngineCell::new(owner, |_| Engine { backend: OnceLock::new(), starting: Mutex::new(()) });
        OpenVolume { cell, access, writers: Writers::default(), held: Mutex::default(), failure }
    }

    fn start(&self) -> Result<(), OpenError> {
        self.cell.with_dependent(|owner, engine| engine.start(owner))
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
        &self.cell.borrow_owner().volume
    }

    /// The volume, for threads that use it after the call.
    pub(crate) fn shared(&self) -> Arc<Volume> {
        Arc::clone(&self.cell.borrow_owner().volume)
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
        match Arc::try_unwrap(self.cell.into_owner().volume) {
            Ok(volume) => volume.close(),
            Err(shared) if shared.access() == Access::Read => Ok(()),
            Err(shared) => shared.sync(),
        }
    }

    /// The device, if the user chose the GPU engine.
    pub(crate) fn gpu(&self) -> Option<&Gpu> {
        let owner = self.cell.borrow_owner();
        owner.gpu.get()?.as_ref().filter(|_| owner.choice == EngineChoice::Gpu)
    }

    /// The contents of files that the device keeps. They must not change, so the volume must be open for
    /// reading only.
    pub(crate) fn kept_texts(&self) -> Option<Arc<KeptTexts>> {
        let owner = self.cell.borrow_owner();
        let gpu = self.gpu().filter(|_| owner.volume.access() == Access::Read)?;
        Some(owner.kept.get_or_init(|| Arc::new(gpu.kept_texts(None))).clone())
    }

    /// Works with the device's copy of the metadata; `None` where the user did not choose the GPU engine.
    pub(crate) fn with_mirrored<T>(&self, work: impl FnOnce(&Mirrored<'_>) -> T) -> Option<T> {
        self.cell.with_dependent(|_, engine| match engine.backend.get() {
            Some(Backend::Gpu(mirrored)) => Some(work(mirrored)),
            _ => None,
        })
    }

    /// Most paths in one call.
    pub(crate) fn batch(&self) -> usize {
        let is_cpu =
            |_: &Owner, engine: &Engine<'_>| matches!(engine.backend.get(), None | Some(Backend::Cpu));
        if self.cell.with_dependent(|owner, engine| is_cpu(owner, engine)) { CPU_BATCH } else { GPU_BATCH }
    }

    /// Names the engine, with the device where it has one.
    pub(crate) fn engine_name(&self) -> String {
        self.cell.with_dependent(|owner, engine| match (engine.backend.get(), owner.gpu.get()) {
            (Some(Backend::Gpu(_)), Some(Some(gpu))) => format!("gpu: {}", gpu.info().name),
            (Some(Backend::Auto(_)), Some(Some(gpu))) => format!("auto: cpu and {}", gpu.info().name),
            _ => "cpu".into(),
        })
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
        self.cell.with_dependent(|owner, engine| {
            if owner.choice == EngineChoice::Auto
                && paths.len() >= WORTHWHILE
                && engine.backend.get().is_none()
            {
                // Without a device that works the answers are the same.
                let _ = engine.start(owner);
            }
            match engine.backend.get() {
                Some(Backend::Gpu(mirrored)) => mirrored.resolve_into(options, paths, columns).map(drop),
                Some(Backend::Auto(auto)) => auto.resolve_into(options, paths, columns).map(drop),
                Some(Backend::Cpu) | None => owner.volume.resolve_into(options, paths, columns).map(drop),
            }
        })
    }
}

impl<'v> Engine<'v> {
    /// Opens the device, and copies the metadata to it.
    fn start(&self, owner: &'v Owner) -> Result<(), OpenError> {
        let _starting = self.starting.lock();
        if self.backend.get().is_some() {
            return Ok(());
        }
        let outcome = Self::on_device(owner);
        let is_demanded = owner.choice == EngineChoice::Gpu;
        let backend = match outcome {
            Ok(backend) => backend,
            Err(error) if is_demanded => return Err(error),
            Err(_) => Backend::Cpu,
        };
        let _ = self.backend.set(backend);
        Ok(())
    }

    fn on_device(owner: &'v Owner) -> Result<Backend<'v>, OpenError> {
        let choice = Choice::default();
        let opened = match owner.choice {
            EngineChoice::Gpu => Some(Gpu::open(&choice)?),
            EngineChoice::Auto => Gpu::open_hardware(&choice),
            EngineChoice::Cpu => None,
        };
        let Some(gpu) = owner.gpu.get_or_init(|| opened) else { return Ok(Backend::Cpu) };
        owner.volume.load_metadata(&|_, _| true)?;
        let mirrored = gpu.mirror(&owner.volume, &MirrorOptions::default())?;
        if owner.choice == EngineChoice::Gpu {
            return Ok(Backend::Gpu(Box::new(mirrored)));
        }
        Ok(Backend::Auto(Box::new(Auto::new(mirrored, 1)?)))
    }
}
