//! The work on a hostile image. Errors are fine; panics, endless work and repairs that do not last are not.

use super::bases::MutationBase;
use super::medium::ImageDevice;
use super::work::{open_again, work};
use crate::naive::Naive;
use crate::ops::bulk_name;
use crate::seeded::Seeded;
use crate::volume::findings;
use lanefs::{
    Access, Allocate, Caller, FileKind, Ino, OpenOptions, RenameMode, ResolveOptions, Seek, SetAttr, Volume,
    XattrMode,
};
use std::time::Duration;

const OWNER: Caller = Caller::OWNER;
/// Size of the block cache in bytes.
const CACHE_BYTES: u64 = 1 << 30;
/// Most inodes visited in one image. A cycle of directories would keep a walk busy for ever.
const MOST_INODES: usize = 250;
/// Most pages of one directory.
const MOST_PAGES: usize = 30;

/// The progress of the work on an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExerciseEffort {
    /// It could be opened.
    pub opened: bool,
    /// Inodes visited.
    pub inodes: usize,
    /// Calls that reported an error.
    pub errors: usize,
    /// The check found something.
    pub found: bool,
    /// A repair made it sound.
    pub repaired: bool,
}

/// Opens the image, walks it, reads it, checks it, repairs it and works on it, in one of several orders.
///
/// # Errors
/// A finding of a check right after a repair that reported success, or after sound operations on the repaired
/// volume; an operation that fails on the repaired volume; a volume that a repair called sound and that does
/// not open.
pub fn exercise(
    medium: &ImageDevice,
    base: &MutationBase,
    numbers: &mut Seeded,
) -> Result<ExerciseEffort, String> {
    let mut effort = ExerciseEffort::default();
    let open = |access| {
        // No background commit: whether one comes in between would depend on the machine. The cache has room
        // for all of a base: the default would be looked up at each open.
        let (commit_every, cache) = (Duration::from_secs(1 << 20), Some(CACHE_BYTES));
        let options = OpenOptions { access, commit_every, cache, ..OpenOptions::default() };
        Volume::open_device(Box::new(medium.clone()), options)
    };
    if let Ok(volume) = open(Access::Read) {
        effort.opened = true;
        walk(&volume, &mut effort);
        resolve(&volume, base, &mut effort);
        match volume.check(false, &|_, _| {}) {
            Ok(report) => effort.found = !report.findings.is_empty(),
            Err(_) => effort.errors += 1,
        }
    }
    // A third of the images is written to before any repair, as an unchecked volume is.
    if numbers.chance(33)
        && let Ok(volume) = open(Access::Write)
    {
        change(&volume, numbers, &mut effort);
        // A volume in use, with changes that are not durable, is checked and repaired too.
        effort.errors += usize::from(volume.check(numbers.chance(30), &|_, _| {}).is_err());
    }
    let Ok(volume) = open(Access::Repair) else { return Ok(effort) };
    match volume.check(true, &|_, _| {}) {
        Ok(report) if report.findings.iter().all(|finding| finding.repaired) => {}
        // The repair says that it could not.
        _ => return Ok(effort),
    }
    sound(&volume, "right after a repair")?;
    volume.close().map_err(|error| format!("cannot be closed after a repair: {error}"))?;
    second_reader(medium).map_err(|text| format!("the second reader, after a repair: {text}"))?;
    effort.repaired = true;
    let volume = open_again(open)?;
    sound(&volume, "after a repair and another open")?;
    work(&volume)?;
    sound(&volume, "after a repair and some work")?;
    change(&volume, numbers, &mut effort);
    sound(&volume, "after a repair and some changes")?;
    volume.close().map_err(|error| format!("cannot be closed after some changes: {error}"))?;
    let volume = open_again(open)?;
    sound(&volume, "after a repair, some changes and another open")?;
    volume.close().map_err(|error| format!("cannot be closed in the end: {error}"))?;
    second_reader(medium).map_err(|text| format!("the second reader, in the end: {text}"))?;
    Ok(effort)
}

/// The second reader, which shares no code with the engine, reads a volume that a repair called sound.
fn second_reader(medium: &ImageDevice) -> Result<(), String> {
    Naive::open(medium)?.with_damaged_data().tree().map(drop)
}

fn sound(volume: &Volume, when: &str) -> Result<(), String> {
    match volume.check(false, &|_, _| {}) {
        Ok(report) if report.findings.is_empty() => Ok(()),
        Ok(report) => {
            let texts = findings(&report);
            Err(format!(
                "{when}, the check finds {}: {}",
                texts.len(),
                texts[..texts.len().min(5)].join("; ")
            ))
        }
        Err(error) => Err(format!("{when}, the check fails: {error}")),
    }
}

fn tally<T>(effort: &mut ExerciseEffort, result: lanefs::Result<T>) -> Option<T> {
    effort.errors += usize::from(result.is_err());
    result.ok()
}

/// Visits every inode that can be reached, up to a limit, and reads all of it.
fn walk(volume: &Volume, effort: &mut ExerciseEffort) {
    let mut pending = vec![volume.root()];
    let mut left = MOST_INODES;
    while let Some(dir) = pending.pop() {
        let mut cookie = 0;
        for _ in 0..MOST_PAGES {
            let Some(page) = tally(effort, volume.readdir(&OWNER, dir, cookie, 64)) else { break };
            let Some(last) = page.last() else { break };
            cookie = last.cookie;
            for entry in &page {
                if left == 0 {
                    return;
                }
                left -= 1;
                effort.inodes += 1;
                tally(effort, volume.lookup(&OWNER, dir, &entry.name));
                inode(volume, entry.ino, effort);
                if entry.kind == FileKind::Directory {
                    pending.push(entry.ino);
                }
            }
        }
    }
}

fn inode(volume: &Volume, ino: Ino, effort: &mut ExerciseEffort) {
    let Some(attr) = tally(effort, volume.getattr(ino)) else { return };
    for name in tally(effort, volume.listxattr(ino)).unwrap_or_default() {
        tally(effort, volume.getxattr(&OWNER, ino, &name));
    }
    match attr.kind {
        FileKind::Symlink => drop(tally(effort, volume.readlink(ino))),
        FileKind::File => {
            let mut buffer = [0; 9000];
            for offset in [0, 50_000, attr.size / 2, attr.size.saturating_sub(5000), u64::MAX - 10_000] {
                tally(effort, volume.read(&OWNER, ino, offset, &mut buffer));
            }
            let mut at = 0;
            for _ in 0..20 {
                let Some(data) = tally(effort, volume.seek(ino, at, Seek::Data)) else { break };
                let Some(hole) = tally(effort, volume.seek(ino, data, Seek::Hole)) else { break };
                at = hole;
            }
        }
        _ => {}
    }
}

fn resolve(volume: &Volume, base: &MutationBase, effort: &mut ExerciseEffort) {
    let mut paths = base.paths.clone();
    paths.extend([b"/no/such/path".to_vec(), b"/loop/x".to_vec(), b"a/../b/./c//".to_vec(), vec![b'z'; 300]]);
    for follow in [true, false] {
        let options = ResolveOptions { follow, attributes: true, ..ResolveOptions::default() };
        tally(effort, volume.resolve_batch(&options, &paths));
    }
}

/// Changes of every kind, in the root directory and in one below it.
fn change(volume: &Volume, numbers: &mut Seeded, effort: &mut ExerciseEffort) {
    let root = volume.root();
    let entries = tally(effort, volume.readdir(&OWNER, root, 0, 100)).unwrap_or_default();
    let below =
        entries.iter().find(|entry| entry.kind == FileKind::Directory).map_or(root, |entry| entry.ino);
    for dir in [root, below] {
        for number in 0..numbers.between(3, 40) {
            tally(effort, volume.create_file(&OWNER, dir, &bulk_name(number + 7000), 0o644));
        }
        if let Some(made) = tally(effort, volume.mkdir(&OWNER, dir, b"new directory", 0o755)) {
            tally(effort, volume.symlink_at(&OWNER, made.ino, b"link", &[b't'; 200]));
            tally(
                effort,
                volume.rename_at(&OWNER, dir, &bulk_name(7000), made.ino, b"moved", RenameMode::Replace),
            );
        }
        if let Some(made) = tally(effort, volume.create_file(&OWNER, dir, b"new file", 0o600)) {
            data(volume, made.ino, effort);
        }
    }
    for entry in entries.iter().take(numbers.between(2, 20) as usize) {
        if entry.kind == FileKind::File {
            data(volume, entry.ino, effort);
        }
        match numbers.below(4) {
            0 => drop(tally(effort, volume.remove_all_with(&OWNER, root, &entry.name, |_, done| done))),
            1 => drop(tally(effort, volume.unlink(&OWNER, root, &entry.name))),
            2 => {
                let set = SetAttr { perm: Some(0o700), uid: Some(5), ..SetAttr::default() };
                tally(effort, volume.setattr(&OWNER, entry.ino, &set));
            }
            _ => {
                let name = &entry.name;
                tally(
                    effort,
                    volume.rename_at(&OWNER, root, name, below, b"from above", RenameMode::Replace),
                );
            }
        }
    }
    let inside = tally(effort, volume.readdir(&OWNER, below, 0, 60)).unwrap_or_default();
    for entry in inside {
        tally(effort, volume.remove_all_with(&OWNER, below, &entry.name, |_, done| done));
    }
    tally(effort, volume.sync());
}

fn data(volume: &Volume, ino: Ino, effort: &mut ExerciseEffort) {
    tally(effort, volume.write(&OWNER, ino, 0, &[1; 100]));
    tally(effort, volume.write(&OWNER, ino, 10_000, &[2; 9000]));
    tally(effort, volume.write(&OWNER, ino, 7 << 20, b"far"));
    tally(effort, volume.fallocate(&OWNER, ino, Allocate::PunchHole, 5000, 9000));
    tally(effort, volume.fallocate(&OWNER, ino, Allocate::KeepSize, 20_000, 9000));
    tally(effort, volume.fallocate(&OWNER, ino, Allocate::CollapseRange, 4096, 4096));
    tally(effort, volume.fallocate(&OWNER, ino, Allocate::InsertRange, 4096, 12_288));
    tally(effort, volume.setxattr(&OWNER, ino, b"user.here", b"small", XattrMode::Set));
    tally(effort, volume.setxattr(&OWNER, ino, b"user.new", &[8; 700], XattrMode::Set));
    tally(effort, volume.setattr(&OWNER, ino, &SetAttr { size: Some(3000), ..SetAttr::default() }));
}
