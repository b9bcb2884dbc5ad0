//! Planted faults: each is found by name and repaired.

use crate::check::faults::{FixtureInodes, faults};
use crate::check::fixture::{OWNER, Path, closed, fill, options, orphan, tree};
use crate::check::image::{Good, Image, Overlay};
use crate::check::names;
use lanefs::*;

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
    for (number, (name, plant)) in faults().enumerate() {
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
pub(crate) fn find_and_mend(image: &mut Image<'_>, name: &str) -> std::result::Result<Volume, String> {
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
    for (number, (name, plant)) in faults().enumerate().filter(|(number, _)| number % 3 == 0) {
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
    for (number, (name, plant)) in faults().enumerate().filter(|(_, f)| LONG_REPAIRS.contains(&f.0)) {
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
fn repair_again(device: Overlay, after: &[Path]) -> std::result::Result<(), String> {
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
    let document = include_str!("../../../src/check/outcome/invariants.rs");
    let known: Vec<&str> = document
        .lines()
        .filter_map(|line| line.split_once(" = \"")?.1.split_once("\", \""))
        .map(|(name, _)| name)
        .collect();
    assert!(known.len() > 60, "{known:?}");
    for name in &known {
        assert!(faults().any(|(fault, _)| fault == name), "no planted fault for {name}");
    }
    assert!(faults().all(|(name, _)| known.contains(name)));
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
    for (name, plant) in faults().filter(|(name, _)| ["list-link", "tree-checksum"].contains(name)) {
        let mut image = good.image();
        plant(&mut image, &inodes);
        let volume = find_and_mend(&mut image, name).expect(name);
        assert!(tree(&volume) == before, "{name}");
    }
}
