//! The orphan directory: inodes that have lost their last name and are still [held](crate::by_inode::hold).
//!
//! It is a directory without a name; the superblock gives its inode. Each entry is named by the number of its
//! inode, in hexadecimal. The transaction that removes the last name adds the entry, and the one that frees
//! the inode removes it. So the inodes that a crash leaves are listed, and the next mount for writing frees
//! them. The first entry is the directory's own, and stays. Without it the block of the entries would be
//! allocated and freed with each inode that is held a little longer than its last name exists, as all are in
//! a mount.
//!
//! A full volume may have no room for an entry. Then only a flag of the directory says that there are inodes
//! without a name, and that mount searches for them.

use super::dir::{self, Name};
use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::files::inode::{FLAG_UNLISTED, Inode, set_flags};
use crate::vocabulary::error::Outcome;
use crate::vocabulary::types::DirEntry;
use lanefs_format::{FileKind, inode as f};
use lanefs_store::Fault;

/// The name of an inode's entry.
pub(crate) fn name_of(ino: u64) -> String {
    format!("{ino:x}")
}

/// Loads the orphan directory.
fn directory<'v>(core: &Core<'v>) -> Outcome<Inode<'v>> {
    match Inode::directory(core, core.state.orphans()) {
        Err(Fault::Code(_)) => Err(Fault::damaged(0, "the superblock names no orphan directory")),
        found => found,
    }
}

/// Lists an inode and sets its link count to 0. A directory becomes its own parent: no other directory has it
/// any more.
pub(crate) fn list(edit: &mut Edit<'_>, node: Inode<'_>) -> Outcome<()> {
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

/// Removes an inode from the list.
pub(crate) fn unlist(edit: &mut Edit<'_>, ino: u64) -> Outcome<()> {
    let (dir, name) = (directory(edit.core)?, name_of(ino));
    let entry = dir::find(edit.core, &dir, Name::new(edit.core.seed, name.as_bytes()))?;
    match entry.filter(|entry| entry.ino() == ino) {
        Some(entry) => dir::remove(edit, dir, entry),
        None if dir.flags() & FLAG_UNLISTED != 0 => Ok(()),
        None => Err(Fault::damaged(dir.view.at(), "an inode without a name is not listed")),
    }
}

/// True where the orphan directory does not list all inodes without a name.
pub(crate) fn some_unlisted(core: &Core<'_>) -> Outcome<bool> {
    Ok(directory(core)?.flags() & FLAG_UNLISTED != 0)
}

/// Clears the flag: all inodes without a name are listed.
pub(crate) fn clear_unlisted(edit: &mut Edit<'_>) -> Outcome<()> {
    let dir = directory(edit.core)?;
    set_flags(edit, dir, FLAG_UNLISTED, 0);
    Ok(())
}

/// Lists up to `max` entries of the orphan directory after `cookie`.
pub(crate) fn entries(core: &Core<'_>, cookie: u64, max: usize) -> Outcome<Vec<DirEntry>> {
    dir::list(core, directory(core)?, cookie, max)
}
