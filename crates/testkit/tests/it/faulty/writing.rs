//! A fault at each access that a writer makes.

use crate::faulty::fixture::{
    EIO, ENODEV, ENOSPC, Fetches, base_image, device, fsck, is_device_error, model_of_base, reopened,
};
use lanefs::{Code, Device, IoBuf, IoBufMut, Volume};
use lanefs_testkit::faulty::{AccessKind, Faults, FaultyDevice, Rule};
use lanefs_testkit::model::Model;
use lanefs_testkit::steps::{Step, StepTree, tree_of_model, tree_of_volume};
use lanefs_testkit::watchdog::Watchdog;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Steps of the writing workload, and the steps between syncs.
const STEPS: u64 = 40;
const SYNC_EVERY: u64 = 8;
const SEED: u64 = 77;

/// The failure of the writing workload.
struct Case {
    name: &'static str,
    rule: Rule,
    errno: i32,
    /// Accesses of this kind are counted to place the fault; `None`: all.
    counts: Option<AccessKind>,
    /// Reads fail, too, once the device has failed.
    gone: bool,
    /// A planted bug: the volume is not told of failed writes and flushes.
    silent: bool,
    fetches: Fetches,
}

/// A device that reports success for every call.
struct Silent(FaultyDevice);

impl Device for Silent {
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn read_at(&self, at: u64, buffer: IoBufMut<'_>) -> std::io::Result<()> {
        self.0.read_at(at, buffer)
    }
    fn write_at(&self, at: u64, data: IoBuf<'_>) -> std::io::Result<()> {
        let _ = self.0.write_at(at, data);
        Ok(())
    }
    fn flush(&self) -> std::io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
    fn discard(&self, at: u64, len: u64) -> std::io::Result<()> {
        self.0.discard(at, len)
    }
    fn resize(&self, len: u64) -> std::io::Result<()> {
        self.0.resize(len)
    }
}

fn case(name: &'static str, rule: Rule, errno: i32, counts: Option<AccessKind>) -> Case {
    Case { name, rule, errno, counts, gone: false, silent: false, fetches: Fetches::Alone }
}

fn cases() -> Vec<Case> {
    let (write, flush, read) = (Some(AccessKind::Write), Some(AccessKind::Flush), Some(AccessKind::Read));
    vec![
        case("one write fails", Rule::write_error().times(1), EIO, write),
        case("writes fail", Rule::write_error(), EIO, write),
        case("one write is torn", Rule::torn_write().times(1), EIO, write),
        case("one flush fails", Rule::flush_error().times(1), EIO, flush),
        case("flushes fail", Rule::flush_error(), EIO, flush),
        case("one flush fails and loses what it should have kept", Rule::lost_flush().times(1), EIO, flush),
        case("one read fails", Rule::read_error().times(1), EIO, read),
        Case {
            fetches: Fetches::WithNeighbours,
            ..case("one read fails, perhaps of neighbours", Rule::read_error().times(1), EIO, read)
        },
        case("the disk is full", Rule::full(), ENOSPC, write),
        case("the disk is full for a moment", Rule::full().times(1), ENOSPC, write),
        Case { gone: true, ..case("the disk is gone", Rule::gone(), ENODEV, None) },
        Case {
            gone: true,
            fetches: Fetches::WithNeighbours,
            ..case("the disk is gone, neighbours and all", Rule::gone(), ENODEV, None)
        },
    ]
}

/// The writing workload and its state.
struct WritingRun<'c> {
    case: &'c Case,
    faults: Faults,
    volume: Volume,
    /// The tree as it must be now.
    now: StepTree,
    /// The trees that the device may hold after a crash: that of the last sync, and all since.
    allowed: Vec<StepTree>,
    model: Model,
    /// A commit failed: the volume is for reading only.
    dead: bool,
    /// Errors of the device that callers saw.
    errors: usize,
}

impl WritingRun<'_> {
    /// A write or flush was hit: not merely a read, after which all goes on.
    fn write_hit(&self) -> bool {
        self.faults.failed().iter().any(|access| matches!(access.kind, AccessKind::Write | AccessKind::Flush))
    }

    fn step(&mut self, number: u64) -> Result<(), String> {
        let step = Step::new(SEED, number);
        let mut after = self.model.clone();
        let right = step.on_model(&mut after);
        match step.on_volume(&self.volume) {
            Ok(_) if self.dead => return Err("a change succeeds after a failed commit".into()),
            Ok(_) => {
                right.map_err(|fault| format!("succeeds, but should give {fault:?}"))?;
                self.moved_to(after);
            }
            Err(error) if is_device_error(&error, self.case.errno, &self.faults) => {
                self.errors += 1;
                if self.faults.failed().is_empty() {
                    return Err(format!("an error of a device without one: {error}"));
                }
                // The step happened as a whole or not at all; the volume shows which, where it can still be
                // read.
                if right.is_ok() {
                    let after_tree = tree_of_model(&mut after);
                    self.allowed.push(after_tree.clone());
                    match tree_of_volume(&self.volume) {
                        Ok(tree) if tree == self.now => {}
                        Ok(tree) if tree == after_tree => self.moved_to(after),
                        Ok(_) => return Err("a step that failed was done in part".into()),
                        Err(_) if self.case.gone => {}
                        Err(error) => return Err(format!("cannot be read after a failed step: {error}")),
                    }
                }
            }
            Err(error) if error.code() == Code::ReadOnly => {
                if !self.dead && !self.write_hit() {
                    return Err("is read only without a failed write".into());
                }
                self.dead = true;
            }
            // A read-only volume may refuse before it queries the name up.
            Err(error) => match right {
                Err(fault) if fault.code == error.code() => {}
                _ => return Err(format!("{error}, not {right:?}")),
            },
        }
        Ok(())
    }

    fn moved_to(&mut self, model: Model) {
        self.model = model;
        self.now = tree_of_model(&mut self.model);
        self.allowed.push(self.now.clone());
    }

    fn sync(&mut self) -> Result<(), String> {
        match self.volume.sync() {
            Ok(()) if self.dead => return Err("a sync succeeds after a failed commit".into()),
            Ok(()) => self.allowed = vec![self.now.clone()],
            Err(error) => {
                if !self.dead {
                    is_device_error(&error, self.case.errno, &self.faults);
                }
                self.errors += 1;
                if error.errno() == 0 || self.faults.failed().is_empty() {
                    return Err(format!("a sync without a fault fails: {error}"));
                }
                // After a failed read nothing is lost, and another sync may succeed.
                self.dead |= self.write_hit();
            }
        }
        Ok(())
    }
}

fn run_case(case: &Case, after: u64) -> Result<bool, String> {
    let below = device(base_image());
    let faults = Faults::new();
    let faulty = FaultyDevice::new(below.clone(), &faults);
    let faulty: Box<dyn Device> = if case.silent { Box::new(Silent(faulty)) } else { Box::new(faulty) };
    let volume = Volume::open_device(faulty, case.fetches.options()).map_err(|e| format!("open: {e}"))?;
    faults.add(case.rule.clone().after(after));
    let mut model = model_of_base();
    let now = tree_of_model(&mut model);
    let mut run =
        WritingRun { case, faults, volume, allowed: vec![now.clone()], now, model, dead: false, errors: 0 };
    for number in 0..STEPS {
        run.step(number).map_err(|what| format!("step {number}, {:?}: {what}", Step::new(SEED, number)))?;
        if number % SYNC_EVERY == SYNC_EVERY - 1 {
            run.sync().map_err(|what| format!("sync after step {number}: {what}"))?;
        }
    }
    if run.dead && !case.gone {
        let tree = tree_of_volume(&run.volume).map_err(|e| format!("reads do not go on: {e}"))?;
        if tree != run.now {
            return Err("reads give something else after a failed commit".into());
        }
    }
    let WritingRun { volume, faults, mut allowed, now, dead, mut errors, .. } = run;
    match volume.close() {
        Ok(()) if dead => return Err("a close succeeds after a failed commit".into()),
        Ok(()) => allowed = vec![now],
        Err(_) => errors += 1,
    }
    let hit = faults.failed().iter().any(|access| access.kind != AccessKind::Discard);
    // Blocks that nobody asked for may fail unheard: where their read fails, the wanted block is read alone.
    let unheard = |kind| kind == AccessKind::Read && case.fetches == Fetches::WithNeighbours;
    let harmless = faults.failed().iter().all(|access| unheard(access.kind));
    if hit && errors == 0 && !case.silent && !harmless {
        return Err("nobody hears of the fault".into());
    }
    let volume = reopened(&below)?;
    fsck(&volume)?;
    let tree = tree_of_volume(&volume).map_err(|e| format!("the healthy device cannot be read: {e}"))?;
    if !allowed.contains(&tree) {
        return Err(format!(
            "afterwards it is not as it was after the last sync or any step since ({} states)",
            allowed.len()
        ));
    }
    volume.write_file("/after", b"the fault").map_err(|e| format!("cannot be written afterwards: {e}"))?;
    volume.close().map_err(|e| format!("cannot be closed afterwards: {e}"))?;
    Ok(hit)
}

#[test]
fn a_fault_at_any_access_of_a_writer_is_reported_and_loses_nothing_that_was_acknowledged() {
    let watchdog = Watchdog::new("writing");
    let mut wrong = Vec::new();
    for case in cases() {
        let mut hits = 0;
        for after in 0.. {
            watchdog.at(|| format!("{}, after {after}", case.name));
            let tried = catch_unwind(AssertUnwindSafe(|| run_case(&case, after)));
            match tried.unwrap_or_else(|_| Err("panicked, as told above".into())) {
                Ok(true) => hits += 1,
                // The workload has no more accesses of this kind.
                Ok(false) => break,
                Err(what) => {
                    wrong.push(format!("{} after {after} of {:?}: {what}", case.name, case.counts));
                    if wrong.len() > 20 {
                        panic!("{}", wrong.join("\n"));
                    }
                }
            }
        }
        // One or two windows have all metadata of the volume, and most are read before the fault is armed.
        // Tests of readers fail reads with neighbours.
        let may_miss = case.fetches == Fetches::WithNeighbours && !case.gone;
        assert!(hits > 1 || may_miss || !wrong.is_empty(), "{}: never hit", case.name);
    }
    assert!(wrong.is_empty(), "{} cases fail:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_device_whose_errors_are_kept_from_the_volume_is_caught() {
    let _watchdog = Watchdog::new("silent");
    for rule in [Rule::write_error(), Rule::lost_flush()] {
        let case = Case { silent: true, ..case("silent", rule, EIO, None) };
        let found = (0..10).filter_map(|after| run_case(&case, after).err()).count();
        assert!(found > 5, "lost writes are hardly noticed: {found}");
    }
}
