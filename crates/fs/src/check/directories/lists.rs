//! The lists of a directory: the hash-ordered list of entries, and the list of leaf blocks with room.

use crate::check::directories::bits::Bits;
use crate::check::directories::leaves::DirectoryScan;
use crate::check::outcome::findings::Tally;
use crate::check::outcome::invariants as iv;
use crate::check::pass::Pass;
use crate::names::dir::Dentry;
use crate::vocabulary::error::Outcome;
use crate::vocabulary::path::is_name;
use lanefs_format::dir::{REGION_MAX, entry as e, leaf as l};
use lanefs_format::{BlockKind, half_md4};

/// A region, as in the list.
pub(in crate::check) struct RegionScan {
    pub(in crate::check) dummy: u64,
    pub(in crate::check) lowest: u32,
    /// Position of its index block, as in its dummy.
    pub(in crate::check) index: u64,
    /// Position and hash of its entries.
    pub(in crate::check) entries: std::ops::Range<usize>,
}

impl RegionScan {
    /// The entries without a slot: the first ones, where there are more than the index takes.
    pub(in crate::check) fn unindexed(&self) -> std::ops::Range<usize> {
        let count = self.entries.len().saturating_sub(REGION_MAX);
        self.entries.start..self.entries.start + count
    }
}

/// The list of entries.
#[derive(Default)]
pub(in crate::check) struct ListScan {
    pub(in crate::check) regions: Vec<RegionScan>,
    /// Hash and position of the entries in the order of the list.
    pub(in crate::check) entries: Vec<(u32, u64)>,
    /// Entries that are in the list and not in the leaves' bitmaps.
    pub(in crate::check) strays: Vec<u64>,
}

impl Pass<'_, '_> {
    /// Follows the list of entries from `head`, the first dummy.
    pub(in crate::check) fn walk_list(
        &mut self,
        tally: &mut Tally,
        dir: &mut DirectoryScan,
        head: u64,
    ) -> ListScan {
        let mut list = ListScan::default();
        let mut visited = Bits::new(dir.leaves.len() as u64 * 256);
        let (mut at, mut previous) = (head, 0);
        while at != 0 {
            // Each unit is visited once, which ends every circle.
            let Some((unit, entry)) = dir.unit(at).zip(Dentry::at(self.core, at).ok()) else {
                dir.bad(tally, previous.max(head & !15), &iv::LIST_LINK);
                break;
            };
            if !visited.set(unit) {
                dir.bad(tally, at, &iv::LIST_CYCLE);
                break;
            }
            let (hash, is_dummy) = (entry.hash(), entry.is_dummy());
            if !dir.starts.get(unit) {
                let name = entry.name();
                if is_dummy || !is_name(&name) || half_md4(self.core.seed, &name) != hash {
                    dir.bad(tally, previous.max(head & !15), &iv::LIST_LINK);
                    break;
                }
                dir.bad(tally, at, &iv::LEAF_BITMAP);
                list.strays.push(at);
            }
            if entry.view.get(e::PREVIOUS) != previous {
                dir.bad(tally, at, &iv::LIST_LINK);
            }
            let end = list.entries.len();
            if is_dummy {
                self.close_region(tally, dir, &mut list, Some(hash));
                list.regions.push(RegionScan {
                    dummy: at,
                    lowest: hash,
                    index: entry.ino(),
                    entries: end..end,
                });
            } else if let Some(region) = list.regions.last() {
                if hash < region.lowest {
                    dir.bad(tally, at, &iv::REGION_HASH);
                }
                list.entries.push((hash, at));
            } else {
                dir.bad(tally, at, &iv::REGION_ORDER);
                list.entries.push((hash, at));
            }
            (previous, at) = (at, entry.next());
        }
        self.close_region(tally, dir, &mut list, None);
        let missed = dir.starts.count() - dir_visited(&dir.starts, &visited, dir.leaves.len() as u64);
        if missed > 0 {
            let first = dir.leaves.first().map_or(head, |(_, at)| *at);
            dir.bad(tally, first, &iv::LIST_MISSING);
        }
        list
    }

    /// Ends the last region, before a dummy of this hash or at the end of the list.
    fn close_region(
        &self,
        tally: &mut Tally,
        dir: &mut DirectoryScan,
        list: &mut ListScan,
        next: Option<u32>,
    ) {
        let end = list.entries.len();
        let Some(region) = list.regions.last_mut() else {
            if let Some(lowest) = next.filter(|lowest| *lowest != 0) {
                let _ = lowest;
                dir.bad(tally, dir.leaves.first().map_or(0, |(_, at)| *at), &iv::REGION_ORDER);
            }
            return;
        };
        region.entries.end = end;
        let at = region.dummy;
        if let Some(next) = next {
            if next <= region.lowest {
                dir.bad(tally, at, &iv::REGION_ORDER);
            }
            if list.entries[region.entries.clone()].iter().any(|(hash, _)| *hash >= next) {
                dir.bad(tally, at, &iv::REGION_HASH);
            }
        }
        let entries = &list.entries[region.entries.clone()];
        let with_slot = entries.len() - region.unindexed().len();
        if Dentry::at(self.core, at).map_or(usize::MAX, |dummy| dummy.count()) != with_slot {
            dir.bad(tally, at, &iv::REGION_COUNT);
        }
        let has_one_hash = entries.windows(2).all(|pair| pair[0].0 == pair[1].0);
        if entries.len() > REGION_MAX && !has_one_hash {
            dir.bad(tally, at, &iv::REGION_SIZE);
        }
    }

    /// Follows the list of leaf blocks with room from `head`.
    pub(in crate::check) fn walk_room_list(
        &mut self,
        tally: &mut Tally,
        dir: &mut DirectoryScan,
        head: u64,
    ) -> Outcome<()> {
        let mut visited = Bits::new(dir.leaves.len() as u64);
        let (mut at, mut previous) = (head, 0);
        while at != 0 {
            let leaf = self.load_leaf_of(dir, at)?;
            let Some((rank, leaf)) = leaf.filter(|(rank, _)| visited.set(*rank)) else {
                dir.bad(tally, previous, &iv::ROOM_LIST);
                return Ok(());
            };
            let _ = rank;
            if leaf.get(l::PREVIOUS) != previous || leaf.get(l::LISTED) != 1 {
                dir.bad(tally, at, &iv::ROOM_LIST);
            }
            (previous, at) = (at, leaf.get(l::NEXT));
        }
        let mut listed = 0;
        for (_, at) in &dir.leaves {
            listed +=
                u64::from(self.load(*at, BlockKind::Leaf)?.is_some_and(|leaf| leaf.get(l::LISTED) != 0));
        }
        if listed != visited.count() {
            dir.bad(tally, head, &iv::ROOM_LIST);
        }
        Ok(())
    }

    fn load_leaf_of(&self, dir: &DirectoryScan, at: u64) -> Outcome<Option<(u64, lanefs_store::View<'_>)>> {
        let Some(rank) = dir.rank(at) else { return Ok(None) };
        Ok(self.load(at, BlockKind::Leaf)?.map(|leaf| (rank, leaf)))
    }
}

/// Units that are both entries and visited.
fn dir_visited(starts: &Bits, visited: &Bits, leaves: u64) -> u64 {
    (0..leaves * 4).map(|i| u64::from((starts.word(i) & visited.word(i)).count_ones())).sum()
}
