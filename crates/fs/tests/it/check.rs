//! The check: clean volumes are clean, and every planted fault is found by name and repaired.

mod faults;
mod fixture;
mod full;
mod image;
mod log_writer;
mod logs;
mod misplaced;
mod transactions;

use faults::{FAULTS, FixtureInodes};
use fixture::{HIDDEN, OWNER, Path, closed, fill, options, orphan, tree};
use image::Good;
use lanefs::*;

fn names(report: &CheckReport) -> Vec<String> {
    report.findings.iter().map(|f| format!("{} at {:#x}: {}", f.invariant, f.at, f.text)).collect()
}

fn assert_clean(volume: &Volume, what: &str) {
    let report = volume.check(false, &|_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "{what}: {:#?}", names(&report));
}

#[test]
fn volumes_of_all_shapes_are_clean() {
    for inode_size in [InodeSize::B128, InodeSize::B256] {
        let volume = Volume::create_memory(&options(64 << 20, inode_size)).expect("create");
        assert_clean(&volume, "empty, in memory");
        fill(&volume, 0);
        assert_clean(&volume, "filled, in memory");
        orphan(&volume);
        assert_clean(&volume, "with orphans, in memory");
        assert_eq!(volume.check(false, &|_, _| {}).expect("check").orphans, HIDDEN - 1);
        let copy = Volume::from_bytes(volume.to_bytes().expect("bytes")).expect("open");
        assert_clean(&copy, "a copy");
        let bytes = closed(16 << 20, inode_size, 0);
        let good = Good::new(bytes);
        let volume = good.image().open();
        assert_clean(&volume, "from a device");
        let report = volume.check(true, &|_, _| {}).expect("check");
        assert!(report.findings.is_empty());
        assert_eq!(report.inodes, volume.statfs().expect("statfs").inodes);
        let before = tree(&volume);
        assert_eq!(report.orphans, HIDDEN - 1);
        let seen = before.len() as u64;
        assert_eq!(report.inodes, seen + HIDDEN, "all but a second link, the root, and what has no name");
    }
}

#[test]
fn a_wide_directory_stays_clean_while_it_shrinks() {
    let volume = Volume::create_memory(&options(256 << 20, InodeSize::B128)).expect("create");
    let dir = volume.mkdir(&OWNER, volume.root(), b"wide", 0o755).expect("mkdir").ino;
    let count = 60_000u32;
    for i in 0..count {
        volume.create_file(&OWNER, dir, format!("{i}").as_bytes(), 0o644).expect("create");
    }
    assert_clean(&volume, "wide");
    for i in 0..count {
        let i = i.wrapping_mul(2_654_435_761) % count;
        let _ = volume.unlink(&OWNER, dir, format!("{i}").as_bytes());
        if i.is_multiple_of(9973) {
            assert_clean(&volume, "shrinking");
        }
    }
    assert_clean(&volume, "shrunk");
}

/// Faults whose repair loses a name, an inode or a type. The repair of all others keeps every path.
const LOSSY: &[&str] = &[
    "directory-cycle",
    "directory-linked-twice",
    "entry-duplicate",
    "entry-inode",
    "entry-name",
    "inode-checksum",
    "inode-mode",
    "inode-unreachable",
    "leaf-checksum",
    "orphan-directory",
    "orphan-entry",
    "orphan-named",
    "orphan-not-empty",
    "root-directory",
];

/// Faults that are planted in a volume of two groups. In a volume of one group all metadata lie in the chunk
/// of the checksums, which are then not missing: only the mark of the chunk is.
const OF_TWO_GROUPS: &[&str] = &["sums-missing"];

/// Layouts in which all faults are planted. In the last one `tree` has a lower inode number than `region`, so
/// that a walk of all inodes meets it first.
const LAYOUTS: [(InodeSize, u64); 3] = [(InodeSize::B256, 0), (InodeSize::B128, 0), (InodeSize::B128, 4)];

/// `LANEFS_CHECK_LAYOUTS=FIRST..END` tries these layouts instead.
#[test]
fn every_planted_fault_is_found_by_name_and_mended() {
    let range = std::env::var("LANEFS_CHECK_LAYOUTS").ok().and_then(|range| {
        let (first, end) = range.split_once("..")?;
        Some(first.parse::<u64>().ok()?..end.parse().ok()?)
    });
    let layouts = range.map_or(LAYOUTS.to_vec(), |range| {
        range.flat_map(|layout| [InodeSize::B256, InodeSize::B128].map(|size| (size, layout))).collect()
    });
    let mut failures = Vec::new();
    for (inode_size, layout) in layouts {
        plant_all(inode_size, layout, &mut failures);
    }
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

/// Plants each fault in a volume of its own, and notes those that are not found and repaired.
fn plant_all(inode_size: InodeSize, layout: u64, failures: &mut Vec<String>) {
    let volumes = [16 << 20, 136 << 20].map(|size| {
        let good = Good::new(closed(size, inode_size, layout));
        let (inodes, before) = (FixtureInodes::of(&good.image().reopen()), tree(&good.image().reopen()));
        (good, inodes, before)
    });
    for (number, (name, plant)) in FAULTS.iter().enumerate() {
        let (good, inodes, before) = &volumes[usize::from(OF_TWO_GROUPS.contains(name))];
        let mut image = good.image();
        plant(&mut image, inodes);
        let outcome = find_and_mend(&mut image, name)
            .and_then(|volume| if LOSSY.contains(name) { Ok(()) } else { same_tree(before, &tree(&volume)) });
        if let Err(why) = outcome {
            failures.push(format!("fault {number}, {name}, {inode_size:?}, layout {layout}: {why}"));
        }
    }
}

/// Compares the trees before a fault and after its repair.
fn same_tree(before: &[Path], after: &[Path]) -> std::result::Result<(), String> {
    let only_in = |one: &[Path], other: &[Path]| -> Vec<String> {
        let only: Vec<_> = one.iter().filter(|path| !other.contains(path)).collect();
        let text = |(path, kind, ino): &&Path| format!("{} {kind:?} {ino}", String::from_utf8_lossy(path));
        std::iter::once(only.len().to_string()).chain(only.iter().take(3).map(text)).collect()
    };
    if before == after {
        return Ok(());
    }
    Err(format!("mended, but lost {:?} and got {:?}", only_in(before, after), only_in(after, before)))
}

/// Plants a fault, repairs it, and returns the difference from the expected outcome.
fn find_and_mend(image: &mut image::Image<'_>, name: &str) -> std::result::Result<Volume, String> {
    let volume = image.open();
    let look = |volume: &Volume, repair| volume.check(repair, &|_, _| {}).map_err(|e| e.to_string());
    let found = look(&volume, false)?;
    if !found.findings.iter().any(|f| f.invariant == name) {
        return Err(format!("not found, but {:?}", names(&found)));
    }
    let mended = look(&volume, true)?;
    if let Some(left) = mended.findings.iter().find(|f| !f.repaired) {
        return Err(format!("not mended: {left:?}, of {:?}", names(&found)));
    }
    let again = look(&volume, false)?;
    if !again.findings.is_empty() {
        return Err(format!("again: {:?}", names(&again)));
    }
    volume.close().map_err(|e| e.to_string())?;
    let volume = image.open_for(Access::Write);
    let again = look(&volume, false)?;
    if !again.findings.is_empty() || again.orphans > 0 {
        return Err(format!("after opening it again: {:?}, {} orphans", names(&again), again.orphans));
    }
    tree(&volume);
    work(&volume).map_err(|e| format!("work on the repaired volume: {e}"))?;
    let again = look(&volume, false)?;
    if !again.findings.is_empty() {
        return Err(format!("after some work: {:?}", names(&again)));
    }
    volume.close().map_err(|e| format!("closing it after some work: {e}"))?;
    Ok(image.open_for(Access::Write))
}

/// Works on a volume and leaves its tree as it was. A full volume has no room for the work.
fn work(volume: &Volume) -> Result<()> {
    let root = volume.root();
    let worked = (|| {
        let dir = volume.mkdir(&OWNER, root, b"made", 0o755)?.ino;
        let file = volume.write_file("/made/file", vec![1; 20_000])?.ino;
        volume.setxattr(&OWNER, file, b"user.k", &[7; 500], XattrMode::Set)?;
        volume.sync()?;
        volume.rename_at(&OWNER, dir, b"file", dir, b"other", RenameMode::Replace)
    })();
    volume.remove_all_with(&OWNER, root, b"made", |_, done| done)?;
    volume.sync()?;
    match worked {
        Err(e) if e.code() == Code::NoSpace => Ok(()),
        worked => worked,
    }
}

#[test]
fn a_map_that_has_a_block_many_times_ends_every_walk() {
    let good = Good::new(closed(16 << 20, InodeSize::B256, 0));
    let inodes = FixtureInodes::of(&good.image().reopen());
    let mut image = good.image();
    // The third level of the map covers 1 GiB: all of it gets the first 2 MiB again and again.
    let below = |image: &image::Image<'_>, at: u64| {
        image.get(at, format::Array::<u64>::at(0, 512).index(0)) & !(format::BLOCK - 1)
    };
    let top = image.inode(inodes.sparse, format::inode::MAP) & !(format::BLOCK - 1);
    let at = below(&image, below(&image, top));
    let slots = format::Array::<u64>::at(0, 512);
    let first = image.get(at, slots.index(0));
    for slot in 1..512 {
        image.put(at, slots.index(slot), first);
    }
    let volume = image.open();
    let damaged = |error: Error| assert!(error.to_string().contains("has a block twice"), "{error}");
    volume.extents(Ino(inodes.sparse)).map(drop).map_err(damaged).expect_err("a block twice");
    let found = volume.check(true, &|_, _| {}).expect("a repair");
    assert!(found.findings.iter().all(|finding| finding.repaired), "{:?}", names(&found));
    volume.extents(Ino(inodes.sparse)).expect("extents");
}

#[test]
fn of_two_files_that_name_a_block_its_owner_keeps_it() {
    use format::inode::{FLAGS, MAP, XATTR};
    let good = Good::new(closed(16 << 20, InodeSize::B256, 0));
    let inodes = FixtureInodes::of(&good.image().reopen());
    let content = |volume: &Volume| {
        let mut bytes = vec![0; 70_000];
        let count = volume.read(&OWNER, Ino(inodes.mapped), 0, &mut bytes).expect("read");
        (count, bytes, volume.getxattr(&OWNER, Ino(inodes.sparse), b"user.long").expect("attribute"))
    };
    let before = content(&good.image().reopen());
    let mut image = good.image();
    // The others come first, in order of their numbers.
    assert!(inodes.big < inodes.mapped && inodes.a < inodes.sparse);
    image.put_inode(inodes.big, MAP, image.inode(inodes.mapped, MAP));
    image.put_inode(inodes.big, FLAGS, image.inode(inodes.mapped, FLAGS));
    image.put_inode(inodes.a, XATTR, image.inode(inodes.sparse, XATTR));
    let volume = find_and_mend(&mut image, "block-owned-twice").expect("mended");
    assert!(content(&volume) == before);
}

#[test]
fn a_link_whose_size_is_wrong_keeps_its_target() {
    use format::inode::BYTES;
    for inode_size in [InodeSize::B128, InodeSize::B256] {
        let good = Good::new(closed(16 << 20, inode_size, 0));
        let inodes = FixtureInodes::of(&good.image().reopen());
        let wrong =
            [(inodes.short, &[0, 4, 20, 161, 5000][..]), (inodes.long, &[0, 401, 4095, 4096, u64::MAX])];
        for (ino, size) in wrong.iter().flat_map(|(ino, sizes)| sizes.iter().map(|size| (*ino, *size))) {
            let target = good.image().reopen().readlink(Ino(ino)).expect("readlink");
            let mut image = good.image();
            image.put_inode(ino, BYTES, size);
            let volume = find_and_mend(&mut image, "inode-size").expect("mended");
            assert_eq!(
                volume.readlink(Ino(ino)).expect("readlink"),
                target,
                "{size} instead of {}",
                target.len()
            );
        }
    }
}

/// Where the block of a target is lost, or the target lies in a radix map, the size follows, too.
#[test]
fn the_size_of_a_link_follows_what_is_left_of_its_map() {
    use format::{INODE_CORE, extent, inode as f};
    let good = Good::new(closed(16 << 20, InodeSize::B256, 0));
    let inodes = FixtureInodes::of(&good.image().reopen());
    let first = INODE_CORE as u64;
    let target = |image: &image::Image<'_>, ino: u64| image.get(image.inode_at(ino) + first, extent::POINTER);
    let mut image = good.image();
    let of_another = target(&image, inodes.extents);
    assert!(inodes.extents < inodes.long);
    image.put(image.inode_at(inodes.long) + first, extent::POINTER, of_another);
    let volume = find_and_mend(&mut image, "block-owned-twice").expect("mended");
    assert!(volume.readlink(Ino(inodes.long)).expect("readlink").is_empty());

    let mut image = good.image();
    assert_eq!(image.inode(inodes.mapped, f::FLAGS) >> format::INODE_DEPTH_SHIFT & 0xf, 1);
    image.put_inode(inodes.mapped, f::MODE, 0o120_777);
    let volume = find_and_mend(&mut image, "inode-size").expect("mended");
    assert_eq!(volume.readlink(Ino(inodes.mapped)).expect("readlink"), b"start");
}

/// The entry of a free block says what only a block in use may have. Blocks are allocated all the same,
/// before any repair, and nothing of that is said of them.
#[test]
fn what_a_table_says_of_a_free_block_ends_with_its_allocation() {
    use format::{BLOCK, BLOCKS_PER_CHUNK, CHUNK_HEADER_BLOCKS, chunk_entry};
    let good = Good::new(closed(16 << 20, InodeSize::B256, 0));
    let inodes = FixtureInodes::of(&good.image().reopen());
    let mut image = good.image();
    let chunk = image.inode_at(inodes.root) & !(format::CHUNK - 1);
    let entries =
        (CHUNK_HEADER_BLOCKS..BLOCKS_PER_CHUNK).map(|block| chunk + block * chunk_entry::SIZE as u64);
    let free: Vec<u64> = entries.filter(|at| image.get(*at, chunk_entry::KIND) == 0).collect();
    assert!(free.len() > 2, "{} free blocks", free.len());
    for at in &free {
        image.put(*at, chunk_entry::USED, 3);
        image.put(*at, chunk_entry::RESERVED, 5);
        image.put(*at, chunk_entry::CHECKSUM, 7);
        image.put(*at, chunk_entry::OWNER, 9);
    }
    image.seal();
    let volume = image.open_for(Access::Write);
    for number in 0..free.len() as u64 * BLOCK / 256 {
        volume.write_file(format!("/small/{number}"), b"").expect("a new inode");
    }
    let found = names(&volume.check(false, &|_, _| {}).expect("check"));
    assert!(found.is_empty(), "{} findings, the first {:?}", found.len(), found.first());
}

#[test]
fn threads_and_ranges_find_the_same() {
    let good = Good::new(closed(16 << 20, InodeSize::B256, 0));
    let inodes = FixtureInodes::of(&good.image().reopen());
    let check = |volume: &Volume, threads, memory| {
        let options = CheckOptions { repair: false, memory, threads, progress: &|_, _| {} };
        let report = volume.check_with(&options).expect("check");
        (names(&report), report.inodes, report.directories, report.orphans, report.blocks)
    };
    assert_eq!(check(&good.image().reopen(), 3, None), check(&good.image().reopen(), 1, None));
    // A few bytes of counts: each block of inodes is a range of its own.
    assert_eq!(check(&good.image().reopen(), 1, Some(64)), check(&good.image().reopen(), 1, None));
    for (number, (name, plant)) in FAULTS.iter().enumerate().filter(|(number, _)| number % 3 == 0) {
        let mut image = good.image();
        plant(&mut image, &inodes);
        let volume = image.open();
        let one = check(&volume, 1, None);
        assert_eq!(check(&volume, 3, Some(1 << 10)), one, "fault {number}, {name}");
    }
}

/// Faults whose repair makes something again, or takes several transactions.
const LONG_REPAIRS: &[&str] = &[
    "chunk-checksum",
    "entry-hash",
    "group-checksum",
    "index-checksum",
    "journal",
    "leaf-checksum",
    "list-link",
    "map-pointer",
    "tree-checksum",
    "xattr-checksum",
];

#[test]
fn a_repair_that_ends_at_any_write_leaves_the_volume_as_it_was_or_repaired_so_far() {
    let good = Good::new(closed(16 << 20, InodeSize::B256, 0));
    let inodes = FixtureInodes::of(&good.image().reopen());
    let mut failures = Vec::new();
    for (number, (name, plant)) in FAULTS.iter().enumerate().filter(|(_, f)| LONG_REPAIRS.contains(&f.0)) {
        let mut image = good.image();
        plant(&mut image, &inodes);
        image.seal();
        let before = image.device.copy();
        image.device.take_writes();
        let volume = image.reopen();
        volume.check(true, &|_, _| {}).expect("a repair");
        let after = tree(&volume);
        volume.close().expect("close");
        let writes = image.device.take_writes();
        // All writes of a short repair, some of a long one.
        for end in (0..=writes.len()).step_by(writes.len() / 40 + 1) {
            let device = before.copy();
            for (at, bytes) in &writes[..end] {
                Device::write_slice(&device, *at, bytes).expect("inside");
            }
            let outcome = repair_again(device, &after);
            if let Err(why) = outcome {
                failures.push(format!("fault {number}, {name}, {end} of {} writes: {why}", writes.len()));
            }
        }
    }
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

/// Repairs a volume whose repair was interrupted, and compares its tree with that of the whole repair.
fn repair_again(device: image::Overlay, after: &[Path]) -> std::result::Result<(), String> {
    let volume = Volume::open_device(Box::new(device), Access::Repair).map_err(|e| e.to_string())?;
    let report = volume.check(true, &|_, _| {}).map_err(|e| e.to_string())?;
    if let Some(left) = report.findings.iter().find(|finding| !finding.repaired) {
        return Err(format!("not mended: {left:?}"));
    }
    let now = tree(&volume);
    let lost: Vec<_> = after.iter().filter(|path| !now.contains(path)).take(3).collect();
    if lost.is_empty() { Ok(()) } else { Err(format!("lost: {lost:?}")) }
}

#[test]
fn each_invariant_has_a_planted_fault() {
    let document = include_str!("../../src/check/outcome/invariants.rs");
    let known: Vec<&str> = document
        .lines()
        .filter_map(|line| line.split_once(" = \"")?.1.split_once("\", \""))
        .map(|(name, _)| name)
        .collect();
    assert!(known.len() > 60, "{known:?}");
    for name in &known {
        assert!(FAULTS.iter().any(|(fault, _)| fault == name), "no planted fault for {name}");
    }
    assert!(FAULTS.iter().all(|(name, _)| known.contains(name)));
}

/// A small generator, so that a seed gives the same image everywhere (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

#[test]
fn a_full_volume_can_be_mended() {
    let volume = Volume::create_memory(&options(16 << 20, InodeSize::B256)).expect("create");
    fill(&volume, 0);
    orphan(&volume);
    for piece in [64 << 10, 4096] {
        let full = (0..).find_map(|i| volume.write_file(format!("/fill-{piece}-{i}"), vec![1; piece]).err());
        assert_eq!(full.map(|e| e.code()), Some(Code::NoSpace));
    }
    let good = Good::new(volume.to_bytes().expect("bytes"));
    let inodes = FixtureInodes::of(&good.image().reopen());
    let before = tree(&good.image().reopen());
    for (name, plant) in FAULTS.iter().filter(|(name, _)| ["list-link", "tree-checksum"].contains(name)) {
        let mut image = good.image();
        plant(&mut image, &inodes);
        let volume = find_and_mend(&mut image, name).expect(name);
        assert!(tree(&volume) == before, "{name}");
    }
}

#[test]
fn a_volume_in_use_stays_clean() {
    for (seed, inode_size) in [(1, InodeSize::B128), (2, InodeSize::B256), (3, InodeSize::B256)] {
        let mut random = Random(seed);
        let volume = Volume::create_memory(&options(64 << 20, inode_size)).expect("create");
        for step in 0..6000u32 {
            let name = |n: usize| format!("/{}", "n".repeat(1 + n % 200) + &n.to_string());
            let (one, other) = (name(random.below(60)), name(random.below(60)));
            let path = |p: &str| p.as_bytes()[1..].to_vec();
            let (root, ino) = (volume.root(), volume.resolve(&one).map_or(volume.root(), |a| a.ino));
            let at = random.next() >> (24 + random.below(40));
            let len = random.below(200_000);
            let _ = match random.below(12) {
                0 | 1 => volume.write_file(&one, vec![step as u8; random.below(300_000)]).map(|_| ()),
                2 => volume.write(&OWNER, ino, at, &vec![1; len]).map(|_| ()),
                3 => {
                    volume.setattr(&OWNER, ino, &SetAttr { size: Some(at), ..SetAttr::default() }).map(|_| ())
                }
                4 => volume.fallocate(&OWNER, ino, Allocate::PunchHole, at, 1 + len as u64),
                5 => volume.fallocate(&OWNER, ino, Allocate::KeepSize, at, 1 + 20 * len as u64),
                6 => volume.fallocate(&OWNER, ino, Allocate::ZeroRange, at, 1 + len as u64),
                7 => volume.setxattr(&OWNER, ino, b"user.x", &vec![3; len / 4], XattrMode::Set),
                8 => volume.rename_at(&OWNER, root, &path(&one), root, &path(&other), RenameMode::Replace),
                9 => volume.link(&OWNER, ino, root, &path(&other)).map(|_| ()),
                10 => volume.mkdir(&OWNER, root, &path(&one), 0o755).map(|_| ()),
                _ => volume
                    .unlink(&OWNER, root, &path(&one))
                    .or_else(|_| volume.rmdir(&OWNER, root, &path(&one))),
            };
            if step % 97 == 0 {
                assert_clean(&volume, &format!("seed {seed}, step {step}"));
            }
        }
        assert_clean(&volume, "in the end");
    }
}

/// Positions of metadata to choose from. A few blocks hold most of the fields that can be wrong; the many
/// leaves and inode blocks are chosen as often together.
fn metadata_of(good: &Good) -> Vec<u64> {
    let mut blocks = Vec::new();
    for kind in format::BlockKind::ALL {
        let of_kind = good.of_kind(kind);
        blocks.extend(of_kind.iter().cycle().take(if of_kind.is_empty() { 0 } else { 64 }));
    }
    blocks
}

/// Changes one to eight words of metadata, each to a value that has a meaning elsewhere in the volume.
fn mutate(image: &mut image::Image<'_>, random: &mut Random, blocks: &[u64]) {
    for _ in 0..=random.below(8) {
        let at = blocks[random.below(blocks.len())];
        let mut block = image.block(at);
        let word = random.below(512) * 8;
        let other = blocks[random.below(blocks.len())];
        match random.below(9) {
            0 => block[word + random.below(8)] ^= 1 << random.below(8),
            1 => block[word..word + 8].copy_from_slice(&random.next().to_le_bytes()),
            2 => block[word..word + 8].fill(0),
            3 => block[word..word + 8].fill(0xff),
            4 => {
                let from = random.below(512) * 8;
                let copy = block[from..from + 8].to_vec();
                block[word..word + 8].copy_from_slice(&copy);
            }
            5 => block[word..word + 8].copy_from_slice(&(other | random.next() & 31).to_le_bytes()),
            6 => {
                let from = image.block(other);
                block[word..word + 8].copy_from_slice(&from[word..word + 8]);
            }
            7 => block = image.block(other),
            _ => {
                let ino = other / image.size().bytes() + random.next() % 16;
                block[word..word + 8].copy_from_slice(&ino.to_le_bytes());
            }
        }
        image.write(at, &block);
    }
    if random.below(8) == 0 {
        image.spoil(blocks[random.below(blocks.len())]);
    }
}

#[test]
fn no_mutation_makes_the_check_fail_or_its_repair_stop_half_way() {
    let images: u64 = std::env::var("LANEFS_CHECK_IMAGES").ok().and_then(|n| n.parse().ok()).unwrap_or(1000);
    let first: u64 = std::env::var("LANEFS_CHECK_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let (mut failures, mut faulty) = (Vec::new(), 0);
    // The second volume has two groups.
    for (inode_size, size) in [(InodeSize::B128, 16 << 20), (InodeSize::B256, 136 << 20)] {
        let good = Good::new(closed(size, inode_size, 0));
        let blocks = metadata_of(&good);
        for seed in first..first + images {
            let mut random = Random(seed);
            let mut image = good.image();
            mutate(&mut image, &mut random, &blocks);
            let begun = std::time::Instant::now();
            match mend_anything(&mut image) {
                Ok(found) => faulty += u64::from(found),
                Err(why) => failures.push(format!("seed {seed}, {inode_size:?}: {why}")),
            }
            let took = begun.elapsed();
            assert!(took.as_secs() < 20, "seed {seed}, {inode_size:?} took {took:?}");
        }
    }
    assert!(
        failures.is_empty(),
        "{} failed:\n{}",
        failures.len(),
        failures[..failures.len().min(20)].join("\n")
    );
    // With fewer faults the test would show nothing.
    assert!(faulty > images, "only {faulty} of {} images had a fault", 2 * images);
}

/// Checks and repairs an arbitrary image; a clear refusal is fine too. True where something was wrong.
fn mend_anything(image: &mut image::Image<'_>) -> std::result::Result<bool, String> {
    image.seal();
    let opened = Volume::open_device(Box::new(image.device.clone()), Access::Write);
    let Ok(volume) = opened else { return Ok(false) };
    let refused =
        |e: Error| if e.to_string().contains("too damaged to mend") { Ok(true) } else { Err(e.to_string()) };
    if let Err(e) = volume.check(false, &|_, _| {}) {
        return refused(e);
    }
    let mended = match volume.check(true, &|_, _| {}) {
        Ok(mended) => mended,
        Err(e) => return refused(e),
    };
    if let Some(left) = mended.findings.iter().find(|f| !f.repaired) {
        return Err(format!("not mended: {left:?}"));
    }
    tree(&volume);
    volume.close().map_err(|e| e.to_string())?;
    let again = image.reopen().check(false, &|_, _| {}).map_err(|e| e.to_string())?;
    if again.findings.is_empty() {
        Ok(!mended.findings.is_empty())
    } else {
        Err(format!("again: {:?}", names(&again)))
    }
}

#[test]
fn a_damaged_extent_is_damage_for_every_operation() {
    use format::{BLOCK, BlockSize, INODE_CORE, Pointer, extent, inode};
    type Plant = fn(&mut image::Image<'_>, u64);
    let plants: [(&str, Plant); 7] = [
        ("empty", |i, at| i.put(at, extent::BLOCKS, 0)),
        ("overlapping", |i, at| i.put(at + extent::SIZE as u64, extent::FIRST, 0)),
        ("behind the volume", |i, at| i.put(at, extent::BLOCKS, u32::MAX)),
        ("indirect", |i, at| i.put(at, extent::POINTER, Pointer::indirect(100 * BLOCK).word())),
        ("too large", |i, at| {
            i.put(at, extent::POINTER, Pointer::data(100 * BLOCK, BlockSize::Medium).word());
        }),
        ("a hole", |i, at| i.put(at, extent::POINTER, Pointer::HOLE)),
        ("too many", |i, at| i.put(at - INODE_CORE as u64, inode::FLAGS, 0xf000)),
    ];
    for inode_size in [InodeSize::B256, InodeSize::B128] {
        let good = Good::new(closed(16 << 20, inode_size, 0));
        let ino = FixtureInodes::of(&good.image().open()).extents;
        for (name, plant) in plants {
            let mut image = good.image();
            let at = image.inode_at(ino) + INODE_CORE as u64;
            plant(&mut image, at);
            image.seal();
            let volume = image.open_for(Access::Write);
            let ino = Ino(ino);
            let all = (0, u64::MAX >> 8);
            let answers = [
                volume.read(&OWNER, ino, 0, &mut [0; 30_000]).map(drop),
                volume.write(&OWNER, ino, 4096, &[1; 5000]).map(drop),
                volume.fallocate(&OWNER, ino, Allocate::PunchHole, all.0, all.1),
                volume.fallocate(&OWNER, ino, Allocate::CollapseRange, 0, 4096),
                volume.setattr(&OWNER, ino, &SetAttr { size: Some(1), ..SetAttr::default() }).map(drop),
                volume.extents(ino).map(drop),
                volume.unlink(&OWNER, volume.root(), b"extents"),
            ];
            for (number, answer) in answers.iter().enumerate() {
                assert!(matches!(answer, Err(Error::Damaged { .. })), "{name}, {number}: {answer:?}");
            }
        }
    }
}
