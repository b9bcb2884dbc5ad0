//! An open volume across `fork`.
//!
//! After a fork the child has a copy of the parent's volume: its memory, its descriptors, and locks that
//! threads held which do not exist in the child. So the child never touches it. A handle has a slot for each
//! process: one that is open for reading opens the volume again in the child's slot, another one is an error.

use crate::engine::{OpenError, OpenVolume};
use crate::image::{Image, Place};
use crate::per_process::PerProcess;
use crate::publication::{LastFailure, Remote};
use lanefs::{Access, Code, CreateOptions, Error, OpenOptions, Volume};
use lanefs_gpu::EngineChoice;
use lanefs_sync::lock::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The volume that a handle opens.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A file or a raw device, by its absolute path.
    Path(PathBuf, Access),
    /// A new volume in a file or on a raw device; with `force` in place of an old one.
    New(PathBuf, u64, bool),
    /// A new volume in memory, of this size in bytes.
    Memory(u64),
    /// A publication, for reading.
    Publication(Remote),
}

/// The way to open a volume.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) source: Source,
    pub(crate) engine: EngineChoice,
    pub(crate) cache: Option<u64>,
    /// The volume is for reading, and other processes read it too.
    pub(crate) shared: bool,
}

impl Recipe {
    /// Opens the volume, or joins the handles that have it open. From then on a publication stands for the
    /// version that was opened.
    fn open(&mut self) -> Result<Slot, OpenError> {
        let (engine, mut failure) = (self.engine, LastFailure::default());
        let (access, image, first) = match &mut self.source {
            Source::Path(path, access) => (*access, Image::of(path), None),
            Source::Publication(remote) => {
                let (volume, noted) = remote.open(options(self.shared, self.cache, Access::Read))?;
                failure = noted;
                (Access::Read, Arc::default(), Some(volume))
            }
            Source::New(path, size, force) => {
                let options = CreateOptions { size: *size, force: *force, ..CreateOptions::default() };
                let volume = Volume::create(&*path, &options)?;
                (Access::Write, Image::of(path), Some(volume))
            }
            Source::Memory(size) => {
                let options = CreateOptions { size: *size, ..CreateOptions::default() };
                (Access::Write, Arc::default(), Some(Volume::create_memory(&options)?))
            }
        };
        let first = Mutex::new(first);
        let open = |access| match (first.lock().take(), &self.source) {
            (Some(volume), _) => Ok(volume),
            (None, Source::Path(path, _) | Source::New(path, ..)) => {
                Ok(Volume::open(path, options(self.shared, self.cache, access))?)
            }
            (None, Source::Memory(_) | Source::Publication(_)) => {
                Err(OpenError::from(Error::from(Code::Invalid)))
            }
        };
        let place = image.join(access, open, |volume| OpenVolume::new(volume, access, engine, failure))?;
        Ok(Slot { image, place })
    }

    /// The way in which a child opens the volume; `None` where it cannot.
    fn in_child(&self) -> Option<Recipe> {
        match self.source {
            // A driver of a device does not survive a fork. A child is one of several, such as the workers of
            // a loader.
            Source::Path(_, Access::Read) | Source::Publication(_) => {
                Some(Recipe { engine: EngineChoice::Cpu, shared: true, ..self.clone() })
            }
            _ => None,
        }
    }
}

fn options(shared: bool, cache: Option<u64>, access: Access) -> OpenOptions {
    let options = match shared {
        true => OpenOptions::one_of_many_readers(),
        false => OpenOptions::from(access),
    };
    OpenOptions { access, cache: cache.or(options.cache), ..options }
}

/// The reason why a handle has no volume.
pub(crate) enum HandleError {
    /// The handle was closed.
    Closed,
    /// This process is a child of the one that has the volume open.
    Forked,
    /// The volume could not be opened.
    Open(OpenError),
}

/// The part of a handle that belongs to one process.
#[derive(Clone)]
struct Slot {
    image: Arc<Image>,
    place: Arc<Place>,
}

/// A volume that is open in this process, or can be opened.
pub(crate) struct Handle {
    recipe: Recipe,
    is_closed: AtomicBool,
    /// `None`: not opened yet in this process.
    slot: PerProcess<Mutex<Option<Slot>>>,
}

impl Handle {
    /// Opens a volume.
    ///
    /// # Errors
    /// The volume's, the device's.
    pub(crate) fn open(mut recipe: Recipe) -> Result<Self, OpenError> {
        let slot = PerProcess::new();
        *slot.get(Mutex::default).lock() = Some(recipe.open()?);
        Ok(Handle { recipe, is_closed: AtomicBool::new(false), slot })
    }

    pub(crate) fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Works with the volume. The caller must not be attached to the interpreter: this may open the volume.
    ///
    /// # Errors
    /// The handle is closed; the process is a child that cannot open the volume.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&OpenVolume) -> T) -> Result<T, HandleError> {
        let slot = self.slot()?;
        slot.image.call(&slot.place, work).ok_or(HandleError::Closed)
    }

    /// Closes the handle. Where other threads are in a call, its volume stays open until the last of them is
    /// done, and all changes so far are made durable. In a child the parent's volume stays as it is.
    ///
    /// # Errors
    /// The volume's.
    pub(crate) fn close(&self) -> lanefs::Result<()> {
        let slot = {
            let mut slot = self.slot.get(Mutex::default).lock();
            self.is_closed.store(true, Ordering::Release);
            slot.take()
        };
        let Some(Slot { image, place }) = slot else { return Ok(()) };
        image.leave(&place, |open| match open.map(Arc::try_unwrap) {
            None => Ok(()),
            Some(Ok(open)) => open.close(),
            Some(Err(shared)) if shared.volume().access() == Access::Read => Ok(()),
            Some(Err(shared)) => shared.volume().sync(),
        })
    }

    /// The slot of this process. A child opens the volume.
    fn slot(&self) -> Result<Slot, HandleError> {
        let mut slot = self.slot.get(Mutex::default).lock();
        if self.is_closed() {
            return Err(HandleError::Closed);
        }
        if slot.is_none() {
            let mut recipe = self.recipe.in_child().ok_or(HandleError::Forked)?;
            *slot = Some(recipe.open().map_err(HandleError::Open)?);
        }
        slot.clone().ok_or(HandleError::Closed)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Nobody learns of an error. In a child this leaves the parent's volume as it is.
        let _ = self.close();
    }
}
