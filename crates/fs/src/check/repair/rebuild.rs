//! Directories and attributes that are made again, once bitmaps and chunk tables are right.
//!
//! The old blocks of a directory are freed, and its entries inserted again, between two commits. So a repair
//! that is interrupted leaves the old directory or the new one. (A directory that changes more blocks than
//! the journal has is written in place, and so is one on a volume without room for both.)

use crate::attempt::edit::Edit;
use crate::check::outcome::obstacles::MAKE_ROOM;
use crate::check::pass::{Attribute, ChainRebuild, Pass, Rebuild, Saved};
use crate::files::inode::{FLAG_MAP_HOLES, Inode, add_blocks, set_depth, set_flags};
use crate::files::xattr;
use crate::names::dir::{self, Name};
use crate::space;
use crate::vocabulary::error::Outcome;
use crate::vocabulary::types::XattrMode;
use lanefs_format::{BLOCK, BlockKind, Code, dir_inode_128 as tail, inode as f};
use lanefs_store::Fault;

/// Entries that one transaction puts back into a directory.
const BATCH_ENTRIES: usize = 512;

impl Pass<'_, '_> {
    /// Makes directories and attributes again.
    pub(in crate::check) fn rebuild(&mut self) -> Outcome<()> {
        for rebuild in std::mem::take(&mut self.rebuilds) {
            // New leaves are at least half full of entries that take 64 bytes on average; each region of 64
            // entries or more has an index block.
            let blocks = 2 * rebuild.blocks.len() + rebuild.entries.len() / 16 + 64;
            self.commit_unless_room(blocks as u64)?;
            self.rebuild_directory(&rebuild)?;
        }
        for chain in std::mem::take(&mut self.chains) {
            self.commit_unless_room(4 * chain.blocks.len() as u64 + 64)?;
            self.rebuild_chain(&chain)?;
        }
        Ok(())
    }

    fn rebuild_directory(&mut self, rebuild: &Rebuild) -> Outcome<()> {
        let ino = rebuild.ino;
        let mut blocks = Vec::with_capacity(rebuild.blocks.len());
        for (at, kind) in &rebuild.blocks {
            // All of them verified before; one that no longer does stays for the next pass.
            if self.load(*at, *kind)?.is_some() {
                blocks.push((*at, *kind));
            }
        }
        self.mend(|edit| {
            empty_directory(edit, ino)?;
            for (at, kind) in &blocks {
                space::free_block(edit, *at, *kind)?;
            }
            let node = Inode::load(edit.core, ino)?;
            edit.tx.put(node.view, f::BLOCKS, rebuild.xattr_blocks);
            Ok(())
        })?;
        let mut left_out = 0;
        for batch in rebuild.entries.chunks(BATCH_ENTRIES) {
            match self.insert_all(ino, batch) {
                // Some of them may have room where others have none.
                Err(Fault::Code(_)) => {
                    for entry in batch.chunks(1) {
                        match self.insert_all(ino, entry) {
                            Err(Fault::Code(_)) => left_out += 1,
                            done => done?,
                        }
                    }
                }
                done => done?,
            }
        }
        if left_out > 0 {
            self.obstacles.note(format!(
                "inode {ino}, a directory: no space for {left_out} of its names, so their files are in lost+found, \
                 or will be: {MAKE_ROOM}"
            ));
        }
        Ok(())
    }

    /// Puts entries back into a directory, in one transaction.
    fn insert_all(&mut self, ino: u64, entries: &[Saved]) -> Outcome<()> {
        self.mend(|edit| {
            for entry in entries {
                let node = Inode::directory(edit.core, ino)?;
                let name = Name::new(edit.core.seed, &entry.name);
                match dir::insert(edit, node, name, entry.ino, entry.kind) {
                    // Names that no directory can hold go to lost+found later.
                    Err(Fault::Code(Code::TreeFull)) => {}
                    done => done?,
                }
            }
            Ok(())
        })?;
        Ok(())
    }

    fn rebuild_chain(&mut self, chain: &ChainRebuild) -> Outcome<()> {
        let mut blocks = Vec::with_capacity(chain.blocks.len());
        for at in &chain.blocks {
            if self.load(*at, BlockKind::Xattr)?.is_some() {
                blocks.push(*at);
            }
        }
        let drop_old = |edit: &mut Edit<'_>| -> Outcome<()> {
            let node = Inode::load(edit.core, chain.ino)?;
            for at in &blocks {
                space::free_block(edit, *at, BlockKind::Xattr)?;
            }
            add_blocks(edit, node, -(chain.blocks.len() as i64))?;
            drop_small(edit, node);
            edit.tx.put(node.view, f::XATTR, 0);
            Ok(())
        };
        let set = |edit: &mut Edit<'_>, (name, value): &Attribute| -> Outcome<()> {
            let node = Inode::load(edit.core, chain.ino)?;
            xattr::set(edit, node, name, Some(value), XattrMode::Set)
        };
        let whole = self.mend(|edit| {
            drop_old(edit)?;
            chain.attributes.iter().try_for_each(|attribute| set(edit, attribute))
        });
        if !matches!(whole, Err(Fault::Code(Code::NoSpace))) {
            whole?;
            return Ok(());
        }
        // Without room for the old and the new chain the old one goes first.
        self.mend(drop_old)?;
        for attribute in &chain.attributes {
            let what = || format!("inode {}, an extended attribute of it", chain.ino);
            self.try_to_mend(what, |edit| set(edit, attribute))?;
        }
        Ok(())
    }
}

/// Zeroes the attributes that lie in an inode.
fn drop_small(edit: &mut Edit<'_>, node: Inode<'_>) {
    let room = edit.store().inode_size().attributes(node.is_directory());
    let word = node.view.get(f::XATTR);
    let bytes = if word < BLOCK { (word as usize).min(room.len()) } else { 0 };
    edit.tx.put_bytes(node.view, room.end - bytes, &[0; 256][..bytes]);
}

/// Makes the inode that of an empty directory. The blocks stay used.
fn empty_directory(edit: &mut Edit<'_>, ino: u64) -> Outcome<()> {
    let size = edit.store().inode_size();
    let node = Inode::load(edit.core, ino)?;
    for field in [f::BYTES, f::MAP, size.dir_root()] {
        edit.tx.put(node.view, field, 0);
    }
    set_depth(edit, node, 0);
    set_flags(edit, node, FLAG_MAP_HOLES, 0);
    edit.tx.put(node.tail(), tail::ROOM, 0);
    let (from, to) = (size.small_tags(), size.small_units() + size.small_entries());
    edit.tx.put_bytes(node.view, from, &[0; 256][..to - from]);
    Ok(())
}
