//! The fields of each inode.

pub(super) mod links;
pub(super) mod maps;
pub(super) mod names;
pub(super) mod targets;
pub(super) mod xattrs;

use super::pass::Pass;
use crate::check::outcome::findings::Tally;
use crate::check::outcome::invariants as iv;
use crate::check::pass::inode_table::Inodes;
use crate::files::inode::{FLAG_MAP_HOLES, FLAG_UNLISTED};
use crate::vocabulary::acl::AclKind;
use crate::vocabulary::error::Outcome;
use lanefs_format::{
    BLOCK, BlockKind, FileKind, INODE_DEPTH_SHIFT, INODE_EXTENTS_MASK, INODE_EXTENTS_SHIFT, INODE_INLINE,
    INODE_NO_DATA_CHECKSUMS, InodeSize, MAX_FILE_SIZE, MAX_MAP_DEPTH, MAX_SYMLINK, chunk_entry, extent,
    inode as f,
};
use std::ops::Range;
use targets::{check_end, target_len};

use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Blocks of inodes in a batch.
const BLOCKS: usize = 64;

impl Pass<'_, '_> {
    /// Records the inodes in use and their types, and checks their fields.
    pub(super) fn survey_inodes(&mut self) -> Outcome<()> {
        let inodes = Arc::clone(&self.inodes);
        let used = self.in_batches(inodes.blocks.len(), BLOCKS, |pass, range| {
            let mut used = 0;
            for block in range {
                used += pass.survey_block(&inodes, block)?;
            }
            Ok(used)
        })?;
        self.used_inodes = used.into_iter().sum();
        self.directories = inodes.find_directories();
        Ok(())
    }

    /// Surveys one block of inodes. Returns the number of those in use.
    fn survey_block(&mut self, inodes: &Inodes, block: usize) -> Outcome<u64> {
        let size = self.core.store.inode_size();
        let at = inodes.blocks[block].at();
        let (bytes, _) = self.read_inodes(at)?;
        let mut used = 0u64;
        for (index, one) in bytes.chunks_exact(size.bytes() as usize).enumerate() {
            if f::MODE.read(one) == Some(0) {
                continue;
            }
            used += 1;
            let ino = at / size.bytes() + index as u64;
            let mut tally = Tally::new(ino);
            let mut mended = [0; 256];
            mended[..one.len()].copy_from_slice(one);
            let list = self.is_orphan_directory(ino);
            let kind = check_fields(&mut mended[..one.len()], size, &mut tally, (ino * size.bytes(), list));
            inodes.set_kind(block * inodes.per_block() + index, kind);
            let flags = f::FLAGS.read(&mended).unwrap_or(0);
            if list && kind == FileKind::Directory && flags & FLAG_UNLISTED != 0 {
                inodes.some_unlisted.store(true, Ordering::Relaxed);
            }
            self.findings.take(tally);
            if mended[..one.len()] != *one {
                self.write_inode(ino, &mended[..one.len()])?;
            }
        }
        if let Some(entry) = self.table_entry(at)?
            && entry.get(chunk_entry::KIND) == BlockKind::Inodes as u8
        {
            let said = u64::from(entry.get(chunk_entry::USED));
            if said != used {
                self.findings.add(at, &iv::CHUNK_ENTRY_USED, format!("{said} instead of {used}"));
            }
            if entry.get(chunk_entry::OWNER) != 0 {
                self.findings.add(at, &iv::CHUNK_ENTRY_OWNER, "a block of inodes");
            }
            if entry.get(chunk_entry::CHECKSUM) != 0 {
                self.findings.add(at, &iv::CHUNK_ENTRY_ZERO, "a block of inodes");
            }
        }
        Ok(used)
    }
}

/// Checks the fields of an inode that need no other structure, and corrects wrong ones in the copy. Returns
/// the type. The flag beside the inode's position says whether it is the orphan directory.
pub(super) fn check_fields(
    bytes: &mut [u8],
    size: InodeSize,
    tally: &mut Tally,
    (at, is_list): (u64, bool),
) -> FileKind {
    let mode = f::MODE.read(bytes).unwrap_or(0);
    let kind = FileKind::from_mode(mode).unwrap_or_else(|| {
        tally.note(at, &iv::INODE_MODE);
        f::MODE.write(bytes, FileKind::File.mode() | mode & 0o7777);
        FileKind::File
    });
    if f::GENERATION.read(bytes) == Some(0) {
        tally.note(at, &iv::INODE_GENERATION);
        f::GENERATION.write(bytes, 1);
    }
    let has_map = matches!(kind, FileKind::File | FileKind::Symlink | FileKind::Directory);
    let flags = f::FLAGS.read(bytes).unwrap_or(0);
    let map = f::MAP.read(bytes).unwrap_or(0);
    let depth = (flags >> INODE_DEPTH_SHIFT & 0xf) as u8;
    let is_file = matches!(kind, FileKind::File | FileKind::Symlink);
    let lists = [AclKind::Access, AclKind::Default].into_iter().filter(|list| list.fits(kind));
    let lists = lists.fold(0, |flags, list| flags | list.flag());
    let directory = FLAG_MAP_HOLES | INODE_NO_DATA_CHECKSUMS | 0xf << INODE_DEPTH_SHIFT;
    let file = INODE_INLINE | INODE_NO_DATA_CHECKSUMS | 0xf << INODE_DEPTH_SHIFT | INODE_EXTENTS_MASK;
    let allowed = match kind {
        FileKind::File | FileKind::Symlink => file,
        FileKind::Directory if is_list => FLAG_UNLISTED | directory,
        FileKind::Directory => directory,
        _ => 0,
    };
    let mut good = flags & (allowed | lists);
    let inline = good & INODE_INLINE != 0;
    // The depth 0 of a file means extents.
    let is_misfit = !has_map || inline || depth > MAX_MAP_DEPTH || is_file && depth == 0;
    if map != 0 && is_misfit {
        tally.note(at, &iv::INODE_MAP);
        f::MAP.write(bytes, 0);
    }
    if f::MAP.read(bytes) == Some(0) {
        good &= !(0xf << INODE_DEPTH_SHIFT);
    }
    if inline || depth != 0 {
        good &= !INODE_EXTENTS_MASK;
    }
    if good != flags {
        tally.note(at, &iv::INODE_FLAGS);
    }
    let mut extents = usize::from((good & INODE_EXTENTS_MASK) >> INODE_EXTENTS_SHIFT);
    if extents > size.extents() {
        tally.note(at, &iv::EXTENT_COUNT);
        extents = size.extents();
        good = good & !INODE_EXTENTS_MASK | (extents as u16) << INODE_EXTENTS_SHIFT;
    }
    f::FLAGS.write(bytes, good);
    if kind == FileKind::Symlink && inline {
        let here = f::XATTR.read(bytes).filter(|word| *word < BLOCK).unwrap_or(0) as usize;
        let tail = &bytes[size.attributes(false)];
        let end = target_len(&tail[..tail.len().saturating_sub(here)]);
        check_end(tally, bytes, end, at);
    }
    let length = f::BYTES.read(bytes).unwrap_or(0);
    let most = match kind {
        FileKind::File | FileKind::Symlink if inline => size.inline() as u64,
        FileKind::File | FileKind::Directory => MAX_FILE_SIZE,
        FileKind::Symlink => MAX_SYMLINK as u64,
        _ => 0,
    };
    if length > most {
        tally.note(at, &iv::INODE_SIZE);
        f::BYTES.write(bytes, most);
    }
    let used = if inline { length.min(most) as usize } else { extents * extent::SIZE };
    check_tail(bytes, size.attributes(kind == FileKind::Directory), used, tally, at);
    let device = f::PARENT_OR_DEVICE.read(bytes).unwrap_or(0);
    let may_have_one = matches!(kind, FileKind::Directory | FileKind::CharDevice | FileKind::BlockDevice);
    if device != 0 && !may_have_one {
        tally.note(at, &iv::INODE_RDEV);
        f::PARENT_OR_DEVICE.write(bytes, 0);
    }
    kind
}

/// Checks the bytes of the tail that content, extents and attributes may share: what they leave is zero. The
/// first `used` bytes are content or extents.
fn check_tail(bytes: &mut [u8], tail: Range<usize>, used: usize, tally: &mut Tally, at: u64) {
    let free = tail.start + used..tail.end;
    let mut here = f::XATTR.read(bytes).filter(|word| *word < BLOCK).unwrap_or(0) as usize;
    if here > free.len() {
        tally.note(at, &iv::XATTR_LENGTH);
        f::XATTR.write(bytes, 0);
        here = 0;
    }
    let free = &mut bytes[free.start..free.end - here];
    if free.iter().any(|byte| *byte != 0) {
        tally.note(at, &iv::INODE_TAIL);
        free.fill(0);
    }
}
