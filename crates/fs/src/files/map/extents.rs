//! Extents in the inode: the file map of a file that has few of them.
//!
//! They lie after the first [`INODE_CORE`] bytes, in the order of the file, and their number is in the
//! inode's flags. A change loads the list, makes another list of it, and stores that: [`Tx::put`] writes the
//! words that differ, so that an append to the last extent is one write.
//!
//! [`Tx::put`]: lanefs_store::Tx::put

use super::mapping::{MapExtent, Mapping};
use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::files::inode::{Inode, extent_count, set_extent_count};
use crate::vocabulary::error::Outcome;
use lanefs_format::{BLOCK, BlockSize, Field, INODE_CORE, Pointer, Word, extent as f};
use lanefs_store::Fault;
use smallvec::SmallVec;

/// The extents of a file, in order; a change of a full inode makes two more at most.
pub(super) type MapExtents = SmallVec<[MapExtent; 12]>;

/// Longest extent, and highest first block of one.
const MOST_BLOCKS: u64 = u32::MAX as u64;

fn field<T: Word>(index: usize, field: Field<T>) -> Field<T> {
    Field::at(INODE_CORE + index * f::SIZE + field.offset)
}

/// Number of extents in the inode, which has room for them.
#[inline(always)]
fn count(node: &Inode<'_>) -> Outcome<usize> {
    let count = extent_count(node.flags());
    if count * f::SIZE > node.room()? {
        return Err(Fault::damaged(node.view.at(), "more extents than the inode has room for"));
    }
    Ok(count)
}

/// Reads an extent, which must not begin before the end of the one before it.
#[inline(always)]
fn read(core: &Core<'_>, node: &Inode<'_>, index: usize, before: u64) -> Outcome<MapExtent> {
    let bad = |why| Err(Fault::damaged(node.view.at(), why));
    let first = u64::from(node.view.get(field(index, f::FIRST)));
    let blocks = u64::from(node.view.get(field(index, f::BLOCKS)));
    let Ok(Some(Pointer { offset: at, indirect: false, unwritten, size: BlockSize::Small })) =
        Pointer::decode(node.view.get(field(index, f::POINTER)))
    else {
        return bad("an invalid pointer in an extent");
    };
    if blocks == 0 || first < before {
        return bad("extents that overlap or are not in order");
    }
    if at + blocks * BLOCK > core.store.bytes() {
        return bad("an extent ends past the volume");
    }
    Ok(MapExtent { first, blocks, at, unwritten })
}

/// Looks up the extent at `block`, `max` blocks of it at most.
#[inline(always)]
pub(super) fn lookup(core: &Core<'_>, node: &Inode<'_>, block: u64, max: u64) -> Outcome<Mapping> {
    let mut end = 0;
    for index in 0..count(node)? {
        let extent = read(core, node, index, end)?;
        if block < extent.first {
            return Ok(Mapping::hole(extent.first - block, max));
        }
        end = extent.end();
        if block < end {
            return Ok(Mapping { state: extent.state(block - extent.first), blocks: (end - block).min(max) });
        }
    }
    Ok(Mapping::hole(u64::MAX, max))
}

/// Reads all extents.
pub(super) fn load(core: &Core<'_>, node: &Inode<'_>) -> Outcome<MapExtents> {
    let mut extents = MapExtents::new();
    for index in 0..count(node)? {
        let extent = read(core, node, index, extents.last().map_or(0, MapExtent::end))?;
        extents.push(extent);
    }
    Ok(extents)
}

/// Writes extents in the place of those in the inode; false, and nothing is written, where it has no room for
/// them.
pub(super) fn store(edit: &mut Edit<'_>, node: Inode<'_>, extents: &[MapExtent]) -> Outcome<bool> {
    let too_far = |extent: &MapExtent| extent.first > MOST_BLOCKS || extent.blocks > MOST_BLOCKS;
    if extents.len() * f::SIZE > node.room()? || extents.iter().any(too_far) {
        return Ok(false);
    }
    for index in 0..extents.len().max(count(&node)?) {
        let (pointer, first, blocks) = extents.get(index).map_or((Pointer::HOLE, 0, 0), |extent| {
            let unwritten = extent.unwritten;
            let pointer = Pointer { unwritten, ..Pointer::data(extent.at, BlockSize::Small) };
            (pointer.word(), extent.first as u32, extent.blocks as u32)
        });
        edit.tx.put(node.view, field(index, f::POINTER), pointer);
        edit.tx.put(node.view, field(index, f::FIRST), first);
        edit.tx.put(node.view, field(index, f::BLOCKS), blocks);
    }
    set_extent_count(edit, node, extents.len());
    Ok(true)
}

/// Adds an extent at the end, or joins it to the last one.
fn push(extents: &mut MapExtents, extent: MapExtent) {
    match extents.last_mut() {
        _ if extent.blocks == 0 => {}
        Some(last) if last.joins(&extent) && last.blocks + extent.blocks <= MOST_BLOCKS => {
            last.blocks += extent.blocks;
        }
        _ => extents.push(extent),
    }
}

/// The extents with one more, which lies in a hole.
pub(super) fn insert(extents: &[MapExtent], new: MapExtent) -> MapExtents {
    let index = extents.partition_point(|extent| extent.first < new.first);
    let mut all = MapExtents::new();
    for extent in extents[..index].iter().chain([&new]).chain(&extents[index..]) {
        push(&mut all, *extent);
    }
    all
}

/// The extents after a change of the blocks from `first` up to `end` (exclusive): `change` returns the new
/// state of the part of an extent that lies there, or nothing where it goes.
pub(super) fn change(
    extents: &[MapExtent],
    first: u64,
    end: u64,
    mut change: impl FnMut(MapExtent) -> Outcome<Option<MapExtent>>,
) -> Outcome<MapExtents> {
    let mut all = MapExtents::new();
    for extent in extents {
        let (low, high) = (first.clamp(extent.first, extent.end()), end.clamp(extent.first, extent.end()));
        push(&mut all, extent.part(extent.first, low));
        if low < high
            && let Some(changed) = change(extent.part(low, high))?
        {
            push(&mut all, changed);
        }
        push(&mut all, extent.part(high, extent.end()));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(first: u64, blocks: u64, at: u64) -> MapExtent {
        MapExtent { first, blocks, at: at * BLOCK, unwritten: false }
    }

    fn unwritten(first: u64, blocks: u64, at: u64) -> MapExtent {
        MapExtent { unwritten: true, ..extent(first, blocks, at) }
    }

    #[test]
    fn runs_join_where_file_and_volume_go_on() {
        let two = [extent(0, 2, 100), extent(5, 1, 105)];
        assert_eq!(insert(&two, extent(2, 3, 102)).as_slice(), [extent(0, 6, 100)]);
        assert_eq!(insert(&two, extent(2, 1, 102)).as_slice(), [extent(0, 3, 100), extent(5, 1, 105)]);
        assert_eq!(insert(&two, extent(4, 1, 104)).as_slice(), [extent(0, 2, 100), extent(4, 2, 104)]);
        assert_eq!(insert(&two, extent(3, 1, 102)).as_slice(), [two[0], extent(3, 1, 102), two[1]]);
        assert_eq!(insert(&two, unwritten(2, 3, 102)).as_slice(), [two[0], unwritten(2, 3, 102), two[1]]);
        assert_eq!(insert(&two, extent(6, 1, 9)).as_slice(), [two[0], two[1], extent(6, 1, 9)]);
        let long = [extent(0, MOST_BLOCKS, 100)];
        assert_eq!(
            insert(&long, extent(MOST_BLOCKS, 1, 100 + MOST_BLOCKS)).len(),
            2,
            "a length that its field cannot hold"
        );
    }

    #[test]
    fn a_change_splits_runs_at_its_ends() {
        let two = [unwritten(0, 10, 100), extent(20, 10, 200)];
        let written = |extent: MapExtent| Ok(Some(MapExtent { unwritten: false, ..extent }));
        let done = change(&two, 4, 6, written).expect("no error");
        assert_eq!(done.as_slice(), [unwritten(0, 4, 100), extent(4, 2, 104), unwritten(6, 4, 106), two[1]]);
        assert_eq!(change(&done, 0, 10, written).expect("no error").as_slice(), [extent(0, 10, 100), two[1]]);
        let mut gone = Vec::new();
        let remove = |extent: MapExtent| {
            gone.push(extent);
            Ok(None)
        };
        let left = change(&two, 8, 25, remove).expect("no error");
        assert_eq!(left.as_slice(), [unwritten(0, 8, 100), extent(25, 5, 205)]);
        assert_eq!(gone, [unwritten(8, 2, 108), extent(20, 5, 200)]);
        for (first, end) in [(10, 20), (30, u64::MAX), (0, 0), (5, 5)] {
            assert_eq!(change(&two, first, end, |_| Ok(None)).expect("no error").as_slice(), two);
        }
        assert!(change(&two, 0, u64::MAX, |_| Ok(None)).expect("no error").is_empty());
    }
}
