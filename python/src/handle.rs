//! An open volume across `fork`.
//!
//! After a fork the child has a copy of the parent's volume: its memory, its descriptors, and locks that
//! threads held which do not exist in the child. So the child never touches it. A handle has a slot for each
//! process: one that is open for reading opens the volume anew in the child's slot, another one is an error.

use crate::engine::{EngineChoice, OpenError, OpenVolume};
use crate::publication::{LastFailure, Remote};
use lanefs::{Access, CreateOptions, OpenOptions, Volume};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

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
    /// Opens the volume. A publication stands for the version that was opened from then on.
    fn open(&mut self) -> Result<OpenVolume, OpenError> {
        let (shared, cache) = (self.shared, self.cache);
        let options = |access: Access| {
            let options = match shared {
                true => OpenOptions::one_of_many_readers(),
                false => OpenOptions::from(access),
            };
            OpenOptions { cache: cache.or(options.cache), ..options }
        };
        let volume = match &mut self.source {
            Source::Publication(remote) => {
                let (volume, failure) = remote.open(options(Access::Read))?;
                return OpenVolume::new(volume, self.engine, failure);
            }
            Source::Path(path, access) => Volume::open(path, options(*access))?,
            Source::New(path, size, force) => {
                let (size, force) = (*size, *force);
                Volume::create(path, &CreateOptions { size, force, ..CreateOptions::default() })?
            }
            Source::Memory(size) => {
                Volume::create_memory(&CreateOptions { size: *size, ..CreateOptions::default() })?
            }
        };
        OpenVolume::new(volume, self.engine, LastFailure::default())
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
struct Slot {
    pid: u32,
    /// `None`: not opened yet in this process, or closed.
    volume: Mutex<Option<Arc<OpenVolume>>>,
}

impl Slot {
    fn boxed(volume: Option<OpenVolume>) -> Box<Slot> {
        Box::new(Slot { pid: std::process::id(), volume: Mutex::new(volume.map(Arc::new)) })
    }
}

/// A volume that is open in this process, or can be opened.
pub(crate) struct Handle {
    recipe: Recipe,
    is_closed: AtomicBool,
    /// The slot of the process that used the handle last. Never null.
    slot: AtomicPtr<Slot>,
}

impl Handle {
    /// Opens a volume.
    ///
    /// # Errors
    /// The volume's, the device's.
    pub(crate) fn open(mut recipe: Recipe) -> Result<Self, OpenError> {
        let slot = Slot::boxed(Some(recipe.open()?));
        let slot = AtomicPtr::new(Box::into_raw(slot));
        Ok(Handle { recipe, is_closed: AtomicBool::new(false), slot })
    }

    pub(crate) fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Returns the volume. The caller must not be attached to the interpreter: this may open the volume.
    ///
    /// # Errors
    /// The handle is closed; the process is a child that cannot open the volume.
    pub(crate) fn get(&self) -> Result<Arc<OpenVolume>, HandleError> {
        let mut volume = self.slot().volume.lock();
        if self.is_closed() {
            return Err(HandleError::Closed);
        }
        if volume.is_none() {
            let mut recipe = self.recipe.in_child().ok_or(HandleError::Forked)?;
            *volume = Some(Arc::new(recipe.open().map_err(HandleError::Open)?));
        }
        volume.as_ref().map(Arc::clone).ok_or(HandleError::Closed)
    }

    /// Closes the handle. Where other threads are in a call, the volume stays open until the last of them is
    /// done, and all changes so far are made durable. In a child the parent's volume stays as it is.
    ///
    /// # Errors
    /// The volume's.
    pub(crate) fn close(&self) -> lanefs::Result<()> {
        let slot = self.slot();
        let volume = {
            let mut volume = slot.volume.lock();
            self.is_closed.store(true, Ordering::Release);
            volume.take()
        };
        match volume.map(Arc::try_unwrap) {
            None => Ok(()),
            Some(Ok(volume)) => volume.close(),
            Some(Err(shared)) if shared.volume().access() == Access::Read => Ok(()),
            Some(Err(shared)) => shared.volume().sync(),
        }
    }

    /// The slot of this process.
    fn slot(&self) -> &Slot {
        let pid = std::process::id();
        loop {
            let current = self.slot.load(Ordering::Acquire);
            // SAFETY: the pointer comes from a box and is never null. The box of a slot that was current is
            // freed by `drop` only, which nobody can call while this reference lives.
            let slot = unsafe { &*current };
            if slot.pid == pid {
                return slot;
            }
            // This process has forked. The parent's slot is leaked: its lock may be held by a thread that
            // does not exist here, and closing the volume would write to the parent's file.
            let new = Box::into_raw(Slot::boxed(None));
            if self.slot.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: no other thread has seen this pointer.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let current = *self.slot.get_mut();
        // SAFETY: as in `slot`.
        if unsafe { &*current }.pid == std::process::id() {
            // SAFETY: no reference to the slot is left, and only this process frees its own.
            drop(unsafe { Box::from_raw(current) });
        }
    }
}
