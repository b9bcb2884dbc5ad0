//! Damage that once broke the engine or its repair. It is tried first, for ever.
//!
//! Each case is written in terms of the format's structures. A seed of the mutator would mean other damage
//! as soon as the format, a base or the mutator changes.

use super::bases::MutationBase;
use super::editor::Editor;
use lanefs_format::{
    BLOCK, BlockKind, Pointer, SUPERBLOCK_COPY, SumPlace, chunk_entry, dir, extent, group, inode,
    journal_descriptor, xattr_block,
};
use rustix::fs::FileType;

/// Damage that once broke something.
pub struct KeptCase {
    /// The damage, and its effect at that time.
    pub name: &'static str,
    /// Base images in which it is done.
    pub bases: &'static [&'static str],
    damage: fn(&mut Editor<'_>),
}

impl KeptCase {
    /// Does the damage, with valid checksums.
    ///
    /// # Errors
    /// A base image without the structure that is damaged.
    pub fn editor<'b>(&self, base: &'b MutationBase) -> Result<Editor<'b>, String> {
        let mut editor = Editor::new(&base.image);
        (self.damage)(&mut editor);
        editor.seal();
        match editor.differs() {
            Some(_) => Ok(editor),
            None => Err(format!("{}: there is nothing to damage in {}", self.name, base.name)),
        }
    }
}

/// All kept cases.
pub const KEPT_CASES: &[KeptCase] = &[
    KeptCase {
        name: "a chunk's table promises a free inode that its block does not have: endless search",
        bases: &["maps-256", "empty", "small-128"],
        damage: |editor| every_block(editor, BlockKind::Inodes, fill_with_inodes),
    },
    KeptCase {
        name: "a chain of attribute blocks is a circle: fetched and freed for ever",
        bases: &["small-256", "small-128"],
        damage: |editor| {
            every_block(editor, BlockKind::Xattr, |at, block| xattr_block::NEXT.write(block, at));
        },
    },
    KeptCase {
        name: "a tree's child lies in the last block of the address space: overflow",
        bases: &["tree-128", "tree-256"],
        damage: |editor| tree_child(editor, u64::MAX - (BLOCK - 1)),
    },
    KeptCase {
        name: "a tree's child lies at the last byte of the address space: overflow",
        bases: &["tree-128", "tree-256"],
        damage: |editor| tree_child(editor, u64::MAX),
    },
    KeptCase {
        name: "a file has a size of 2^64 - 1: its last block has no end",
        bases: &["maps-256", "small-128"],
        damage: |editor| every_file(editor, |one| inode::BYTES.write(one, u64::MAX)),
    },
    KeptCase {
        name: "a group has a count of free blocks that no difference can be taken of",
        bases: &["small-256"],
        damage: |editor| every_block(editor, BlockKind::Group, |_, block| group::FREE.write(block, u64::MAX)),
    },
    KeptCase {
        name: "the bitmap says that the superblocks are free: data were written over them, behind the repair",
        bases: &["small-256", "closed-256"],
        damage: |editor| every_block(editor, BlockKind::Group, |_, block| free_superblocks(block)),
    },
    KeptCase {
        name: "a directory's size is far past its last leaf: the check found nothing",
        bases: &["maps-256", "tree-128"],
        damage: |editor| every_inode(editor, FileType::Directory, |one| inode::BYTES.write(one, 1 << 56)),
    },
    KeptCase {
        name: "written blocks lie past the end of files: the check found nothing",
        bases: &["maps-256", "small-128"],
        damage: |editor| every_file(editor, |one| inode::BYTES.write(one, 1)),
    },
    KeptCase {
        name: "inodes in use have the generation 0: the check found nothing",
        bases: &["region-256", "small-128"],
        damage: |editor| every_file(editor, |one| inode::GENERATION.write(one, 0)),
    },
    KeptCase {
        name: "an entry of a chunk's table has reserved bytes: the check found nothing",
        bases: &["region-256", "tree-128"],
        damage: |editor| {
            every_block(editor, BlockKind::ChunkHeader, |_, block| {
                let last = block.len() - chunk_entry::SIZE;
                chunk_entry::RESERVED.write(&mut block[last..], 0xabcd);
            });
        },
    },
    KeptCase {
        name: "a file's data are the superblock's copy",
        bases: &["small-256", "maps-256"],
        damage: |editor| every_file(editor, |one| map(one, SUPERBLOCK_COPY)),
    },
    KeptCase {
        name: "a file's data are the block with their own checksum: a read waited for itself",
        bases: &["closed-256"],
        damage: |editor| every_file(editor, |one| map(one, SumPlace::of(SumPlace::of(0).at).at)),
    },
    KeptCase {
        name: "a link's target lies in a journal that cannot be used: the repair could not read it",
        bases: &["closed-256"],
        damage: link_into_bad_journal,
    },
];

/// Changes each block of a kind. The copies in the journal stay.
fn every_block(editor: &mut Editor<'_>, kind: BlockKind, change: impl Fn(u64, &mut [u8])) {
    let base = editor.base();
    for block in base.metadata.iter().filter(|block| block.kind == kind && block.at == block.home) {
        change(block.at, editor.edit(block.at));
    }
}

/// Changes each inode of a regular file.
fn every_file(editor: &mut Editor<'_>, change: impl Fn(&mut [u8])) {
    every_inode(editor, FileType::RegularFile, change);
}

/// Changes each inode of a type.
fn every_inode(editor: &mut Editor<'_>, kind: FileType, change: impl Fn(&mut [u8])) {
    let size = editor.base().superblock.inode_size.bytes() as usize;
    every_block(editor, BlockKind::Inodes, |_, block| {
        let wanted = block.chunks_exact_mut(size).filter(|one| {
            let mode = inode::MODE.read(one).unwrap_or(0);
            FileType::from_raw_mode(mode.into()) == kind
        });
        wanted.for_each(&change);
    });
}

/// Maps the blocks of links to one of the journal, whose blocks get a number above those of its headers.
fn link_into_bad_journal(editor: &mut Editor<'_>) {
    let journal = editor.base().superblock.journal;
    let word = Pointer::data(journal + 3 * BLOCK, lanefs_format::BlockSize::Small).word();
    every_inode(editor, FileType::Symlink, |one| {
        if inode::FLAGS.read(one).unwrap_or(0) & lanefs_format::INODE_EXTENTS_MASK != 0 {
            extent::POINTER.write(&mut one[inode::SIZE..], word);
        }
    });
    every_block(editor, BlockKind::Journal, |at, block| {
        if at >= journal + lanefs_format::JOURNAL_HEADERS * BLOCK {
            journal_descriptor::SEQUENCE.write(block, 1 << 40);
        }
    });
}

/// Puts a copy of the block's last inode in use into each free slot.
fn fill_with_inodes(_: u64, block: &mut [u8]) {
    // Inodes of 128 bytes leave no slot of 256 bytes half in use.
    const SLOT: usize = 256;
    let is_used = |slot: &[u8]| inode::MODE.read(slot).unwrap_or(0) != 0;
    let Some(used) = block.chunks_exact(SLOT).rev().find(|slot| is_used(slot)).map(<[u8]>::to_vec) else {
        return;
    };
    for slot in block.chunks_exact_mut(SLOT).filter(|slot| !is_used(slot)) {
        slot.copy_from_slice(&used);
    }
}

fn tree_child(editor: &mut Editor<'_>, position: u64) {
    every_block(editor, BlockKind::Tree, |_, block| {
        dir::tree::POSITIONS.index(0).write(block, position);
        dir::tree::FORMS.index(0).write(block, 3);
    });
}

/// Clears the bits of both superblocks, if this is the first group.
fn free_superblocks(block: &mut [u8]) {
    if group::OWNER.read(block) != Some(0) {
        return;
    }
    for number in [0, SUPERBLOCK_COPY / BLOCK] {
        let field = group::BITMAP.index((number / 64) as usize);
        let word = field.read(block).unwrap_or(0);
        field.write(block, word & !(1 << (number % 64)));
    }
}

/// Makes the block at `at` the first one of a file's map: of its extents, or as its radix tree.
fn map(one: &mut [u8], at: u64) {
    let word = Pointer::data(at, lanefs_format::BlockSize::Small).word();
    let flags = inode::FLAGS.read(one).unwrap_or(0);
    if flags & lanefs_format::INODE_EXTENTS_MASK != 0 {
        extent::POINTER.write(&mut one[inode::SIZE..], word);
    } else if inode::MAP.read(one) != Some(0) {
        inode::MAP.write(one, word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutate::bases;

    #[test]
    fn each_case_finds_something_to_damage_in_its_bases() {
        let bases = bases().expect("sound volumes can be made");
        for case in KEPT_CASES {
            for name in case.bases {
                let base = bases.iter().find(|base| base.name == *name).expect("a base of this name");
                case.editor(base).expect("some damage");
            }
        }
    }
}
