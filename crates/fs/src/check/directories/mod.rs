//! One directory as a whole.

pub(super) mod bits;
pub(super) mod leaves;
pub(super) mod lists;
pub(super) mod trees;

use super::pass::{Pass, Rebuild, Saved};
use crate::check::outcome::findings::Tally;
use crate::check::outcome::invariants as iv;
use crate::files::inode::FLAG_MAP_HOLES;
use crate::names::dir::Dentry;
use crate::names::orphans;
use crate::vocabulary::error::Outcome;
use crate::vocabulary::path::is_name;
use lanefs_format::dir::{LEAF_HEADER_UNITS, entry as e};
use lanefs_format::{
    BLOCK, BlockKind, DirRoot, FileKind, INODE_CORE, UNIT, dir_inode_128 as tail, half_md4, inode as f,
};
use leaves::DirectoryScan;
use lists::ListScan;
use trees::TreeScan;

impl Pass<'_, '_> {
    /// Checks a directory whose map was walked. Returns the tree and index blocks that it owns; none where
    /// the directory will be emptied and filled again.
    ///
    /// `inode` is a copy of the inode's bytes, which is corrected. `claims` is the number of claims before
    /// its map was walked.
    pub(super) fn check_directory(
        &mut self,
        tally: &mut Tally,
        inode: &mut [u8],
        leaves: Vec<(u64, u64)>,
        claims: usize,
        broken: bool,
    ) -> Outcome<Option<u64>> {
        let inode_at = tally.ino * self.core.store.inode_size().bytes();
        let mut dir = DirectoryScan::new(leaves);
        dir.broken = broken;
        self.scan_leaves(tally, &mut dir)?;
        let mut tree = TreeScan::default();
        let list = self.check_forms(tally, &mut dir, inode, inode_at, &mut tree)?;
        let room = tail::ROOM.read(&inode[INODE_CORE..]).unwrap_or(0);
        self.walk_room_list(tally, &mut dir, room)?;
        let end = dir.leaves.last().map_or(0, |(slot, _)| (slot + 1) * BLOCK);
        let bytes = f::BYTES.read(inode).unwrap_or(0);
        let may_end_in_holes = f::FLAGS.read(inode).unwrap_or(0) & FLAG_MAP_HOLES != 0;
        if bytes < end || !bytes.is_multiple_of(BLOCK) {
            dir.bad(tally, inode_at, &iv::DIRECTORY_SIZE);
        } else if bytes > end && !may_end_in_holes && !dir.broken {
            tally.note(inode_at, &iv::DIRECTORY_SIZE);
            f::BYTES.write(inode, end);
        }
        self.check_names(tally, &mut dir);
        if dir.broken {
            let lost = self.lost_entries(tally.ino)?;
            dir.entries.extend(lost);
        }
        let saved = self.check_targets(tally, &mut dir, &list)?;
        if dir.broken && self.mends() {
            let blocks = self.claims_since(claims, |claim| claim.kind != BlockKind::Xattr);
            let xattr_blocks = self.claims_since(claims, |claim| claim.kind == BlockKind::Xattr).len() as u64;
            self.rebuilds.push(Rebuild { ino: tally.ino, entries: saved, blocks, xattr_blocks });
            return Ok(None);
        }
        Ok(Some(tree.blocks))
    }

    /// Follows the root in each of its forms, and the list from there.
    fn check_forms(
        &mut self,
        tally: &mut Tally,
        dir: &mut DirectoryScan,
        inode: &[u8],
        inode_at: u64,
        tree: &mut TreeScan,
    ) -> Outcome<ListScan> {
        let first_entry = LEAF_HEADER_UNITS as u64 * UNIT;
        let mut small = None;
        let root = self.core.store.inode_size().dir_root().read(inode).unwrap_or(0);
        let head = match DirRoot::decode(root) {
            Ok(DirRoot::Empty) if dir.leaves.is_empty() => None,
            Ok(DirRoot::Small(leaf)) if dir.leaves.len() == 1 && dir.leaves[0].1 == leaf => {
                small = Some(leaf);
                Some(leaf + first_entry)
            }
            Ok(DirRoot::Region(at)) => {
                tree.regions.push((0, at));
                self.claim_indexes(tally, dir, tree, inode_at)?
            }
            Ok(DirRoot::Tree(at)) => {
                *tree = self.walk_tree(tally, dir, at, inode_at)?;
                if DirRoot::level_and_count(root).is_some_and(|told| tree.top.is_some_and(|top| top != told))
                {
                    dir.bad(tally, inode_at, &iv::DIRECTORY_ROOT);
                }
                self.claim_indexes(tally, dir, tree, inode_at)?
            }
            _ => {
                dir.bad(tally, inode_at, &iv::DIRECTORY_ROOT);
                None
            }
        };
        let Some(head) = head else {
            if !dir.leaves.is_empty() {
                dir.broken = true;
            }
            self.check_small_index(tally, dir, inode, None);
            return Ok(ListScan::default());
        };
        let list = self.walk_list(tally, dir, head);
        if list.entries.is_empty() && dir.entries.is_empty() {
            dir.bad(tally, inode_at, &iv::DIRECTORY_ROOT);
        }
        if small.is_none() {
            self.check_regions(tally, dir, tree, &list)?;
        }
        self.check_small_index(tally, dir, inode, small.map(|leaf| (leaf, &list)));
        Ok(list)
    }

    /// Checks that no name occurs twice. Sorts the entries by hash.
    fn check_names(&self, tally: &mut Tally, dir: &mut DirectoryScan) {
        dir.entries.sort_unstable();
        let mut rest = &dir.entries[..];
        let mut twice = None;
        while let Some((hash, _)) = rest.first() {
            let run = rest.partition_point(|(other, _)| other <= hash);
            if run > 1 {
                let mut names: Vec<Vec<u8>> = rest[..run].iter().map(|(_, at)| self.name_at(*at)).collect();
                names.sort_unstable();
                if names.windows(2).any(|pair| pair[0] == pair[1]) {
                    twice = Some(rest[0].1);
                }
            }
            rest = &rest[run..];
        }
        if let Some(at) = twice {
            dir.bad(tally, at, &iv::ENTRY_DUPLICATE);
        }
    }

    /// Checks the inodes that the entries name: each is in use, of the type in the entry, and no directory
    /// occurs twice. Counts the names, and returns the entries that go back into a directory that is rebuilt.
    fn check_targets(
        &mut self,
        tally: &mut Tally,
        dir: &mut DirectoryScan,
        list: &ListScan,
    ) -> Outcome<Vec<Saved>> {
        let strays = list.strays.iter().map(|at| (half_md4(self.core.seed, &self.name_at(*at)), *at));
        dir.entries.extend(strays);
        // Only the end of the walk shows whether the directory is rebuilt; the names to count are chosen
        // there.
        let mut good = Vec::new();
        let mut wrong_types = Vec::new();
        for i in 0..dir.entries.len() {
            let at = dir.entries[i].1;
            let (ino, kind) = self.target_at(at);
            let Some(rank) = self.inodes.rank(ino) else {
                self.suspect_inode(ino);
                dir.bad(tally, at, &iv::ENTRY_INODE);
                continue;
            };
            let real = self.inodes.kind(rank);
            let is_list = self.is_orphan_directory(tally.ino);
            if is_list && self.name_at(at) != orphans::name_of(ino).as_bytes() {
                dir.bad(tally, at, &iv::ORPHAN_ENTRY);
                continue;
            }
            if real == Some(FileKind::Directory) && !is_list && !self.take_parent(rank, tally.ino) {
                dir.bad(tally, at, &iv::DIRECTORY_LINKED_TWICE);
                if self.mends() {
                    continue;
                }
            }
            if kind != real {
                tally.note(at, &iv::ENTRY_TYPE);
            }
            if self.mends() {
                good.push((at, rank));
                wrong_types.extend(real.filter(|real| kind != Some(*real)).map(|real| (at, real)));
            } else {
                self.record_entry(tally.ino, rank);
            }
        }
        if dir.broken {
            return Ok(self.save(tally.ino, &good));
        }
        for (_, rank) in good {
            self.record_entry(tally.ino, rank);
        }
        self.mend(|edit| {
            for (at, kind) in &wrong_types {
                let entry = Dentry::at(edit.core, *at)?;
                edit.tx.put(entry.view, e::KIND, *kind as u8);
            }
            Ok(())
        })?;
        Ok(Vec::new())
    }

    /// The entries that go back into a directory that is rebuilt: each name once.
    fn save(&mut self, ino: u64, entries: &[(u64, usize)]) -> Vec<Saved> {
        let mut names = std::collections::HashSet::new();
        let mut saved = Vec::with_capacity(entries.len());
        for (at, rank) in entries {
            let (name, kind) = (self.name_at(*at), self.inodes.kind(*rank));
            if let Some(kind) = kind.filter(|_| is_name(&name) && names.insert(name.clone())) {
                self.record_entry(ino, *rank);
                saved.push(Saved { name, ino: self.inodes.number(*rank), kind });
            } else if kind == Some(FileKind::Directory) {
                self.inodes.forget_parent(*rank);
            }
        }
        saved
    }

    /// Records an entry of directory `dir`: a listed inode, or a subdirectory. Names of other inodes are
    /// counted later.
    fn record_entry(&mut self, dir: u64, rank: usize) {
        if self.is_orphan_directory(dir) {
            // The orphan directory's own entry keeps its block of entries in use, and does nothing else.
            let ino = self.inodes.number(rank);
            if !self.is_orphan_directory(ino) {
                self.inodes.listed.write().insert(ino);
            }
            return;
        }
        if self.inodes.kind(rank) == Some(FileKind::Directory)
            && let Some(here) = self.inodes.rank(dir)
        {
            self.inodes.add_subdirectory(here);
        }
    }

    /// Records the parent of a directory; false where the directory has one already, or is the root or the
    /// orphan directory.
    fn take_parent(&self, rank: usize, parent: u64) -> bool {
        let ino = self.inodes.number(rank);
        ino != self.superblock.root && !self.is_orphan_directory(ino) && self.inodes.set_parent(rank, parent)
    }

    /// Records a chunk that is not known to hold metadata, because an entry names an inode in it.
    fn suspect_inode(&mut self, ino: u64) {
        let at = ino.saturating_mul(self.core.store.inode_size().bytes());
        if at < self.core.store.bytes() && !self.is_metadata_chunk(at) {
            self.suspects.insert(at & !(lanefs_format::CHUNK - 1));
        }
    }
}
