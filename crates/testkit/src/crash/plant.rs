//! Planted bugs: recordings changed as if the store had done the wrong thing. Each must be caught.

use super::image::CrashImage;
use super::oracle::Allowed;
use super::record::DeviceEvent;
use super::recording::Recording;
use super::snapshot::SnapshotTree;
use crate::seeded::Seeded;
use lanefs::{Access, Volume};
use lanefs_format::{BLOCK, JOURNAL_HEADERS, SUPERBLOCK_COPY};
use std::collections::HashMap;

/// The purpose of a flush in a commit, as far as a device can see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushKind {
    /// File data are durable before a commit that names them is written.
    Data,
    /// The commit's blocks are durable before the commit counts.
    Record,
    /// Blocks are in place before the journal header says so.
    InPlace,
    /// The journal header is durable before the space that it frees is overwritten.
    Header,
}

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// The device ignores flushes.
    IgnoredFlushes,
    /// One flush of each commit is left out.
    DroppedFlush(FlushKind),
    /// Nothing is written to the journal after its header.
    NoJournal,
    /// Blocks are written in place together with the commit, not after its flush.
    InPlaceBeforeRecord,
    /// Sync and fsync return before anything was flushed.
    EarlyReturn,
}

/// The area of a volume that a write touches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Area {
    Superblock,
    Header,
    Body,
    Elsewhere,
}

fn area(recording: &Recording, at: u64, len: usize) -> Area {
    let journal = &recording.journal;
    match at {
        0 | SUPERBLOCK_COPY => Area::Superblock,
        at if journal.contains(&at) && at + len as u64 <= journal.start + JOURNAL_HEADERS * BLOCK => {
            Area::Header
        }
        at if journal.contains(&at) => Area::Body,
        _ => Area::Elsewhere,
    }
}

fn areas(recording: &Recording, events: impl Iterator<Item = usize>) -> impl Iterator<Item = Area> {
    events.filter_map(|index| match recording.log.get(index)? {
        DeviceEvent::Write { at, data } => Some(area(recording, *at, data.len())),
        _ => None,
    })
}

/// The flushes of a recording that serve a commit: index of the end, first event covered, index of the begin,
/// kind.
fn flushes(recording: &Recording) -> Vec<(usize, usize, usize, FlushKind)> {
    let (mut covered, mut all) = (0, Vec::new());
    for (index, event) in recording.log.iter().enumerate() {
        let DeviceEvent::FlushEnd { begun } = event else { continue };
        let has = |wanted| areas(recording, covered..*begun).any(|area| area == wanted);
        let next = areas(recording, index..recording.log.len()).next();
        let kind = match next {
            _ if has(Area::Body) => Some(FlushKind::Record),
            Some(Area::Header) if has(Area::Elsewhere) => Some(FlushKind::InPlace),
            Some(Area::Body) if has(Area::Elsewhere) => Some(FlushKind::Data),
            Some(Area::Body) if has(Area::Header) => Some(FlushKind::Header),
            _ => None,
        };
        all.extend(kind.map(|kind| (index, covered, *begun, kind)));
        covered = *begun;
    }
    all
}

/// Plants a bug in a recording. Returns the number of changed events: 0 where there is nothing to change.
pub fn plant(recording: &mut Recording, fault: Plant) -> usize {
    let mut lost = Vec::new();
    match fault {
        Plant::IgnoredFlushes => {
            let log = recording.log.iter().enumerate();
            lost.extend(
                log.filter(|(_, e)| matches!(e, DeviceEvent::FlushEnd { .. })).map(|(index, _)| index),
            );
        }
        Plant::DroppedFlush(kind) => {
            lost.extend(flushes(recording).iter().filter(|flush| flush.3 == kind).map(|flush| flush.0));
        }
        Plant::NoJournal => {
            let is_body = |index: &usize| areas(recording, *index..*index + 1).any(|a| a == Area::Body);
            lost.extend((0..recording.log.len()).filter(is_body));
        }
        Plant::InPlaceBeforeRecord => return in_place_before_record(recording),
        Plant::EarlyReturn => return early_return(recording),
    }
    for index in &lost {
        recording.log[*index] = DeviceEvent::Lost;
    }
    lost.len()
}

/// Moves each acknowledgement to the start of the first flush after the operation before it.
fn early_return(recording: &mut Recording) -> usize {
    let (mut flush, mut moved) = (None, 0);
    for index in 0..recording.log.len() {
        match &recording.log[index] {
            DeviceEvent::Begun(_) => flush = None,
            DeviceEvent::FlushBegin => flush = flush.or(Some(index)),
            DeviceEvent::Acknowledged { .. } => {
                if let Some(flush) = flush.take() {
                    recording.log.swap(flush, index);
                    moved += 1;
                }
            }
            _ => {}
        }
    }
    moved
}

/// Moves each in-place write of blocks that have copies in the journal to the write of the copies.
fn in_place_before_record(recording: &mut Recording) -> usize {
    let mut copies: HashMap<&[u8], usize> = HashMap::new();
    // New index of each event: before that event, or unchanged.
    let mut order: Vec<(usize, usize, usize)> = Vec::new();
    let mut moved = 0;
    for (index, event) in recording.log.iter().enumerate() {
        let mut key = (index, 1, index);
        if let DeviceEvent::Write { at, data } = event {
            let blocks = data.chunks(BLOCK as usize);
            match area(recording, *at, data.len()) {
                Area::Body => copies.extend(blocks.map(|block| (block, index))),
                Area::Elsewhere => {
                    let targets: Option<Vec<usize>> = blocks.map(|b| copies.get(b).copied()).collect();
                    if let Some(target) = targets.and_then(|all| all.into_iter().max()) {
                        key = (target, 0, index);
                        moved += 1;
                    }
                }
                Area::Superblock | Area::Header => {}
            }
        }
        order.push(key);
    }
    order.sort_unstable();
    let mut new_index = vec![0; order.len()];
    for (new, (_, _, old)) in order.iter().enumerate() {
        new_index[*old] = new;
    }
    let renumbered = |event: &DeviceEvent| match event {
        DeviceEvent::FlushEnd { begun } => DeviceEvent::FlushEnd { begun: new_index[*begun] },
        other => other.clone(),
    };
    recording.log = order.iter().map(|(_, _, old)| renumbered(&recording.log[*old])).collect();
    moved
}

/// The outcome of commits in which one bit was flipped on the medium.
#[derive(Clone, Copy, Debug, Default)]
pub struct Corrupted {
    /// Commits with a flipped bit.
    pub commits: u64,
    /// Volumes that then refused to open, with a message.
    pub refused: u64,
}

/// Flips one bit in each commit of a recording right after its flush, when none of its blocks is in place
/// yet. Recovery must notice: the volume is as after an earlier operation, or reports that it is damaged.
///
/// # Errors
/// A volume that opened with a tree that it never had.
pub fn corrupt_commits(recording: &Recording) -> Result<Corrupted, String> {
    let mut random = Seeded::new(recording.seed);
    let mut image = recording.base.clone();
    let (mut done, mut begun, mut written) = (Corrupted::default(), 0, 0);
    for (end, first, begin, kind) in flushes(recording) {
        for event in &recording.log[written..end] {
            match event {
                DeviceEvent::Write { at, data } => drop(image.write(*at, data)),
                DeviceEvent::Begun(operation) => begun = *operation,
                _ => {}
            }
        }
        written = end;
        let bodies: Vec<(u64, usize)> = recording.log[first..begin]
            .iter()
            .filter_map(|event| match event {
                DeviceEvent::Write { at, data } => Some((*at, data.len())),
                _ => None,
            })
            .filter(|(at, len)| area(recording, *at, *len) == Area::Body)
            .collect();
        if kind != FlushKind::Record || bodies.is_empty() {
            continue;
        }
        let (at, len) = *random.pick(&bodies);
        let (at, bit) = (at + random.below(len as u64), 1 << random.below(8));
        let allowed = Allowed { first: 0, last: begun, ..Allowed::default() };
        done.commits += 1;
        let opened = open_flipped(&image, at, bit, &|tree| recording.oracle.judge(tree, &allowed))
            .map_err(|what| format!("event {end}, bit {bit:#x} of byte {at:#x} flipped: {what}"))?;
        done.refused += u64::from(!opened);
    }
    Ok(done)
}

/// Returns true where the volume opened and is sound, false where it refused.
fn open_flipped(
    image: &CrashImage,
    at: u64,
    bit: u8,
    judge: &dyn Fn(&SnapshotTree) -> Result<usize, String>,
) -> Result<bool, String> {
    let mut image = image.clone();
    let mut byte = [0];
    image.read(at, &mut byte);
    image.write(at, &[byte[0] ^ bit]);
    let device = super::record::Recorder::new(image);
    let Ok(volume) = Volume::open_device(Box::new(device), Access::Write) else { return Ok(false) };
    judge(&SnapshotTree::of(&volume, None, false)?)?;
    let report = volume.check(false, &|_, _| {}).map_err(|error| error.to_string())?;
    report.findings.first().map_or(Ok(true), |finding| Err(format!("fsck: {}", finding.text)))
}
