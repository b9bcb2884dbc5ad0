//! The order in which groups are searched for room.
//!
//! A volume of 16 TiB has 131,072 groups, so no change may look at all of them while there is room elsewhere.
//! Groups are used in order, and so room is mostly in one of two places: a little past the group where it was
//! found last, and at the *frontier*, the first of the groups that nobody has used. A search looks at a few
//! groups in both, and at all others only where these have nothing.
//!
//! The cursors are hints, shared by all writers: the truth is in the blocks of the volume.

use super::groups::peek;
use crate::attempt::Core;
use crate::cursors::{RoomCursor, Walk};
use crate::edit::Edit;
use crate::error::Outcome;
use lanefs_format::{BLOCK, BLOCKS_PER_CHUNK, BLOCKS_PER_GROUP, Field, group as f};
use lanefs_store::{Fault, View};
use std::ops::Range;

/// Groups (32 GiB) that a search looks at from a cursor on.
const NEAR: u64 = 256;

/// Groups that a search for room in metadata chunks looks at before it takes a new chunk or block.
const FEW: u64 = 4;

/// Tells whether nobody has used a group: all of its blocks are free but those that wait for checksums.
fn is_untouched(view: View<'_>) -> bool {
    view.get(f::METADATA) == 0 && view.get(f::FREE) >= BLOCKS_PER_GROUP - BLOCKS_PER_CHUNK
}

/// Looks for the frontier: an untouched group that follows a used one; the number of groups where there is
/// none.
fn frontier(core: &Core<'_>) -> Outcome<u64> {
    let cursors = &core.state.cursors;
    if let Some(known) = cursors.frontier() {
        return Ok(known);
    }
    let (mut used, mut untouched) = (0, core.group_count());
    while used + 1 < untouched {
        let middle = used.midpoint(untouched);
        *(if is_untouched(peek(core, middle)?) { &mut untouched } else { &mut used }) = middle;
    }
    cursors.set_frontier(untouched);
    Ok(untouched)
}

/// Groups that probably have free blocks: those from `home` on, and those at the frontier.
pub(super) fn likely(core: &Core<'_>, home: u64) -> Outcome<impl Iterator<Item = u64> + use<>> {
    let groups = core.group_count();
    let first = home.min(groups)..home.saturating_add(NEAR).min(groups);
    let second = if first.end == groups { groups } else { frontier(core)?.max(first.end).min(groups) };
    Ok(first.chain(second..second.saturating_add(NEAR).min(groups)))
}

/// Groups in which metadata chunks may have room: a few where the search goes on.
pub(super) fn with_chunks(core: &Core<'_>, cursor: &RoomCursor) -> Range<u64> {
    let groups = core.group_count();
    let from = cursor.get().min(groups);
    from..from.saturating_add(FEW).min(groups)
}

/// Groups whose blocks a walk reads at a time, past the cache: 1 MiB.
const READ: u64 = 256;

/// The room of a group as its block says: a hint.
#[derive(Clone, Copy)]
pub(super) struct Room {
    /// Free blocks.
    pub(super) free: u64,
    /// Metadata chunks with free blocks.
    pub(super) blocks: u64,
    /// Metadata chunks with free inodes.
    pub(super) inodes: u64,
}

/// Reads the room of groups in their order. The group table may be larger than the cache, so that an attempt
/// could never have all of it: blocks that are not resident are read past the cache.
#[derive(Default)]
struct RoomReader {
    first: u64,
    bytes: Vec<u8>,
}

impl RoomReader {
    fn read(&mut self, core: &Core<'_>, number: u64) -> Outcome<Room> {
        let miss = match peek(core, number) {
            Ok(view) => {
                return Ok(Room::of(
                    view.get(f::FREE),
                    view.get(f::METADATA),
                    view.get(f::ROOM),
                    view.get(f::INODE_ROOM),
                ));
            }
            Err(miss @ Fault::Miss { .. }) => miss,
            Err(fault) => return Err(fault),
        };
        let block = |reader: &Self| {
            Some(number.checked_sub(reader.first)? * BLOCK).filter(|at| *at < reader.bytes.len() as u64)
        };
        if block(self).is_none() {
            self.first = number;
            self.bytes.resize((READ.min(core.group_count() - number) * BLOCK) as usize, 0);
            let at = core.groups() + number * BLOCK;
            // A fetch finds out what the fault is.
            core.store.store().read_hints(at, &mut self.bytes).map_err(|_| miss)?;
        }
        let at = block(self).ok_or(miss)? as usize;
        let bytes = &self.bytes[at..at + BLOCK as usize];
        let field = |field: Field<u64>| field.read(bytes).unwrap_or(0);
        Ok(Room::of(field(f::FREE), field(f::METADATA), field(f::ROOM), field(f::INODE_ROOM)))
    }
}

impl Room {
    fn of(free: u64, metadata: u64, blocks: u64, inodes: u64) -> Self {
        Room { free, blocks: blocks & metadata, inodes: inodes & metadata }
    }
}

/// The walks of a writer, by what they look for.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A free chunk.
    Chunk,
    /// Holes that are long enough.
    GoodHoles,
    /// Any hole.
    AnyHole,
    /// Free blocks.
    Extents,
    /// Room in a metadata chunk.
    Blocks,
    /// Room in an inode block.
    Inodes,
}

/// Walks over all groups, from `home` on, until `find` finds something in one that `may` have it.
pub(super) fn walk<T>(
    edit: &mut Edit<'_>,
    kind: Kind,
    home: u64,
    may: impl Fn(Room) -> bool,
    mut find: impl FnMut(&mut Edit<'_>, u64) -> Outcome<Option<T>>,
) -> Outcome<Option<T>> {
    let (groups, kind) = (edit.core.group_count(), kind as usize);
    let frees = |edit: &Edit<'_>| edit.core.state.cursors.frees();
    let mut walk = edit.walks[kind];
    if walk.left == 0 || walk.next >= groups {
        walk = Walk { next: home % groups, left: groups, frees: frees(edit) };
    }
    let mut reader = RoomReader::default();
    loop {
        while walk.left > 0 {
            edit.walks[kind] = walk;
            if may(reader.read(edit.core, walk.next)?)
                && let Some(found) = find(edit, walk.next)?
            {
                edit.walks[kind].left = 0;
                edit.core.state.cursors.move_frontier_to(walk.next);
                return Ok(Some(found));
            }
            walk = Walk { next: (walk.next + 1) % groups, left: walk.left - 1, ..walk };
        }
        // Blocks that were freed since may lie in groups that the walk has passed.
        let now = frees(edit);
        if walk.frees == now {
            edit.walks[kind].left = 0;
            return Ok(None);
        }
        walk = Walk { left: groups, frees: now, ..walk };
    }
}

/// The search has left a group without a find. False where the groups that follow were never used, so that
/// the search ends; it goes on there another time.
pub(super) fn goes_on(cursor: &RoomCursor, number: u64, view: View<'_>) -> bool {
    let is_end = is_untouched(view);
    if !is_end {
        cursor.pass(number);
    }
    !is_end
}
