//! File maps: extents in the inode, and radix trees of tagged pointers.

use super::blocks::Naive;
use super::bytes::Words;
use super::claims::BlockUser;
use super::inode::{DIRECTORY, Inode};
use super::{BLOCK, Read, ensure, wrong};

/// Consecutive blocks of a file and of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Number of the first block in the file.
    pub(super) first: u64,
    /// Position of the first block.
    pub(super) at: u64,
    pub(super) blocks: u64,
    pub(super) unwritten: bool,
}

/// A whole file map.
#[derive(Default)]
pub(super) struct FileMap {
    /// In the order of the file.
    pub(super) extents: Vec<Extent>,
    /// Positions of the blocks of pointers.
    pub(super) pointers: Vec<u64>,
}

/// A decoded pointer.
struct Pointer {
    at: u64,
    indirect: bool,
    unwritten: bool,
    /// 1: 4 KiB, 2: 2 MiB, 3: 1 GiB.
    size: u64,
}

fn pointer(word: u64) -> Read<Option<Pointer>> {
    if word == 0 {
        return Ok(None);
    }
    let at = word & !0x7f;
    let p = Pointer { at, indirect: word & 2 != 0, unwritten: word & 16 != 0, size: word >> 2 & 3 };
    let valid = word & 1 != 0 && word & 0x60 == 0 && p.size != 0 && at.is_multiple_of(BLOCK) && at != 0;
    let fits = !p.indirect || p.size == 1 && !p.unwritten;
    ensure(valid && fits && at < 1 << 51, || format!("pointer {word:#x}"))?;
    Ok(Some(p))
}

impl Naive<'_> {
    /// The file map of an inode.
    pub(super) fn file_map(&self, inode: &Inode) -> Read<FileMap> {
        let depth = inode.depth();
        ensure(depth <= 5, || format!("a map of depth {depth}"))?;
        let mut map = FileMap::default();
        if inode.kind() != DIRECTORY && depth == 0 {
            ensure(inode.map() == 0, || "a pointer beside extents".to_owned())?;
            map.extents = extents(inode)?;
        } else {
            ensure(inode.extents() == 0, || "extents beside a tree".to_owned())?;
            match pointer(inode.map())? {
                None => ensure(depth == 0, || "a map without a root".to_owned())?,
                Some(p) if p.indirect != (depth > 0) => return wrong("a root that contradicts the depth"),
                Some(p) => self.walk(inode, &p, u32::from(depth), 0, &mut map)?,
            }
        }
        for pair in map.extents.windows(2) {
            ensure(pair[0].first + pair[0].blocks <= pair[1].first, || format!("extents {pair:?}"))?;
        }
        match map.extents.iter().find(|extent| extent.at + extent.blocks * BLOCK > self.superblock.bytes) {
            Some(extent) => wrong(format!("{extent:?} ends outside the volume")),
            None => Ok(map),
        }
    }

    /// Walks what a pointer names: blocks of data at level 0, blocks of pointers above.
    fn walk(&self, inode: &Inode, p: &Pointer, level: u32, first: u64, map: &mut FileMap) -> Read<()> {
        if !p.indirect {
            let blocks = 512u64.pow(p.size as u32 - 1);
            let small = inode.kind() != DIRECTORY || p.size == 1 && !p.unwritten;
            ensure(small, || "a directory with a large block".to_owned())?;
            map.extents.push(Extent { first, at: p.at, blocks, unwritten: p.unwritten });
            return Ok(());
        }
        let block = self.metadata(p.at, 5, inode.number)?;
        map.pointers.push(p.at);
        let span = 512u64.pow(level - 1);
        let mut is_empty = true;
        for slot in 0..512 {
            let Some(below) = pointer(block.u64(slot * 8))? else { continue };
            is_empty = false;
            let fits = if below.indirect { level > 1 } else { u64::from(level) == below.size };
            ensure(fits, || format!("a pointer at level {level} to a block of size {}", below.size))?;
            self.walk(inode, &below, level - 1, first + slot as u64 * span, map)?;
        }
        // The top may be empty.
        let is_top = level == u32::from(inode.depth());
        ensure(!is_empty || is_top, || format!("an empty block of pointers at {:#x}", p.at))
    }

    /// Claims the blocks of a map. Returns their number.
    pub(super) fn claim_map(&self, inode: &Inode, map: &FileMap) -> Read<u64> {
        let user = match inode.kind() {
            DIRECTORY => BlockUser::Metadata(6, inode.number),
            _ => BlockUser::Data(inode.number),
        };
        for extent in &map.extents {
            self.claims.claim(extent.at, extent.blocks, user)?;
        }
        for at in &map.pointers {
            self.claims.claim(*at, 1, BlockUser::Metadata(5, inode.number))?;
        }
        Ok(map.extents.iter().map(|extent| extent.blocks).sum::<u64>() + map.pointers.len() as u64)
    }
}

/// The extents in the tail of an inode.
fn extents(inode: &Inode) -> Read<Vec<Extent>> {
    let count = inode.extents();
    ensure(count * 16 <= inode.room(), || format!("{count} extents have no room"))?;
    let mut extents = Vec::new();
    for bytes in inode.tail()[..count * 16].chunks(16) {
        let Some(p) = pointer(bytes.u64(0))? else { return wrong("an extent without a position") };
        let blocks = u64::from(bytes.u32(12));
        ensure(!p.indirect && p.size == 1 && blocks > 0, || format!("extent {bytes:?}"))?;
        let first = u64::from(bytes.u32(8));
        extents.push(Extent { first, at: p.at, blocks, unwritten: p.unwritten });
    }
    let rest = if inode.is_inline() { &[][..] } else { &inode.tail()[count * 16..inode.room()] };
    ensure(rest.iter().all(|byte| *byte == 0), || "bytes after the extents".to_owned())?;
    Ok(extents)
}
