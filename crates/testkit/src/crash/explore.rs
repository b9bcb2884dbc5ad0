//! Tries the crash states of a recording.
//!
//! Each state must open, which is recovery; its tree must be an allowed one; and fsck must find nothing. Some
//! then continue as a volume, and everything that such a volume writes, recovery included, is a recording of
//! its own: crashes in it give further states, with the same demands.

use super::base::is_ballast;
use super::case::Crash;
use super::fill::explain;
use super::image::CrashImage;
use super::op::CrashOp;
use super::oracle::{Allowed, Oracle};
use super::record::{DeviceEvent, Recorder};
use super::recording::Recording;
use super::snapshot::{BALLAST_PATH, SnapshotTree, show};
use super::states::{CrashState, Wanted, each_state};
use crate::naive::{Naive, Source};
use crate::seeded::Seeded;
use lanefs::{Access, Caller, Ino, OpenOptions, SetAttr, Volume};
use std::cell::RefCell;
use std::collections::HashSet;

/// Size of the block cache in bytes.
const CACHE_BYTES: u64 = 1 << 30;

/// The number of states of a recording to try.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Random choices at each cut, besides all and none of the unflushed writes.
    pub random: u32,
    /// One in so many states continues as a volume and crashes again.
    pub again_every: u64,
    /// Random choices at each cut of a second crash.
    pub random_again: u32,
    /// A file that grows after a crash must show zeros after its old end.
    pub tails: bool,
    /// Most states of one recording, both kinds together.
    pub most: u64,
    /// A planted bug: the flushes of recovery do nothing.
    pub lazy_recovery: bool,
}

impl Effort {
    /// The effort of a test.
    pub const TEST: Effort = Effort {
        random: 8,
        again_every: 60,
        random_again: 3,
        tails: true,
        most: u64::MAX,
        lazy_recovery: false,
    };
    /// The effort of a soak.
    pub const SOAK: Effort = Effort { random: 16, again_every: 30, random_again: 6, ..Effort::TEST };
}

/// Counts of states tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Workloads.
    pub workloads: u64,
    /// States after a crash of a workload.
    pub states: u64,
    /// States after a second crash, during recovery or after it.
    pub again: u64,
    /// States in which recovery wrote something.
    pub recovered: u64,
}

impl Tally {
    /// Adds the counts of another tally.
    pub fn add(&mut self, other: Tally) {
        self.workloads += other.workloads;
        self.states += other.states;
        self.again += other.again;
        self.recovered += other.recovered;
    }

    /// Returns the number of all states.
    pub fn all(&self) -> u64 {
        self.states + self.again
    }
}

/// A wrong state.
#[derive(Clone, Debug)]
pub struct WrongState {
    /// The crash.
    pub crash: Crash,
    /// The second crash, where there was one.
    pub again: Option<Crash>,
    /// The error.
    pub text: String,
}

/// One state of a recording, or one of a second crash after it.
pub type Only = (Crash, Option<Crash>);

/// The reason for an early end.
enum End {
    Enough,
    Wrong(WrongState),
}

/// Tries states of `recording`, or `only` one of them, and counts them.
///
/// # Errors
/// The first state that is wrong.
pub fn explore(
    recording: &Recording,
    effort: &Effort,
    only: Option<Only>,
    tally: &mut Tally,
) -> Result<(), WrongState> {
    let wanted = Wanted {
        // A choice that is requested by name may have been found with more effort.
        random: only.map_or(effort.random, |(crash, _)| crash.choice),
        seed: recording.seed,
        only: only.map(|(crash, _)| (crash.cut, crash.choice)),
    };
    let (before, mut number) = (tally.all(), 0);
    let judged = RefCell::new(HashSet::new());
    let mut visit = |state: CrashState| {
        if tally.all() - before >= effort.most {
            return Err(End::Enough);
        }
        number += 1;
        tally.states += 1;
        let crash = Crash { cut: state.cut, choice: state.choice };
        let wrong = |text| End::Wrong(WrongState { crash, again: None, text });
        let goes_on = only.is_some() || (number + recording.seed).is_multiple_of(effort.again_every);
        judged.borrow_mut().insert(Demanded::of(&state.image, &state.allowed));
        let judge = |tree: &SnapshotTree| recording.oracle.judge(tree, &state.allowed);
        let opened = open(&state.image, goes_on, &judge).map_err(wrong)?;
        tally.recovered += u64::from(opened.recovered);
        if !goes_on {
            return Ok(());
        }
        let second = Second {
            image: &state.image,
            allowed: &state.allowed,
            judge: &judge,
            judged: &judged,
            effort,
            seed: second_seed(recording.seed, crash),
        };
        second
            .explore(opened, only.and_then(|(_, again)| again), tally)
            .map_err(|(again, text)| End::Wrong(WrongState { crash, again, text }))
    };
    match each_state(&recording.base, &recording.log, &wanted, &mut visit) {
        Err(End::Wrong(found)) => Err(found),
        Ok(()) | Err(End::Enough) => Ok(()),
    }
}

/// Seed of the random choices of a second crash: it follows from the first one's name, so that a case can be
/// replayed.
fn second_seed(seed: u64, first: Crash) -> u64 {
    Seeded::new(seed ^ (first.cut as u64) << 32 ^ u64::from(first.choice)).bits()
}

/// Returns the number of the operation after which a tree is, or an error that describes it.
type Judge<'j> = &'j dyn Fn(&SnapshotTree) -> Result<usize, String>;

impl Source for CrashImage {
    fn block(&self, at: u64) -> Option<Vec<u8>> {
        let mut block = vec![0; 4096];
        self.read(at, &mut block).then_some(block)
    }
}

/// A state that opened and is allowed.
struct Opened {
    recorder: Recorder,
    volume: Volume,
    tree: SnapshotTree,
    recovered: bool,
}

/// Opens an image and checks it.
///
/// `whole`: the file that nobody wrote to is read, and the second reader reads the image too.
fn open(image: &CrashImage, whole: bool, judge: Judge<'_>) -> Result<Opened, String> {
    let second = |text| format!("the second reader: {text}");
    let read = || Naive::open(image).and_then(|reader| reader.tree()).map_err(second);
    let before = whole.then(read).transpose()?;
    let recorder = Recorder::new(image.clone());
    // With room for all blocks: the size that the host suggests would be looked up for each state.
    let options = OpenOptions { cache: Some(CACHE_BYTES), ..Access::Write.into() };
    let volume = Volume::open_device(Box::new(recorder.clone()), options)
        .map_err(|error| format!("it does not open: {error}"))?;
    recorder.mark(DeviceEvent::Opened);
    let recovered = recorder.log().iter().any(|event| matches!(event, DeviceEvent::Write { .. }));
    if let Some(before) = before {
        before.compare(&volume).map_err(second)?;
    }
    let tree = SnapshotTree::of(&volume, None, whole);
    let judged = tree.and_then(|tree| {
        judge(&tree)?;
        let ballast = tree.nodes.get(BALLAST_PATH).and_then(|node| node.content.as_ref());
        if ballast.is_some_and(|bytes| !is_ballast(bytes)) {
            return Err("a file that nobody wrote to has changed".to_owned());
        }
        Ok(tree)
    });
    let report = volume.check(false, &|_, _| {}).map_err(|error| format!("fsck: {error}"))?;
    let findings: Vec<String> =
        report.findings.iter().take(5).map(|f| format!("\nfsck at {:#x}: {}", f.at, f.text)).collect();
    if report.orphans > 0 {
        return Err(format!("{} inodes without a name are left", report.orphans));
    }
    match (judged, findings.is_empty()) {
        (Ok(tree), true) => Ok(Opened { recorder, volume, tree, recovered }),
        (Ok(_), false) => Err(findings.concat().trim_start().to_owned()),
        (Err(what), _) => Err(what + &findings.concat()),
    }
}

/// The operations of a volume that continues after a crash: names, and bytes in blocks.
fn further() -> [CrashOp; 2] {
    let path = || "/after".to_owned();
    [CrashOp::Create(path()), CrashOp::Write(path(), Some(0), 6000)]
}

/// Stamp of data written after a crash.
const AFTER: u32 = 900_000;

/// An image of a recording and what is demanded of it, of which one judgement is enough: recoveries from many
/// states pass through the same images.
#[derive(PartialEq, Eq, Hash)]
struct Demanded {
    fingerprint: u64,
    /// The first and the last allowed operation, and the data that must be there. Those of single files
    /// follow from these: each acknowledgement raises the first.
    operations: [usize; 3],
}

impl Demanded {
    fn of(image: &CrashImage, allowed: &Allowed) -> Self {
        let operations = [allowed.first, allowed.last, allowed.data];
        Demanded { fingerprint: image.fingerprint(), operations }
    }
}

/// A state as the start of a second recording.
struct Second<'s> {
    image: &'s CrashImage,
    /// Demands and judge of the first recording, valid until the volume is open.
    allowed: &'s Allowed,
    judge: Judge<'s>,
    /// The images of the first recording that were judged so far.
    judged: &'s RefCell<HashSet<Demanded>>,
    effort: &'s Effort,
    seed: u64,
}

impl Second<'_> {
    /// Continues with the volume, closes it, and tries crashes from the start of its recovery on.
    fn explore(
        &self,
        opened: Opened,
        only: Option<Crash>,
        tally: &mut Tally,
    ) -> Result<(), (Option<Crash>, String)> {
        let Opened { recorder, volume, tree, .. } = opened;
        let oracle = go_on(&recorder, volume, tree).map_err(|what| (None, format!("going on: {what}")))?;
        let last = oracle.operations();
        let end = Allowed { first: last, last, data: last, ..Allowed::default() };
        let again = open(&recorder.image(), true, &|tree| oracle.judge(tree, &end))
            .map_err(|what| (None, format!("closed and opened again: {what}")))?;
        if self.effort.tails {
            grow_files(&again).map_err(|what| (None, what))?;
        }
        let wanted = Wanted {
            random: only.map_or(self.effort.random_again, |crash| crash.choice),
            seed: self.seed,
            only: only.map(|crash| (crash.cut, crash.choice)),
        };
        let mut visit = |state: CrashState| {
            let is_new = || self.judged.borrow_mut().insert(Demanded::of(&state.image, self.allowed));
            if !state.opened && !is_new() {
                return Ok(());
            }
            tally.again += 1;
            let inner = |tree: &SnapshotTree| oracle.judge(tree, &state.allowed);
            let judge: Judge<'_> = if state.opened { &inner } else { self.judge };
            open(&state.image, false, judge)
                .map(drop)
                .map_err(|what| (Some(Crash { cut: state.cut, choice: state.choice }), what))
        };
        let mut log = recorder.log();
        if self.effort.lazy_recovery {
            for event in log.iter_mut().take_while(|event| !matches!(event, DeviceEvent::Opened)) {
                if matches!(event, DeviceEvent::FlushEnd { .. }) {
                    *event = DeviceEvent::Lost;
                }
            }
        }
        each_state(self.image, &log, &wanted, &mut visit)
    }
}

/// Works with the volume, makes that durable, and closes it.
fn go_on(recorder: &Recorder, volume: Volume, tree: SnapshotTree) -> Result<Oracle, String> {
    let text = |error: lanefs::Error| error.to_string();
    let mut trees = vec![tree];
    for (index, op) in further().iter().enumerate() {
        recorder.mark(DeviceEvent::Begun(index + 1));
        op.apply(&volume, AFTER).map_err(text)?;
        trees.push(SnapshotTree::of(&volume, trees.last(), false)?);
    }
    let done = trees.len() - 1;
    volume.sync().map_err(text)?;
    recorder.mark(DeviceEvent::Acknowledged { done, file: None });
    volume.close().map_err(text)?;
    Ok(Oracle::new(trees))
}

/// Every file grows a little; the new bytes must be zeros: nothing that a crash left after its end may show.
fn grow_files(opened: &Opened) -> Result<(), String> {
    const BY: usize = 3000;
    for (path, node) in &opened.tree.nodes {
        let Some(content) = &node.content else { continue };
        let (ino, end) = (Ino(node.meta.identity.0), content.len() as u64);
        let set = SetAttr { size: Some(end + BY as u64), ..SetAttr::default() };
        let mut seen = vec![0xa5; BY];
        let grown = opened.volume.setattr(&Caller::OWNER, ino, &set);
        if grown.is_err_and(|error| error.code() == lanefs::Code::NoSpace) || node.meta.links > 1 {
            continue;
        }
        opened.volume.read(&Caller::OWNER, ino, end, &mut seen).map_err(|error| error.to_string())?;
        if let Some(at) = seen.iter().position(|byte| *byte != 0) {
            let what = explain(&seen[at..], end + at as u64);
            return Err(format!("{}: grown from {end} bytes, it shows {what}", show(path)));
        }
    }
    Ok(())
}
