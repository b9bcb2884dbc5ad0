//! Sound images to start from: small ones that hold every structure of the format.

use super::image::Image;
use crate::one_hash;
use crate::ops::bulk_name;
use crate::volume::options;
use lanefs::{
    Allocate, Caller, CreateOptions, Error, FileKind, Ino, InodeSize, MemoryDevice, OpenOptions, Result,
    Volume, XattrMode,
};
use std::sync::OnceLock;
use std::time::Duration;

/// A sound image.
#[derive(Clone, Debug)]
pub struct MutationBase {
    /// Name, part of a case's identity.
    pub name: &'static str,
    /// The volume.
    pub image: Image,
    /// Some paths that exist in it.
    pub paths: Vec<Vec<u8>>,
    /// Its share among all bases.
    pub weight: u64,
}

const OWNER: Caller = Caller::OWNER;

type Fill = fn(&Volume) -> Result<()>;

/// The end of a base.
#[derive(Clone, Copy)]
enum BaseEnd {
    /// It was in memory, so it has no journal.
    Memory,
    /// It was on a device, and closed.
    Closed,
    /// It was on a device, and lost its power: its last changes are in the journal only.
    Crashed,
}

const RECIPES: [(&str, InodeSize, u64, u64, BaseEnd, Fill); 11] = [
    ("empty", InodeSize::B256, 8, 3, BaseEnd::Memory, |_| Ok(())),
    ("small-256", InodeSize::B256, 8, 25, BaseEnd::Memory, small),
    ("small-128", InodeSize::B128, 8, 20, BaseEnd::Memory, small),
    ("region-256", InodeSize::B256, 8, 15, BaseEnd::Memory, |volume| wide(volume, 200)),
    ("tree-256", InodeSize::B256, 8, 15, BaseEnd::Memory, |volume| wide(volume, 1500)),
    ("tree-128", InodeSize::B128, 8, 8, BaseEnd::Memory, |volume| wide(volume, 900)),
    ("maps-256", InodeSize::B256, 16, 12, BaseEnd::Memory, maps),
    ("two-levels", InodeSize::B128, 16, 1, BaseEnd::Memory, two_levels),
    ("closed-256", InodeSize::B256, 8, 15, BaseEnd::Closed, small),
    ("crashed-256", InodeSize::B256, 8, 20, BaseEnd::Crashed, small),
    (ONE_HASH, InodeSize::B256, 8, 8, BaseEnd::Memory, one_hash_names),
];

/// Seed of the directory hash of the others, so that a seed of the mutator gives the same image each time.
const HASH_SEED: [u8; 16] = *b"testkit hash key";

/// The base with a directory of many names with one hash.
const ONE_HASH: &str = "one-hash";

/// Returns all bases, which the first call of a process makes.
///
/// # Errors
/// A sound volume that cannot be made or read, which is not an effect of any mutation.
pub fn bases() -> std::result::Result<&'static [MutationBase], String> {
    static BASES: OnceLock<std::result::Result<Vec<MutationBase>, String>> = OnceLock::new();
    BASES.get_or_init(make_all).as_deref().map_err(String::clone)
}

fn make_all() -> std::result::Result<Vec<MutationBase>, String> {
    let mut bases = Vec::new();
    for (name, inode_size, mib, weight, end, fill) in RECIPES {
        let mut options = options(mib << 20, inode_size);
        if name != ONE_HASH {
            options.seed = Some(HASH_SEED);
        }
        let made = make(&options, end, fill);
        let (bytes, paths) = made.map_err(|error: Error| format!("base {name}: {error}"))?;
        let image = Image::new(&bytes).map_err(|text| format!("base {name}: {text}"))?;
        bases.push(MutationBase { name, image, paths, weight });
    }
    Ok(bases)
}

/// Makes a volume. Returns its bytes, and some of its paths.
fn make(options: &CreateOptions, end: BaseEnd, fill: Fill) -> Result<(Vec<u8>, Vec<Vec<u8>>)> {
    if matches!(end, BaseEnd::Memory) {
        let volume = Volume::create_memory(options)?;
        fill(&volume)?;
        let paths = some_paths(&volume)?;
        return Ok((volume.to_bytes()?, paths));
    }
    let medium = MemoryDevice::new(vec![0; options.size as usize]);
    Volume::create_device(Box::new(medium.clone()), options)?.close()?;
    // No commit comes by time, so that the journal is the same each time.
    let open = OpenOptions { commit_every: Duration::from_secs(1 << 20), ..OpenOptions::default() };
    let volume = Volume::open_device(Box::new(medium.clone()), open.clone())?;
    fill(&volume)?;
    let paths = some_paths(&volume)?;
    volume.sync()?;
    if matches!(end, BaseEnd::Crashed) {
        volume.write_file("/after a sync", b"so that the log has two commits")?;
        volume.mkdir_all("/later", 0o755)?;
        volume.sync()?;
        return Ok((medium.bytes(), paths));
    }
    volume.close()?;
    Ok((medium.bytes(), paths))
}

/// An access control list: owner rw-, user 1000 r-x, group r--, mask rwx, others ---.
const LIST: [u8; 44] = [
    2, 0, 0, 0, //
    1, 0, 6, 0, 0xff, 0xff, 0xff, 0xff, //
    2, 0, 5, 0, 0xe8, 3, 0, 0, //
    4, 0, 4, 0, 0xff, 0xff, 0xff, 0xff, //
    16, 0, 7, 0, 0xff, 0xff, 0xff, 0xff, //
    32, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
];

/// A few of everything.
fn small(volume: &Volume) -> Result<()> {
    let root = volume.root();
    for name in [&b"a"[..], b"b", b"c"] {
        let dir = volume.mkdir(&OWNER, root, name, 0o755)?.ino;
        for number in 0..12 {
            volume.create_file(&OWNER, dir, &bulk_name(number), 0o644)?;
        }
    }
    let deep = volume.mkdir_all("/a/d1/d2/d3", 0o755)?.ino;
    volume.write_file("/a/inline", b"a few bytes")?;
    let file = volume.write_file("/a/d1/blocks", vec![7; 10_000].as_slice())?.ino;
    volume.write(&OWNER, file, 3 << 20, b"far out")?;
    volume.link(&OWNER, file, deep, b"second name")?;
    volume.symlink_at(&OWNER, deep, b"short link", b"../blocks")?;
    volume.symlink_at(&OWNER, deep, b"long link", &[b'x'; 300])?;
    volume.symlink_at(&OWNER, root, b"loop", b"/loop")?;
    volume.mknod(&OWNER, root, b"fifo", FileKind::Fifo, 0o600, 0)?;
    volume.mknod(&OWNER, root, b"device", FileKind::CharDevice, 0o600, 0x801)?;
    volume.setxattr(&OWNER, file, b"user.small", b"value", XattrMode::Set)?;
    volume.setxattr(&OWNER, deep, b"user.large", &[9; 9000], XattrMode::Set)?;
    volume.setxattr(&OWNER, file, b"system.posix_acl_access", &LIST, XattrMode::Set)?;
    let dir = volume.mkdir(&OWNER, deep, b"passes a list on", 0o755)?.ino;
    volume.setxattr(&OWNER, dir, b"system.posix_acl_default", &LIST, XattrMode::Set)?;
    volume.create_file(&OWNER, dir, b"has inherited it", 0o664)?;
    volume.mkdir(&OWNER, dir, b"and passes it on", 0o755)?;
    // Held inodes without a name: the next open frees them, in whatever state they are then.
    let gone = volume.write_file("/gone", vec![8; 9000].as_slice())?.ino;
    volume.hold(gone)?;
    volume.unlink(&OWNER, root, b"gone")?;
    let gone = volume.mkdir(&OWNER, root, b"gone", 0o755)?.ino;
    volume.hold(gone)?;
    volume.rmdir(&OWNER, root, b"gone")?;
    volume.create_unnamed(&OWNER, root, 0o600)?;
    volume.setxattr(&OWNER, root, b"trusted.root", b"", XattrMode::Set)
}

/// One directory with many names, empty files and a few directories.
fn wide(volume: &Volume, names: u64) -> Result<()> {
    let dir = volume.mkdir(&OWNER, volume.root(), b"wide", 0o755)?.ino;
    let original = volume.create_file(&OWNER, dir, b"original", 0o644)?.ino;
    for number in 0..names {
        match number % 50 {
            0 => volume.mkdir(&OWNER, dir, &bulk_name(number), 0o755)?,
            1..40 => volume.link(&OWNER, original, dir, &bulk_name(number))?,
            _ => volume.create_file(&OWNER, dir, &bulk_name(number), 0o644)?,
        };
    }
    // Some are removed again, so that leaves have holes and the tree has shrunk once.
    for number in (0..names).filter(|number| number % 50 > 1 && number % 3 == 0) {
        volume.unlink(&OWNER, dir, &bulk_name(number))?;
    }
    Ok(())
}

/// Files whose maps have holes, unwritten parts, large blocks and all levels.
fn maps(volume: &Volume) -> Result<()> {
    let root = volume.root();
    let sparse = volume.create_file(&OWNER, root, b"sparse", 0o644)?.ino;
    for offset in [0, 5 << 12, 3 << 20, 5 << 30, 1 << 40, 1 << 50, lanefs_format::MAX_FILE_SIZE - 8] {
        volume.write(&OWNER, sparse, offset, b"12345678")?;
    }
    let large = volume.create_file(&OWNER, root, b"large", 0o644)?.ino;
    volume.fallocate(&OWNER, large, Allocate::Extend, 0, 4 << 20)?;
    volume.write(&OWNER, large, 100, b"written")?;
    let unwritten = volume.create_file(&OWNER, root, b"unwritten", 0o644)?.ino;
    volume.fallocate(&OWNER, unwritten, Allocate::KeepSize, 8192, 40_000)?;
    volume.write(&OWNER, unwritten, 12_288, b"between")?;
    // The second file has too many extents for its inode.
    for (name, bytes) in [("/holes", 60_000), ("/many holes", 200_000)] {
        let holes = volume.write_file(name, vec![3; bytes].as_slice())?.ino;
        for offset in (0..bytes as u64).step_by(8192) {
            volume.fallocate(&OWNER, holes, Allocate::PunchHole, offset, 4096)?;
        }
    }
    Ok(())
}

/// A directory whose tree has two levels of tree blocks: names cost little when all are links to one file.
/// It needs many names to get there and fewer to stay, and the work on an image goes with its names.
fn two_levels(volume: &Volume) -> Result<()> {
    let dir = volume.mkdir(&OWNER, volume.root(), b"huge", 0o755)?.ino;
    let original = volume.create_file(&OWNER, dir, b"original", 0o644)?.ino;
    for number in 0..50_000 {
        volume.link(&OWNER, original, dir, format!("{number}").as_bytes())?;
    }
    for number in (0..50_000).filter(|number| number % 5 < 3) {
        volume.unlink(&OWNER, dir, format!("{number}").as_bytes())?;
    }
    Ok(())
}

/// A directory with more names of one hash than a region index has slots for, and others.
fn one_hash_names(volume: &Volume) -> Result<()> {
    let dir = volume.mkdir(&OWNER, volume.root(), b"one hash", 0o755)?.ino;
    let original = volume.create_file(&OWNER, dir, b"original", 0o644)?.ino;
    for number in 0..100 {
        volume.link(&OWNER, original, dir, &bulk_name(number))?;
    }
    for name in one_hash::names().iter().take(300) {
        volume.link(&OWNER, original, dir, name)?;
    }
    Ok(())
}

/// Up to 40 paths, a few of every directory.
fn some_paths(volume: &Volume) -> Result<Vec<Vec<u8>>> {
    let mut paths = Vec::new();
    let mut pending: Vec<(Vec<u8>, Ino)> = vec![(Vec::new(), volume.root())];
    while let Some((path, dir)) = pending.pop() {
        for (rank, entry) in volume.readdir(&OWNER, dir, 0, 1000)?.into_iter().enumerate() {
            let below = [&path[..], b"/", &entry.name].concat();
            if rank < 8 && paths.len() < 40 {
                paths.push(below.clone());
            }
            if entry.kind == FileKind::Directory && pending.len() < 20 {
                pending.push((below, entry.ino));
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::super::{Editor, MetadataBlock};
    use super::*;
    use crate::seeded::Seeded;
    use lanefs_format::{BlockKind, dir};

    /// If the checksums made here differed from the engine's, no sealed image would pass the verification,
    /// and half of the testing would be lost without a sign.
    #[test]
    fn sealing_an_untouched_image_changes_nothing() {
        for base in bases().expect("sound volumes can be made") {
            let mut editor = Editor::new(&base.image);
            for block in &base.image.metadata {
                editor.edit(block.at);
            }
            editor.seal();
            assert_eq!(editor.differs(), None, "base {}", base.name);
            let bytes = editor.into_bytes(&mut Seeded::new(0));
            let volume = Volume::from_bytes(bytes).expect("a sound image opens");
            let findings = volume.check(false, &|_, _| {}).expect("a sound image is checked").findings;
            assert!(findings.is_empty(), "base {}: {findings:?}", base.name);
        }
    }

    #[test]
    fn every_kind_of_block_is_in_some_base() {
        let bases = bases().expect("sound volumes can be made");
        for kind in BlockKind::ALL {
            let found = bases.iter().any(|base| base.image.metadata.iter().any(|block| block.kind == kind));
            assert!(found, "{kind:?}");
        }
    }

    #[test]
    fn some_base_has_a_tree_of_two_levels() {
        let is_upper = |image: &Image, block: &MetadataBlock| {
            block.kind == BlockKind::Tree && dir::tree::LEVEL.read(image.block(block.at)) == Some(2)
        };
        let bases = bases().expect("sound volumes can be made");
        let base = bases.iter().find(|base| base.name == "two-levels").expect("the base");
        assert!(base.image.metadata.iter().any(|block| is_upper(&base.image, block)));
    }

    #[test]
    fn a_crashed_base_has_commits_with_copies_of_metadata() {
        let bases = bases().expect("sound volumes can be made");
        let crashed = bases.iter().find(|base| base.name == "crashed-256").expect("the base");
        let log = &crashed.image.log;
        assert!(log.commits.len() >= 2 && log.copies.len() > 10, "{log:?}");
        assert!(log.commits.iter().all(|commit| commit.record != 0 && !commit.blocks.is_empty()));
        assert!(!crashed.image.superblock.clean);
    }
}
