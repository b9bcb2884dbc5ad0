//! Frees of inodes that have neither a name nor a holder.

use crate::attempt::Core;
use crate::attempt::edit::Edit;
use crate::files::inode::Inode;
use crate::names::{dir, namespace, orphans};
use crate::running::volume::Volume;
use crate::space;
use crate::vocabulary::error::Outcome;
use lanefs_format::{
    BLOCK, BLOCKS_PER_CHUNK, CHUNK, CHUNK_HEADER_BLOCKS, Code, FileKind, group as g, inode as f,
};
use lanefs_store::Fault;

/// Entries of the orphan directory that are listed at a time.
const PAGE_ENTRIES: usize = 256;

/// Frees an inode that has neither a name nor a holder.
pub(crate) fn free_if_unheld(edit: &mut Edit<'_>, ino: u64) -> Outcome<()> {
    let node = match Inode::load(edit.core, ino) {
        Err(Fault::Code(Code::StaleInode)) => return Ok(()),
        found => found?,
    };
    if node.view.get(f::LINKS) != 0 {
        return Ok(());
    }
    // From here on a new holder conflicts with this transaction.
    edit.tx.lock(node.view)?;
    if edit.core.state.holds.keep_nameless(ino) {
        return Ok(());
    }
    if node.kind()? == FileKind::Directory && !dir::is_empty(&node)? {
        return Err(Fault::damaged(node.view.at(), "a directory without a name has entries"));
    }
    orphans::unlist(edit, ino)?;
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
        match Inode::load(core, ino) {
            Ok(node) if node.view.get(f::LINKS) == 0 => nameless.push(ino),
            Ok(_) | Err(Fault::Code(Code::StaleInode)) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(Some(nameless))
}

impl Volume {
    /// Frees all inodes without a name, each in a transaction of its own. Damaged ones stay, for fsck. The
    /// caller has the only access to the volume.
    pub(crate) fn free_orphans(&self) {
        let mut cookie = 0;
        let mut any = false;
        while let Ok(page) = self.view(|core| orphans::entries(core, cookie, PAGE_ENTRIES)) {
            let Some(last) = page.last() else { break };
            cookie = last.cookie;
            for entry in page.iter().filter(|entry| entry.ino.0 != self.superblock().orphans) {
                any = true;
                if entry.name == orphans::name_of(entry.ino.0).as_bytes() {
                    let _ = self.change(|edit| free_if_unheld(edit, entry.ino.0));
                }
            }
        }
        let unlisted = self.view(orphans::some_unlisted).unwrap_or(false);
        if unlisted {
            self.free_unlisted();
        }
        if any || unlisted {
            // Blocks that cannot be freed stay used; the next commit is not to fail for them. A device that
            // fails reports it again.
            let _ = self.shared.commit();
        }
    }

    /// Searches all inodes, and frees those without a name.
    fn free_unlisted(&self) {
        let mut complete = true;
        for chunk in 0..self.shared.state.store.bytes() / CHUNK {
            for slot in CHUNK_HEADER_BLOCKS..BLOCKS_PER_CHUNK {
                let at = chunk * CHUNK + slot * BLOCK;
                let Ok(found) = self.view(|core| nameless_in(core, at)) else {
                    complete = false;
                    continue;
                };
                if slot == CHUNK_HEADER_BLOCKS && found.is_none() {
                    break;
                }
                for ino in found.unwrap_or_default() {
                    complete &= self.change(|edit| free_if_unheld(edit, ino)).is_ok();
                }
            }
        }
        if complete {
            let _ = self.change(orphans::clear_unlisted);
        }
    }
}
