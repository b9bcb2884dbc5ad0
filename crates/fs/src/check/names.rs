//! The name space: links, parents, and reachability from the root.

use super::invariants as iv;
use super::pass::Pass;
use crate::dir::{self, Name};
use crate::edit::Edit;
use crate::error::Outcome;
use crate::inode::{Inode, add_blocks, add_links, nameless_directory};
use crate::types::Caller;
use crate::types::XattrMode;
use crate::{namespace, orphans, xattr};
use lanefs_format::{Code, FileKind, inode as f};
use lanefs_store::Fault;

/// Entries that one transaction puts back into a directory.
const BATCH: usize = 512;
/// Most names that are tried for one inode.
const TRIES: u32 = 1000;

impl Pass<'_, '_> {
    /// Puts saved entries and attributes back.
    pub(super) fn put_back(&mut self) -> Outcome<()> {
        for (ino, saved) in std::mem::take(&mut self.rebuilt) {
            for batch in saved.chunks(BATCH) {
                self.mend(|edit| {
                    for entry in batch {
                        let node = Inode::directory(edit.core, ino)?;
                        let name = Name::new(edit.core.seed, &entry.name);
                        match dir::insert(edit, node, name, entry.ino, entry.kind) {
                            // Names that no directory can hold go to lost+found later.
                            Err(Fault::Code(Code::TooManyCollisions | Code::TreeFull)) => {}
                            done => done?,
                        }
                    }
                    Ok(())
                })?;
            }
        }
        for (ino, saved) in std::mem::take(&mut self.attributes) {
            self.mend(|edit| {
                let node = Inode::load(edit.core, ino)?;
                add_blocks(edit, node, 0)?;
                for (name, value) in &saved {
                    match xattr::set(edit, node, name, Some(value), XattrMode::Set) {
                        Err(Fault::Code(Code::NoSpace)) => break,
                        done => done?,
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// True for the orphan directory, where the superblock names one.
    pub(super) fn is_orphan_directory(&self, ino: u64) -> bool {
        ino == self.superblock.orphans && ino != self.superblock.root
    }

    /// Checks that there is an orphan directory. Returns the one to use from now on, where it was missing.
    pub(super) fn check_orphan_directory(&mut self) -> Outcome<Option<u64>> {
        let ino = self.superblock.orphans;
        if self.inodes.is_directory(ino) && self.is_orphan_directory(ino) {
            return Ok(None);
        }
        self.findings.add(0, &iv::ORPHAN_DIRECTORY, format!("inode {ino}"));
        self.mend(|edit| nameless_directory(edit, 0o700))
    }

    /// Checks links, parents and reachability. Returns the root to use from now on, where it was missing.
    pub(super) fn check_names_space(&mut self) -> Outcome<Option<u64>> {
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
        let size = self.core.store.inode_size().bytes() as usize;
        let per = self.inodes.per_block();
        for block in 0..self.inodes.blocks.len() {
            let (bytes, _) = self.read_inodes(self.inodes.blocks[block].at)?;
            for (place, one) in bytes.chunks_exact(size).enumerate() {
                let rank = block * per + place;
                let Some(kind) = self.inodes.kind(rank) else { continue };
                self.check_listing(rank, kind, one)?;
                if self.check_inode_names(rank, kind, one)? {
                    lost.push((self.inodes.number(rank), kind));
                }
            }
        }
        for ino in cycles {
            self.break_cycle(ino)?;
            lost.push((ino, FileKind::Directory));
        }
        for (ino, kind) in lost {
            self.mend(|edit| attach(edit, root, ino, kind))?;
        }
        Ok(None)
    }

    /// Checks that an inode listed as an orphan has neither name nor links, and, as a directory, no entries.
    /// Otherwise it is unlisted, because listed inodes will be freed. An inode that is unlisted for want of
    /// room counts as listed.
    fn check_listing(&mut self, rank: usize, kind: FileKind, inode: &[u8]) -> Outcome<()> {
        let ino = self.inodes.number(rank);
        let has_place = ino == self.superblock.root || self.is_orphan_directory(ino);
        let has_name = self.inodes.names[rank] > 0 || has_place || f::LINKS.read(inode) != Some(0);
        if !self.inodes.listed[rank] {
            self.inodes.listed[rank] = self.inodes.some_unlisted && !has_name;
        }
        if !self.inodes.listed[rank] {
            return Ok(());
        }
        let is_empty = self.core.store.inode_size().dir_root().read(inode) == Some(0);
        let broken = if has_name {
            &iv::ORPHAN_NAMED
        } else if kind == FileKind::Directory && !is_empty {
            &iv::ORPHAN_NOT_EMPTY
        } else {
            return Ok(());
        };
        self.findings.add(ino * self.core.store.inode_size().bytes(), broken, format!("inode {ino}"));
        self.inodes.listed[rank] = false;
        self.mend(|edit| orphans::unlist(edit, ino))?;
        Ok(())
    }

    /// Checks links and parent of one inode; true where no entry names it.
    fn check_inode_names(&mut self, rank: usize, kind: FileKind, inode: &[u8]) -> Outcome<bool> {
        let ino = self.inodes.number(rank);
        let at = ino * self.core.store.inode_size().bytes();
        let names = self.inodes.names[rank];
        let is_directory = kind == FileKind::Directory;
        let listed = self.inodes.listed[rank];
        // An inode without a name, which is its own parent.
        let stands_alone = listed || ino == self.superblock.root || self.is_orphan_directory(ino);
        let is_lost = names == 0 && !stands_alone;
        if is_lost {
            self.findings.add(at, &iv::INODE_UNREACHABLE, format!("inode {ino}"));
        }
        let links = match is_directory {
            _ if listed => 0,
            true => self.inodes.subdirectories[rank].saturating_add(2),
            false => names,
        };
        let said = f::LINKS.read(inode).unwrap_or(0);
        if said != links && (is_directory || !is_lost) {
            self.findings.add(at, &iv::LINK_COUNT, format!("inode {ino} says {said} instead of {links}"));
        }
        let parent = if stands_alone { ino } else { self.inodes.parents[rank] };
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
        let mut states = vec![0u8; self.inodes.parents.len()];
        let mut cycles = Vec::new();
        let ranks: Vec<usize> =
            self.inodes.ranks().filter(|rank| self.inodes.kind(*rank) == Some(FileKind::Directory)).collect();
        let mut way = Vec::new();
        for first in ranks {
            let mut next = Some(first);
            while let Some(rank) = next.filter(|rank| states[*rank] != DONE) {
                if states[rank] == BEGUN {
                    let ino = self.inodes.number(rank);
                    let at = ino * self.core.store.inode_size().bytes();
                    self.findings.add(at, &iv::DIRECTORY_CYCLE, format!("inode {ino}"));
                    cycles.push(ino);
                    break;
                }
                states[rank] = BEGUN;
                way.push(rank);
                let is_root = self.inodes.number(rank) == root;
                next = if is_root { None } else { self.inodes.rank(self.inodes.parents[rank]) };
            }
            for rank in way.drain(..) {
                states[rank] = DONE;
            }
        }
        cycles
    }

    /// Removes a directory from its parent.
    fn break_cycle(&mut self, ino: u64) -> Outcome<()> {
        let Some(parent) = self.inodes.rank(ino).map(|rank| self.inodes.parents[rank]) else { return Ok(()) };
        self.mend(|edit| {
            let node = Inode::directory(edit.core, parent)?;
            let mut cookie = 0;
            loop {
                let page = dir::list(edit.core, node, cookie, BATCH)?;
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
        Ok(())
    }

    /// Returns a directory that is its own parent, or a new one.
    fn find_root(&mut self) -> Outcome<Option<u64>> {
        let ranks: Vec<usize> = self.inodes.ranks().collect();
        for rank in ranks {
            let ino = self.inodes.number(rank);
            if self.inodes.kind(rank) == Some(FileKind::Directory)
                && !self.is_orphan_directory(ino)
                && !self.inodes.listed[rank]
                && Inode::directory(self.core, ino).is_ok_and(|node| node.parent() == ino)
            {
                return Ok(self.mends().then_some(ino));
            }
        }
        self.mend(|edit| nameless_directory(edit, 0o755))
    }
}

/// Puts an inode without a name into lost+found.
fn attach(edit: &mut Edit<'_>, root: u64, ino: u64, kind: FileKind) -> Outcome<()> {
    let lost = lost_and_found(edit, root)?;
    let (parent, node) = (Inode::directory(edit.core, lost)?, Inode::load(edit.core, ino)?);
    for number in 0..TRIES {
        let name = if number == 0 { format!("inode-{ino}") } else { format!("inode-{ino}-{number}") };
        let name = Name::new(edit.core.seed, name.as_bytes());
        if dir::find(edit.core, &parent, name)?.is_some() {
            continue;
        }
        dir::insert(edit, parent, name, ino, kind)?;
        if kind == FileKind::Directory {
            add_links(edit, parent, 1)?;
            edit.tx.put(node.view, f::PARENT_OR_DEVICE, lost);
        } else {
            edit.tx.put(node.view, f::LINKS, 1);
        }
        return Ok(());
    }
    Err(Code::Exists.into())
}

/// The directory `lost+found` of the root, created when needed.
fn lost_and_found(edit: &mut Edit<'_>, root: u64) -> Outcome<u64> {
    let node = Inode::directory(edit.core, root)?;
    for number in 0..TRIES {
        let name = if number == 0 { "lost+found".to_owned() } else { format!("lost+found-{number}") };
        match dir::find(edit.core, &node, Name::new(edit.core.seed, name.as_bytes()))? {
            Some(entry) if entry.kind()? == FileKind::Directory => return Ok(entry.ino()),
            Some(_) => {}
            None => {
                let (who, kind) = (&Caller::OWNER, FileKind::Directory);
                return Ok(namespace::create(edit, who, root, name.as_bytes(), kind, 0o700, 0)?.ino);
            }
        }
    }
    Err(Code::Exists.into())
}
