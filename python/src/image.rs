//! The open images of a process. A file or device is open once in a process, whatever number of handles it
//! has: they share the volume, and the last one closes it. Where one of them writes, the volume is open for
//! writing.
//!
//! Locks are taken in this order: calls of an image, its places, a place.

use crate::engine::{OpenError, OpenVolume, Parts};
use crate::per_process::PerProcess;
use lanefs::{Access, Error, ErrorKind, Volume};
use lanefs_sync::lock::Mutex;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::cell::Cell;
use std::collections::HashMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The longest wait of a handle that wants to write for the calls that read.
const PATIENCE: Duration = Duration::from_secs(30);
/// A part of that wait, in which no new call begins.
const TURN: Duration = Duration::from_millis(50);

thread_local! {
    /// The calls that this thread is in: a callback of one may call again.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// A file by device and number, or a block device by its number.
type FileId = (u64, u64);

static IMAGES: PerProcess<Mutex<HashMap<FileId, Weak<Image>>>> = PerProcess::new();

/// The volume of a handle; `None` where it is closed.
pub(crate) type Place = Mutex<Option<Arc<OpenVolume>>>;

/// An image that handles of this process have open.
#[derive(Default)]
pub(crate) struct Image {
    /// Held by each call, so that a volume that opens for writing waits for them. Calls alone never wait for
    /// each other, so the readers that a forked child opens park no thread by this lock (`lanefs_sync::lock`
    /// says why that matters).
    calls: RwLock<()>,
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    volume: Weak<Volume>,
    /// The handles.
    places: Vec<Weak<Place>>,
}

impl Image {
    /// The image at a path. One that is not there yet belongs to its caller alone.
    pub(crate) fn of(path: &Path) -> Arc<Image> {
        let Ok(meta) = std::fs::metadata(path) else { return Arc::default() };
        let id = match meta.file_type().is_block_device() {
            true => (u64::MAX, meta.rdev()),
            false => (meta.dev(), meta.ino()),
        };
        let mut images = IMAGES.get(Mutex::default).lock();
        if let Some(image) = images.get(&id).and_then(Weak::upgrade) {
            return image;
        }
        images.retain(|_, image| image.strong_count() > 0);
        let image = Arc::<Image>::default();
        images.insert(id, Arc::downgrade(&image));
        image
    }

    /// Joins the handles of the image: opens the volume, unless it is open, and puts it to use by `begin`.
    ///
    /// # Errors
    /// Those of `open` and `begin`; [`ErrorKind::InUse`](lanefs::ErrorKind::InUse) for one that would write
    /// where memory in use, or a call that does not end, needs the volume as it is.
    pub(crate) fn join(
        &self,
        access: Access,
        open: impl Fn(Access) -> Result<Volume, OpenError>,
        begin: impl FnOnce(Arc<Volume>) -> Result<OpenVolume, OpenError>,
    ) -> Result<Arc<Place>, OpenError> {
        let is_too_weak = |volume: &Volume| access == Access::Write && volume.access() == Access::Read;
        let mut shared = self.shared.lock();
        let volume = match shared.volume.upgrade() {
            Some(volume) if is_too_weak(&volume) => {
                drop((volume, shared));
                let _calls = self.wait_for_calls().ok_or_else(|| in_use("a call"))?;
                shared = self.shared.lock();
                if shared.volume.upgrade().is_some_and(|volume| is_too_weak(&volume)) {
                    shared.strengthen(&open)?
                } else {
                    shared.open(access, open)?
                }
            }
            _ => shared.open(access, open)?,
        };
        let place = Arc::new(Mutex::new(Some(Arc::new(begin(volume)?))));
        shared.places.retain(|place| place.strong_count() > 0);
        shared.places.push(Arc::downgrade(&place));
        Ok(place)
    }

    /// Works with the volume of a place, which stays what it is meanwhile; `None` where it is closed.
    pub(crate) fn call<T>(&self, place: &Place, work: impl FnOnce(&OpenVolume) -> T) -> Option<T> {
        let _call = Call::begin(&self.calls);
        let open = place.lock().clone()?;
        let answer = work(&open);
        if place.lock().is_none() {
            // This may be the last use of a volume that was closed meanwhile.
            let _shared = self.shared.lock();
            // Closing told nobody of an error, and neither does this.
            let _ = Arc::into_inner(open).map(OpenVolume::close);
        }
        Some(answer)
    }

    /// Waits until no call is in progress; `None` where one does not end. Meanwhile others begin and end: a
    /// long one must not keep them waiting for all of this time, nor may many short ones keep this waiting.
    fn wait_for_calls(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        if DEPTH.get() > 0 {
            // This thread would wait for itself.
            return self.calls.try_write();
        }
        let end = Instant::now() + PATIENCE;
        loop {
            let calls = self.calls.try_write_for(TURN);
            if calls.is_some() || Instant::now() >= end {
                return calls;
            }
            std::thread::sleep(TURN);
        }
    }

    /// Takes the volume out of a place, and ends it by `end`. No other handle opens the image meanwhile.
    pub(crate) fn leave<T>(&self, place: &Place, end: impl FnOnce(Option<Arc<OpenVolume>>) -> T) -> T {
        let _shared = self.shared.lock();
        let open = place.lock().take();
        end(open)
    }
}

/// A call in progress.
struct Call<'i> {
    _calls: RwLockReadGuard<'i, ()>,
}

impl<'i> Call<'i> {
    fn begin(calls: &'i RwLock<()>) -> Self {
        // One within another must not wait for a thread that waits for the outer one.
        let guard = if DEPTH.get() > 0 { calls.read_recursive() } else { calls.read() };
        DEPTH.set(DEPTH.get() + 1);
        Call { _calls: guard }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

impl Shared {
    /// The open volume, or one that is opened now.
    fn open(
        &mut self,
        access: Access,
        open: impl Fn(Access) -> Result<Volume, OpenError>,
    ) -> Result<Arc<Volume>, OpenError> {
        if let Some(volume) = self.volume.upgrade() {
            return Ok(volume);
        }
        let volume = Arc::new(open(access)?);
        self.volume = Arc::downgrade(&volume);
        Ok(volume)
    }

    /// Opens a volume for writing that handles have open for reading. No call is in progress. Where it fails,
    /// they have it open for reading again.
    fn strengthen(
        &mut self,
        open: &impl Fn(Access) -> Result<Volume, OpenError>,
    ) -> Result<Arc<Volume>, OpenError> {
        let places: Vec<Arc<Place>> = self.places.iter().filter_map(Weak::upgrade).collect();
        let used: Vec<_> = places
            .iter()
            .filter_map(|place| {
                let open = place.lock().clone()?;
                Some((place, open))
            })
            .collect();
        if self.volume.strong_count() > used.len() {
            return Err(in_use("an epoch, or a batch of files in place,"));
        }
        let parts: Vec<_> = used
            .into_iter()
            .map(|(place, open)| {
                *place.lock() = None;
                (place, Parts::of(open))
            })
            .collect();
        let (volume, outcome) = match open(Access::Write) {
            Ok(volume) => (Arc::new(volume), Ok(())),
            Err(error) => (Arc::new(open(Access::Read)?), Err(error)),
        };
        self.volume = Arc::downgrade(&volume);
        for (place, parts) in parts {
            *place.lock() = Some(Arc::new(parts.on(Arc::clone(&volume))));
        }
        outcome.map(|()| volume)
    }
}

/// The error of a volume that cannot be opened for writing yet.
fn in_use(by: &str) -> OpenError {
    let why = format!("in use by this process: {by} of another handle reads it; end that first");
    OpenError::Volume(Error::Image { what: String::new(), kind: ErrorKind::InUse, why })
}
