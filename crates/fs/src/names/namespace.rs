//! Changes of names: create, link, unlink, rename.

use super::dir::{self, Dentry, Name, Region};
use super::lookup::check_name;
use super::orphans;
use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::files::inode::{Inode, NewInode, add_links};
use crate::files::perm::{self, SEARCH, WRITE, access};
use crate::files::{data, lists, map, xattr};
use crate::space;
use crate::vocabulary::error::Outcome;
use crate::vocabulary::types::{Caller, RenameMode};
use lanefs_format::{Code, FileKind, MAX_SYMLINK, inode as f};
use lanefs_store::Fault;

/// Device number of a whiteout (`WHITEOUT_DEV` of Linux), and its permissions.
const WHITEOUT_DEVICE: u64 = 0;
const WHITEOUT_PERM: u16 = 0;

fn is_dots(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

/// Checks that a directory has a name.
///
/// # Errors
/// [`Code::NotFound`] for a directory that was removed and still has a holder: nothing can be made in it.
fn must_have_a_name(dir: &Inode<'_>) -> Outcome<()> {
    if dir.view.get(f::LINKS) == 0 { Err(Code::NotFound.into()) } else { Ok(()) }
}

/// Checks that `name` can be made in `dir`.
fn may_create<'v, 'n>(
    edit: &Edit<'v>,
    caller: &Caller,
    dir: u64,
    name: &'n [u8],
) -> Outcome<(Inode<'v>, Name<'n>, Region)> {
    let node = Inode::directory(edit.core, dir)?;
    access(edit.core, caller, &node, SEARCH)?;
    check_name(name)?;
    let name = Name::new(edit.core.seed, name);
    let region = Region::of(edit.core, &node, name)?;
    if is_dots(name.bytes) || region.find(edit.core, &node, name)?.is_some() {
        return Err(Code::Exists.into());
    }
    must_have_a_name(&node)?;
    region.prefetch_dummy(edit.core);
    access(edit.core, caller, &node, WRITE | SEARCH)?;
    Ok((node, name, region))
}

/// Makes an inode in a directory, without an entry there.
fn make<'v>(
    edit: &mut Edit<'v>,
    caller: &Caller,
    parent: Inode<'v>,
    kind: FileKind,
    perm: u16,
    rdev: u64,
) -> Outcome<Inode<'v>> {
    let (uid, gid, perm) = perm::ownership(caller, &parent, kind, perm);
    let flags = parent.inherited(kind);
    let new = NewInode { kind, perm, uid, gid, rdev, parent: parent.ino, flags, content: b"" };
    lists::make_in(edit, parent, &new)
}

/// Makes an inode with one name.
pub(crate) fn create<'v>(
    edit: &mut Edit<'v>,
    caller: &Caller,
    dir: u64,
    name: &[u8],
    kind: FileKind,
    perm: u16,
    rdev: u64,
) -> Outcome<Inode<'v>> {
    let (parent, name, region) = may_create(edit, caller, dir, name)?;
    // A whiteout leads to no device, so every user may make one, as in Linux.
    let is_whiteout = kind == FileKind::CharDevice && rdev == WHITEOUT_DEVICE;
    let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice) && !is_whiteout;
    if is_device && perm::checked(caller).is_some() {
        return Err(Code::NotPermitted.into());
    }
    let node = make(edit, caller, parent, kind, perm, rdev)?;
    region.prefetch_first(edit.core);
    dir::insert(edit, parent, name, node.ino, kind)?;
    if kind == FileKind::Directory {
        add_links(edit, parent, 1)?;
    }
    edit.stamp(parent.view);
    Ok(node)
}

/// Makes a regular file without a name, and lists it as an orphan.
pub(crate) fn create_unnamed<'v>(
    edit: &mut Edit<'v>,
    caller: &Caller,
    dir: u64,
    perm: u16,
) -> Outcome<Inode<'v>> {
    let parent = Inode::directory(edit.core, dir)?;
    must_have_a_name(&parent)?;
    access(edit.core, caller, &parent, WRITE | SEARCH)?;
    let node = make(edit, caller, parent, FileKind::File, perm, 0)?;
    orphans::list(edit, node)?;
    Ok(node)
}

pub(crate) fn symlink<'v>(
    edit: &mut Edit<'v>,
    caller: &Caller,
    dir: u64,
    name: &[u8],
    target: &[u8],
) -> Outcome<Inode<'v>> {
    if target.is_empty() {
        return Err(Code::NotFound.into());
    }
    if target.len() > MAX_SYMLINK {
        return Err(Code::NameTooLong.into());
    }
    if target.contains(&0) {
        return Err(Code::Invalid.into());
    }
    let node = create(edit, caller, dir, name, FileKind::Symlink, 0o777, 0)?;
    data::write_new(edit, node, target)?;
    Ok(node)
}

pub(crate) fn link<'v>(
    edit: &mut Edit<'v>,
    caller: &Caller,
    ino: u64,
    dir: u64,
    name: &[u8],
) -> Outcome<Inode<'v>> {
    let node = Inode::load(edit.core, ino)?;
    let kind = node.kind()?;
    let (parent, name, _) = may_create(edit, caller, dir, name)?;
    if kind == FileKind::Directory {
        return Err(Code::NotPermitted.into());
    }
    if node.view.get(f::LINKS) == 0 {
        // An inode that lost its last name gets no other; one that was made without a name may get one.
        if !edit.core.state.holds.may_be_linked(ino) {
            return Err(Code::NotFound.into());
        }
        orphans::unlist(edit, ino)?;
    }
    add_links(edit, node, 1)?;
    dir::insert(edit, parent, name, ino, kind)?;
    edit.stamp(parent.view);
    Ok(node)
}

/// Removes one name from the link count. The inode is freed with the last name, unless it is held. A
/// directory has one name, and is empty.
pub(crate) fn drop_name(edit: &mut Edit<'_>, node: Inode<'_>) -> Outcome<()> {
    if node.kind()? == FileKind::Directory {
        edit.tx.put(node.view, f::CTIME, edit.now.0);
    } else if add_links(edit, node, -1)? > 0 {
        return Ok(());
    }
    // From here on a new holder conflicts with this transaction.
    edit.tx.lock(node.view)?;
    if edit.core.state.holds.keep_nameless(node.ino) { orphans::list(edit, node) } else { free(edit, node) }
}

/// Frees an inode and all that it owns. A directory must be empty.
pub(crate) fn free(edit: &mut Edit<'_>, node: Inode<'_>) -> Outcome<()> {
    if !node.is_inline() {
        map::punch(edit, node, 0, u64::MAX)?;
    }
    xattr::free(edit, node)?;
    space::free_inode(edit, node.ino)
}

/// Removes a name that is not a directory's. Returns the inode that had it.
pub(crate) fn unlink(edit: &mut Edit<'_>, caller: &Caller, dir: u64, name: &[u8]) -> Outcome<u64> {
    let parent = Inode::directory(edit.core, dir)?;
    access(edit.core, caller, &parent, SEARCH)?;
    if is_dots(name) {
        return Err(Code::IsDirectory.into());
    }
    check_name(name)?;
    let name = Name::new(edit.core.seed, name);
    let region = Region::of(edit.core, &parent, name)?;
    let entry = region.find(edit.core, &parent, name)?.ok_or(Code::NotFound)?;
    region.prefetch_dummy(edit.core);
    dir::prefetch_removal(edit.core, &entry);
    let node = Inode::load(edit.core, entry.ino())?;
    perm::may_remove(edit.core, caller, &parent, &node)?;
    if node.kind()? == FileKind::Directory {
        return Err(Code::IsDirectory.into());
    }
    dir::remove(edit, parent, entry)?;
    edit.stamp(parent.view);
    drop_name(edit, node)?;
    Ok(node.ino)
}

/// Removes an empty directory. Returns its inode.
pub(crate) fn rmdir(edit: &mut Edit<'_>, caller: &Caller, dir: u64, name: &[u8]) -> Outcome<u64> {
    let parent = Inode::directory(edit.core, dir)?;
    access(edit.core, caller, &parent, SEARCH)?;
    match name {
        b"." => return Err(Code::Invalid.into()),
        b".." => return Err(Code::NotEmpty.into()),
        _ => check_name(name)?,
    }
    let entry = dir::find(edit.core, &parent, Name::new(edit.core.seed, name))?.ok_or(Code::NotFound)?;
    let node = Inode::load(edit.core, entry.ino())?;
    perm::may_remove(edit.core, caller, &parent, &node)?;
    if node.kind()? != FileKind::Directory {
        return Err(Code::NotDirectory.into());
    }
    if !dir::is_empty(&node)? {
        return Err(Code::NotEmpty.into());
    }
    dir::remove(edit, parent, entry)?;
    add_links(edit, parent, -1)?;
    edit.stamp(parent.view);
    drop_name(edit, node)?;
    Ok(node.ino)
}

/// True where `ino` is `below` or one of the directories above it.
fn is_above(core: &Core, ino: u64, below: u64) -> Outcome<bool> {
    let (mut at, mut slow, mut steps) = (below, below, 0u64);
    loop {
        if at == ino {
            return Ok(true);
        }
        let parent = Inode::directory(core, at)?.parent();
        if parent == at {
            return Ok(false);
        }
        at = parent;
        steps += 1;
        // This is Brent's cycle detection: only a damaged volume has a cycle.
        if at == slow {
            return Err(Fault::damaged(at, "a directory that is its own ancestor"));
        }
        if steps.is_power_of_two() {
            slow = at;
        }
    }
}

/// One side of a rename.
pub(crate) struct RenameSide<'n> {
    pub(crate) dir: u64,
    pub(crate) name: &'n [u8],
}

/// Takes away the old name of a rename, or gives it to a whiteout of `maker`.
fn leave<'v>(
    edit: &mut Edit<'v>,
    maker: &Caller,
    dir: Inode<'v>,
    old: Dentry<'v>,
    mode: RenameMode,
) -> Outcome<()> {
    if !mode.leaves_whiteout() {
        return dir::remove(edit, dir, old);
    }
    let kind = FileKind::CharDevice;
    let whiteout = make(edit, maker, dir, kind, WHITEOUT_PERM, WHITEOUT_DEVICE)?;
    dir::replace(edit, old, whiteout.ino, kind);
    Ok(())
}

/// Renames as far as `caller` may. A whiteout that stays belongs to `maker`; it needs no further permission.
pub(crate) fn rename(
    edit: &mut Edit<'_>,
    caller: &Caller,
    maker: &Caller,
    from: &RenameSide<'_>,
    to: &RenameSide<'_>,
    mode: RenameMode,
) -> Outcome<()> {
    let source_dir = Inode::directory(edit.core, from.dir)?;
    access(edit.core, caller, &source_dir, SEARCH)?;
    let target_dir = Inode::directory(edit.core, to.dir)?;
    access(edit.core, caller, &target_dir, SEARCH)?;
    if is_dots(from.name) {
        return Err(Code::Busy.into());
    }
    if is_dots(to.name) {
        return Err(if mode.needs_free_name() { Code::Exists } else { Code::Busy }.into());
    }
    check_name(from.name)?;
    let (old, new) = (Name::new(edit.core.seed, from.name), Name::new(edit.core.seed, to.name));
    let source = dir::find(edit.core, &source_dir, old)?.ok_or(Code::NotFound)?;
    check_name(to.name)?;
    let target = dir::find(edit.core, &target_dir, new)?;
    match target {
        Some(_) if mode.needs_free_name() => return Err(Code::Exists.into()),
        None if mode == RenameMode::Exchange => return Err(Code::NotFound.into()),
        _ => {}
    }
    let moved = Inode::load(edit.core, source.ino())?;
    let moved_kind = moved.kind()?;
    if moved_kind == FileKind::Directory && is_above(edit.core, moved.ino, to.dir)? {
        return Err(Code::Invalid.into());
    }
    let Some(target) = target else {
        perm::may_remove(edit.core, caller, &source_dir, &moved)?;
        must_have_a_name(&target_dir)?;
        access(edit.core, caller, &target_dir, WRITE | SEARCH)?;
        may_move(edit.core, caller, &moved, from.dir != to.dir)?;
        // The new entry comes first: it must not overwrite the old one, which a rollback restores.
        dir::insert(edit, target_dir, new, moved.ino, moved_kind)?;
        leave(edit, maker, source_dir, source, mode)?;
        return finish(edit, moved, source_dir, target_dir);
    };
    let other = Inode::load(edit.core, target.ino())?;
    let other_kind = other.kind()?;
    let both_ways = mode == RenameMode::Exchange;
    if other_kind == FileKind::Directory && is_above(edit.core, other.ino, from.dir)? {
        return Err(if both_ways { Code::Invalid } else { Code::NotEmpty }.into());
    }
    if moved.ino == other.ino {
        return Ok(());
    }
    perm::may_remove(edit.core, caller, &source_dir, &moved)?;
    perm::may_remove(edit.core, caller, &target_dir, &other)?;
    match (moved_kind == FileKind::Directory, other_kind == FileKind::Directory) {
        _ if both_ways => {}
        (true, false) => return Err(Code::NotDirectory.into()),
        (false, true) => return Err(Code::IsDirectory.into()),
        _ => {}
    }
    may_move(edit.core, caller, &moved, from.dir != to.dir)?;
    if both_ways {
        may_move(edit.core, caller, &other, from.dir != to.dir)?;
        dir::replace(edit, target, moved.ino, moved_kind);
        dir::replace(edit, source, other.ino, other_kind);
        finish(edit, moved, source_dir, target_dir)?;
        return finish(edit, other, target_dir, source_dir);
    }
    if other_kind == FileKind::Directory && !dir::is_empty(&other)? {
        return Err(Code::NotEmpty.into());
    }
    dir::replace(edit, target, moved.ino, moved_kind);
    leave(edit, maker, source_dir, source, mode)?;
    if other_kind == FileKind::Directory {
        add_links(edit, target_dir, -1)?;
    }
    drop_name(edit, other)?;
    finish(edit, moved, source_dir, target_dir)
}

/// Checks write permission on a directory that gets another parent: its `..` changes.
fn may_move(core: &Core<'_>, caller: &Caller, node: &Inode<'_>, changes_parent: bool) -> Outcome<()> {
    if changes_parent && node.kind()? == FileKind::Directory {
        access(core, caller, node, WRITE)
    } else {
        Ok(())
    }
}

/// Updates link counts and times after `moved` was moved from one directory to another.
fn finish<'v>(edit: &mut Edit<'v>, moved: Inode<'_>, from: Inode<'v>, to: Inode<'v>) -> Outcome<()> {
    if moved.kind()? == FileKind::Directory && from.ino != to.ino {
        add_links(edit, from, -1)?;
        add_links(edit, to, 1)?;
        edit.tx.put(moved.view, f::PARENT_OR_DEVICE, to.ino);
    }
    edit.tx.put(moved.view, f::CTIME, edit.now.0);
    edit.stamp(from.view);
    edit.stamp(to.view);
    Ok(())
}
