//! The images that workloads start from.

use super::alphabet::{DIRECTORIES, FILES, HARD_LINK, SYMLINK, XATTR};
use super::fill::{BALLAST, POISON, PREPARED, fill};
use super::image::CrashImage;
use super::snapshot::{BALLAST_PATH, show};
use crate::one_hash;
use crate::volume::options;
use lanefs::{Access, Caller, InodeSize, Volume, XattrMode};
use std::sync::OnceLock;

/// Size of the volumes: the smallest, so that opening and checking one is cheap.
pub(super) const BYTES: u64 = 8 << 20;
/// Size of the device on which volumes grow: the journal of a volume of this size is larger.
pub(super) const ROOM: u64 = 22 << 20;
/// Blocks that the ballast leaves free: later operations soon need the blocks that one operation frees.
const LEFT_FREE_BLOCKS: u64 = 40;
/// Variants of each base: they differ in the number of commits in the journal.
const VARIANTS: usize = 3;

/// The kind of image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// The tree of the alphabet.
    Tree,
    /// Three empty directories and hardly any space.
    Full,
    /// Files with large attributes, which have a chunk of metadata to themselves, and hardly any space.
    Attributes,
    /// The tree of the alphabet, on a device with more room than the volume takes.
    Growing,
    /// The tree of the alphabet, with as many names of one hash as the index of a region has slots for.
    OneHash,
}

/// Names of one hash in a directory.
pub(super) const ONE_HASH_NAMES: usize = 256;

/// Returns the path of one of them, or of a further one.
pub(super) fn one_hash_path(number: u64) -> String {
    format!("/a/{}", String::from_utf8_lossy(&one_hash::names()[number as usize]))
}

/// Files with large attributes.
pub(super) const ATTRIBUTES_FILES: u64 = 6;
/// Bytes of each of their attributes: one operation still changes less than half of the journal.
const ATTRIBUTE_BYTES: usize = 40_000;
/// Files that fill the first chunk of metadata while the others are made.
const FILLERS: u64 = 50;

/// Returns the path of one of them.
pub(super) fn attributes_file(number: u64) -> String {
    format!("/a/m{number}")
}

/// Makes an image of this kind; `variant` chooses the inode size and the journal's state.
///
/// # Errors
/// Those of the volume.
pub(super) fn base(kind: Base, variant: u64) -> Result<CrashImage, String> {
    type Slot = OnceLock<Result<CrashImage, String>>;
    static IMAGES: [[Slot; VARIANTS * 2]; 5] = [const { [const { OnceLock::new() }; VARIANTS * 2] }; 5];
    let number = (variant % (VARIANTS as u64 * 2)) as usize;
    IMAGES[kind as usize][number]
        .get_or_init(|| make(kind, number).map_err(|what| format!("preparing a volume: {what}")))
        .clone()
}

fn make(kind: Base, number: usize) -> Result<CrashImage, String> {
    let text = |error: lanefs::Error| error.to_string();
    let inode_size = if number.is_multiple_of(2) { InodeSize::B256 } else { InodeSize::B128 };
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = dir.path().join("volume.lane");
    let volume = Volume::create(&path, &options(BYTES, inode_size)).map_err(text)?;
    // Free space is filled with poison: a block that a crash gives to a file without its data shows.
    let free = volume.statfs().map_err(text)?.free_blocks as usize;
    let mut poison = free * 4096;
    while poison > 0 && volume.write_file("/poison", fill(POISON, 0, poison)).is_err() {
        poison -= 4096;
    }
    volume.remove_all_with(&Caller::OWNER, volume.root(), b"poison", |_, done| done).map_err(text)?;
    volume.sync().map_err(text)?;
    match kind {
        Base::Tree | Base::Growing => plant_tree(&volume).map_err(text)?,
        Base::Full => {
            for dir in 0..3 {
                volume.mkdir_all(format!("/d{dir}"), 0o755).map_err(text)?;
            }
        }
        Base::Attributes => plant_attributes(&volume).map_err(text)?,
        Base::OneHash => plant_tree(&volume).and_then(|()| plant_one_hash(&volume)).map_err(text)?,
    }
    // After a close, the volume has no memory of its last allocation, and takes the first chunk with room.
    volume.close().map_err(text)?;
    let volume = Volume::open(&path, Access::Write).map_err(text)?;
    if matches!(kind, Base::Full | Base::Attributes) {
        fill_up(&volume).map_err(text)?;
    }
    for _ in 0..number {
        volume.write_file("/commit", b"").map_err(text)?;
        volume.sync().map_err(text)?;
        volume.unlink(&Caller::OWNER, volume.root(), b"commit").map_err(text)?;
        volume.sync().map_err(text)?;
    }
    volume.close().map_err(text)?;
    let mut bytes = std::fs::read(&path).map_err(|error| error.to_string())?;
    if kind == Base::Growing {
        bytes.extend(fill(POISON, BYTES, (ROOM - BYTES) as usize));
    }
    Ok(CrashImage::new(bytes))
}

fn plant_tree(volume: &Volume) -> lanefs::Result<()> {
    for dir in DIRECTORIES {
        volume.mkdir_all(dir, 0o755)?;
    }
    for (number, (path, len)) in FILES.into_iter().enumerate() {
        volume.write_file(path, fill(PREPARED - number as u32, 0, len))?;
    }
    let caller = &Caller::OWNER;
    let first = volume.resolve(FILES[0].0)?.ino;
    let (dir, name) = volume.resolve_parent(HARD_LINK.as_bytes())?;
    volume.link(caller, first, dir, name)?;
    let (dir, name) = volume.resolve_parent(SYMLINK.0.as_bytes())?;
    volume.symlink_at(caller, dir, name, SYMLINK.1.as_bytes())?;
    volume.setxattr(caller, first, XATTR.as_bytes(), &fill(PREPARED, 0, 50), XattrMode::Set)
}

/// Makes links to a file under names of one hash.
fn plant_one_hash(volume: &Volume) -> lanefs::Result<()> {
    let file = volume.resolve(FILES[0].0)?.ino;
    for number in 0..ONE_HASH_NAMES as u64 {
        let path = one_hash_path(number);
        let (dir, name) = volume.resolve_parent(path.as_bytes())?;
        volume.link(&Caller::OWNER, file, dir, name)?;
    }
    Ok(())
}

/// Makes files with large attributes in a chunk of their own, and fills the space. Few blocks of metadata
/// stay in use, so that the tree is read quickly.
fn plant_attributes(volume: &Volume) -> lanefs::Result<()> {
    for dir in ["/a", "/b", "/filler"] {
        volume.mkdir_all(dir, 0o755)?;
    }
    // Names and inodes are made first: one of them in the last chunk would keep it in use.
    let mut files = Vec::new();
    for number in 0..FILLERS {
        files.push(volume.write_file(format!("/filler/{number}"), b"")?.ino);
    }
    for number in 0..ATTRIBUTES_FILES {
        files.push(volume.write_file(attributes_file(number), b"")?.ino);
    }
    let value = fill(PREPARED, 0, ATTRIBUTE_BYTES);
    for ino in files {
        volume.setxattr(&Caller::OWNER, ino, b"user.a", &value, XattrMode::Set)?;
        volume.sync()?;
    }
    volume.remove_all_with(&Caller::OWNER, volume.root(), b"filler", |_, done| done)
}

/// Makes a file that leaves hardly any space.
fn fill_up(volume: &Volume) -> lanefs::Result<()> {
    volume.sync()?;
    let free = volume.statfs()?.free_blocks.saturating_sub(LEFT_FREE_BLOCKS);
    volume.write_file(show(BALLAST_PATH), fill(BALLAST, 0, free as usize * 4096)).map(drop)
}

/// Returns true where `bytes` are those of the ballast.
pub(super) fn is_ballast(bytes: &[u8]) -> bool {
    static WHOLE: OnceLock<Vec<u8>> = OnceLock::new();
    WHOLE.get_or_init(|| fill(BALLAST, 0, BYTES as usize)).starts_with(bytes)
}
