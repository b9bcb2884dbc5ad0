//! Hostile images with right checksums, made from sound volumes.

use crate::common::{TestVolume, run, text};
use crate::log_writer::{Log, NAMES, leave_open};
use crate::publications::unpack;
use lanefs::format::superblock::{Superblock, fields};
use lanefs::format::{
    BLOCK, BlockSize, Field, InodeSize, JOURNAL_DESCRIPTOR, JOURNAL_REVOCATION, MAX_FILE_SIZE, Pointer,
    SumPlace, inode,
};
use lanefs::{Caller, CreateOptions, MemoryDevice, Volume};
use lanefs_testkit::mutate::{Editor, Image};
use lanefs_testkit::mutate::{bases, hostile};
use lanefs_testkit::seeded::Seeded;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

const OWNER: &Caller = &Caller::OWNER;

/// Content of the slots of a map that leads to one block from everywhere.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slots {
    /// Each slot names the block.
    All,
    /// Every second slot of the lowest level does, and the others are holes.
    EverySecond,
    /// Each slot names the block of checksums with its own checksum.
    Checksums,
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
    let sums = SumPlace::of(SumPlace::of(0).at).at;
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
                let word = match slots {
                    Slots::EverySecond if is_lowest && index % 2 == 1 => Pointer::HOLE,
                    Slots::Checksums if is_lowest => Pointer::data(sums, BlockSize::Small).word(),
                    _ => first,
                };
                slot.copy_from_slice(&word.to_le_bytes());
            }
        }
    }
    editor.seal();
    editor.into_bytes(&mut Seeded::new(0))
}

/// Overwrites all of the group table but its first block: each chunk of the volume may have a table then.
pub(crate) fn lose_group_table(image: &Path) {
    let file = File::options().read(true).write(true).open(image).expect("the image");
    let mut block = [0; BLOCK as usize];
    file.read_exact_at(&mut block, 0).expect("a superblock");
    let word = |field: Field<u64>| field.read(&block).expect("a word");
    let (groups, count) = (word(fields::GROUPS), word(fields::GROUP_COUNT));
    for group in 1..count {
        file.write_all_at(&[0; BLOCK as usize], groups + group * BLOCK).expect("written");
    }
}

/// Makes the volume one that was not closed, whose journal is full of blocks with this role.
fn fill_log(image: &Path, role: u8) {
    let file = File::options().read(true).write(true).open(image).expect("the image");
    let mut block = [0; BLOCK as usize];
    file.read_exact_at(&mut block, 0).expect("a superblock");
    let superblock = Superblock::decode(&block).expect("a superblock");
    let mut log = Log::new(&file, &superblock);
    match role {
        JOURNAL_DESCRIPTOR => {
            for n in 0..log.room / (NAMES + 1) {
                log.name(role, (1 << 29) + n * NAMES * BLOCK);
                log.holes();
            }
        }
        role => (0..log.room).for_each(|_| log.name(role, 1 << 29)),
    }
    log.end();
    leave_open(&file, &superblock);
}

/// Makes a sparse image of `size`, and changes it.
fn large(dir: &Path, name: &str, size: &str, change: impl FnOnce(&Path)) -> String {
    let image = dir.join(name);
    run(&["mkfs", text(&image), "--size", size]).ends(0);
    change(&image);
    text(&image).to_owned()
}

/// Fills a directory with hostile images. Returns their paths.
pub(crate) fn images(dir: &Path) -> Vec<String> {
    let mut images = vec![
        large(dir, "no-groups", "64G", lose_group_table),
        large(dir, "copies", "2G", |image| fill_log(image, JOURNAL_DESCRIPTOR)),
        large(dir, "revocations", "2G", |image| fill_log(image, JOURNAL_REVOCATION)),
    ];
    let mut add = |name: &str, bytes: Vec<u8>| {
        let path = dir.join(name);
        fs::write(&path, bytes).expect("an image");
        images.push(text(&path).to_owned());
    };
    add("one-block", with_files_of_one_block(MAX_FILE_SIZE, b'\n', Slots::All));
    add("a-block-of-two", with_files_of_one_block(MAX_FILE_SIZE, b'x', Slots::EverySecond));
    add("zeros", with_files_of_one_block(64 << 20, 0, Slots::All));
    add("checksums", with_files_of_one_block(MAX_FILE_SIZE, b'x', Slots::Checksums));
    // `hostile.rs` has more of these.
    for (seed, base) in bases().expect("sound volumes can be made").iter().enumerate().step_by(4) {
        add(base.name, hostile(base, seed as u64));
    }
    images
}

/// Fills a directory with hostile publications. Returns their URLs.
pub(crate) fn publications(v: &TestVolume) -> Vec<String> {
    let ahead = v.host("ahead.store");
    unpack(include_bytes!("../../../publish/tests/data/ahead.store.zst"), &ahead);
    vec![
        format!("file://{}", text(&ahead)),
        published(v, "one", &with_files_of_one_block(MAX_FILE_SIZE, b'\n', Slots::All)),
        published(v, "many", &with_files_of_one_block(1 << 28, b'\n', Slots::All)),
        published(v, "two", &with_files_of_one_block(MAX_FILE_SIZE, b'x', Slots::EverySecond)),
    ]
}

/// Publishes an image. Returns the URL.
pub(crate) fn published(v: &TestVolume, name: &str, image: &[u8]) -> String {
    let (path, url) = (v.host(name), format!("file://{}", text(&v.host(&format!("{name}.store")))));
    fs::write(&path, image).expect("an image");
    run(&["publish", text(&path), &url]).ends(0);
    url
}
