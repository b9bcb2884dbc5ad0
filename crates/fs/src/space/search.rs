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
use crate::edit::Edit;
use crate::error::Outcome;
use lanefs_format::{BLOCK, BLOCKS_PER_CHUNK, BLOCKS_PER_GROUP, Field, group as f};
use lanefs_store::{Fault, View};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Groups (32 GiB) that a search looks at from a cursor on.
const NEAR: u64 = 256;

/// Groups that a search for room in metadata chunks looks at before it takes a new chunk or block.
const FEW: u64 = 4;

/// A frontier that is not known yet.
const UNKNOWN: u64 = u64::MAX;

/// The group where a search for one kind of room goes on. The groups before it had none when a search passed
/// them, or another writer had claimed theirs.
#[derive(Default)]
pub(crate) struct RoomCursor(AtomicU64);

impl RoomCursor {
    /// Room has appeared in a group.
    pub(super) fn go_back_to(&self, number: u64) {
        if number < self.0.load(Relaxed) {
            self.0.fetch_min(number, Relaxed);
        }
    }

    /// The group where the search goes on.
    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Room was found in a group.
    pub(super) fn move_to(&self, number: u64) {
        self.0.store(number, Relaxed);
    }

    /// Group `number`, where the search was, has no room.
    pub(super) fn pass(&self, number: u64) {
        let _ = self.0.compare_exchange(number, number + 1, Relaxed, Relaxed);
    }
}

/// The cursors of a volume's searches.
pub(crate) struct RoomCursors {
    /// Room in inode blocks.
    pub(super) inodes: RoomCursor,
    /// Room in metadata chunks.
    pub(super) blocks: RoomCursor,
    /// Long extents of free blocks.
    pub(super) extents: RoomCursor,
    /// Transactions that made room.
    frees: AtomicU64,
    frontier: AtomicU64,
}

impl Default for RoomCursors {
    fn default() -> Self {
        let [inodes, blocks, extents] = Default::default();
        RoomCursors { inodes, blocks, extents, frees: 0.into(), frontier: UNKNOWN.into() }
    }
}

impl RoomCursors {
    /// Counts a transaction that made room. (Attempts do not count: each would begin its own walk anew.)
    pub(crate) fn count_free(&self) {
        self.frees.fetch_add(1, Relaxed);
    }

    /// A search has found free blocks in a group.
    pub(super) fn move_frontier_to(&self, number: u64) {
        if number > self.frontier.load(Relaxed) && self.frontier.load(Relaxed) != UNKNOWN {
            self.frontier.store(number, Relaxed);
        }
    }
}

/// Tells whether nobody has used a group: all of its blocks are free but those that wait for checksums.
fn is_untouched(view: View<'_>) -> bool {
    view.get(f::METADATA) == 0 && view.get(f::FREE) >= BLOCKS_PER_GROUP - BLOCKS_PER_CHUNK
}

/// Looks for the frontier: an untouched group that follows a used one; the number of groups where there is
/// none.
fn frontier(core: &Core<'_>) -> Outcome<u64> {
    let cursors = &core.state.cursors;
    let known = cursors.frontier.load(Relaxed);
    if known != UNKNOWN {
        return Ok(known);
    }
    let (mut used, mut untouched) = (0, core.group_count());
    while used + 1 < untouched {
        let middle = used.midpoint(untouched);
        *(if is_untouched(peek(core, middle)?) { &mut untouched } else { &mut used }) = middle;
    }
    cursors.frontier.store(untouched, Relaxed);
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

/// A walk over all groups. An attempt that misses a block and begins again goes on where the last one was.
#[derive(Clone, Copy, Default)]
pub(crate) struct Walk {
    next: u64,
    /// Groups that are left, 0 where no walk has begun.
    left: u64,
    /// Number of transactions that had made room when it began.
    frees: u64,
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

/// The walks of a writer. A rollback leaves them.
pub(crate) type Walks = [Walk; 6];

/// Walks over all groups, from `home` on, until `find` finds something in one that `may` have it.
pub(super) fn walk<T>(
    edit: &mut Edit<'_>,
    kind: Kind,
    home: u64,
    may: impl Fn(Room) -> bool,
    mut find: impl FnMut(&mut Edit<'_>, u64) -> Outcome<Option<T>>,
) -> Outcome<Option<T>> {
    let (groups, kind) = (edit.core.group_count(), kind as usize);
    let frees = |edit: &Edit<'_>| edit.core.state.cursors.frees.load(Relaxed);
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
