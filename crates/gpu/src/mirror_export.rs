//! A copy of a mirror that the host exports: for kernels of other programs, which read it by
//! `include/lanefs_device.h`.
//!
//! ```text
//!  volume ──refresh──► mirror ──copy on the device──► exported mirror ──descriptor──► CUDA, HIP, Vulkan
//!  (changes)           (changes)                      (one generation, until it is refreshed or dropped)
//! ```
//!
//! The mirror itself changes with each batch, so a kernel that reads it could see half of a change. The copy
//! is that of one generation.

use crate::error::Result;
use crate::lookups::mirrored::Mirrored;
use crate::resident::cache::DirectoryCache;
use crate::resident::mirror::Mirror;
use crate::shared::exported::{MirrorPlan, TableSizes};
use crate::vulkan::{Buffer, Commands, Device, ExportedMemory, MemoryLocation};
use lanefs::{Code, ResolveOptions};
use std::sync::Arc;

/// Options of [`Mirrored::export`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorExportOptions {
    /// The directory cache and the directory-path table are copied, too. With them a lookup of a path that
    /// the engine has resolved before reads less [default: true].
    pub caches: bool,
    /// Bytes of memory for metadata that come later, so that [`MirrorExport::refresh`] finds room [default:
    /// 0].
    pub spare: u64,
}

impl Default for MirrorExportOptions {
    fn default() -> Self {
        MirrorExportOptions { caches: true, spare: 0 }
    }
}

/// A mirror of one generation in memory of the device that other programs can get.
///
/// Its bytes stay as they are, whatever happens to the volume, until [`refresh`](Self::refresh). Programs that
/// have imported the memory keep it beyond the end of this object.
pub struct MirrorExport {
    // Dropped first: they wait for their end.
    commands: Commands,
    memory: Buffer,
    device: Arc<Device>,
    options: MirrorExportOptions,
    bytes: u64,
    generation: u64,
}

impl MirrorExport {
    /// Bytes of the mirror as it is now. A [`refresh`](Self::refresh) changes them.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the memory: the length that an importer maps and that `lanefs_open` is given. They stay the
    /// same, also where a [`refresh`](Self::refresh) makes use of more of them.
    pub fn capacity(&self) -> u64 {
        self.memory.len
    }

    /// The mirror generation of the bytes.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Gives the memory to another program, or another interface to the device, as a file descriptor. Each
    /// call makes another descriptor. The importer must not write to the memory.
    ///
    /// # Errors
    /// An error of the device.
    pub fn export_fd(&self) -> Result<ExportedMemory> {
        self.memory.export()
    }

    /// Copies the metadata as they are now into the same memory; importers see them without a new import.
    /// Their work on the memory must have ended. Returns the new generation.
    ///
    /// # Errors
    /// [`Code::NoSpace`] (in [`Error::Volume`](crate::Error::Volume)) where the metadata have grown past the
    /// [spare](MirrorExportOptions::spare) memory: the bytes stay those of the old generation, and a new export
    /// is needed; [`Code::Invalid`] for a mirror on another device; an error of the device, after which the
    /// memory is not to be used.
    pub fn refresh(&mut self, mirrored: &Mirrored<'_>) -> Result<u64> {
        if !Arc::ptr_eq(&self.device, mirrored.device()) {
            let what = "the mirror is on another device than the exported memory".into();
            return Err(lanefs::Error::At { code: Code::Invalid, what }.into());
        }
        let caches = self.options.caches;
        with_plan(mirrored, caches, |mirror, cache, plan| {
            if plan.header.bytes > self.memory.len {
                let what =
                    format!("the mirror has {} bytes, the memory {}", plan.header.bytes, self.memory.len);
                return Err(lanefs::Error::At { code: Code::NoSpace, what }.into());
            }
            self.fill(mirror, cache, plan)
        })?;
        Ok(self.generation)
    }

    /// Copies the bytes to the host, for example to read them there by the same header.
    ///
    /// # Errors
    /// An error of the device.
    pub fn read(&mut self) -> Result<Vec<u8>> {
        let host = Buffer::new(&self.device, self.bytes, MemoryLocation::Download)?;
        self.commands.record(|recording| {
            recording.take_back(&self.memory);
            recording.copy(&self.memory, &host, &[(0, 0, self.bytes)]);
            recording.give_away(&self.memory);
        })?;
        self.commands.submit()?;
        self.commands.wait()?;
        Ok(host.bytes().unwrap_or(&[])[..self.bytes as usize].to_vec())
    }

    /// Copies the mirror into the memory, and waits for the end.
    fn fill(&mut self, mirror: &Mirror, cache: &DirectoryCache, plan: &MirrorPlan) -> Result<()> {
        let head = plan.head();
        let mut staging = Buffer::new(&self.device, head.len() as u64, MemoryLocation::Upload)?;
        if let Some(bytes) = staging.bytes_mut() {
            bytes[..head.len()].copy_from_slice(&head);
        }
        self.commands.record(|recording| {
            recording.copy(&staging, &self.memory, &[(0, 0, head.len() as u64)]);
            mirror.copy_chunks(recording, &self.memory, &plan.copies);
            let header = &plan.header;
            if self.options.caches {
                mirror.copy_versions(recording, &self.memory, header.versions, header.version_count);
                cache.copy(recording, &self.memory, header.cache);
                mirror.directories.copy(recording, &self.memory, header.dir_table, header.dir_records);
            }
            recording.give_away(&self.memory);
        })?;
        self.commands.submit()?;
        self.commands.wait()?;
        (self.bytes, self.generation) = (plan.header.bytes, plan.header.generation);
        Ok(())
    }
}

impl std::fmt::Debug for MirrorExport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let MirrorExport { bytes, generation, .. } = self;
        f.debug_struct("MirrorExport").field("bytes", bytes).field("generation", generation).finish()
    }
}

/// Refreshes the mirror and lays out its copy. No other thread changes the mirror or its caches until `work`
/// returns.
fn with_plan<T>(
    mirrored: &Mirrored<'_>,
    caches: bool,
    work: impl FnOnce(&Mirror, &DirectoryCache, &MirrorPlan) -> Result<T>,
) -> Result<T> {
    let query = mirrored.query(&ResolveOptions::default());
    mirrored.with_mirror(|mirror| {
        // After the refresh of the mirror: a volume that grows meanwhile has no chunk beyond its end.
        let volume_bytes = mirrored.volume().superblock().volume_bytes;
        let cache = mirrored.cache();
        let directories = mirror.directories.addresses();
        let sizes = TableSizes {
            buckets: cache.buckets().1,
            versions: mirror.version_count(),
            dir_buckets: directories.bucket_count,
            dir_units: directories.units,
            epoch: directories.epoch,
        };
        let sizes = if caches { sizes } else { TableSizes::default() };
        let of = (volume_bytes, mirror.generation());
        let plan = MirrorPlan::new(&query, of, mirror.chunk_numbers(), &sizes);
        work(mirror, cache, &plan)
    })
}

/// # Kernels of other programs
impl Mirrored<'_> {
    /// Copies the mirror, as the volume is now, into memory of its own that other programs can get: kernels
    /// read it by `include/lanefs_device.h`.
    ///
    /// # Errors
    /// [`Error::NotExportable`](crate::Error::NotExportable) for a device without such memory; an error of the
    /// device, also for want of memory.
    pub fn export(&self, options: &MirrorExportOptions) -> Result<MirrorExport> {
        let device = self.device();
        with_plan(self, options.caches, |mirror, cache, plan| {
            let bytes = plan.header.bytes.saturating_add(options.spare);
            let mut export = MirrorExport {
                commands: Commands::new(device)?,
                memory: Buffer::alone(device, bytes, MemoryLocation::Exportable)?,
                device: device.clone(),
                options: *options,
                bytes: 0,
                generation: 0,
            };
            export.fill(mirror, cache, plan)?;
            Ok(export)
        })
    }

    /// Returns the mirror generation of the volume as it is now. An [export](Self::export) with a lower one is
    /// older than the volume.
    ///
    /// # Errors
    /// An error of the device.
    pub fn generation(&self) -> Result<u64> {
        self.with_mirror(|mirror| Ok(mirror.generation()))
    }
}
