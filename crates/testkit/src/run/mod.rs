//! Executes operations on the model and on engines side by side, and compares the results.

mod outcome;
mod shrink;
mod tree;

pub use outcome::difference;
pub use shrink::shrink;
pub use tree::compare as compare_trees;

use crate::engine::{Engine, EngineResult};
use crate::model::{Model, ROOT};
use crate::ops::{Generator, Limits, Op, Profile, apply};
use crate::watchdog::guarded;
use lanefs::Time;
use std::fmt;

/// A full volume must really be full. This many bytes may be left: for metadata chunks that no longer fit,
/// and for the metadata of one operation.
const FULL_BELOW: u64 = 6 << 20;

/// Makes the engines of one sequence, fresh and empty. Each trial of a shrink calls it again.
pub type Engines<'f> = dyn Fn() -> EngineResult<Vec<Box<dyn Engine>>> + 'f;

/// The parameters of a sequence.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Weights and lengths.
    pub profile: Profile,
    /// The abilities of the engines.
    pub limits: Limits,
    /// Whole trees are compared after this many operations, and at the end.
    pub compare_every: usize,
    /// The command that replays the sequence, with `{seed}` in place of the seed.
    pub replay: &'static str,
    /// True where a failing sequence is shrunk, which takes up to half a minute.
    pub make_small: bool,
}

/// A sequence that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Seed of the operations.
    pub seed: u64,
    /// Name of the profile.
    pub profile: &'static str,
    /// The fewest operations found that fail; the last one fails.
    pub ops: Vec<Op>,
    /// The first failure's message.
    pub first_message: String,
    /// The operation that failed first.
    pub index: usize,
    /// The message of the shrunk sequence.
    pub message: String,
    /// The command that replays the failure.
    pub replay: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "profile {}, seed {}, operation {}: {}",
            self.profile, self.seed, self.index, self.first_message
        )?;
        writeln!(f, "fewest operations that fail ({}):", self.ops.len())?;
        for (index, op) in self.ops.iter().enumerate() {
            writeln!(f, "  {index:3} {op:?}")?;
        }
        writeln!(f, "then: {}", self.message)?;
        write!(f, "again: {}", self.replay)
    }
}

/// Counts of a sequence that passed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Operations executed.
    pub operations: usize,
    /// Operations that were left out because the volume was full.
    pub full: usize,
    /// Operations that failed as they should.
    pub failed: usize,
}

/// The model and the engines in one state.
struct Pair {
    model: Model,
    engines: Vec<Box<dyn Engine>>,
    done: Summary,
}

impl Pair {
    fn new(engines: &Engines<'_>) -> Result<Self, String> {
        let mut engines = engines().map_err(|error| format!("no engine could be made: {error:?}"))?;
        let mut model = Model::default();
        if let Some(first) = engines.first_mut() {
            let root = first.root();
            let stat = first.stat(root).map_err(|error| format!("no root directory: {error:?}"))?;
            model = Model::new(stat.perm, stat.uid, stat.gid);
        }
        Ok(Pair { model, engines, done: Summary::default() })
    }

    fn step(&mut self, op: &Op) -> Result<(), String> {
        self.model.set_clock(Time::now());
        let outcomes: Vec<_> = self.engines.iter_mut().map(|engine| apply(engine.as_mut(), op)).collect();
        self.done.operations += 1;
        // An operation that a full volume refuses must change nothing, so the model leaves it out.
        if let ([engine], [outcome]) = (&mut self.engines[..], &outcomes[..])
            && outcome.is_full()
        {
            let wanted = match op {
                Op::Write { data, .. } | Op::CreateWhole { data, .. } => data.len as u64,
                Op::Fallocate { len, .. } => *len,
                // All attributes of one inode have a limit together, which is reported like a full volume, as
                // on ext4.
                Op::Setxattr { .. } => u64::MAX,
                _ => 0,
            };
            let free = engine.free_bytes();
            if free.is_some_and(|free| free > wanted.saturating_add(FULL_BELOW)) {
                return Err(format!("the volume says that it is full with {free:?} bytes free"));
            }
            self.done.full += 1;
            return Ok(());
        }
        let before = self.model.clone_if(matches!(op, Op::ListWhile { .. }));
        self.model.take_links_followed();
        let expected = apply(&mut self.model, op);
        self.done.failed += usize::from(matches!(expected, crate::ops::Outcome::Failed(_)));
        let exact_codes = self.model.take_links_followed() == 0;
        for outcome in &outcomes {
            if let Some(text) =
                difference(&mut self.model, before.as_ref(), exact_codes, op, &expected, outcome)
            {
                return Err(text);
            }
        }
        Ok(())
    }

    /// Compares the whole trees, and runs the engines' own checks.
    fn whole(&mut self) -> Result<(), String> {
        self.model.set_clock(Time::now());
        for engine in &mut self.engines {
            compare_trees(&mut self.model, ROOT, engine.as_mut())?;
            let findings = engine.check().map_err(|error| format!("the check failed: {error:?}"))?;
            if !findings.is_empty() {
                return Err(format!("the check finds: {}", findings.join("; ")));
            }
        }
        self.model.forget_access_times();
        Ok(())
    }
}

impl Model {
    fn clone_if(&self, wanted: bool) -> Option<Model> {
        wanted.then(|| self.clone())
    }
}

/// Executes given operations and compares after each and at the end. The error is the index of the operation
/// that failed, and a message.
///
/// # Errors
/// The first difference.
pub fn replay(ops: &[Op], engines: &Engines<'_>, compare_every: usize) -> Result<Summary, (usize, String)> {
    let mut pair = guarded(|| Pair::new(engines)).map_err(|text| (0, text))?;
    for (index, op) in ops.iter().enumerate() {
        guarded(|| {
            pair.step(op)?;
            if (index + 1) % compare_every.max(1) == 0 { pair.whole() } else { Ok(()) }
        })
        .map_err(|text| (index, text))?;
    }
    guarded(|| pair.whole()).map_err(|text| (ops.len().saturating_sub(1), text))?;
    Ok(pair.done)
}

/// Executes the operations of a seed, and shrinks a failing sequence.
///
/// # Errors
/// The failure.
pub fn sequence(seed: u64, setup: &Setup, engines: &Engines<'_>) -> Result<Summary, Box<Failure>> {
    let mut generator = Generator::new(seed, setup.profile, setup.limits);
    let mut ops = Vec::with_capacity(setup.profile.operations);
    let outcome = guarded(|| Pair::new(engines)).and_then(|mut pair| {
        for index in 0..setup.profile.operations {
            let op = generator.next(&pair.model);
            ops.push(op);
            guarded(|| {
                pair.step(&ops[index])?;
                if (index + 1) % setup.compare_every.max(1) == 0 { pair.whole() } else { Ok(()) }
            })?;
        }
        guarded(|| pair.whole())?;
        Ok(pair.done)
    });
    outcome.map_err(|first_message| {
        let index = ops.len().saturating_sub(1);
        let (ops, message) = if setup.make_small {
            shrink(ops, first_message.clone(), engines)
        } else {
            (ops, first_message.clone())
        };
        Box::new(Failure {
            seed,
            profile: setup.profile.name,
            ops,
            first_message,
            index,
            message,
            replay: setup.replay.replace("{seed}", &seed.to_string()),
        })
    })
}
