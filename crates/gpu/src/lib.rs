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
//! * [`Auto`] gives each batch to the faster of both engines.
//! * The feature `_testing` adds the twins (the kernels in Rust) and the interface for tests. It is not part
//!   of the interface for programs.
//!
//! `docs/gpu.md` describes how they work together.

// The twins that no probe calls, and the generator of GLSL, are for tests; they are compiled in any case,
// so that they exist.
#![cfg_attr(not(feature = "_testing"), allow(dead_code, unreachable_pub))]

#[macro_use]
mod kernel_list;

mod batch;
mod below;
mod bounce;
mod cache;
mod change;
mod column_layout;
mod context;
mod device_files;
#[cfg(test)]
mod device_files_tests;
mod dir_table;
mod direct;
mod engines;
mod error;
#[cfg(test)]
mod failures;
mod filter;
mod find;
mod gpu;
mod hash_lists;
mod kept;
mod kept_texts;
mod kernels;
mod layout;
mod limits;
mod list;
mod mirror;
mod mirrored;
mod needles;
mod output;
mod path_bundles;
mod patterns;
mod pending;
mod probe;
mod query;
mod random_batches;
mod ranked;
mod scan;
mod structures;
mod tables;
mod tasks;
#[cfg(feature = "_testing")]
pub mod testing;
mod text_device;
mod text_hash;
#[cfg(feature = "_testing")]
pub mod twin;
#[cfg(not(feature = "_testing"))]
mod twin;
mod vulkan;
mod warm;
mod woven;

pub use below::Below;
pub use change::Changes;
#[cfg(feature = "_testing")]
pub use context::{GpuOptions, Probes};
pub use device_files::{DeviceFiles, DeviceFilesOptions};
pub use engines::{Auto, Cost, EngineChoice, EngineOptions, Engines};
pub use error::{Error, Result};
pub use filter::{Filter, Names};
pub use find::Match;
pub use gpu::Gpu;
pub use kept::KeptPaths;
pub use kept_texts::{KeptScan, KeptTexts};
pub use kernels::{KERNELS, KernelInfo};
pub use list::Listed;
pub use mirrored::{MirrorOptions, Mirrored};
pub use needles::Needles;
pub use patterns::{PatternStep, Patterns};
pub use pending::Pending;
pub use probe::Probed;
pub use ranked::{BestPaths, RankedPaths};
pub use scan::TextScan;
pub use text_hash::TextHash;
pub use vulkan::{Choice, DeviceInfo, DeviceKind, ExportedMemory, PciAddress, devices};
