//! Whole trees and tar archives into a LaneFS volume and out of it, in parallel, with everything that a file system
//! keeps of a file: type, mode, owner, times to the nanosecond, links of both kinds, extended attributes, holes,
//! devices.
//!
//! A transfer never ends at the first file that it cannot copy: it notes the name and the reason in its [`Report`],
//! and does the rest. It ends early only where the rest would fail the same way (full volume, failing device) or
//! where the caller asks, and then whatever is there is whole. It knows nothing of command lines and terminals.
//!
//! ```
//! use lanefs::{CreateOptions, Volume};
//! use lanefs_transfer::{Control, ExportOptions, ImportOptions, Silent, export_tree, import_tree};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let temp = tempfile::tempdir()?;
//! std::fs::create_dir(temp.path().join("photos"))?;
//! std::fs::write(temp.path().join("photos/one"), "picture")?;
//!
//! let volume = Volume::create_memory(&CreateOptions { size: 16 << 20, ..CreateOptions::default() })?;
//! let control = Control { interrupt: &|| false, progress: &Silent };
//! let photos = temp.path().join("photos");
//! let report = import_tree(&volume, &photos, b"/photos", &ImportOptions::default(), control)?;
//! assert_eq!((report.counts.files, report.problems.len()), (1, 0));
//! assert_eq!(volume.read_file("/photos/one")?, b"picture");
//!
//! let back = temp.path().join("back");
//! export_tree(&volume, b"/photos", &back, &ExportOptions::default(), control)?;
//! assert_eq!(std::fs::read(back.join("one"))?, b"picture");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod archive;
mod compare;
mod error;
mod export;
mod hardlinks;
mod host;
mod hostdir;
mod import;
mod inventory;
mod name;
mod queue;
mod report;
mod run;
mod xattrs;

pub use archive::{ArchiveSource, ArchiveTarget, export_archive, import_archive, is_archive_name};
pub use compare::{CompareOptions, Comparison, compare_trees};
pub use error::{Error, Result};
pub use export::{ExportOptions, export_tree};
pub use hostdir::FileId;
pub use import::{ImportOptions, Maker, import_tree};
pub use inventory::{Inventory, Item, take_inventory};
pub use name::shown;
pub use report::{Counts, EXIT_DONE, EXIT_INTERRUPTED, EXIT_PARTLY, EXIT_STOPPED, Problem, Report};
pub use run::{Control, Progress, Silent, Snapshot};
