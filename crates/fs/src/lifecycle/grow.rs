//! Growth of a volume.
//!
//! The tables move: the group table always, the journal when the larger volume deserves a larger one. All
//! that is written before the superblock lies where the old superblock names nothing, so a crash leaves the
//! old volume or the new one.
//!
//! 1. All changes so far are committed and in place, and the log is empty. The gate stays closed.
//! 2. The new group table is [written](crate::lifecycle::group_table) piece by piece: copies of the old table's blocks,
//!    then the new groups.
//! 3. A transaction in memory adds the rest of the last old group to the new table, and marks the new tables
//!    as used and the old ones as free there. Its blocks are written in place and flushed, then the headers
//!    of the new journal.
//! 4. The superblock names the new tables. From here on the volume is the larger one.
//!
//! Until the third step has ended the growth may fail, or be interrupted: the volume goes on with its old
//! tables, which nothing has changed.

use super::mkfs;
use crate::attempt::edit::Edit;
use crate::mounted::writer::Writer;
use crate::running::volume::Volume;
use crate::space::{self, Reserved};
use crate::vocabulary::error::{Error, ErrorKind, Outcome, Result};
use crate::vocabulary::extent::Extent;
use lanefs_format::{BLOCK, BLOCKS_PER_GROUP, Code, MAX_VOLUME};
use lanefs_store::{Closed, Fault};

/// Size of a volume and position of its tables, in blocks.
#[derive(Clone, Copy)]
struct Layout {
    blocks: u64,
    groups: Extent,
    journal: Extent,
}

/// # Growth
impl Volume {
    /// Grows the volume to `size` bytes (rounded down to a multiple of the block size). After a crash it has
    /// the old size or the new one. Large sizes take seconds, in which all changes wait;
    /// [`interrupt_waits_by`](Self::interrupt_waits_by) ends them.
    ///
    /// # Errors
    /// [`Error::Image`] for a size below the present one or too large, also for
    /// [`OpenOptions::growth`](crate::OpenOptions::growth); no room for the longer group table;
    /// the device's; `EINTR`. The volume is as large as before then.
    pub fn grow(&self, size: u64) -> Result<()> {
        let refuse = |why: String| Error::Image { kind: ErrorKind::Size, what: "cannot grow".into(), why };
        let bytes = size & !(BLOCK - 1);
        let old_bytes = self.shared.state.store.bytes();
        if bytes < old_bytes {
            let why = format!("the volume has {old_bytes} bytes already; it cannot shrink to {bytes}");
            return Err(refuse(why));
        }
        if bytes > MAX_VOLUME {
            return Err(refuse(format!("a volume ends at {} TiB", MAX_VOLUME >> 40)));
        }
        if bytes == old_bytes {
            return Ok(());
        }
        let room = self.shared.state.store.room();
        if bytes > room {
            return Err(refuse(format!("it was opened with room for {room} bytes, and {bytes} need more")));
        }
        let shared = &self.shared;
        shared.begin_changes()?;
        let _lock = shared.lock_commits();
        let mut closed = shared.state.gate.close_to_change(&shared.state.store);
        if !shared.accepts_changes() {
            return Err(Code::ReadOnly.into());
        }
        shared.commit_exclusive(shared.recall_prealloc(&mut closed)?)?;
        // Recovery must not write copies of the old log over blocks that are free in the new volume.
        shared.state.store.checkpoint()?;
        let resize = |bytes: u64, what: &str| {
            let resized = shared.state.store.grow(bytes);
            resized.map_err(|source| Error::Io { what: what.into(), source })
        };
        resize(bytes, "growing the volume")?;
        let old = self.layout(old_bytes);
        let new = match self.move_tables(&mut closed, &old, bytes / BLOCK) {
            Ok(new) => new,
            Err(fault) => {
                resize(old_bytes, "shrinking back")?;
                return Err(fault.into());
            }
        };
        let done = self.switch(&mut closed, &old, &new);
        if let Err(error) = done.as_ref() {
            // The device may have the old volume or the new one. The next open finds out.
            shared.state.store.give_up(Fault::Io { at: 0, doing: "growing", errno: error.errno() });
        }
        done
    }

    fn layout(&self, bytes: u64) -> Layout {
        let (state, superblock) = (&self.shared.state, self.superblock());
        Layout {
            blocks: bytes / BLOCK,
            groups: Extent::new(state.groups() / BLOCK, state.group_count()),
            journal: Extent::new(superblock.journal / BLOCK, superblock.journal_blocks),
        }
    }

    /// Makes the tables of the larger volume.
    fn move_tables(&self, closed: &mut Closed<'_, Writer>, old: &Layout, blocks: u64) -> Outcome<Layout> {
        let (shared, count) = (&self.shared, blocks.div_ceil(BLOCKS_PER_GROUP));
        let groups = match find_room(old.blocks, blocks, count) {
            Some(groups) => groups,
            None => self
                .change_alone(closed, &mut |edit| space::find_extent(edit, count))?
                .ok_or(Code::NoSpace)?,
        };
        let sums = shared.state.store.has_data_checksums();
        let reserved = Reserved { blocks, fixed: vec![groups], sums };
        let moved = shared.write_table(closed, groups, old.groups.count, &reserved).and_then(|free| {
            self.change_alone(closed, &mut |edit| {
                move_tables(edit, old, groups, free, &reserved).inspect_err(|_| {
                    // The attempt may be repeated when the missing blocks are resident.
                    edit.core.set_groups(old.groups.first * BLOCK, old.groups.count);
                })
            })
        });
        if moved.is_err() {
            shared.forget_table(closed, groups)?;
        }
        moved
    }

    /// Runs a change with the gate closed. Missing blocks are fetched.
    fn change_alone<T>(
        &self,
        closed: &mut Closed<'_, Writer>,
        change: &mut impl FnMut(&mut Edit<'_>) -> Outcome<T>,
    ) -> Outcome<T> {
        loop {
            match self.shared.change_exclusive(closed, change) {
                Err(Fault::Miss { at, want }) => self.shared.state.store.fetch(at, want)?,
                done => return done,
            }
        }
    }

    /// Writes the new tables, and then the superblock that names them.
    fn switch(&self, closed: &mut Closed<'_, Writer>, old: &Layout, new: &Layout) -> Result<()> {
        let shared = &self.shared;
        shared.commit_in_place(shared.recall_prealloc(closed)?)?;
        let moves = new.journal != old.journal;
        if moves {
            shared.state.store.move_journal(new.journal.first * BLOCK, new.journal.count)?;
        }
        self.update_superblock(|s| {
            s.volume_bytes = new.blocks * BLOCK;
            (s.groups, s.group_count) = (new.groups.first * BLOCK, new.groups.count);
            (s.journal, s.journal_blocks) = (new.journal.first * BLOCK, new.journal.count);
        })?;
        if moves {
            shared.state.store.release_fixed(old.journal.first * BLOCK, old.journal.count);
        }
        Ok(())
    }
}

/// Moves the tables: the group table is the one at `groups` from now on, with `free` free blocks in the
/// groups that are new. Adds the rest of the last old group, and chooses the position of the journal.
fn move_tables(
    edit: &mut Edit<'_>,
    old: &Layout,
    groups: Extent,
    free: u64,
    reserved: &Reserved,
) -> Outcome<Layout> {
    let blocks = reserved.blocks;
    edit.core.set_groups(groups.first * BLOCK, groups.count);
    edit.counts.free_blocks += free as i64;
    let last = old.groups.count - 1;
    space::lay_out(edit, last, old.blocks - last * BLOCKS_PER_GROUP, reserved)?;
    let is_in_new_space = groups.first >= old.blocks;
    if !is_in_new_space {
        space::reserve(edit, groups)?;
    }
    let from = if is_in_new_space { groups.end() } else { old.blocks };
    let journal = place_journal(edit, old.journal, from, blocks)?;
    // Nobody allocates what is freed before the new superblock is durable: the gate is closed.
    let reserved = Reserved { fixed: vec![groups, journal], ..*reserved };
    edit.vacate(old.groups);
    space::free_table(edit, old.groups, &reserved)?;
    if journal != old.journal {
        space::free_table(edit, old.journal, &reserved)?;
    }
    Ok(Layout { blocks, groups, journal })
}

/// Chooses the position of a larger journal, from block `from` on where there is room. Where there is none
/// anywhere, or the present journal is hardly smaller, that one stays.
fn place_journal(edit: &mut Edit<'_>, old: Extent, from: u64, blocks: u64) -> Outcome<Extent> {
    let count = mkfs::journal_blocks(blocks);
    if old.count == 0 || count <= old.count + old.count / 4 {
        return Ok(old);
    }
    let found = match find_room(from, blocks, count) {
        None => space::find_extent(edit, count)?,
        found => found,
    };
    let Some(journal) = found else { return Ok(old) };
    space::reserve(edit, journal)?;
    Ok(journal)
}

/// Finds room for a table in the new space, which begins at block `from`.
fn find_room(from: u64, end: u64, count: u64) -> Option<Extent> {
    let first = space::clear_of_sums(from, count);
    (first + count <= end).then(|| Extent::new(first, count))
}
