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
use crate::attempt::edit::Edit;
use crate::mounted::cursors::{RoomCursor, RoomKind, Walk};
use crate::vocabulary::error::Outcome;
use lanefs_format::{BLOCK, BLOCKS_PER_CHUNK, BLOCKS_PER_GROUP, Field, group as f};
use lanefs_store::{Fault, View};
use std::ops::Range;

/// Groups (32 GiB) that a search looks at from a cursor on.
const NEAR: u64 = 256;

/// Groups that a search for room in metadata chunks looks at before it takes a new chunk or block.
const FEW_GROUPS: u64 = 4;

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
    from..from.saturating_add(FEW_GROUPS).min(groups)
}

/// Groups whose blocks a walk reads at a time, past the cache: 1 MiB.
const READ: u64 = 256;

/// The room of a group as its block says: a hint.
#[derive(Clone, Copy)]
struct GroupRoom {
    /// Free blocks.
    free: u64,
    /// Metadata chunks with free blocks.
    blocks: u64,
    /// Metadata chunks with free inodes.
    inodes: u64,
}

/// Reads the room of groups in their order. The group table may be larger than the cache, so that an attempt
/// could never have all of it: blocks that are not resident are read past the cache.
#[derive(Default)]
struct RoomReader {
    first: u64,
    bytes: Vec<u8>,
}

impl RoomReader {
    fn read(&mut self, core: &Core<'_>, number: u64) -> Outcome<GroupRoom> {
        let miss = match peek(core, number) {
            Ok(view) => {
                return Ok(GroupRoom::of(
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
        Ok(GroupRoom::of(field(f::FREE), field(f::METADATA), field(f::ROOM), field(f::INODE_ROOM)))
    }
}

impl GroupRoom {
    fn of(free: u64, metadata: u64, blocks: u64, inodes: u64) -> Self {
        GroupRoom { free, blocks: blocks & metadata, inodes: inodes & metadata }
    }
}

/// The walks of a writer, by what they look for.
#[derive(Clone, Copy, PartialEq, Eq)]
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

impl Kind {
    /// True where a group with this room may have what a walk looks for, in `least` free blocks.
    fn may_be_in(self, room: GroupRoom, least: u64) -> bool {
        match self.room() {
            RoomKind::Blocks => room.blocks != 0,
            RoomKind::Inodes => room.inodes != 0,
            RoomKind::Free => room.free >= least,
        }
    }

    /// True where all walks of the kind look for the same.
    fn is_one(self) -> bool {
        !matches!(self, Kind::GoodHoles | Kind::Extents)
    }

    /// True where a walk is certain to find nothing.
    fn is_hopeless(self, edit: &Edit<'_>) -> bool {
        let needs_free = matches!(self.room(), RoomKind::Free);
        needs_free && is_full(edit) || self.is_one() && self.is_exhausted(edit)
    }

    /// True where the last walk of this kind has found nothing, and a next one would not, either.
    fn is_exhausted(self, edit: &Edit<'_>) -> bool {
        edit.core.state.cursors.is_exhausted(self as usize, self.room())
    }

    fn room(self) -> RoomKind {
        match self {
            Kind::Blocks => RoomKind::Blocks,
            Kind::Inodes => RoomKind::Inodes,
            _ => RoomKind::Free,
        }
    }
}

/// True where no block is free, so that a full volume refuses each change without a look at its groups.
pub(super) fn is_full(edit: &Edit<'_>) -> bool {
    Kind::AnyHole.is_exhausted(edit) || edit.core.state.cursors.believes_count() && counted(edit) <= 0
}

/// Free blocks that are counted, preallocated ones included. Other writers may change it meanwhile: it is
/// exact where the gate is closed, as in the last attempt before a change is refused.
fn counted(edit: &Edit<'_>) -> i64 {
    edit.core.state.counts.sum().free_blocks.wrapping_add(edit.counts.free_blocks)
}

/// Walks over all groups, from `home` on, until `find` finds something in one that may have it: `least` is
/// the number of free blocks.
pub(super) fn walk<T>(
    edit: &mut Edit<'_>,
    kind: Kind,
    least: u64,
    home: u64,
    mut find: impl FnMut(&mut Edit<'_>, u64) -> Outcome<Option<T>>,
) -> Outcome<Option<T>> {
    if kind.is_hopeless(edit) {
        return Ok(None);
    }
    let (groups, cursors) = (edit.core.group_count(), &edit.core.state.cursors);
    let begin = |next: u64| Walk {
        next,
        left: groups,
        frees: cursors.frees(),
        changes: cursors.changes(kind.room()),
        least,
    };
    let mut walk = edit.walks[kind as usize];
    if walk.left == 0 || walk.next >= groups || walk.least > least {
        walk = begin(home % groups);
    }
    let mut reader = RoomReader::default();
    loop {
        while walk.left > 0 {
            edit.walks[kind as usize] = walk;
            if kind.may_be_in(reader.read(edit.core, walk.next)?, least)
                && let Some(found) = find(edit, walk.next)?
            {
                edit.walks[kind as usize].left = 0;
                cursors.move_frontier_to(walk.next);
                return Ok(Some(found));
            }
            walk = Walk { next: (walk.next + 1) % groups, left: walk.left - 1, ..walk };
        }
        // Blocks that were freed since may lie in groups that the walk has passed.
        if walk.frees == cursors.frees() {
            edit.walks[kind as usize].left = 0;
            note_in_vain(edit, kind, walk.changes);
            return Ok(None);
        }
        walk = begin(walk.next);
    }
}

/// Notes what a walk that has found nothing says about the next ones. It began after `changes` changes.
fn note_in_vain(edit: &Edit<'_>, kind: Kind, changes: u64) {
    let cursors = &edit.core.state.cursors;
    if kind.is_one() {
        cursors.set_exhausted(kind as usize, changes);
    }
    if kind == Kind::AnyHole && counted(edit) == 0 {
        cursors.believe_count();
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
