//! Options of a sync and of a comparison.

use super::filter::Filter;
use super::last_sync::LastSync;
use super::scope::Scope;
use super::unequal_links::UnequalLinks;
use crate::on_host::hostdir::FileId;
use crate::running::commits::CommitInterval;
use std::sync::Arc;

/// Options of a sync. A comparison takes those that are not about changes.
#[derive(Clone, Debug, Default)]
pub struct SyncOptions {
    /// Removes names that the source lacks. Without it they stay.
    pub delete: bool,
    /// Compares the content of files of the same size, whatever their times. Without it two files of the same
    /// size and time of modification have the same content.
    pub checksum: bool,
    /// Changes nothing: only finds the differences.
    pub dry_run: bool,
    /// Directories on which another file system is mounted are made, but not entered, and names below them
    /// stay.
    pub one_file_system: bool,
    /// Removes a name that the source lacks, and copies the file that has another name there by now. Without
    /// it such a file is renamed, where names are removed at all.
    pub no_renames: bool,
    /// Names that are left out, on both sides.
    pub filter: Filter,
    /// The part of the tree that is compared.
    pub scope: Scope,
    /// Files whose numbers of names differ, as syncs of the whole tree have left them: for syncs of parts.
    pub unequal_links: Option<Arc<UnequalLinks>>,
    /// The record of the last sync: directories of the host that are as they were then are not compared,
    /// where nothing is left out, the whole tree is looked at, and no content is compared. The volume has to
    /// be as that sync has left it, which the caller knows. A sync that changes something begins the next
    /// record.
    pub last_sync: Option<Arc<LastSync>>,
    /// Names of files that have several names come after all others, sorted by path, on one thread. So a list
    /// of the differences is the same each time, and for a dry run and the sync that follows it: otherwise
    /// the first name that a thread meets stays, and the others join it. The names that wait take memory.
    pub in_order: bool,
    /// Number of threads; `None` for twice the cores.
    pub threads: Option<usize>,
    /// Files of the host to leave out, with a note: the volume's own image, for example.
    pub skip: Vec<FileId>,
    /// How often the sync commits.
    pub commit: CommitInterval,
}
