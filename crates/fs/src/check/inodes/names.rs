//! The name space: links, parents, and reachability from the root.

use crate::check::inodes::links::Names;
use crate::check::outcome::invariants as iv;
use crate::check::outcome::progress::Progress;
use crate::check::pass::Pass;
use crate::check::pass::inode_table::Inodes;
use crate::files::inode::{Inode, add_links, nameless_directory};
use crate::names::dir::{self, Name};
use crate::names::orphans;
use crate::vocabulary::error::Outcome;
use lanefs_format::{BLOCK, FileKind, inode as f};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks of inodes in a batch.
const BLOCKS: usize = 64;
/// Entries of a directory that are listed at a time.
const BATCH_ENTRIES: usize = 512;

/// The findings on the names of a batch of inodes.
#[derive(Default)]
struct NamesFound {
    orphans: u64,
    /// Inodes that go to lost+found.
    lost: Vec<(u64, FileKind)>,
}

impl Pass<'_, '_> {
    /// True for the orphan directory, where the superblock names one.
    pub(in crate::check) fn is_orphan_directory(&self, ino: u64) -> bool {
        ino == self.superblock.orphans && ino != self.superblock.root
    }

    /// Checks that there is an orphan directory. Returns the one to use from now on, where it was missing.
    pub(in crate::check) fn check_orphan_directory(&mut self) -> Outcome<Option<u64>> {
        let ino = self.superblock.orphans;
        if self.inodes.is_directory(ino) && self.is_orphan_directory(ino) {
            return Ok(None);
        }
        self.findings.add(0, &iv::ORPHAN_DIRECTORY, format!("inode {ino}"));
        self.try_to_mend(|| "the orphan directory".into(), |edit| nameless_directory(edit, 0o700))
    }

    /// Checks links, parents and reachability. Returns the root to use from now on, where it was missing.
    pub(in crate::check) fn check_names_space(
        &mut self,
        most_names: usize,
        progress: &Progress<'_>,
    ) -> Outcome<Option<u64>> {
        let root = self.superblock.root;
        if !self.inodes.is_directory(root) {
            self.findings.add(0, &iv::ROOT_DIRECTORY, format!("inode {root}"));
            let at = root.saturating_mul(self.core.store.inode_size().bytes());
            if at < self.core.store.bytes() && !self.is_metadata_chunk(at) {
                self.suspects.insert(at & !(lanefs_format::CHUNK - 1));
            }
            return self.find_root();
        }
        let cycles = self.find_cycles(root);
        let mut lost = Vec::new();
        let inodes = Arc::clone(&self.inodes);
        let per = inodes.per_block();
        let blocks_at_once = (most_names / per).max(1);
        let done = AtomicU64::new(0);
        for first in (0..inodes.blocks.len()).step_by(blocks_at_once) {
            let end = (first + blocks_at_once).min(inodes.blocks.len());
            let names = self.count_names(first * per..end * per)?;
            let checked = self.in_batches(end - first, BLOCKS, |pass, range| {
                let mut found = NamesFound::default();
                for block in range {
                    let checked = pass.check_names_of_block(&inodes, first + block, &names, &mut found)?;
                    progress.set(done.fetch_add(checked, Ordering::Relaxed) + checked);
                }
                Ok(found)
            })?;
            for mut found in checked {
                self.orphans += found.orphans;
                lost.append(&mut found.lost);
            }
        }
        for ino in cycles {
            if self.break_cycle(ino)? {
                lost.push((ino, FileKind::Directory));
            }
        }
        self.attach_all(root, &lost)?;
        Ok(None)
    }

    /// Checks the names of the inodes in one block. Returns the number of those in use.
    fn check_names_of_block(
        &mut self,
        inodes: &Inodes,
        block: usize,
        names: &Names,
        found: &mut NamesFound,
    ) -> Outcome<u64> {
        let size = self.core.store.inode_size().bytes() as usize;
        let (bytes, _) = self.read_inodes(inodes.blocks[block].at())?;
        let mut checked = 0;
        for (index, one) in bytes.chunks_exact(size).enumerate() {
            let rank = block * inodes.per_block() + index;
            let Some(kind) = inodes.kind(rank) else { continue };
            checked += 1;
            let names = match kind {
                FileKind::Directory => u32::from(inodes.parent(rank) != 0),
                _ => names.of(rank),
            };
            let listed = self.check_listing(rank, kind, names, one)?;
            found.orphans += u64::from(listed);
            if self.check_inode_names(rank, kind, (names, listed), one)? && self.mends() {
                found.lost.push((inodes.number(rank), kind));
            }
        }
        Ok(checked)
    }

    /// Checks that an inode listed as an orphan has neither name nor links, and, as a directory, no entries.
    /// Otherwise it is unlisted, because listed inodes will be freed. An inode that is unlisted for want of
    /// room counts as listed. Returns whether it is listed from now on.
    fn check_listing(&mut self, rank: usize, kind: FileKind, names: u32, inode: &[u8]) -> Outcome<bool> {
        let ino = self.inodes.number(rank);
        let is_in_superblock = ino == self.superblock.root || self.is_orphan_directory(ino);
        let has_name = names > 0 || is_in_superblock || f::LINKS.read(inode) != Some(0);
        let some_unlisted = self.inodes.some_unlisted.load(Ordering::Relaxed);
        if !self.inodes.listed.read().contains(&ino) && (has_name || !some_unlisted) {
            return Ok(false);
        }
        let is_empty = self.core.store.inode_size().dir_root().read(inode) == Some(0);
        let broken = if has_name {
            &iv::ORPHAN_NAMED
        } else if kind == FileKind::Directory && !is_empty {
            &iv::ORPHAN_NOT_EMPTY
        } else {
            return Ok(true);
        };
        self.findings.add(ino * self.core.store.inode_size().bytes(), broken, format!("inode {ino}"));
        self.try_to_mend(
            || format!("inode {ino}, in the orphan directory"),
            |edit| orphans::unlist(edit, ino),
        )?;
        Ok(false)
    }

    /// Checks links and parent of one inode; true where no entry names it.
    fn check_inode_names(
        &mut self,
        rank: usize,
        kind: FileKind,
        (names, listed): (u32, bool),
        inode: &[u8],
    ) -> Outcome<bool> {
        let ino = self.inodes.number(rank);
        let at = ino * self.core.store.inode_size().bytes();
        let is_directory = kind == FileKind::Directory;
        // An inode without a name, which is its own parent.
        let stands_alone = listed || ino == self.superblock.root || self.is_orphan_directory(ino);
        let is_lost = names == 0 && !stands_alone;
        if is_lost {
            self.findings.add(at, &iv::INODE_UNREACHABLE, format!("inode {ino}"));
        }
        let links = match is_directory {
            _ if listed => 0,
            true => self.inodes.subdirectories(rank).saturating_add(2),
            false => names,
        };
        let said = f::LINKS.read(inode).unwrap_or(0);
        if said != links && (is_directory || !is_lost) {
            self.findings.add(at, &iv::LINK_COUNT, format!("inode {ino} says {said} instead of {links}"));
        }
        let parent = if stands_alone { ino } else { self.inodes.parent(rank) };
        let said_parent = f::PARENT_OR_DEVICE.read(inode).unwrap_or(0);
        let wrong_parent = is_directory && !is_lost && said_parent != parent;
        if wrong_parent {
            let text = format!("inode {ino} says {said_parent} instead of {parent}");
            self.findings.add(at, &iv::PARENT, text);
        }
        if said != links || wrong_parent {
            self.mend(|edit| {
                let node = Inode::load(edit.core, ino)?;
                edit.tx.put(node.view, f::LINKS, links);
                if wrong_parent {
                    edit.tx.put(node.view, f::PARENT_OR_DEVICE, parent);
                }
                Ok(())
            })?;
        }
        Ok(is_lost)
    }

    /// Returns one directory of each cycle of directories.
    fn find_cycles(&mut self, root: u64) -> Vec<u64> {
        const BEGUN: u8 = 1;
        const DONE: u8 = 2;
        let inodes = Arc::clone(&self.inodes);
        let mut states = vec![0u8; inodes.directory_count()];
        let mut cycles = Vec::new();
        let mut way = Vec::new();
        for first in 0..inodes.directory_count() {
            let mut next = Some(first);
            while let Some(index) = next.filter(|index| states[*index] != DONE) {
                let rank = inodes.directory(index);
                if states[index] == BEGUN {
                    let ino = inodes.number(rank);
                    let at = ino * self.core.store.inode_size().bytes();
                    self.findings.add(at, &iv::DIRECTORY_CYCLE, format!("inode {ino}"));
                    cycles.push(ino);
                    break;
                }
                states[index] = BEGUN;
                way.push(index);
                let is_root = inodes.number(rank) == root;
                let parent = if is_root { None } else { inodes.rank(inodes.parent(rank)) };
                next = parent.and_then(|parent| inodes.directory_index(parent));
            }
            for index in way.drain(..) {
                states[index] = DONE;
            }
        }
        cycles
    }

    /// Removes a directory from its parent. Returns whether it did.
    fn break_cycle(&mut self, ino: u64) -> Outcome<bool> {
        let Some(parent) = self.inodes.rank(ino).map(|rank| self.inodes.parent(rank)) else {
            return Ok(false);
        };
        let what = || format!("inode {ino}, a directory below itself");
        let done = self.try_to_mend(what, |edit| {
            let node = Inode::directory(edit.core, parent)?;
            let mut cookie = 0;
            loop {
                let page = dir::list(edit.core, node, cookie, BATCH_ENTRIES)?;
                let Some(last) = page.last() else { return Ok(()) };
                cookie = last.cookie;
                if let Some(entry) = page.iter().find(|entry| entry.ino.0 == ino) {
                    let name = Name::new(edit.core.seed, &entry.name);
                    if let Some(entry) = dir::find(edit.core, &node, name)? {
                        dir::remove(edit, node, entry)?;
                        add_links(edit, node, -1)?;
                    }
                    return Ok(());
                }
            }
        })?;
        Ok(done.is_some())
    }

    /// Returns a directory that is its own parent, or a new one.
    fn find_root(&mut self) -> Outcome<Option<u64>> {
        let inodes = Arc::clone(&self.inodes);
        let size = self.core.store.inode_size().bytes();
        for index in 0..inodes.directory_count() {
            let ino = inodes.number(inodes.directory(index));
            let at = ino * size;
            let (bytes, _) = self.read_inodes(at & !(BLOCK - 1))?;
            let parent = f::PARENT_OR_DEVICE.read(&bytes[(at % BLOCK) as usize..]);
            let is_listed = inodes.listed.read().contains(&ino);
            if parent == Some(ino) && !self.is_orphan_directory(ino) && !is_listed {
                return Ok(self.mends().then_some(ino));
            }
        }
        self.try_to_mend(|| "the root directory".into(), |edit| nameless_directory(edit, 0o755))
    }
}
