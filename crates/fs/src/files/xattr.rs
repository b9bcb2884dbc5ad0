//! Extended attributes: in the inode where it has room for them, else in a chain of blocks. Each change
//! writes all of them again.

use super::inode::{Inode, add_blocks, set_flags};
use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::space;
use crate::vocabulary::acl::AclKind;
use crate::vocabulary::error::Outcome;
use crate::vocabulary::types::XattrMode;
use lanefs_format::{BLOCK, BlockKind, Code, inode as f, xattr_block as x};
use lanefs_store::Fault;

/// Longest name, and longest value, in bytes, as in Linux.
const MAX_NAME_BYTES: usize = 255;
pub(crate) const MAX_VALUE: usize = 65536;
/// All attributes of an inode together, in bytes.
const MAX_TOTAL_BYTES: usize = 256 << 10;
/// Bytes before the name of an attribute: the lengths of name and value.
const HEAD_BYTES: usize = 6;
const _: () = assert!(
    MAX_NAME_BYTES <= u16::MAX as usize && MAX_VALUE + MAX_NAME_BYTES + HEAD_BYTES <= MAX_TOTAL_BYTES,
    "an inode has room for the longest attribute"
);

/// Bytes of a block after its header.
const ROOM_BYTES: usize = BLOCK as usize - x::SIZE;

/// Reads the attributes of an inode as they are stored, one after another.
fn payload(core: &Core, node: Inode<'_>) -> Outcome<Vec<u8>> {
    let here = node.attributes();
    if here > 0 {
        let room = node.attribute_room()?;
        let mut bytes = vec![0; here];
        if here > room.len() || !node.view.copy_to(room.end - here, &mut bytes) {
            return Err(Fault::damaged(
                node.view.at(),
                "more extended attributes than the inode has room for",
            ));
        }
        return Ok(bytes);
    }
    let mut bytes = Vec::new();
    let mut at = node.view.get(f::XATTR);
    while at != 0 {
        let view = core.store.block(at, BlockKind::Xattr)?;
        let len = view.get(x::LENGTH) as usize;
        let start = bytes.len();
        if view.get(x::OWNER) != node.ino || len > ROOM_BYTES || len == 0 || start + len > MAX_TOTAL_BYTES {
            return Err(Fault::damaged(at, "a wrong block of extended attributes"));
        }
        bytes.resize(start + len, 0);
        view.copy_to(x::SIZE, &mut bytes[start..]);
        at = view.get(x::NEXT);
    }
    Ok(bytes)
}

/// Splits a payload into names and values.
fn parse(bytes: &[u8], at: u64) -> Outcome<Vec<(&[u8], &[u8])>> {
    let bad = Fault::damaged(at, "extended attributes with wrong lengths");
    let mut list = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (head, more) = rest.split_at_checked(HEAD_BYTES).ok_or(bad)?;
        let name = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let value = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
        let (name, more) = more.split_at_checked(name).ok_or(bad)?;
        let (value, more) = more.split_at_checked(value).ok_or(bad)?;
        list.push((name, value));
        rest = more;
    }
    Ok(list)
}

/// Checks the name of an attribute.
///
/// # Errors
/// [`Code::BufferTooSmall`] for a name that is empty or too long, as in Linux; [`Code::Invalid`] for one with
/// a NUL.
pub(crate) fn check_name(name: &[u8]) -> Outcome<()> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Err(Code::BufferTooSmall.into());
    }
    if name.contains(&0) { Err(Code::Invalid.into()) } else { Ok(()) }
}

pub(crate) fn get(core: &Core, node: Inode<'_>, name: &[u8]) -> Outcome<Vec<u8>> {
    let bytes = payload(core, node)?;
    let list = parse(&bytes, node.view.at())?;
    let found = list.iter().find(|(n, _)| *n == name).ok_or(Code::NoAttribute)?;
    Ok(found.1.to_vec())
}

pub(crate) fn list(core: &Core, node: Inode<'_>) -> Outcome<Vec<Vec<u8>>> {
    let bytes = payload(core, node)?;
    Ok(parse(&bytes, node.view.at())?.into_iter().map(|(name, _)| name.to_vec()).collect())
}

/// Sets an attribute, or removes it where `value` is `None`, with the flag of an access control list.
pub(crate) fn set(
    edit: &mut Edit<'_>,
    node: Inode<'_>,
    name: &[u8],
    value: Option<&[u8]>,
    mode: XattrMode,
) -> Outcome<()> {
    let bytes = payload(edit.core, node)?;
    let old = parse(&bytes, node.view.at())?;
    let exists = old.iter().any(|(n, _)| *n == name);
    match (mode, exists) {
        (XattrMode::Create, true) => return Err(Code::Exists.into()),
        (XattrMode::Replace, false) => return Err(Code::NoAttribute.into()),
        _ => {}
    }
    let mut new = Vec::with_capacity(bytes.len());
    let kept = old.into_iter().filter(|(n, _)| *n != name);
    for (name, value) in kept.chain(value.map(|v| (name, v))) {
        new.extend_from_slice(&(name.len() as u16).to_le_bytes());
        new.extend_from_slice(&(value.len() as u32).to_le_bytes());
        new.extend_from_slice(name);
        new.extend_from_slice(value);
    }
    if new.len() > MAX_TOTAL_BYTES {
        return Err(Code::NoSpace.into());
    }
    store(edit, node, &new)?;
    if let Some(kind) = AclKind::of(name) {
        set_flags(edit, node, kind.flag(), if value.is_some() { kind.flag() } else { 0 });
    }
    edit.tx.put(node.view, f::CTIME, edit.now.0);
    Ok(())
}

/// Replaces all attributes by those in `new`, as they are stored.
fn store(edit: &mut Edit<'_>, node: Inode<'_>, new: &[u8]) -> Outcome<()> {
    free_chain(edit, node)?;
    let room = node.attribute_room()?;
    let here = if new.len() <= room.len() { new } else { &[] };
    let mut bytes = [0; 256];
    bytes[room.end - here.len()..room.end].copy_from_slice(here);
    edit.tx.put_bytes(node.view, room.start, &bytes[room]);
    let mut word = here.len() as u64;
    for part in new[here.len()..].chunks(ROOM_BYTES).rev() {
        let view = space::alloc_block(edit, BlockKind::Xattr, node.ino)?;
        add_blocks(edit, node, 1)?;
        edit.tx.set(view, x::NEXT, word);
        edit.tx.set(view, x::LENGTH, part.len() as u64);
        edit.tx.fill(view, x::SIZE, part);
        word = view.at();
    }
    edit.tx.put(node.view, f::XATTR, word);
    Ok(())
}

/// Frees all attributes of an inode that is going to be freed.
pub(crate) fn free(edit: &mut Edit<'_>, node: Inode<'_>) -> Outcome<()> {
    free_chain(edit, node)?;
    edit.tx.put(node.view, f::XATTR, 0);
    Ok(())
}

/// Frees the blocks of the chain, where there is one.
fn free_chain(edit: &mut Edit<'_>, node: Inode<'_>) -> Outcome<()> {
    let mut at = if node.attributes() > 0 { 0 } else { node.view.get(f::XATTR) };
    while at != 0 {
        let view = edit.store().block(at, BlockKind::Xattr)?;
        if view.get(x::OWNER) != node.ino {
            return Err(Fault::damaged(at, "a block of another inode's extended attributes"));
        }
        let next = view.get(x::NEXT);
        // A chain with a cycle meets a block that this transaction has freed, and stops with an error.
        space::free_block(edit, at, BlockKind::Xattr)?;
        add_blocks(edit, node, -1)?;
        at = next;
    }
    Ok(())
}
