//! Growth of a volume.

use crate::edit::Edit;
use crate::error::{Error, Outcome, Result};
use crate::extent::Extent;
use crate::space;
use crate::volume::Volume;
use lanefs_format::{BLOCK, BlockKind, Code, GROUP, MAX_VOLUME};
use lanefs_store::Fault;

impl Volume {
    /// Grows the volume to `size` bytes (rounded down to a multiple of the block size).
    ///
    /// # Errors
    /// [`Error::Image`] for a size below the present one or too large; no room for the longer group table;
    /// the device's.
    pub fn grow(&self, size: u64) -> Result<()> {
        let refuse = |why: String| Error::Image { what: "cannot grow".into(), why };
        let bytes = size & !(BLOCK - 1);
        let old = self.shared.state.store.bytes();
        if bytes < old {
            return Err(refuse(format!("the volume has {old} bytes already; it cannot shrink to {bytes}")));
        }
        if bytes > MAX_VOLUME {
            return Err(refuse(format!("a volume ends at {} TiB", MAX_VOLUME >> 40)));
        }
        if bytes == old {
            return Ok(());
        }
        let shared = &self.shared;
        shared.begin_changes()?;
        // The layout changes with exclusive access, and all earlier changes must be on the device before.
        let _lock = shared.lock_commits();
        let mut closed = shared.state.gate.close_to_change(&shared.state.store);
        if !shared.accepts_changes() {
            return Err(Code::ReadOnly.into());
        }
        shared.commit_exclusive(shared.recall_prealloc(&mut closed)?)?;
        let old_table = (shared.state.groups(), shared.state.group_count());
        let count = bytes.div_ceil(GROUP);
        shared
            .state
            .store
            .grow(bytes)
            .map_err(|source| Error::Io { what: "growing the volume".into(), source })?;
        let grown = loop {
            let done =
                shared.change_exclusive(&mut closed, &mut |edit| grow(edit, old_table, (old, bytes), count));
            match done {
                Err(Fault::Miss { at, want }) => shared.state.store.fetch(at, want)?,
                done => break done,
            }
        };
        if let Err(fault) = grown {
            shared.state.set_groups(old_table.0, old_table.1);
            shared
                .state
                .store
                .grow(old)
                .map_err(|source| Error::Io { what: "shrinking back".into(), source })?;
            return Err(fault.into());
        }
        shared.commit_exclusive(shared.recall_prealloc(&mut closed)?)?;
        // The superblock may refer to the new table only after the table is on the device.
        shared.state.store.checkpoint()?;
        let (groups, group_count) = (shared.state.groups(), shared.state.group_count());
        self.update_superblock(|s| {
            (s.volume_bytes, s.groups, s.group_count) = (bytes, groups, group_count);
        })
    }
}

/// Adapts the tables of the volume to its new size.
fn grow(edit: &mut Edit<'_>, old_table: (u64, u64), size: (u64, u64), count: u64) -> Outcome<()> {
    let ((old_at, old_count), (old, bytes)) = (old_table, size);
    let core = edit.core;
    let at = if count == old_count { old_at } else { find_table_position(edit, old, bytes, count)? };
    if at != old_at {
        for number in 0..old_count {
            let from = space::group(core, number)?;
            let mut block = [0; BLOCK as usize];
            from.copy_to(0, &mut block);
            let to = edit.tx.fresh(at + number * BLOCK, BlockKind::Group, number)?;
            edit.tx.fill(to, 0, &block);
        }
        for number in 0..old_count {
            edit.tx.vacate(old_at + number * BLOCK);
        }
    }
    core.set_groups(at, count);
    let outcome = extend(edit, old_table, size);
    if outcome.is_err() {
        // The attempt may be repeated when the missing blocks are resident.
        core.set_groups(old_at, old_count);
    }
    outcome
}

/// Position for a table of `count` blocks: at the start of the new space where it has room, else in free
/// space.
fn find_table_position(edit: &mut Edit<'_>, old: u64, bytes: u64, count: u64) -> Outcome<u64> {
    if (bytes - old) / BLOCK > count {
        return Ok(old);
    }
    let extent = space::alloc_direct(edit, None, count, count)?;
    if extent.count < count {
        return Err(Code::NoSpace.into());
    }
    Ok(extent.first * BLOCK)
}

/// Makes the new groups, extends the last old one to its new end, and accounts for the blocks of the table.
fn extend(edit: &mut Edit<'_>, old_table: (u64, u64), size: (u64, u64)) -> Outcome<()> {
    let ((old_at, old_count), (old, bytes)) = (old_table, size);
    let (at, count) = (edit.core.groups(), edit.core.group_count());
    let partial = (old_count * GROUP).min(bytes) - old;
    if partial > 0 {
        space::clear_bits(edit, Extent::new(old / BLOCK, partial / BLOCK))?;
    }
    space::init_groups(edit, old_count, count, bytes)?;
    if at != old_at {
        if at >= old {
            space::reserve(edit, Extent::new(at / BLOCK, count))?;
        }
        space::free_extent(edit, Extent::new(old_at / BLOCK, old_count))?;
    }
    Ok(())
}
