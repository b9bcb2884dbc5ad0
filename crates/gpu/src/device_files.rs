//! Files in the memory of a device.
//!
//! ```text
//!  host     [read part 1][read part 2][read part 3][read part 4] ...
//!             bounce 1     bounce 2     bounce 3     bounce 1, when its copy has ended
//!  device               [copy part 1][copy part 2][copy part 3] ...
//! ```
//!
//! Where the host maps the device's memory the files are read straight into it. The host waits for the last
//! copies, or another program does, by a timeline semaphore.

use crate::error::{Error, Result};
use crate::lookups::mirrored::Mirrored;
use crate::resident::bounce::BounceBuffers;
use crate::vulkan::{Buffer, Commands, Device, ExportedMemory, MemoryLocation, SharedTimeline};
use lanefs::{Code, FileLayout, FileList, FileSink, ReadFiles, Volume};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Bytes that come to the host in one copy.
const READ_BACK_BYTES: u64 = 8 << 20;

/// Options of [`Gpu::device_files`](crate::Gpu::device_files).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceFilesOptions {
    /// Bytes of each of the three bounce buffers in pinned memory of the host, which a device needs whose
    /// memory the host does not map [default: 8 MiB]. A part of a batch has so many bytes.
    pub bounce: u64,
    /// Other programs and other interfaces (CUDA) can get the memory: [`DeviceFiles::export_fd`].
    pub exportable: bool,
}

impl Default for DeviceFilesOptions {
    fn default() -> Self {
        DeviceFilesOptions { bounce: 8 << 20, exportable: false }
    }
}

/// Memory of a device for the contents of many files, which serves one batch after the other:
/// [`Mirrored::read_files`] fills it. The files lie one after the other, in the order in which they were
/// asked for.
pub struct DeviceFiles {
    /// `None` where the host maps the device's memory. (They come first: dropping them waits for the end of
    /// their copies.)
    bounces: Option<BounceBuffers>,
    memory: Buffer,
    device: Arc<Device>,
    /// Counts the batches that were begun and have arrived. `None` where no other program can wait for it.
    timeline: Option<SharedTimeline>,
    /// In bytes.
    capacity: u64,
    layout: FileLayout,
}

impl DeviceFiles {
    pub(crate) fn new(device: &Arc<Device>, capacity: u64, options: &DeviceFilesOptions) -> Result<Self> {
        let location = if options.exportable { MemoryLocation::Exportable } else { MemoryLocation::Device };
        let memory = Buffer::alone(device, capacity, location)?;
        let bounce = options.bounce.clamp(1, capacity.max(1));
        let bounces = memory.bytes().is_none().then(|| BounceBuffers::new(device, bounce)).transpose()?;
        let timeline = match options.exportable.then(|| SharedTimeline::new(device)).transpose() {
            Err(Error::NotExportable(_)) => None,
            made => made?,
        };
        let (device, layout) = (device.clone(), FileLayout::default());
        Ok(DeviceFiles { bounces, memory, device, timeline, capacity, layout })
    }

    /// Number of bytes of all files of a batch at most.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The place of each file's bytes in the memory, and its result. There are no files before the first
    /// batch, and after one that ended with an error.
    pub fn layout(&self) -> &FileLayout {
        &self.layout
    }

    /// Copies bytes of the files to the host.
    ///
    /// # Errors
    /// [`Code::Invalid`] for bytes beyond the files' (in [`Error::Volume`]); an error of the device.
    pub fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        if range.start > range.end || range.end > self.layout.bytes() {
            let what = format!("bytes {} to {} of {}", range.start, range.end, self.layout.bytes());
            return Err(lanefs::Error::At { code: Code::Invalid, what }.into());
        }
        if let Some(bytes) = self.memory.bytes().filter(|_| self.memory.is_fast_to_read()) {
            return Ok(bytes[range.start as usize..range.end as usize].to_vec());
        }
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        if range.is_empty() {
            return Ok(bytes);
        }
        let host = Buffer::alone(
            &self.device,
            READ_BACK_BYTES.min(range.end - range.start),
            MemoryLocation::Download,
        )?;
        let mut commands = Commands::of_copies(&self.device)?;
        for at in range.clone().step_by(READ_BACK_BYTES as usize) {
            let len = READ_BACK_BYTES.min(range.end - at);
            commands.record(|recording| {
                let is_shared = self.memory.is_exportable();
                if is_shared {
                    recording.take_back(&self.memory);
                }
                recording.copy(&self.memory, &host, &[(at, 0, len)]);
                if is_shared {
                    recording.give_away(&self.memory);
                }
            })?;
            commands.submit()?;
            commands.wait()?;
            bytes.extend_from_slice(&host.bytes().unwrap_or(&[])[..len as usize]);
        }
        Ok(bytes)
    }

    /// Gives the memory to another program, or another interface to the device, as a file descriptor: the
    /// importer sees the bytes of this batch, and of later ones. It must have ended its work on the memory
    /// before the next batch begins, and must not write to it.
    ///
    /// The memory lives until all have closed it. Each call makes another descriptor.
    ///
    /// # Errors
    /// [`Error::NotExportable`] without [`DeviceFilesOptions::exportable`]; an error of the device.
    pub fn export_fd(&self) -> Result<ExportedMemory> {
        self.memory.export()
    }

    /// Gives the timeline semaphore to another program, or another interface to the device, as a file
    /// descriptor: the importer's work waits for a batch that was [begun](Mirrored::begin_files), by the value
    /// of [`arrival`](Self::arrival). Each call makes another descriptor.
    ///
    /// # Errors
    /// [`Error::NotExportable`] for a device that exports no timeline semaphores, and without
    /// [`DeviceFilesOptions::exportable`]; an error of the device.
    pub fn export_timeline(&self) -> Result<OwnedFd> {
        let none = Error::NotExportable("the device exports no timeline semaphores");
        self.timeline.as_ref().ok_or(none)?.export()
    }

    /// Returns the value that the exported timeline has when the bytes of the batch that was begun last are
    /// on the device; `None` where it cannot be exported.
    pub fn arrival(&self) -> Option<u64> {
        self.timeline.as_ref().map(SharedTimeline::value)
    }

    /// Waits until the bytes of a batch that was [begun](Mirrored::begin_files) are on the device.
    ///
    /// # Errors
    /// An error of the device, after which the memory has no files.
    pub fn wait(&mut self) -> Result<()> {
        let ended = self.bounces.as_ref().map_or(Ok(()), BounceBuffers::finish);
        if ended.is_err() {
            self.layout.clear();
        }
        ended
    }

    /// Fills the memory; without `waits` it returns while the device still copies, where it has a timeline.
    fn fill(
        &mut self,
        volume: &Volume,
        options: &ReadFiles<'_>,
        files: FileList<'_>,
        waits: bool,
    ) -> Result<usize> {
        let DeviceFiles { bounces, memory, timeline, capacity, layout, .. } = self;
        let mut sink = DeviceSink { bounces, memory, capacity: *capacity };
        let read = volume.read_files_in_parts(options, files, &mut sink, layout);
        // Else no copy is in flight when the call returns, whatever its outcome.
        let later = timeline.as_mut().filter(|_| !waits && read.is_ok());
        let ended = sink.finish(later);
        let done = read.and_then(|count| ended.map(|()| count));
        if done.is_err() {
            layout.clear();
        }
        done
    }
}

#[cfg(test)]
impl DeviceFiles {
    /// Counts batches also on a device that exports no timelines, as llvmpipe is.
    pub(crate) fn count_batches(&mut self) -> Result<()> {
        self.timeline = Some(SharedTimeline::unshared(&self.device)?);
        Ok(())
    }

    /// Returns the batches that have arrived, as another program sees them.
    pub(crate) fn arrived(&self) -> u64 {
        self.timeline.as_ref().map_or(0, SharedTimeline::reached)
    }
}

impl std::fmt::Debug for DeviceFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let DeviceFiles { capacity, layout, .. } = self;
        f.debug_struct("DeviceFiles").field("capacity", capacity).field("files", &layout.len()).finish()
    }
}

impl Mirrored<'_> {
    /// Reads many files, or a part of each, into memory of a device, with the results of
    /// [`Volume::read_files`](lanefs::Volume::read_files): the bytes of a file are those of one moment, and a
    /// file that cannot be read has a code and affects no other. The CPU engine finds and reads the files.
    /// Returns the number of files that were read; all bytes are on the device then.
    ///
    /// # Errors
    /// Those of [`Volume::read_files`](lanefs::Volume::read_files), with [`Code::Invalid`] where the files
    /// have more bytes than the [capacity](DeviceFiles::capacity); an error of the device. There are no
    /// files in the memory then, and a later call may succeed.
    pub fn read_files<'f>(
        &self,
        options: &ReadFiles<'_>,
        files: impl Into<FileList<'f>>,
        target: &mut DeviceFiles,
    ) -> Result<usize> {
        target.fill(self.volume(), options, files.into(), true)
    }

    /// As [`read_files`](Self::read_files), but returns while the device still copies the last bytes, where
    /// another program can wait for them on the device ([`DeviceFiles::export_timeline`]); else it waits.
    /// Calls of this `target` come after the copies. Should the device fail, the semaphore never has
    /// the value, and the importer's work waits for ever.
    ///
    /// # Errors
    /// As [`read_files`](Self::read_files). An error of the device that comes later is one of
    /// [`DeviceFiles::wait`], or of the next call.
    pub fn begin_files<'f>(
        &self,
        options: &ReadFiles<'_>,
        files: impl Into<FileList<'f>>,
        target: &mut DeviceFiles,
    ) -> Result<usize> {
        target.fill(self.volume(), options, files.into(), false)
    }
}

/// The memory during one call.
struct DeviceSink<'d> {
    bounces: &'d mut Option<BounceBuffers>,
    memory: &'d mut Buffer,
    capacity: u64,
}

impl DeviceSink<'_> {
    /// Waits until all bytes are on the device, for whoever has the memory; or has a timeline tell it.
    fn finish(self, later: Option<&mut SharedTimeline>) -> Result<()> {
        let Some(bounces) = self.bounces else { return Ok(()) };
        if let Some(timeline) = later {
            return match bounces.give_away_later(self.memory, timeline) {
                Ok(()) => Ok(()),
                Err(error) => bounces.finish().and(Err(error)),
            };
        }
        bounces.finish()?;
        if self.memory.is_exportable() { bounces.give_away(self.memory) } else { Ok(()) }
    }
}

impl FileSink for DeviceSink<'_> {
    type Error = Error;

    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn memory(&mut self, at: u64) -> Result<&mut [u8]> {
        let left = (self.capacity - at) as usize;
        let (memory, from) = match self.bounces {
            Some(bounces) => (bounces.memory()?, 0),
            None => (self.memory.bytes_mut().unwrap_or(&mut []), at as usize),
        };
        let len = left.min(memory.len() - from);
        Ok(&mut memory[from..from + len])
    }

    fn take(&mut self, at: u64, len: usize) -> Result<()> {
        match self.bounces {
            Some(bounces) if len > 0 => bounces.send(self.memory, at, len as u64),
            _ => Ok(()),
        }
    }
}
