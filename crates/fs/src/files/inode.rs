//! Inodes in use.

use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::space;
use crate::vocabulary::error::Outcome;
use crate::vocabulary::types::{Attr, Ino, Time};
use lanefs_format::{
    BLOCK, Code, Field, FileKind, INODE_ACCESS_ACL, INODE_CORE, INODE_DEFAULT_ACL, INODE_DEPTH_MASK,
    INODE_DEPTH_SHIFT, INODE_EXTENTS_MASK, INODE_EXTENTS_SHIFT, INODE_INLINE, INODE_NO_DATA_CHECKSUMS,
    InodeSize, MAX_LINKS, MAX_MAP_DEPTH, Word, extent, inode as f,
};
use lanefs_store::{Fault, View};
use std::ops::Range;

/// An inode in use.
#[derive(Clone, Copy)]
pub(crate) struct Inode<'a> {
    pub(crate) view: View<'a>,
    pub(crate) ino: u64,
}

/// Flag of a directory: its file map has holes below its end, which a new leaf fills.
pub(crate) const FLAG_MAP_HOLES: u16 = 2;
/// Flag of the orphan directory: it may not list all inodes without a name.
pub(crate) const FLAG_UNLISTED: u16 = 4;

const _: () = assert!(
    (FLAG_MAP_HOLES | FLAG_UNLISTED)
        & (INODE_INLINE
            | INODE_DEPTH_MASK
            | INODE_EXTENTS_MASK
            | INODE_NO_DATA_CHECKSUMS
            | INODE_ACCESS_ACL
            | INODE_DEFAULT_ACL)
        == 0,
    "the flags of directories leave the common flags alone"
);
const _: () = assert!(FLAG_MAP_HOLES & FLAG_UNLISTED == 0, "the flags of directories do not overlap");

impl<'a> Inode<'a> {
    /// Loads an inode.
    ///
    /// # Errors
    /// [`Code::StaleInode`] when the inode is free.
    #[inline(always)]
    pub(crate) fn load(core: &Core<'a>, ino: u64) -> Outcome<Self> {
        let view = match core.store.inode(ino) {
            Ok(view) => view,
            Err(fault) => return Err(Self::perhaps_stale(core, ino, fault)),
        };
        if view.get(f::MODE) == 0 {
            return Err(Code::StaleInode.into());
        }
        Ok(Inode { view, ino })
    }

    /// Decides by the chunk's table whether an inode that is not resident exists at all.
    #[cold]
    fn perhaps_stale(core: &Core<'_>, ino: u64, fault: Fault) -> Fault {
        match (space::may_hold_inodes(core, ino.saturating_mul(core.store.inode_size().bytes())), fault) {
            (Ok(false), Fault::Miss { .. } | Fault::Damaged { .. }) => Code::StaleInode.into(),
            (Err(writer @ (Fault::Conflict { .. } | Fault::ReadSetTooLarge)), _) => writer,
            // The table is not resident either, and is fetched first. Where it does not verify, the inode's
            // own checksum decides: a bad table costs no inode.
            (Err(Fault::Miss { at, want }), Fault::Miss { .. }) if !core.state.is_bad_table(at) => {
                Fault::Miss { at, want }
            }
            _ => fault,
        }
    }

    /// Loads the inode of a directory.
    ///
    /// # Errors
    /// [`Code::NotDirectory`].
    #[inline(always)]
    pub(crate) fn directory(core: &Core<'a>, ino: u64) -> Outcome<Self> {
        let node = Self::load(core, ino)?;
        if !node.is_directory() {
            return Err(Code::NotDirectory.into());
        }
        Ok(node)
    }

    #[inline(always)]
    pub(crate) fn is_directory(&self) -> bool {
        self.mode() >> 12 == FileKind::Directory as u16
    }

    #[inline(always)]
    pub(crate) fn mode(&self) -> u16 {
        self.view.get(f::MODE)
    }

    pub(crate) fn kind(&self) -> Outcome<FileKind> {
        FileKind::from_mode(self.mode()).ok_or(Fault::damaged(self.view.at(), "an unknown file type"))
    }

    #[inline(always)]
    pub(crate) fn flags(&self) -> u16 {
        self.view.get(f::FLAGS)
    }

    pub(crate) fn is_inline(&self) -> bool {
        self.flags() & INODE_INLINE != 0
    }

    pub(crate) fn size(&self) -> u64 {
        self.view.get(f::BYTES)
    }

    /// The flags that a new inode of this kind in the directory gets.
    pub(crate) fn inherited(&self, kind: FileKind) -> u16 {
        match kind {
            FileKind::File | FileKind::Directory => self.flags() & INODE_NO_DATA_CHECKSUMS,
            _ => 0,
        }
    }

    /// Number of levels of pointer blocks in the file map; 0 where a file's map is the extents in the inode.
    #[inline(always)]
    pub(crate) fn depth(&self) -> Outcome<u8> {
        let depth = ((self.flags() & INODE_DEPTH_MASK) >> INODE_DEPTH_SHIFT) as u8;
        if depth > MAX_MAP_DEPTH {
            return Err(Fault::damaged(self.view.at(), "a file map that is too deep"));
        }
        Ok(depth)
    }

    /// Bytes of extended attributes in the inode, as it says.
    #[inline(always)]
    pub(crate) fn attributes(&self) -> usize {
        let word = self.view.get(f::XATTR);
        if word < BLOCK { word as usize } else { 0 }
    }

    /// True where the inode has extended attributes, in it or in blocks.
    pub(crate) fn has_xattrs(&self) -> bool {
        self.view.get(f::XATTR) != 0
    }

    /// Bytes of the tail that content or extents may use: those before the attributes.
    #[inline(always)]
    pub(crate) fn room(&self) -> Outcome<usize> {
        (self.view.len() - INODE_CORE)
            .checked_sub(self.attributes())
            .ok_or(Fault::damaged(self.view.at(), "more extended attributes than the inode has room for"))
    }

    /// Bytes of the inode that attributes may use, which lie at their end: those that nothing else uses.
    pub(crate) fn attribute_room(&self) -> Outcome<Range<usize>> {
        let all = match InodeSize::from_bytes(self.view.len() as u64) {
            Some(size) => size.attributes(self.is_directory()),
            None => 0..0,
        };
        let used = match () {
            () if self.is_directory() => 0,
            () if self.is_inline() => self.size().min(self.view.len() as u64) as usize,
            () => extent_count(self.flags()) * extent::SIZE,
        };
        let start = all.start + used;
        if start > all.end {
            return Err(Fault::damaged(self.view.at(), "content or extents longer than the inode"));
        }
        Ok(start..all.end)
    }

    /// The part after the first [`INODE_CORE`] bytes.
    pub(crate) fn tail(&self) -> View<'a> {
        // A view of an inode is longer than `INODE_CORE`, so the part exists.
        self.view.part(INODE_CORE, self.view.len() - INODE_CORE).unwrap_or(self.view)
    }

    /// A directory's parent.
    pub(crate) fn parent(&self) -> u64 {
        self.view.get(f::PARENT_OR_DEVICE)
    }

    #[inline(always)]
    pub(crate) fn attr(&self) -> Outcome<Attr> {
        Ok(attr_in(self.ino, self.kind()?, &self.view))
    }
}

/// A source of an inode's fields.
trait Fields {
    fn get<T: Word>(&self, field: Field<T>) -> T;
}

impl Fields for View<'_> {
    #[inline(always)]
    fn get<T: Word>(&self, field: Field<T>) -> T {
        View::get(self, field)
    }
}

/// A copy of an inode's first bytes.
impl Fields for [u8; INODE_CORE] {
    #[inline(always)]
    fn get<T: Word>(&self, field: Field<T>) -> T {
        field.read(self).unwrap_or(T::from_bits(0))
    }
}

#[inline(always)]
fn attr_in(ino: u64, kind: FileKind, v: &impl Fields) -> Attr {
    let blocks = v.get(f::BLOCKS);
    Attr {
        ino: Ino(ino),
        kind,
        perm: v.get(f::MODE) & 0o7777,
        links: v.get(f::LINKS),
        uid: v.get(f::UID),
        gid: v.get(f::GID),
        size: if kind == FileKind::Directory { blocks.saturating_mul(BLOCK) } else { v.get(f::BYTES) },
        blocks,
        rdev: match kind {
            FileKind::CharDevice | FileKind::BlockDevice => v.get(f::PARENT_OR_DEVICE),
            _ => 0,
        },
        mtime: Time(v.get(f::MTIME)),
        ctime: Time(v.get(f::CTIME)),
        atime: Time(v.get(f::ATIME)),
        btime: Time(v.get(f::BTIME)),
        generation: v.get(f::GENERATION),
    }
}

impl Attr {
    /// Decodes the attributes from the first [`INODE_CORE`] bytes of an inode, for an engine that has a copy
    /// of them; `None` for the bytes of a free inode.
    pub fn of_inode(ino: Ino, core: &[u8]) -> Option<Attr> {
        let core: &[u8; INODE_CORE] = core.try_into().ok()?;
        let kind = FileKind::from_mode(core.get(f::MODE))?;
        Some(attr_in(ino.0, kind, core))
    }
}

/// A new inode.
pub(crate) struct NewInode<'c> {
    pub(crate) kind: FileKind,
    pub(crate) perm: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) rdev: u64,
    pub(crate) parent: u64,
    pub(crate) flags: u16,
    /// The content of a file, which [fits](fits_inline) into the inode; others are written behind.
    pub(crate) content: &'c [u8],
}

/// True for content that has room in a new inode.
pub(crate) fn fits_inline(core: &Core<'_>, content: &[u8]) -> bool {
    content.len() <= core.store.inode_size().bytes() as usize - INODE_CORE
}

/// Allocates and fills an inode with a link count of one (directories: two); the caller adds the name.
pub(crate) fn make<'v>(edit: &mut Edit<'v>, new: &NewInode<'_>) -> Outcome<Inode<'v>> {
    let (ino, view) = space::alloc_inode(edit)?;
    let old = view.get(f::GENERATION);
    let mut bytes = [0u8; 256];
    let is_dir = new.kind == FileKind::Directory;
    let is_inline = !new.content.is_empty();
    f::FLAGS.write(&mut bytes, new.flags | if is_inline { INODE_INLINE } else { 0 });
    if let Some(tail) = bytes.get_mut(INODE_CORE..INODE_CORE + new.content.len()) {
        tail.copy_from_slice(new.content);
        f::BYTES.write(&mut bytes, new.content.len() as u64);
    }
    f::LINKS.write(&mut bytes, if is_dir { 2 } else { 1 });
    f::UID.write(&mut bytes, new.uid);
    f::GID.write(&mut bytes, new.gid);
    f::PARENT_OR_DEVICE.write(&mut bytes, if is_dir { new.parent } else { new.rdev });
    for time in [f::MTIME, f::CTIME, f::ATIME, f::BTIME] {
        time.write(&mut bytes, edit.now.0);
    }
    // The block may have held other metadata meanwhile, so a first generation comes from the clock.
    let generation = if old == 0 { (edit.now.0 >> 20) as u32 } else { old.wrapping_add(1) };
    f::GENERATION.write(&mut bytes, generation.max(1));
    // The inode is free until its mode is set, so only the mode needs undo.
    edit.tx.init(view, 0, &bytes[..view.len()]);
    edit.tx.put(view, f::MODE, new.kind.mode() | new.perm & 0o7777);
    Ok(Inode { view, ino })
}

/// Makes a directory without a name, which is its own parent. Returns its inode number.
pub(crate) fn nameless_directory(edit: &mut Edit<'_>, perm: u16) -> Outcome<u64> {
    let kind = FileKind::Directory;
    let new = NewInode { kind, perm, uid: 0, gid: 0, rdev: 0, parent: 0, flags: 0, content: b"" };
    let node = make(edit, &new)?;
    edit.tx.put(node.view, f::PARENT_OR_DEVICE, node.ino);
    Ok(node.ino)
}

/// Adds to the link count. Returns the new count.
pub(crate) fn add_links(edit: &mut Edit<'_>, node: Inode<'_>, by: i32) -> Outcome<u32> {
    let links = node.view.get(f::LINKS);
    let new = links.checked_add_signed(by).ok_or(Fault::damaged(node.view.at(), "a wrong link count"))?;
    if new > MAX_LINKS {
        return Err(Code::TooManyLinks.into());
    }
    edit.tx.put(node.view, f::LINKS, new);
    edit.tx.put(node.view, f::CTIME, edit.now.0);
    Ok(new)
}

/// Changes flags: clears `off`, sets `on`.
pub(crate) fn set_flags(edit: &mut Edit<'_>, node: Inode<'_>, off: u16, on: u16) {
    edit.tx.put(node.view, f::FLAGS, node.flags() & !off | on);
}

pub(crate) fn set_depth(edit: &mut Edit<'_>, node: Inode<'_>, depth: u8) {
    debug_assert!(depth <= MAX_MAP_DEPTH, "a map of depth {depth}");
    set_flags(edit, node, INODE_DEPTH_MASK, u16::from(depth) << INODE_DEPTH_SHIFT);
}

/// Number of extents in the inode, as its flags give it.
#[inline(always)]
pub(crate) fn extent_count(flags: u16) -> usize {
    usize::from((flags & INODE_EXTENTS_MASK) >> INODE_EXTENTS_SHIFT)
}

pub(crate) fn set_extent_count(edit: &mut Edit<'_>, node: Inode<'_>, count: usize) {
    debug_assert!(count <= usize::from(INODE_EXTENTS_MASK >> INODE_EXTENTS_SHIFT), "{count} extents");
    set_flags(edit, node, INODE_EXTENTS_MASK, (count as u16) << INODE_EXTENTS_SHIFT);
}

/// Adds to the number of blocks that the inode owns.
pub(crate) fn add_blocks(edit: &mut Edit<'_>, node: Inode<'_>, by: i64) -> Outcome<()> {
    let blocks = node.view.get(f::BLOCKS).checked_add_signed(by);
    let blocks = blocks.ok_or(Fault::damaged(node.view.at(), "a wrong count of blocks"))?;
    edit.tx.put(node.view, f::BLOCKS, blocks);
    Ok(())
}

/// Stamps a change of content (and of the inode). [`Edit::stamp`] does so for directories.
pub(crate) fn touch(edit: &mut Edit<'_>, node: Inode<'_>) {
    edit.tx.put(node.view, f::MTIME, edit.now.0);
    edit.tx.put(node.view, f::CTIME, edit.now.0);
}
