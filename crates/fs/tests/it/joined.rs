//! A device that joins volumes: what lies in one of them is found below a directory of another one.

use lanefs::format::superblock::Superblock;
use lanefs::format::{BLOCK, Checksummer, GROUP, Relocation, RootAlias, SUPERBLOCK_COPY};
use lanefs::*;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

const SEED: [u8; 16] = [7; 16];
/// Where the second volume lies: not right after the first one.
const BASE: u64 = 3 * GROUP;

/// A closed volume.
struct Part {
    bytes: Vec<u8>,
    superblock: Superblock,
}

impl Part {
    fn new(size: u64, inode_size: InodeSize, fill: impl FnOnce(&Volume)) -> Part {
        let device = MemoryDevice::new(vec![0; size as usize]);
        let options = CreateOptions { size, inode_size, seed: Some(SEED), ..CreateOptions::default() };
        let volume = Volume::create_device(Box::new(device.clone()), &options).expect("create");
        fill(&volume);
        volume.close().expect("close");
        let bytes = device.bytes();
        let superblock = Superblock::decode(&bytes).expect("a superblock");
        Part { bytes, superblock }
    }

    fn open(&self) -> Volume {
        Volume::open_device(Box::new(MemoryDevice::new(self.bytes.clone())), Access::Read).expect("open")
    }
}

/// Two volumes as one: the second one's root directory is an empty directory of the first one.
struct Pair {
    parts: [Part; 2],
    bases: [u64; 2],
    aliases: Vec<RootAlias>,
    parent: u64,
    superblock: Superblock,
}

/// The device, and the origins of its blocks. Clones are the same device.
#[derive(Clone)]
struct PairDevice(Arc<Pair>);

impl PairDevice {
    fn new(parts: [Part; 2], placeholder: &str) -> PairDevice {
        let inode_size = parts[0].superblock.inode_size;
        let frame = parts[0].open();
        let placeholder = frame.metadata(placeholder).expect("an empty directory").ino.0;
        let parent = frame.metadata("/a").expect("a directory").ino.0;
        let end = BASE + parts[1].superblock.volume_bytes;
        let groups = end.next_multiple_of(GROUP);
        let volume_bytes = groups + (groups / GROUP + 1) * BLOCK;
        let uuid = [9; 16];
        let superblock = Superblock {
            uuid,
            checksum_seed: Checksummer::seed_of(&uuid),
            ro_compat: 0,
            volume_bytes,
            groups,
            group_count: volume_bytes.div_ceil(GROUP),
            journal: 0,
            journal_blocks: 0,
            ..parts[0].superblock.clone()
        };
        let root = parts[1].superblock.root + BASE / inode_size.bytes();
        let aliases = vec![RootAlias { placeholder, root }];
        PairDevice(Arc::new(Pair { parts, bases: [0, BASE], aliases, parent, superblock }))
    }

    fn open(&self, cache: u64) -> Volume {
        let options = OpenOptions { cache: Some(cache), ..OpenOptions::from(Access::Read) };
        Volume::open_device(Box::new(self.clone()), options).expect("open")
    }

    fn block(&self, at: u64) -> Vec<u8> {
        let pair = &self.0;
        if at == 0 || at == SUPERBLOCK_COPY {
            return pair.superblock.encode();
        }
        match self.find(at) {
            Some((part, home)) => pair.parts[part].bytes[home as usize..][..BLOCK as usize].to_vec(),
            None => vec![0; BLOCK as usize],
        }
    }

    /// The volume of a block, and its position there.
    fn find(&self, at: u64) -> Option<(usize, u64)> {
        let Pair { parts, bases, superblock, .. } = &*self.0;
        let is_table = at >= superblock.groups;
        let position = if is_table { (at - superblock.groups) / BLOCK * GROUP } else { at };
        let ends = parts.iter().zip(bases).map(|(part, base)| base + part.superblock.volume_bytes);
        let part = bases.iter().zip(ends).position(|(base, end)| (*base..end).contains(&position))?;
        let home = position - bases[part];
        let groups = parts[part].superblock.groups;
        Some((part, if is_table { groups + home / GROUP * BLOCK } else { home }))
    }
}

impl Origins for PairDevice {
    fn of(&self, at: u64) -> Option<BlockOrigin<'_>> {
        let (part, home) = self.find(at)?;
        let superblock = &self.0.parts[part].superblock;
        let relocation = Relocation {
            sums: superblock.sums(),
            base: self.0.bases[part],
            bytes: superblock.volume_bytes,
            inode_size: superblock.inode_size,
            root: superblock.root,
            parent: if part == 0 { superblock.root } else { self.0.parent },
            aliases: if part == 0 { &self.0.aliases } else { &[] },
        };
        Some(BlockOrigin { home, relocation })
    }
}

impl Device for PairDevice {
    fn len(&self) -> u64 {
        self.0.superblock.volume_bytes
    }
    fn is_read_only(&self) -> bool {
        true
    }
    fn is_for_closed_volumes(&self) -> bool {
        true
    }
    fn origins(&self) -> Option<&dyn Origins> {
        Some(self)
    }
    fn read_at(&self, at: u64, mut buffer: IoBufMut<'_>) -> io::Result<()> {
        for done in (0..buffer.len()).step_by(BLOCK as usize) {
            buffer.part(done..done + BLOCK as usize).copy_from(&self.block(at + done as u64));
        }
        Ok(())
    }
}

fn frame(inode_size: InodeSize) -> Part {
    Part::new(64 << 20, inode_size, |volume| {
        volume.mkdir_all("/a/here", 0o700).expect("mkdir");
        volume.write_file("/beside", b"in the first volume").expect("write");
    })
}

/// A volume with each form of directories, file maps, attributes and links.
fn full(inode_size: InodeSize) -> Part {
    Part::new(200 << 20, inode_size, |volume| {
        let caller = &Caller::OWNER;
        volume.set_permissions("/", 0o751).expect("permissions of the root");
        for (dir, files) in [("/empty", 0), ("/small", 5), ("/one/region", 200), ("/wide", 3000)] {
            volume.mkdir_all(dir, 0o755).expect("mkdir");
            for file in 0..files {
                volume.write_file(format!("{dir}/file-{file}"), format!("of {file}")).expect("write");
            }
        }
        volume.write_file("/large", vec![3; 5 << 20]).expect("write");
        volume.write_file("/extent", vec![4; 9000]).expect("write");
        // Every second block: more extents than an inode has.
        let holes = volume.write_file("/holes", b"").expect("write").ino;
        for block in 0..1200 {
            volume.write(caller, holes, block * 2 * BLOCK, &[block as u8; 100]).expect("write");
        }
        volume.hard_link("/extent", "/small/again").expect("link");
        volume.symlink("../large", "/small/short").expect("link");
        volume.symlink("x/".repeat(600), "/small/long").expect("link");
        volume.mknod(caller, volume.root(), b"node", FileKind::CharDevice, 0o600, 0x103).expect("mknod");
        for (path, bytes) in [("/large", 10), ("/small", 20), ("/wide", 60_000)] {
            volume.set_xattr(path, "user.a", vec![5; bytes]).expect("set");
        }
    })
}

/// All that is below a directory, with inode numbers from which `first` is subtracted.
fn tree(volume: &Volume, top: &str, first: u64) -> BTreeMap<String, String> {
    let (mut found, mut left) = (BTreeMap::new(), vec![top.to_string()]);
    while let Some(path) = left.pop() {
        let mut attr = volume.symlink_metadata(&path).expect("attributes");
        attr.ino.0 -= first;
        let content = match attr.kind {
            FileKind::File => volume.read_file(&path).expect("a file"),
            FileKind::Symlink => volume.read_link(&path).expect("a link"),
            _ => Vec::new(),
        };
        // By the number: a path leads through a link.
        let (caller, ino) = (&Caller::OWNER, volume.symlink_metadata(&path).expect("attributes").ino);
        let names = volume.listxattr(ino).expect("names of attributes");
        let get = |name: &Vec<u8>| volume.getxattr(caller, ino, name).expect("an attribute");
        let xattrs: Vec<Vec<u8>> = names.iter().map(get).collect();
        let sum = Checksummer::new(0).of(0, &[content, xattrs.concat()].concat(), None);
        let name = path[top.len()..].trim_start_matches('/').to_string();
        found.insert(name, format!("{attr:?} {} {sum}", xattrs.len()));
        if attr.kind == FileKind::Directory {
            for entry in volume.read_dir(&path).expect("a directory") {
                let entry = entry.expect("an entry");
                let name = String::from_utf8(entry.name.to_vec()).expect("a name");
                left.push(format!("{}/{name}", path.trim_end_matches('/')));
            }
        }
    }
    found
}

#[test]
fn a_joined_volume_has_all_of_both_at_their_places() {
    for inode_size in [InodeSize::B128, InodeSize::B256] {
        let (frame, full) = (frame(inode_size), full(inode_size));
        let here = tree(&full.open(), "/", 0);
        assert!(here.len() > 3200);
        let root = full.superblock.root + BASE / inode_size.bytes();
        let device = PairDevice::new([frame, full], "/a/here");
        // Much memory, with neighbours, and little, without.
        for cache in [256 << 20, 1 << 20] {
            let volume = device.open(cache);
            assert!(volume.is_joined());
            assert_eq!(volume.read_file("/beside").expect("read"), b"in the first volume");
            let there = tree(&volume, "/a/here", BASE / inode_size.bytes());
            for (name, facts) in &here {
                assert_eq!(there.get(name), Some(facts), "{name}");
            }
            assert_eq!(there.len(), here.len());
            let top = volume.metadata("/a/here").expect("the root of the second volume");
            assert_eq!((top.ino.0, top.perm), (root, 0o751), "attributes are those of its root");
            assert_eq!(volume.metadata("/a").expect("a directory").links, 3);
            for (path, other) in [("/a/here/..", "/a"), ("/a/here/wide/../..", "/a"), ("/a/here/../..", "/")]
            {
                let (one, other) = (volume.metadata(path), volume.metadata(other));
                assert_eq!(one.expect("attributes").ino, other.expect("attributes").ino, "{path}");
            }
            let paths: Vec<String> = here.keys().map(|name| format!("/a/here/{name}")).collect();
            let found = volume.resolve_batch(&ResolveOptions::default(), &paths).expect("a batch");
            // Only one link leads to nothing.
            let lost = found.iter().zip(&paths).filter(|(found, _)| found.code != Code::Success);
            assert_eq!(lost.map(|(_, path)| &path[..]).collect::<Vec<_>>(), ["/a/here/small/long"]);
        }
    }
}

#[test]
fn what_needs_the_bytes_of_one_volume_is_refused_for_joined_ones() {
    let device = PairDevice::new([frame(InodeSize::B256), frame(InodeSize::B256)], "/a/here");
    let volume = device.open(64 << 20);
    let refused = [
        volume.check(false, &|_, _| {}).map(drop),
        volume.scrub(0, &mut |_, _| true).map(drop),
        volume.used_blocks(0).map(drop),
        volume.read_image(0, &mut [0; 4096]),
        volume.snapshot(1 << 20).map(drop),
        volume.to_bytes().map(drop),
        volume.inspect(0).map(drop),
    ];
    for refused in refused {
        let error = refused.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("joins other volumes"), "{error}");
    }
    assert!(!frame(InodeSize::B256).open().is_joined());
}

/// Replaces a word of a structure in the last leaf of a volume, and makes its checksum right.
fn forge(part: &mut Part, change: impl Fn(&mut [u8])) {
    use lanefs::format::{BlockKind, chunk_entry, chunk_header};
    let sums = part.superblock.sums();
    let size = part.superblock.inode_size.bytes() as usize;
    let mut found = Vec::new();
    for (chunk, bytes) in part.bytes.chunks_exact(2 << 20).enumerate() {
        if chunk_header::OWNER.read(bytes) == Some(chunk as u64 * (2 << 20)) && bytes[0] == 3 {
            let kinds = bytes[..8192].chunks_exact(chunk_entry::SIZE).enumerate().skip(2);
            let leaves = kinds.filter(|(_, row)| row[0] == BlockKind::Leaf as u8);
            found.extend(leaves.map(|(block, _)| chunk as u64 * (2 << 20) + block as u64 * BLOCK));
        }
    }
    let at = *found.last().expect("a leaf");
    let block = &mut part.bytes[at as usize..][..BLOCK as usize];
    change(block);
    sums.seal(BlockKind::Leaf, at, block, size);
}

#[test]
fn a_volume_that_leads_out_of_itself_is_damaged_and_the_others_are_not() {
    use lanefs::format::dir::{LEAF_HEADER_UNITS, entry, entry_units};
    let mut hostile = Part::new(64 << 20, InodeSize::B256, |volume| {
        volume.mkdir_all("/d", 0o755).expect("mkdir");
        volume.write_file("/d/file", b"inside").expect("write");
    });
    // The inode number of a file of the first volume, counted from the base of the second one.
    let target = frame(InodeSize::B256).open().metadata("/beside").expect("a file").ino.0;
    forge(&mut hostile, |leaf| {
        let at = (LEAF_HEADER_UNITS + entry_units(0)) * 16;
        entry::INODE.write(&mut leaf[at..], target.wrapping_sub(BASE / 256));
    });
    let volume = PairDevice::new([frame(InodeSize::B256), hostile], "/a/here").open(64 << 20);
    let error = volume.read_file("/a/here/d/file").expect_err("damage");
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    assert_eq!(volume.read_file("/beside").expect("read"), b"in the first volume");
    assert!(volume.exists("/a/here/d").expect("above the damage"));
}
