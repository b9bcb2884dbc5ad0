//! The GPU engine: lookups and searches on Vulkan compute, on the same bytes and with the same answers as
//! the CPU engine.
//!
//! * [`devices`] lists the devices of the machine; a [`Gpu`] is a device whose kernels have been probed.
//! * [`Mirrored`] is a volume whose metadata the device has. It resolves batches of paths, several of them
//!   at a time ([`Pending`]), and finds entries by name, type, size and time ([`Filter`]).
//! * [`TextScan`] finds the texts in which a line may match some [`Patterns`], also among [`KeptTexts`], that
//!   stay on the device; [`TextHash`] gives the BLAKE3 hashes of texts.
//! * [`RankedPaths`] are paths that the device scores for the letters of a query ([`Needles`]).
//! * [`Changes`] is the directories' part of a batch of changes.
//! * [`DeviceFiles`] are files whose contents are in the device's memory ([`Mirrored::read_files`]).
//! * [`MirrorExport`] and [`DeviceFileTable`] are for kernels of other programs, which read them by
//!   `include/lanefs_device.h`.
//! * [`Auto`] gives each batch to the faster of both engines.
//! * The feature `_testing` adds the twins (the kernels in Rust) and the interface for tests. It is not part
//!   of the interface for programs.
//!
//! `docs/gpu.md` describes how they work together.
//!
//! # Modules
//!
//! Each module refers to modules of the lines above it only, so this table is also an order to read them in.
//!
//! | module | what it knows |
//! |---|---|
//! | `error` | errors of a device |
//! | `shared` | structures and constants that Rust and GLSL share; limits of a batch |
//! | `inputs` | words that kernels read besides the volume: [`Filter`]s, [`Patterns`], [`Needles`] |
//! | `vulkan` | devices, memory, commands |
//! | `kernel_list`, `kernels` | all kernels; their pipelines on a device |
//! | `twin` | each kernel in Rust, and what the host does for it |
//! | `resident` | what stays in a device's memory: the mirror, caches of directories |
//! | `lookups` | batches of paths: lookups, searches by name, listings |
//! | `searches` | patterns in texts, hashes of texts, ranks of paths |
//! | `change` | the directories' part of a batch of changes |
//! | `device_files` | contents of files in the device's memory |
//! | `mirror_export`, `file_table` | memory for kernels of other programs: a mirror, files by inode number |
//! | `probe` | answers that are known, before a device is used |
//! | `records` | what earlier starts have learned of a device |
//! | `gpu` | a device whose kernels have been probed |
//! | `engines` | the choice of an engine |
//! | `testing` | the interface for tests (feature `_testing`) |

// The twins that no probe calls, and the generator of GLSL, are for tests; they are compiled in any case,
// so that they exist.
#![cfg_attr(not(feature = "_testing"), allow(dead_code, unreachable_pub))]

mod inputs;
mod lookups;
mod resident;
mod searches;
mod shared;
#[cfg(test)]
mod tests;
#[macro_use]
mod kernel_list;

mod change;
mod device_files;
mod engines;
mod error;
mod file_table;
mod gpu;
mod kernels;
mod mirror_export;
mod probe;
mod records;
#[cfg(feature = "_testing")]
pub mod testing;
#[cfg(feature = "_testing")]
pub mod twin;
#[cfg(not(feature = "_testing"))]
mod twin;
mod vulkan;

pub use change::Changes;
pub use device_files::{DeviceFiles, DeviceFilesOptions};
pub use engines::{Auto, Cost, EngineChoice, EngineOptions, Engines};
pub use error::{Error, Result};
pub use file_table::{BroughtFiles, DeviceFileTable, FileTableOptions};
pub use gpu::Gpu;
pub use inputs::filter::{Filter, Names};
pub use inputs::needles::Needles;
pub use inputs::patterns::{PatternStep, Patterns};
#[cfg(feature = "_testing")]
pub use kernels::context::{GpuOptions, Probes};
pub use kernels::{KERNELS, KernelInfo};
pub use lookups::below::Below;
pub use lookups::find::Match;
pub use lookups::kept::KeptPaths;
pub use lookups::list::Listed;
pub use lookups::mirrored::{MirrorOptions, Mirrored};
pub use lookups::pending::Pending;
pub use mirror_export::{MirrorExport, MirrorExportOptions};
pub use probe::Probed;
pub use searches::kept_texts::{KeptScan, KeptTexts};
pub use searches::ranked::{BestPaths, RankedPaths};
pub use searches::scan::TextScan;
pub use searches::text_hash::TextHash;
pub use vulkan::{Choice, DeviceInfo, DeviceKind, ExportedMemory, PciAddress, devices};

/// The text of `include/lanefs_device.h`, the header for kernels of other programs, as a compiler takes it.
pub const DEVICE_HEADER: &str = include_str!("../include/lanefs_device.h");
