//! Many things of one kind in a volume in memory: entries, links, attributes, extents, levels, handles.

use super::rows::{Step, StepOutcome};
use crate::error::{Result, check};
use crate::measure::values::LANEFS;
use lanefs::{Caller, CreateOptions, Ino, Volume, XattrMode};

/// Room of the volume: address space only, until it is used.
const BYTES: u64 = 32 << 30;

/// Attributes of each file: those of an inode share one block of 4,064 bytes.
const ATTRIBUTES: u64 = 100;

const CALLER: &Caller = &Caller::OWNER;

/// Makes `count` things of the step's kind, and removes them.
pub(super) fn measure(step: Step, count: u64, outcome: &mut StepOutcome) -> Result<()> {
    let made = Volume::create_memory(&CreateOptions { size: BYTES, ..CreateOptions::default() });
    let volume = made.map_err(crate::error::Error::volume("making a volume"))?;
    match step {
        Step::Entries => entries(&volume, count, outcome),
        Step::Links => links(&volume, count, outcome),
        Step::Attributes => attributes(&volume, count, outcome),
        Step::Extents => extents(&volume, count, outcome),
        Step::Levels => levels(&volume, count, outcome),
        _ => handles(&volume, count, outcome),
    }
}

fn name(number: u64) -> Vec<u8> {
    format!("entry-{number}").into_bytes()
}

/// Makes a directory in the root.
fn directory(volume: &Volume) -> Result<Ino> {
    let made = volume.mkdir(CALLER, volume.root(), b"dir", 0o755);
    Ok(made.map_err(crate::error::Error::volume("mkdir"))?.ino)
}

fn entries(volume: &Volume, count: u64, outcome: &mut StepOutcome) -> Result<()> {
    let dir = directory(volume)?;
    outcome.time("items-entries-create", count, || {
        (0..count).try_for_each(|i| volume.create_file(CALLER, dir, &name(i), 0o644).map(drop))
    })?;
    let listed = outcome.time("items-entries-list", count, || {
        let (mut cookie, mut listed) = (0, 0);
        loop {
            let page = volume.readdir(CALLER, dir, cookie, 4096)?;
            let Some(last) = page.last() else { return Ok(listed) };
            (cookie, listed) = (last.cookie, listed + page.len() as u64);
        }
    })?;
    check(LANEFS, "listed entries", listed, count as usize)?;
    outcome.time("items-entries-remove", count, || volume.remove_all("/dir"))
}

fn links(volume: &Volume, count: u64, outcome: &mut StepOutcome) -> Result<()> {
    let dir = directory(volume)?;
    let file = volume.create_file(CALLER, volume.root(), b"file", 0o644);
    let file = file.map_err(crate::error::Error::volume("a file"))?.ino;
    outcome.time("items-links-create", count, || {
        (0..count).try_for_each(|i| volume.link(CALLER, file, dir, &name(i)).map(drop))
    })?;
    outcome.time("items-links-remove", count, || {
        (0..count).try_for_each(|i| volume.unlink(CALLER, dir, &name(i)))
    })
}

fn attributes(volume: &Volume, count: u64, outcome: &mut StepOutcome) -> Result<()> {
    let dir = directory(volume)?;
    let made = (0..count.div_ceil(ATTRIBUTES)).map(|i| volume.create_file(CALLER, dir, &name(i), 0o644));
    let files: Vec<Ino> = made
        .map(|made| made.map(|attr| attr.ino))
        .collect::<lanefs::Result<_>>()
        .map_err(crate::error::Error::volume("files"))?;
    let each = |i: u64| (files[(i / ATTRIBUTES) as usize], format!("user.{}", i % ATTRIBUTES));
    outcome.time("items-attributes-set", count, || {
        (0..count).try_for_each(|i| {
            let (ino, name) = each(i);
            volume.setxattr(CALLER, ino, name.as_bytes(), b"value", XattrMode::Set)
        })
    })?;
    outcome.time("items-attributes-remove", count, || {
        (0..count).try_for_each(|i| {
            let (ino, name) = each(i);
            volume.removexattr(CALLER, ino, name.as_bytes())
        })
    })
}

/// Writes a file from its end to its beginning, in blocks. The memory was used before: a host that clears new
/// pages takes longer than LaneFS does.
fn extents(volume: &Volume, count: u64, outcome: &mut StepOutcome) -> Result<()> {
    let warmed = volume.write_file("/warm", b"").and_then(|warm| {
        (0..count).try_for_each(|i| volume.write(CALLER, warm.ino, i << 12, &[7; 4096]).map(drop))?;
        volume.remove_file("/warm")
    });
    warmed.map_err(crate::error::Error::volume("memory of the extents"))?;
    let file = volume.create_file(CALLER, volume.root(), b"file", 0o644);
    let file = file.map_err(crate::error::Error::volume("a file"))?.ino;
    outcome.time("items-extents-write", count, || {
        (0..count).rev().try_for_each(|i| volume.write(CALLER, file, i << 12, &[7; 4096]).map(drop))
    })?;
    outcome.time("items-extents-remove", count, || volume.remove_file("/file"))
}

fn levels(volume: &Volume, count: u64, outcome: &mut StepOutcome) -> Result<()> {
    let mut dir = volume.root();
    outcome.time("items-levels-create", count, || {
        (0..count).try_for_each(|_| {
            dir = volume.mkdir(CALLER, dir, b"dir", 0o755)?.ino;
            Ok(())
        })
    })?;
    outcome.time("items-levels-remove", count, || volume.remove_all("/dir"))
}

fn handles(volume: &Volume, count: u64, outcome: &mut StepOutcome) -> Result<()> {
    let dir = directory(volume)?;
    let made = (0..count).map(|i| volume.create_file(CALLER, dir, &name(i), 0o644).map(|attr| attr.ino));
    let files: Vec<Ino> =
        made.collect::<lanefs::Result<_>>().map_err(crate::error::Error::volume("files"))?;
    outcome
        .time("items-handles-open", count, || files.iter().try_for_each(|&ino| volume.hold(ino).map(drop)))?;
    outcome.time("items-handles-close", count, || files.iter().try_for_each(|&ino| volume.release(ino, 1)))
}
