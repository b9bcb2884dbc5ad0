//! Twin of `shaders/seek.comp`.

use crate::shared::layout::{MODE_DIRECTORY, MODE_TYPE};
use crate::twin::headers::directory::{Directories, is_tree};
use crate::twin::headers::fuel::Fuel;
use crate::twin::headers::links::Links;
use crate::twin::headers::memory::Memory;
use crate::twin::headers::name::Name;
use crate::twin::headers::settings::KernelSettings;
use lanefs::bulk::{Home, Lookup, LookupRequest};
use lanefs::format::dir::{LEAF_HEADER_UNITS, REGION_MAX, entry};
use lanefs::format::{BLOCK, DirRoot, FileKind, UNIT};

/// Finds a name, or the region where it would be; `None`: the kernel cannot decide.
pub(crate) fn seek<M: Memory>(
    memory: &M,
    setting: &KernelSettings,
    request: &LookupRequest<'_>,
) -> Option<Lookup> {
    let fuel = &Fuel::new(setting.fuel);
    let name = Name::new(setting.seed, request.name, fuel);
    let hash = name.hash;
    if request.dir == 0 {
        return Some(Lookup { hash, ..Lookup::default() });
    }
    let size = setting.inode_size;
    let inode = request.dir.wrapping_mul(size.bytes());
    let root = memory.quad(inode.wrapping_add(size.dir_root().offset as u64))?;
    if memory.word(inode)? as u16 & MODE_TYPE != MODE_DIRECTORY {
        return None;
    }
    if root == 0 {
        return Some(Lookup { hash, ..Lookup::default() });
    }
    let directories = Directories { memory, inode_size: size, fuel };
    let links = Links { memory, removed: &[] };
    let (block, form) = (root - root % BLOCK, root % BLOCK);
    let is = |root: DirRoot| form == root.word() % BLOCK;
    let (home, dummy, found) = if is(DirRoot::Small(BLOCK)) {
        let dummy = block.wrapping_add(LEAF_HEADER_UNITS as u64 * UNIT);
        (Home::Small(block), dummy, directories.find_small(inode, block, &name)?)
    } else {
        let index = match () {
            () if is(DirRoot::Region(BLOCK)) => block,
            () if is_tree(root) => directories.region_of(root, hash)?,
            () => return None,
        };
        let dummy = links.dummy_of(index)?;
        if memory.quad(dummy + entry::INODE.offset as u64)? != index {
            return None;
        }
        (Home::Region(index), dummy, directories.find_in_region(index, &name)?)
    };
    let count = links.count(dummy)?;
    let entry = match found {
        Some(found) => Some((found.at, found.ino, FileKind::from_number(found.kind as u8)?)),
        None => None,
    };
    let is_certain = fuel.left() > 0 && count as usize <= REGION_MAX;
    is_certain.then_some(Lookup { hash, home, dummy, count, entry })
}
