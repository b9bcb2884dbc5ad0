//! Import and export of whole trees and tar archives, in parallel, with all metadata of a file: type, mode,
//! owner, times to the nanosecond, links of both kinds, extended attributes, holes, devices.
//!
//! A transfer does not stop at a file that it cannot copy: it records the name and the reason in its
//! [`Report`], and goes on. It stops early only where all further files would fail as well (full volume,
//! failing device) or where the caller interrupts it. The files transferred until then are complete, and
//! those of an import durable: after a failure of the device it counts what its last commit has. The crate
//! knows nothing of command lines and terminals.
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
//!
//! # Modules
//!
//! Each module refers to modules of the lines above it only, so this table is also an order to read them in.
//!
//! | module | what it knows |
//! |---|---|
//! | `vocabulary` | names, errors, extended attributes, sets of hard links |
//! | `on_host` | the host's side: directories by descriptor, attributes, new files |
//! | `in_volume` | the volume's side: entries that are made, found and replaced |
//! | `running` | threads of a transfer, their queue, commits on the way, the [`Report`] |
//! | `compare`, `export`, `import` | trees |
//! | `archive` | tar archives, both ways |
//! | `sync` | differences of two trees, and a volume that follows a tree |
//! | [`by_descriptor`] | files of the host for programs that copy one at a time |

#![forbid(unsafe_code)]

mod archive;
mod compare;
mod export;
mod import;
mod in_volume;
mod on_host;
mod running;
mod sync;
mod vocabulary;

/// Files of the host by descriptor, for programs that copy one file at a time: what a name meant a moment ago
/// does not matter, and nobody else can put another file in its place.
pub mod by_descriptor {
    pub use crate::on_host::host::Attributes;
    pub use crate::on_host::host_attributes::{
        set_mode_and_times, set_mode_and_times_of, set_owner, set_owner_of, set_times,
    };
    pub use crate::on_host::hostdir::{HostDir, OpenDirs, OpenedDir, make_or_open};
    pub use crate::on_host::new_file::{FilePlace, NewFile};
    pub use crate::on_host::node::{NewNode, make_node};
    pub use crate::vocabulary::input::open_input;
    pub use lanefs::host_path::{make_dirs, open_dir};
}

pub use archive::{ArchiveSource, ArchiveTarget, export_archive, import_archive, is_archive_name};
pub use compare::{CompareOptions, Comparison, compare_trees};
pub use export::{ExportOptions, export_tree};
pub use import::{IdNames, ImportOptions, Maker, import_tree};
pub use in_volume::replacement::Replacement;
pub use on_host::host_top::HostTop;
pub use on_host::hostdir::FileId;
pub use running::commits::CommitInterval;
pub use running::expansion::DEFAULT_MAX_EXPANSION;
pub use running::inventory::{Inventory, Item, take_inventory};
pub use running::job::{Control, Progress, ProgressState, Silent};
pub use running::report::{
    Counts, EXIT_DAMAGED, EXIT_DONE, EXIT_INTERRUPTED, EXIT_PARTLY, EXIT_STOPPED, Problem, Report,
};
pub use sync::{
    Aspects, Change, Depth, Difference, Filter, ImageState, LastSync, Letters, Scope, Side, SyncCounts,
    SyncOptions, SyncReport, TreeWatch, UnequalLinks, UnpackedArchive, WatchOutcome, diff_trees, sync_tree,
    unpack_archive,
};
pub use vocabulary::error::{Error, OVERWRITE_HINT, Result};
pub use vocabulary::name::shown;
