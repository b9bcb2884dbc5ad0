//! Hash trees, region index blocks and the small index.

use crate::check::directories::leaves::DirectoryScan;
use crate::check::directories::lists::{ListScan, RegionScan};
use crate::check::outcome::findings::Tally;
use crate::check::outcome::invariants as iv;
use crate::check::pass::Pass;
use crate::names::dir::Dentry;
use crate::vocabulary::error::Outcome;
use lanefs_format::dir::{
    BUCKET_SLOTS, BUCKETS, MAX_TREE_LEVEL, Slot, TREE_MAX, index as x, small_tag, tree as t,
};
use lanefs_format::{BLOCK, BlockKind, UNIT};
use lanefs_store::View;

/// Form of a child: a region or a tree block.
const REGION: u32 = 2;
const TREE: u32 = 3;

/// A tree block, and its description in the block above it.
struct TreeNode {
    from: u64,
    at: u64,
    level: Option<u8>,
    lowest: u32,
    /// Lowest hash after it; above all hashes at the right edge.
    end: u64,
}

/// The content of the tree: lowest hash and position of each region's index block, in order.
#[derive(Default)]
pub(in crate::check) struct TreeScan {
    pub(in crate::check) regions: Vec<(u32, u64)>,
    pub(in crate::check) blocks: u64,
    /// Level and number of children of the root block.
    pub(in crate::check) top: Option<(u8, u8)>,
}

impl Pass<'_, '_> {
    /// Walks a tree from its root block.
    pub(in crate::check) fn walk_tree(
        &mut self,
        tally: &mut Tally,
        dir: &mut DirectoryScan,
        root: u64,
        from: u64,
    ) -> Outcome<TreeScan> {
        let mut tree = TreeScan::default();
        let root = TreeNode { from, at: root, level: None, lowest: 0, end: 1 << 32 };
        self.walk_tree_block(tally, dir, &mut tree, &root)?;
        Ok(tree)
    }

    /// One tree block. The level falls with each step down, which bounds the recursion.
    fn walk_tree_block(
        &mut self,
        tally: &mut Tally,
        dir: &mut DirectoryScan,
        tree: &mut TreeScan,
        node: &TreeNode,
    ) -> Outcome<()> {
        let Some(view) = self.claim(tally, node.from, node.at, BlockKind::Tree)? else {
            dir.broken = true;
            return Ok(());
        };
        tree.blocks += 1;
        if view.get(t::OWNER) != tally.ino {
            dir.bad(tally, node.at, &iv::TREE_OWNER);
        }
        let level = view.get(t::LEVEL);
        if !(1..=MAX_TREE_LEVEL).contains(&level) || node.level.is_some_and(|expected| expected != level) {
            dir.bad(tally, node.at, &iv::TREE_LEVEL);
            return Ok(());
        }
        let count = usize::from(view.get(t::COUNT));
        if !(1..=TREE_MAX).contains(&count) {
            dir.bad(tally, node.at, &iv::TREE_COUNT);
            return Ok(());
        }
        if node.level.is_none() {
            tree.top = Some((level, count as u8));
        }
        let hash = |i: usize| u64::from(view.get(t::HASHES.index(i)));
        for i in 0..count {
            let end = if i + 1 < count { hash(i + 1) } else { node.end };
            let in_order = hash(i) < end && end <= node.end && (i > 0 || hash(0) == u64::from(node.lowest));
            if !in_order {
                dir.bad(tally, node.at, &iv::TREE_ORDER);
            }
            let lowest = hash(i) as u32;
            let at = view.get(t::POSITIONS.index(i));
            match view.get(t::FORMS.index(i)) {
                REGION if level == 1 => tree.regions.push((lowest, at)),
                TREE if level > 1 => {
                    let below = TreeNode { from: node.at, at, level: Some(level - 1), lowest, end };
                    self.walk_tree_block(tally, dir, tree, &below)?;
                }
                _ => dir.bad(tally, node.at, &iv::TREE_FORM),
            }
        }
        Ok(())
    }

    /// Claims the region index blocks that the tree names. Returns the first region's dummy, where the list
    /// begins.
    pub(in crate::check) fn claim_indexes(
        &mut self,
        tally: &mut Tally,
        dir: &mut DirectoryScan,
        tree: &mut TreeScan,
        from: u64,
    ) -> Outcome<Option<u64>> {
        let mut head = None;
        for rank in 0..tree.regions.len() {
            let (_, at) = tree.regions[rank];
            let Some(view) = self.claim(tally, from, at, BlockKind::Index)? else {
                dir.broken = true;
                continue;
            };
            tree.blocks += 1;
            if view.get(x::OWNER) != tally.ino {
                dir.bad(tally, at, &iv::INDEX_OWNER);
            }
            if rank == 0 {
                head = Some(view.get(x::DUMMY));
            }
        }
        Ok(head)
    }

    /// Compares tree, index blocks and list.
    pub(in crate::check) fn check_regions(
        &mut self,
        tally: &mut Tally,
        dir: &mut DirectoryScan,
        tree: &TreeScan,
        list: &ListScan,
    ) -> Outcome<()> {
        if tree.regions.len() != list.regions.len() {
            dir.bad(tally, tree.regions.first().map_or(0, |(_, at)| *at), &iv::REGION_INDEX);
        }
        for ((lowest, at), region) in tree.regions.iter().zip(&list.regions) {
            let Some(view) = self.load(*at, BlockKind::Index)? else { continue };
            if *lowest != region.lowest || region.index != *at || view.get(x::DUMMY) != region.dummy {
                dir.bad(tally, *at, &iv::REGION_INDEX);
            }
            self.check_index(tally, dir, view, region, list);
        }
        Ok(())
    }

    /// One region index block: every entry that has a slot once, where lookups find it.
    fn check_index(
        &self,
        tally: &mut Tally,
        dir: &mut DirectoryScan,
        view: View<'_>,
        region: &RegionScan,
        list: &ListScan,
    ) {
        let slot = |bucket: usize, i: usize| view.get(x::SLOTS.index(bucket * BUCKET_SLOTS + i));
        let mut there = Vec::with_capacity(region.entries.len());
        for bucket in 0..BUCKETS {
            for i in 0..BUCKET_SLOTS {
                let slot_here = Slot(slot(bucket, i));
                if slot_here.position() == 0 {
                    continue;
                }
                there.push((slot_here.position(), slot_here.tag()));
                let home = Slot::home(slot_here.tag());
                let steps = (bucket + BUCKETS - home) % BUCKETS;
                let passes = |step: usize| slot((home + step) % BUCKETS, 0) & Slot::OVERFLOW != 0;
                if !(0..steps).all(passes) || i > 0 && slot_here.0 & Slot::OVERFLOW != 0 {
                    dir.bad(tally, view.at(), &iv::INDEX_PROBE);
                }
            }
        }
        let unindexed = region.unindexed();
        if view.get(x::UNINDEXED) as usize != unindexed.len() {
            dir.bad(tally, view.at(), &iv::INDEX_UNINDEXED);
        }
        let with_slot = &list.entries[unindexed.end..region.entries.end];
        let mut wanted: Vec<(u64, u16)> = with_slot.iter().map(|(hash, at)| (*at, *hash as u16)).collect();
        there.sort_unstable();
        wanted.sort_unstable();
        if there != wanted {
            dir.bad(tally, view.at(), &iv::INDEX_SLOTS);
        }
    }

    /// Checks the index in the inode: in a small directory it has every entry once, otherwise nothing.
    pub(in crate::check) fn check_small_index(
        &mut self,
        tally: &mut Tally,
        dir: &mut DirectoryScan,
        inode: &[u8],
        small: Option<(u64, &ListScan)>,
    ) {
        let size = self.core.store.inode_size();
        let inode_at = tally.ino * size.bytes();
        let mut there = Vec::new();
        for slot in 0..size.small_entries() {
            let byte = |offset: usize| inode.get(offset + slot).copied().unwrap_or(0);
            let (tag, unit) = (byte(size.small_tags()), byte(size.small_units()));
            if unit != 0 {
                there.push((u64::from(unit) * UNIT, tag));
            }
        }
        let mut wanted = Vec::new();
        if let Some((leaf, list)) = small {
            let in_leaf = |at: u64| at & (BLOCK - 1);
            wanted = list.entries.iter().map(|(hash, at)| (in_leaf(*at), small_tag(*hash))).collect();
            let head = Dentry::at(self.core, leaf + lanefs_format::dir::LEAF_HEADER_UNITS as u64 * UNIT);
            if list.regions.len() != 1 || !head.is_ok_and(|head| head.is_dummy() && head.ino() == 0) {
                dir.bad(tally, leaf, &iv::REGION_INDEX);
            }
        }
        there.sort_unstable();
        wanted.sort_unstable();
        if there != wanted {
            dir.bad(tally, inode_at, &iv::SMALL_INDEX);
        }
    }
}
