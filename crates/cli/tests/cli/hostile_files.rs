//! Hostile images with right checksums, made from sound volumes.

use lanefs::format::{BLOCK, InodeSize, MAX_FILE_SIZE, Pointer, inode};
use lanefs::{Caller, CreateOptions, MemoryDevice, Volume};
use lanefs_testkit::mutate::{Editor, Image};
use lanefs_testkit::seeded::Seeded;

const OWNER: &Caller = &Caller::OWNER;

/// Content of the slots of a map that leads to one block from everywhere.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slots {
    /// Each slot names the block.
    All,
    /// Every second slot of the lowest level does, and the others are holes.
    EverySecond,
}

/// The bytes of a closed volume of 16 MiB.
fn closed(fill: impl FnOnce(&Volume)) -> Image {
    let options = CreateOptions { size: 16 << 20, inode_size: InodeSize::B256, ..CreateOptions::default() };
    let medium = MemoryDevice::new(vec![0; options.size as usize]);
    let volume = Volume::create_device(Box::new(medium.clone()), &options).expect("a volume");
    fill(&volume);
    volume.close().expect("closed");
    Image::new(&medium.bytes()).expect("a sound image")
}

/// A volume with the files `/a` and `/b` of `size` bytes. All slots of their maps lead to one block of data,
/// which has this byte.
pub(crate) fn with_files_of_one_block(size: u64, byte: u8, slots: Slots) -> Vec<u8> {
    let mut files = Vec::new();
    let image = closed(|volume| {
        for name in [b"a", b"b"] {
            let ino = volume.create_file(OWNER, volume.root(), name, 0o644).expect("a file").ino;
            // So far out that the map has all levels, and more of them than there is room in an inode.
            for offset in (0..40).map(|n| n << 20).chain([MAX_FILE_SIZE - BLOCK]) {
                volume.write(OWNER, ino, offset, &[byte; BLOCK as usize]).expect("written");
            }
            files.push(ino);
        }
    });
    let mut editor = Editor::new(&image);
    for ino in files {
        let at = ino.0 * image.superblock.inode_size.bytes();
        let (block, inside) = (at & !(BLOCK - 1), (at % BLOCK) as usize);
        let node = &mut editor.edit(block)[inside..];
        inode::BYTES.write(node, size);
        let mut pointer = inode::MAP.read(node).and_then(|word| Pointer::decode(word).ok().flatten());
        while let Some(Pointer { offset: at, indirect: true, .. }) = pointer {
            let words = editor.edit(at);
            let first = u64::from_le_bytes(words[..8].try_into().expect("a word"));
            pointer = Pointer::decode(first).expect("a pointer");
            let is_lowest = pointer.is_some_and(|pointer| !pointer.indirect);
            for (index, slot) in words.chunks_exact_mut(8).enumerate() {
                let is_hole = is_lowest && slots == Slots::EverySecond && index % 2 == 1;
                slot.copy_from_slice(&if is_hole { Pointer::HOLE } else { first }.to_le_bytes());
            }
        }
    }
    editor.seal();
    editor.into_bytes(&mut Seeded::new(0))
}
