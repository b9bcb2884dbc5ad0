//! A crash between batches, and in the middle of one, leaves each whole, or not at all.

use super::generate::{Generator, prepare};
use super::op::Op;
use super::side::{Engine, options};
use super::tree::{Tree, tree};
use lanefs::{Access, CreateOptions, InodeSize, Volume};
use lanefs_testkit::crash::{CrashImage, DeviceEvent, Recorder};
use lanefs_testkit::seeded::Seeded;

/// Bytes of a volume whose journal takes any of the batches, and of one whose journal does not: there they
/// are made in parts.
pub(crate) const LARGE: u64 = 256 << 20;
pub(crate) const SMALL: u64 = 32 << 20;

/// Contents that a crash may leave.
pub(crate) struct Story {
    base: CrashImage,
    log: Vec<DeviceEvent>,
    /// The tree before the first round and after each one.
    trees: Vec<Tree>,
    /// All rounds were made together, so nothing between these trees is allowed.
    is_whole: bool,
}

/// Rounds on a device that records all writes, some of them followed by a sync.
pub(crate) fn record(engine: &Engine<'_>, size: u64, seed: u64, rounds: usize) -> Story {
    let image = {
        let options = CreateOptions { size, ..options(InodeSize::B256) };
        let device = Recorder::new(CrashImage::new(vec![0; options.size as usize]));
        let volume = Volume::create_device(Box::new(device.clone()), &options).expect("volume");
        prepare(&volume).expect("prepared");
        volume.close().expect("closed");
        device.image()
    };
    let device = Recorder::for_threads(image.clone());
    let volume = Volume::open_device(Box::new(device.clone()), Access::Write).expect("opened");
    let mut trees = vec![tree(&volume).expect("tree")];
    let (mut generator, mut numbers) = (Generator::tame(seed), Seeded::new(seed));
    let mut is_whole = size == LARGE;
    engine(&volume, &mut |apply| {
        for number in 1..=rounds {
            let round = generator.round();
            let changes: Vec<_> = round.ops.iter().map(Op::change).collect();
            device.mark(DeviceEvent::Begun(number));
            let (_, shares) = apply(volume.root(), &changes).expect("applied");
            is_whole &= shares.one_by_one == 0;
            trees.push(tree(&volume).expect("tree"));
            if numbers.chance(60) {
                volume.sync().expect("sync");
                device.mark(DeviceEvent::Acknowledged { done: number, file: None });
            }
        }
    });
    Story { base: image, log: device.log(), trees, is_whole }
}

/// Returns the contents that a crash after `end` events leaves, with a random part of the unflushed writes
/// where `torn`.
fn left(story: &Story, end: usize, torn: Option<&mut Seeded>) -> CrashImage {
    let mut image = story.base.clone();
    let covered = story.log[..end].iter().filter_map(|event| match event {
        DeviceEvent::FlushEnd { begun } => Some(*begun),
        _ => None,
    });
    let covered = covered.max().unwrap_or(0);
    let mut numbers = torn;
    for (number, event) in story.log[..end].iter().enumerate() {
        let DeviceEvent::Write { at, data } = event else { continue };
        if number <= covered || numbers.is_none() {
            image.write(*at, data);
            continue;
        }
        for (sector, data) in data.chunks(512).enumerate() {
            let is_lost = numbers.as_mut().is_some_and(|numbers| numbers.chance(50));
            if !is_lost {
                image.write(at + sector as u64 * 512, data);
            }
        }
    }
    image
}

/// Opens the contents that crashes leave. Returns how many times a batch was whole that had not been
/// acknowledged, or a description of the error.
pub(crate) fn crashes(story: &Story, seed: u64, count: usize) -> Result<u64, String> {
    let numbers = &mut Seeded::new(seed);
    let mut ahead = 0;
    for number in 0..count {
        let end = numbers.below(story.log.len() as u64 + 1) as usize;
        let is_torn = numbers.chance(50);
        let image = left(story, end, Some(&mut *numbers).filter(|_| is_torn));
        let state = format!("state {number}, {end} of {} events", story.log.len());
        let begun = story.log[..end].iter().filter(|event| matches!(event, DeviceEvent::Begun(_))).count();
        let acknowledged = story.log[..end].iter().filter_map(|event| match event {
            DeviceEvent::Acknowledged { done, .. } => Some(*done),
            _ => None,
        });
        let acknowledged = acknowledged.max().unwrap_or(0);
        let failed = |what: lanefs::Error| format!("{state}: {what}");
        let volume = Volume::open_device(Box::new(Recorder::new(image)), Access::Write).map_err(failed)?;
        let report = volume.check(false, &|_, _| {}).map_err(failed)?;
        if let Some(finding) = report.findings.first() {
            return Err(format!("{state}: fsck: {finding:?}"));
        }
        let found = tree(&volume).map_err(|what| format!("{state}: {what}"))?;
        let allowed = &story.trees[acknowledged..=begun];
        let which = allowed.iter().position(|tree| *tree == found);
        if story.is_whole && which.is_none() {
            return Err(format!("{state}: a part of a batch, after {acknowledged} and before {begun}"));
        }
        ahead += u64::from(which.is_some_and(|which| which > 0));
    }
    Ok(ahead)
}

impl Story {
    /// Tells whether all rounds were made together.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The same with one tree that never was, so that the comparison can be seen to fail.
    pub(crate) fn falsified(mut self) -> Self {
        for tree in self.trees.iter_mut().skip(1) {
            tree.pop_last();
        }
        self
    }
}
