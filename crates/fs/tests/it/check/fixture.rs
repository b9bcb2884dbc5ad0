//! Volumes with all kinds of content.

use crate::check::Random;
use crate::check::image::Overlay;
use lanefs::*;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const OWNER: Caller = Caller::OWNER;

pub(crate) fn options(size: u64, inode_size: InodeSize) -> CreateOptions {
    CreateOptions { size, inode_size, uuid: Some([3; 16]), seed: Some([5; 16]), ..CreateOptions::default() }
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

/// Files that come and go between the steps that fill a volume, so that inodes and blocks lie in another
/// order in each layout. Layout 0 has no such files.
struct Churn<'v> {
    volume: &'v Volume,
    layout: u64,
    random: Random,
    made: Vec<String>,
}

impl<'v> Churn<'v> {
    fn new(volume: &'v Volume, layout: u64) -> Self {
        let mut churn = Churn { volume, layout, random: Random(layout), made: Vec::new() };
        for _ in 0..churn.random.below(400) {
            churn.make();
        }
        for _ in 0..churn.made.len() / 2 {
            churn.remove();
        }
        churn
    }

    fn make(&mut self) {
        if self.layout != 0 {
            let name = format!("churn-{:x}", self.random.next());
            let len = self.random.below(5000);
            self.volume.write_file(format!("/{name}"), vec![1; len]).expect("write");
            self.made.push(name);
            self.volume.sync().expect("sync");
        }
    }

    fn remove(&mut self) {
        if !self.made.is_empty() {
            let name = self.made.swap_remove(self.random.below(self.made.len()));
            self.volume.unlink(&OWNER, self.volume.root(), name.as_bytes()).expect("unlink");
            self.volume.sync().expect("sync");
        }
    }

    /// Ends a step. It commits, because the time of a commit decides which freed blocks are used again.
    fn step(&mut self) {
        self.volume.sync().expect("sync");
        match self.random.below(6) {
            0 => self.make(),
            1 => self.remove(),
            _ => {}
        }
    }

    fn end(mut self) {
        while !self.made.is_empty() {
            self.remove();
        }
    }
}

/// Fills a volume: files of all kinds of content, directories of all forms, links, devices, attributes. The
/// layout says which directories come first, and what else came and went.
pub(crate) fn fill(volume: &Volume, layout: u64) {
    let root = volume.root();
    let mut churn = Churn::new(volume, layout);
    volume.mkdir_all("/a/b/c", 0o755).expect("mkdir_all");
    volume.mkdir_all("/a/empty", 0o700).expect("mkdir_all");
    for (i, len) in [0usize, 5, 32, 33, 160, 161, 4096, 9000, 70_000].into_iter().enumerate() {
        volume.write_file(format!("/a/b/f{i}"), vec![i as u8 + 1; len]).expect("write");
        churn.step();
    }
    volume.write_file("/big", vec![9; 3 << 20]).expect("write");
    let sparse = volume.write_file("/sparse", b"start").expect("write").ino;
    for at in (1..=9).map(|i| i << 20).chain([3u64 << 30, 700 << 30]) {
        volume.write(&OWNER, sparse, at, b"here").expect("write");
        churn.step();
    }
    let extents = volume.write_file("/extents", vec![1; 6 << 12]).expect("write").ino;
    volume.fallocate(&OWNER, extents, Allocate::PunchHole, 4096, 8192).expect("fallocate");
    let mapped = volume.write_file("/mapped", b"start").expect("write").ino;
    for at in (1..16).map(|i| i << 13) {
        volume.write(&OWNER, mapped, at, &[3; 4096]).expect("write");
        churn.step();
    }
    let unwritten = volume.write_file("/unwritten", b"").expect("write").ino;
    volume.fallocate(&OWNER, unwritten, Allocate::KeepSize, 0, 40_000).expect("fallocate");
    volume.setxattr(&OWNER, sparse, b"user.long", &[7; 9000], XattrMode::Set).expect("xattr");
    volume.setxattr(&OWNER, sparse, b"user.short", b"x", XattrMode::Set).expect("xattr");
    let a = volume.resolve("/a").expect("resolve").ino;
    volume.setxattr(&OWNER, a, b"user.dir", b"value", XattrMode::Set).expect("xattr");
    volume.symlink_at(&OWNER, root, b"short", b"a/b").expect("symlink");
    let long = volume.symlink_at(&OWNER, root, b"long", &[b'l'; 400]).expect("symlink").ino;
    volume.setxattr(&OWNER, long, b"trusted.long", &[b'v'; 200], XattrMode::Set).expect("xattr");
    volume.link(&OWNER, sparse, a, b"hard").expect("link");
    for (kind, name) in [
        (FileKind::Fifo, "fifo"),
        (FileKind::Socket, "socket"),
        (FileKind::CharDevice, "char"),
        (FileKind::BlockDevice, "block"),
    ] {
        let node = volume.mknod(&OWNER, root, name.as_bytes(), kind, 0o600, 0x1234).expect("mknod").ino;
        volume.setxattr(&OWNER, node, b"trusted.here", b"in", XattrMode::Set).expect("xattr");
        churn.step();
    }
    let listed = volume.write_file("/listed", b"a list").expect("write").ino;
    volume.setxattr(&OWNER, listed, b"system.posix_acl_access", &LIST, XattrMode::Set).expect("list");
    let passes = volume.mkdir(&OWNER, root, b"passes", 0o755).expect("mkdir").ino;
    volume.setxattr(&OWNER, passes, b"system.posix_acl_default", &LIST, XattrMode::Set).expect("list");
    volume.mkdir(&OWNER, passes, b"both", 0o755).expect("mkdir");
    let mut directories = [("small", 6), ("region", 150), ("tree", 900)];
    directories.rotate_right((layout % 3) as usize);
    for (dir, count) in directories {
        let dir = volume.mkdir(&OWNER, root, dir.as_bytes(), 0o755).expect("mkdir").ino;
        for i in 0..count {
            let name = format!("entry-{i:0width$}", width = 1 + i % 60);
            volume.create_file(&OWNER, dir, name.as_bytes(), 0o644).expect("create");
            churn.step();
        }
        for i in (0..count).filter(|i| i % 7 == 3) {
            let name = format!("entry-{i:0width$}", width = 1 + i % 60);
            volume.unlink(&OWNER, dir, name.as_bytes()).expect("unlink");
            churn.step();
        }
        volume.mkdir(&OWNER, dir, b"sub", 0o755).expect("mkdir");
    }
    churn.end();
}

/// Inodes in use that no path leads to: the orphan directory, and the inodes that it lists.
pub(crate) const HIDDEN: u64 = 4;

/// A file, a directory and a file that never had a name are held.
pub(crate) fn orphan(volume: &Volume) {
    let root = volume.root();
    let file = volume.write_file("/gone", vec![5; 20_000]).expect("write").ino;
    volume.setxattr(&OWNER, file, b"user.long", &[7; 9000], XattrMode::Set).expect("xattr");
    volume.hold(file).expect("hold");
    volume.unlink(&OWNER, root, b"gone").expect("unlink");
    let dir = volume.mkdir(&OWNER, root, b"gone", 0o755).expect("mkdir").ino;
    volume.hold(dir).expect("hold");
    volume.rmdir(&OWNER, root, b"gone").expect("rmdir");
    volume.create_unnamed(&OWNER, root, 0o600).expect("unnamed");
}

/// The bytes of a closed volume that lists orphans, as if the program had ended before it freed them. No
/// commit happens by time, so that a layout stays the same.
pub(crate) fn closed(size: u64, inode_size: InodeSize, layout: u64) -> Vec<u8> {
    let device = Overlay::new(&Arc::new(vec![0; size as usize]));
    let options =
        CreateOptions { seed: Some((5 + u128::from(layout)).to_le_bytes()), ..options(size, inode_size) };
    Volume::create_device(Box::new(device.clone()), &options).expect("create").close().expect("close");
    let options = OpenOptions { commit_every: Duration::from_secs(1 << 20), ..OpenOptions::default() };
    let volume = Volume::open_device(Box::new(device), options).expect("open");
    fill(&volume, layout);
    orphan(&volume);
    let mut bytes = volume.to_bytes().expect("bytes");
    let block = format::superblock::Superblock { clean: true, ..volume.superblock() }.encode();
    for at in [0, format::SUPERBLOCK_COPY as usize] {
        bytes[at..at + block.len()].copy_from_slice(&block);
    }
    bytes
}

/// A path with type and inode number.
pub(crate) type Path = (Vec<u8>, FileKind, u64);

/// All paths, sorted.
pub(crate) fn tree(volume: &Volume) -> Vec<Path> {
    let mut all = Vec::new();
    let mut open = vec![(volume.root(), Vec::new())];
    while let Some((dir, path)) = open.pop() {
        let mut cookie = 0;
        loop {
            let page = volume.readdir(&OWNER, dir, cookie, 100).expect("readdir");
            let Some(last) = page.last() else { break };
            cookie = last.cookie;
            for entry in page {
                let mut path = path.clone();
                path.push(b'/');
                path.extend_from_slice(&entry.name);
                all.push((path.clone(), entry.kind, entry.ino.0));
                assert_eq!(volume.lookup(&OWNER, dir, &entry.name).expect("lookup").0, entry.ino);
                if entry.kind == FileKind::Directory {
                    open.push((entry.ino, path));
                }
            }
        }
    }
    all.sort();
    all
}
