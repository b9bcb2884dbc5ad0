//! The state of a mounted volume that operations read and change.

use super::claims::Claims;
use super::counts::VolumeCounts;
use super::cursors::RoomCursors;
use super::dir_table::DirectoryTable;
use super::holds::Holds;
use super::writer::Writer;
use lanefs_format::superblock::Superblock;
use lanefs_format::{BLOCK, HashSeed};
use lanefs_store::{Gate, Store};
use lanefs_sync::lock::Mutex;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The state of a mounted volume.
pub(crate) struct VolumeState {
    pub(crate) store: Store,
    pub(crate) seed: HashSeed,
    pub(crate) gate: Gate<Writer>,
    pub(crate) claims: Claims,
    pub(crate) counts: VolumeCounts,
    /// Where searches for room go on.
    pub(crate) cursors: RoomCursors,
    /// Number of frees that wait for the next commit.
    deferred_frees: AtomicUsize,
    root: AtomicU64,
    orphans: AtomicU64,
    pub(crate) holds: Holds,
    /// Where paths of directories lead.
    pub(crate) directories: DirectoryTable,
    /// Positions of blocks of the group table and of chunk tables that did not verify.
    bad_tables: Mutex<BTreeSet<u64>>,
}

impl VolumeState {
    /// `directory_table`: bytes of the directory-path table at most.
    pub(crate) fn new(store: Store, superblock: &Superblock, directory_table: u64) -> Self {
        store.set_group_table(superblock.groups, superblock.group_count);
        VolumeState {
            store,
            seed: superblock.seed,
            gate: Gate::new(Writer::default),
            claims: Claims::default(),
            counts: VolumeCounts::new(superblock.free_blocks, superblock.inodes),
            cursors: RoomCursors::default(),
            deferred_frees: AtomicUsize::new(0),
            root: superblock.root.into(),
            orphans: superblock.orphans.into(),
            holds: Holds::default(),
            directories: DirectoryTable::new(directory_table),
            bad_tables: Mutex::default(),
        }
    }

    /// Position of the group table.
    pub(crate) fn groups(&self) -> u64 {
        self.store.group_table().0
    }

    /// Blocks in the group table.
    pub(crate) fn group_count(&self) -> u64 {
        self.store.group_table().1
    }

    /// Moves the group table. The caller has exclusive access.
    pub(crate) fn set_groups(&self, at: u64, count: u64) {
        debug_assert!(
            at > 0 && at.is_multiple_of(BLOCK) && count > 0,
            "a group table of {count} blocks at {at}"
        );
        self.store.set_group_table(at, count);
    }

    /// Counts frees that the next commit will make durable.
    pub(crate) fn add_deferred_frees(&self, count: usize) {
        self.deferred_frees.fetch_add(count, Ordering::Relaxed);
    }

    /// Removes frees that are durable, or that no commit can make.
    pub(crate) fn remove_deferred_frees(&self, count: usize) {
        let before = self.deferred_frees.fetch_sub(count, Ordering::Relaxed);
        debug_assert!(before >= count, "{count} frees of {before} leave");
    }

    /// True where the next commit will free something.
    pub(crate) fn has_deferred_frees(&self) -> bool {
        self.deferred_frees.load(Ordering::Relaxed) > 0
    }

    /// Number of the root directory's inode.
    #[inline(always)]
    pub(crate) fn root(&self) -> u64 {
        self.root.load(Ordering::Relaxed)
    }

    /// Makes another inode the root directory.
    pub(crate) fn set_root(&self, root: u64) {
        debug_assert_ne!(root, 0, "inode numbers begin above 0");
        self.root.store(root, Ordering::Relaxed);
    }

    /// Number of the orphan directory's inode.
    pub(crate) fn orphans(&self) -> u64 {
        self.orphans.load(Ordering::Relaxed)
    }

    /// Makes another inode the orphan directory.
    pub(crate) fn set_orphans(&self, orphans: u64) {
        debug_assert_ne!(orphans, 0, "inode numbers begin above 0");
        self.orphans.store(orphans, Ordering::Relaxed);
    }

    /// Remembers a block of the group table or of a chunk table that did not verify.
    pub(crate) fn add_bad_table(&self, at: u64) {
        self.bad_tables.lock().insert(at);
    }

    /// True for a block of the group table or of a chunk table that did not verify.
    pub(crate) fn is_bad_table(&self, at: u64) -> bool {
        self.bad_tables.lock().contains(&at)
    }

    /// Forgets which tables did not verify, after a check that left no damage.
    pub(crate) fn forget_bad_tables(&self) {
        self.bad_tables.lock().clear();
    }
}
