//! The orphan directory: inodes that have lost their last name and are still [held](crate::hold).
//!
//! It is a directory without a name, which the superblock gives; its entries are named by the numbers of their inodes, in
//! hexadecimal. An entry comes in the transaction that takes the last name, and goes in the one that frees the inode. So what a
//! crash leaves is listed, and freed by the next open for writing. Its first entry is its own, and stays: else the block of its
//! entries would come and go with each inode that is held for a moment longer than its name lasts, as all are in a mount.
//!
//! A volume that is full has perhaps no room for an entry. Then only a flag of the directory says that there are inodes without a
//! name, and that open looks for them.

use crate::dir::{self, Name};
use crate::edit::{Core, Edit, Outcome};
use crate::inode::{FLAG_UNLISTED, Node, set_flags};
use crate::{Volume, namespace, space};
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, CHUNK, CHUNK_HEADER_BLOCKS, Code, FileKind, group as g, inode as f,
};
use lanefs_store::Fault;

/// Entries that are listed at a time when all are freed.
const PAGE: usize = 256;

/// The name of an inode's entry.
pub(crate) fn name_of(ino: u64) -> String {
    format!("{ino:x}")
}

/// The orphan directory.
fn directory<'v>(core: &Core<'v>) -> Outcome<Node<'v>> {
    match Node::directory(core, core.shared.orphans()) {
        Err(Fault::Code(_)) => Err(Fault::damaged(0, "the superblock names no orphan directory")),
        found => found,
    }
}

/// Lists an inode, whose link count becomes 0. A directory becomes its own parent: none other knows it any more.
pub(crate) fn list(edit: &mut Edit<'_>, node: Node<'_>) -> Outcome<()> {
    let (dir, kind, name) = (directory(edit.core)?, node.kind()?, name_of(node.ino));
    edit.tx.put(node.view, f::LINKS, 0);
    if kind == FileKind::Directory {
        edit.tx.put(node.view, f::PARENT_OR_DEVICE, node.ino);
    }
    if !edit.may_list {
        set_flags(edit, dir, 0, FLAG_UNLISTED);
        return Ok(());
    }
    if dir::is_empty(&dir)? {
        let own = name_of(dir.ino);
        dir::insert(edit, dir, Name::new(edit.core.seed, own.as_bytes()), dir.ino, FileKind::Directory)?;
    }
    dir::insert(edit, dir, Name::new(edit.core.seed, name.as_bytes()), node.ino, kind)
}

/// Takes an inode off the list.
pub(crate) fn unlist(edit: &mut Edit<'_>, ino: u64) -> Outcome<()> {
    let (dir, name) = (directory(edit.core)?, name_of(ino));
    let entry = dir::find(edit.core, &dir, Name::new(edit.core.seed, name.as_bytes()))?;
    match entry.filter(|entry| entry.ino() == ino) {
        Some(entry) => dir::remove(edit, dir, entry),
        None if dir.flags() & FLAG_UNLISTED != 0 => Ok(()),
        None => Err(Fault::damaged(dir.view.at(), "an inode without a name is not listed")),
    }
}

/// Frees an inode that has no name, unless somebody holds it.
pub(crate) fn let_go(edit: &mut Edit<'_>, ino: u64) -> Outcome<()> {
    let node = match Node::load(edit.core, ino) {
        Err(Fault::Code(Code::StaleInode)) => return Ok(()),
        found => found?,
    };
    if node.view.get(f::LINKS) != 0 {
        return Ok(());
    }
    // From here on nobody can come to hold it unseen.
    edit.tx.hold(node.view)?;
    if edit.core.shared.holds.keeps(ino) {
        return Ok(());
    }
    if node.kind()? == FileKind::Directory && !dir::is_empty(&node)? {
        return Err(Fault::damaged(node.view.at(), "a directory without a name has entries"));
    }
    unlist(edit, ino)?;
    namespace::free(edit, node)
}

/// The inodes without a name in the block at `at`; `None` outside metadata chunks.
fn nameless_in(core: &Core<'_>, at: u64) -> Outcome<Option<Vec<u64>>> {
    let (group, bit) = space::of_chunk(core, at & !(CHUNK - 1))?;
    if group.get(g::METADATA) & bit == 0 {
        return Ok(None);
    }
    if !space::may_hold_inodes(core, at)? {
        return Ok(Some(Vec::new()));
    }
    let size = core.store.inode_size().bytes();
    let mut nameless = Vec::new();
    for ino in at / size..(at + BLOCK) / size {
        match Node::load(core, ino) {
            Ok(node) if node.view.get(f::LINKS) == 0 => nameless.push(ino),
            Ok(_) | Err(Fault::Code(Code::StaleInode)) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(Some(nameless))
}

impl Volume {
    /// Frees all inodes without a name, each in a transaction of its own. What is damaged stays, for fsck. The caller is the only
    /// one about.
    pub(crate) fn free_orphans(&self) {
        let mut cookie = 0;
        let mut any = false;
        while let Ok(page) = self.view(|core| dir::list(core, directory(core)?, cookie, PAGE)) {
            let Some(last) = page.last() else { break };
            cookie = last.cookie;
            for entry in page.iter().filter(|entry| entry.ino.0 != self.superblock().orphans) {
                any = true;
                if entry.name == name_of(entry.ino.0).as_bytes() {
                    let _ = self.change(|edit| let_go(edit, entry.ino.0));
                }
            }
        }
        let unlisted = self.view(|core| Ok(directory(core)?.flags() & FLAG_UNLISTED != 0)).unwrap_or(false);
        if unlisted {
            self.free_unlisted();
        }
        if any || unlisted {
            // Blocks that turn out not to be theirs to free stay used; whoever commits next is not to hear of it. A device that
            // fails tells him again.
            let _ = self.shared.commit();
        }
    }

    /// Looks at all inodes, and frees those without a name.
    fn free_unlisted(&self) {
        let mut complete = true;
        for chunk in 0..self.shared.store.bytes() / CHUNK {
            for place in CHUNK_HEADER_BLOCKS..BLOCKS_PER_CHUNK {
                let at = chunk * CHUNK + place * BLOCK;
                let Ok(found) = self.view(|core| nameless_in(core, at)) else {
                    complete = false;
                    continue;
                };
                if place == CHUNK_HEADER_BLOCKS && found.is_none() {
                    break;
                }
                for ino in found.unwrap_or_default() {
                    complete &= self.change(|edit| let_go(edit, ino)).is_ok();
                }
            }
        }
        if complete {
            let _ = self.change(|edit| {
                let dir = directory(edit.core)?;
                set_flags(edit, dir, FLAG_UNLISTED, 0);
                Ok(())
            });
        }
    }
}
