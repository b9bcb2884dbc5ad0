//! A device whose kernels have passed their probes.

use crate::device_files::{DeviceFiles, DeviceFilesOptions};
use crate::error::Result;
use crate::file_table::{DeviceFileTable, FileTableOptions};
use crate::inputs::patterns::Patterns;
#[cfg(any(test, feature = "_testing"))]
use crate::kernels::context::Probes;
use crate::kernels::context::{DeviceContext, GpuOptions};
use crate::lookups::mirrored::{MirrorOptions, Mirrored};
use crate::probe::{self, Probed};
use crate::records::DeviceRecord;
use crate::searches::kept_texts::KeptTexts;
use crate::searches::ranked::RankedPaths;
use crate::searches::scan::TextScan;
use crate::searches::text_hash::TextHash;
use crate::vulkan::{Choice, DeviceInfo, DeviceKind, devices, may_have_hardware};
use lanefs::Volume;
use std::sync::Arc;

/// A device that is ready to work: its kernels gave the right answers to known questions, now or at an
/// earlier start. Clones share it.
#[derive(Clone)]
pub struct Gpu {
    pub(crate) context: DeviceContext,
    probes: Arc<[Probed]>,
}

impl Gpu {
    /// Opens a device. Its kernels are probed, unless the user's cache has the record of a start of this
    /// build with the same driver whose probes they have passed.
    ///
    /// # Errors
    /// No Vulkan, no such device; [`Error::Wrong`](crate::Error::Wrong) where a kernel answers wrongly on it.
    pub fn open(choice: &Choice) -> Result<Gpu> {
        let context = DeviceContext::open(&GpuOptions::of(choice))?;
        let record = DeviceRecord::of(&context.device, &context.kernels);
        let Some(compiled) = record.as_ref().and_then(DeviceRecord::read) else {
            return Self::probe(context, record);
        };
        context.device.reuse_pipelines(&compiled);
        Ok(Gpu { context, probes: Arc::default() })
    }

    /// Opens a device, makes its kernels and probes them, whatever an earlier start has found.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_probed(choice: &Choice) -> Result<Gpu> {
        let context = DeviceContext::open(&GpuOptions::of(choice))?;
        let record = DeviceRecord::of(&context.device, &context.kernels);
        Self::probe(context, record)
    }

    /// Probes the kernels of a device, and records the outcome.
    fn probe(context: DeviceContext, record: Option<DeviceRecord>) -> Result<Gpu> {
        context.device.reuse_pipelines(&[]);
        let probes = probe::all(&context);
        if let Some(record) = record {
            match &probes {
                Ok(_) => record.write(&context.device.compiled_pipelines()),
                Err(_) => record.remove(),
            }
        }
        Ok(Gpu { context, probes: probes?.into() })
    }

    /// Opens a device that may be faster than the CPU engine: `None` on a machine that has only software
    /// devices, which take time to open and cannot be, and where the device fails.
    pub fn open_hardware(choice: &Choice) -> Option<Gpu> {
        let is_fast = |device: &DeviceInfo| device.lacks.is_empty() && device.kind != DeviceKind::Software;
        let has_hardware = may_have_hardware() && devices().is_ok_and(|all| all.iter().any(is_fast));
        has_hardware.then(|| Gpu::open(choice).ok()).flatten()
    }

    /// Opens a device with options for tests.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[cfg(any(test, feature = "_testing"))]
    pub fn open_with(options: &GpuOptions<'_>) -> Result<Gpu> {
        Self::probed_by(DeviceContext::open(options)?, options.probes)
    }

    /// Returns the same device with other code of a kernel. The driver compiles no other one again.
    ///
    /// # Errors
    /// [`Error::Wrong`](crate::Error::Wrong) where a kernel does not pass one of these probes; the device's.
    #[cfg(any(test, feature = "_testing"))]
    pub fn with_kernel(&self, kernel: &str, code: &[u8], probes: Probes<'_>) -> Result<Gpu> {
        let kernels = Arc::new(self.context.kernels.with(kernel, code));
        Self::probed_by(DeviceContext { device: self.context.device.clone(), kernels }, probes)
    }

    #[cfg(any(test, feature = "_testing"))]
    fn probed_by(context: DeviceContext, probes: Probes<'_>) -> Result<Gpu> {
        let probes = match probes {
            Probes::All => probe::all(&context)?,
            Probes::Of(kernel) => probe::of(&context, kernel)?,
            Probes::None => Vec::new(),
        };
        Ok(Gpu { context, probes: probes.into() })
    }

    /// From now on submissions end at once and do nothing, or do their work again, so that a benchmark times
    /// the host alone.
    #[cfg(any(test, feature = "_testing"))]
    pub fn set_idle(&self, is_idle: bool) {
        self.context.device.is_idle.store(is_idle, std::sync::atomic::Ordering::Relaxed);
    }

    /// Describes the device.
    pub fn info(&self) -> &DeviceInfo {
        &self.context.device.info
    }

    /// Lists the kernels that were probed now, and the time of each probe; none where an earlier start did.
    pub fn probes(&self) -> &[Probed] {
        &self.probes
    }

    /// Makes a mirror of a volume's metadata, with a directory cache.
    ///
    /// # Errors
    /// The device's, the volume's; [`Error::Busy`](crate::Error::Busy) where another engine mirrors the
    /// volume already.
    pub fn mirror<'v>(&self, volume: &'v Volume, options: &MirrorOptions) -> Result<Mirrored<'v>> {
        Mirrored::new(&self.context, volume, options)
    }

    /// Prepares a search for patterns in texts.
    pub fn text_scan(&self, patterns: &Patterns) -> TextScan {
        TextScan::new(&self.context, patterns)
    }

    /// Makes room for texts that stay on the device, in so many bytes at most. `None`: half of the device's
    /// memory, or an eighth where that is the host's, and in both cases no more than half of what was free
    /// when the device was opened.
    pub fn kept_texts(&self, most: Option<u64>) -> KeptTexts {
        let info = self.info();
        let share = if info.kind == DeviceKind::Discrete { 2 } else { 8 };
        let usual = (info.memory / share).min(info.free_memory.unwrap_or(info.memory) / 2);
        KeptTexts::new(&self.context, most.unwrap_or(usual))
    }

    /// Makes memory of the device for files of so many bytes in all, which [`Mirrored::read_files`] fills.
    ///
    /// # Errors
    /// An error of the device, also for want of memory, or for more bytes than the driver gives in one
    /// allocation; [`Error::NotExportable`](crate::Error::NotExportable).
    pub fn device_files(&self, capacity: u64, options: &DeviceFilesOptions) -> Result<DeviceFiles> {
        DeviceFiles::new(&self.context.device, capacity, options)
    }

    /// Makes memory of the device for files that kernels of other programs find by inode number, with so many
    /// bytes of contents at most; [`Mirrored::bring_missed`] fills it.
    ///
    /// # Errors
    /// As [`device_files`](Self::device_files).
    pub fn file_table(&self, capacity: u64, options: &FileTableOptions) -> Result<DeviceFileTable> {
        DeviceFileTable::new(&self.context.device, capacity, options)
    }

    /// Prepares to hash texts.
    pub fn text_hash(&self) -> TextHash {
        TextHash::new(&self.context)
    }

    /// Copies so many paths to the device, which ranks them for fuzzy terms. `path` appends the path of a
    /// number. A path takes its text, up to the length of the longest of 32 neighbours, and 9 bytes.
    ///
    /// # Errors
    /// An error of the device, also for want of memory.
    pub fn ranked_paths(&self, count: usize, path: &mut dyn FnMut(u32, &mut Vec<u8>)) -> Result<RankedPaths> {
        RankedPaths::new(&self.context, count, path)
    }

    /// Returns the rounds of all loops that an invocation has: fewer on a software device, which therefore
    /// leaves more to the host.
    #[cfg(any(test, feature = "_testing"))]
    pub fn fuel(&self) -> u32 {
        self.context.fuel()
    }
}
