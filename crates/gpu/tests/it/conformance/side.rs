//! Two volumes side by side: on one, changes are made one by one, on the other by an engine. After each
//! round they are the same.

use super::generate::{Generator, prepare};
use super::op::{Op, Round};
use super::tree::{Tree, age, difference, tree};
use lanefs::bulk::{Applied, Change, DirEngine, Shares};
use lanefs::{Code, CreateOptions, Ino, InodeSize, Volume};
use std::borrow::Cow;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time for making one failure small.
const MOST_TIME: Duration = Duration::from_secs(20);

/// Makes changes: `Volume::apply_with` with an engine, or a function built on it.
pub(crate) type Apply<'a> = dyn FnMut(Ino, &[Change<'_>]) -> lanefs::Result<(Vec<Applied>, Shares)> + 'a;

/// An engine for any volume: gives `work` the engine of this one.
pub(crate) type Engine<'e> = dyn Fn(&Volume, &mut dyn FnMut(&mut Apply<'_>)) + Sync + 'e;

/// From a [`DirEngine`] for each volume.
pub(crate) fn with<M>(make: M) -> impl Fn(&Volume, &mut dyn FnMut(&mut Apply<'_>)) + Sync
where
    M: for<'v> Fn(&'v Volume) -> Box<dyn DirEngine + 'v> + Sync,
{
    move |volume, work| {
        let mut engine = make(volume);
        work(&mut |base, changes| volume.apply_with(&mut *engine, base, changes));
    }
}

/// An error, and its round.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) round: usize,
    pub(crate) what: String,
}

/// A volume of the tests.
pub(crate) fn options(inode_size: InodeSize) -> CreateOptions {
    CreateOptions { size: 64 << 20, inode_size, seed: Some([7; 16]), ..CreateOptions::default() }
}

/// Executes rounds on new volumes in memory; returns how the changes were made.
pub(crate) fn in_memory(
    engine: &Engine<'_>,
    inode_size: InodeSize,
    rounds: &[Round],
) -> Result<Shares, Failure> {
    side_by_side(engine, [&new_volume(inode_size), &new_volume(inode_size)], rounds)
}

/// A volume in memory at the start of all rounds.
fn new_volume(inode_size: InodeSize) -> Volume {
    let volume = Volume::create_memory(&options(inode_size)).expect("volume");
    prepare(&volume).expect("prepared");
    volume
}

/// Executes rounds on files, which are closed and opened again after every few rounds.
pub(crate) fn in_files(
    engine: &Engine<'_>,
    inode_size: InodeSize,
    rounds: &[Round],
    dir: &Path,
) -> Result<Shares, Failure> {
    let images = ["plain", "engine"].map(|name| dir.join(format!("{name}.lane")));
    let mut volumes = images.each_ref().map(|image| {
        let volume = Volume::create(image, &options(inode_size)).expect("volume");
        prepare(&volume).expect("prepared");
        volume
    });
    let (mut sum, mut done) = (Shares::default(), 0);
    for some in rounds.chunks(3) {
        let shares = side_by_side(engine, volumes.each_ref(), some);
        let shares = shares.map_err(|failure| Failure { round: done + failure.round, ..failure })?;
        sum.together += shares.together;
        sum.one_by_one += shares.one_by_one;
        done += some.len();
        for volume in volumes {
            volume.close().expect("closed");
        }
        volumes = images.each_ref().map(|image| Volume::open(image, lanefs::Access::Write).expect("opened"));
        same(volumes.each_ref())
            .map_err(|what| Failure { round: done, what: format!("opened again: {what}") })?;
    }
    Ok(sum)
}

fn side_by_side(
    engine: &Engine<'_>,
    [plain, other]: [&Volume; 2],
    rounds: &[Round],
) -> Result<Shares, Failure> {
    each_round(engine, other, rounds, &mut |number| one_by_one(plain, &rounds[number]).map(Cow::Owned))
}

/// Executes rounds on a volume by an engine, and compares each with what is wanted.
fn each_round<'p>(
    engine: &Engine<'_>,
    volume: &Volume,
    rounds: &[Round],
    wanted: &mut dyn FnMut(usize) -> Result<Cow<'p, PlainRound>, String>,
) -> Result<Shares, Failure> {
    let mut result = Ok(Shares::default());
    engine(volume, &mut |apply| {
        let mut sum = Shares::default();
        for (number, round) in rounds.iter().enumerate() {
            let done = wanted(number).and_then(|wanted| together(apply, volume, round, &wanted));
            match done {
                Ok(shares) => {
                    sum.together += shares.together;
                    sum.one_by_one += shares.one_by_one;
                }
                Err(what) => {
                    result = Err(Failure { round: number, what });
                    return;
                }
            }
        }
        result = Ok(sum);
    });
    result
}

/// The outcome of a round whose changes were made one by one.
#[derive(Clone)]
struct PlainRound {
    answers: Vec<Applied>,
    tree: Tree,
    inodes: u64,
}

/// Rounds of a new volume in memory, made one by one: every engine is compared with them.
pub(crate) struct PlainRounds {
    inode_size: InodeSize,
    rounds: Vec<Round>,
    outcomes: Vec<PlainRound>,
}

impl PlainRounds {
    pub(crate) fn new(inode_size: InodeSize, rounds: Vec<Round>) -> Self {
        let volume = new_volume(inode_size);
        let outcomes = rounds.iter().map(|round| one_by_one(&volume, round).expect("one by one")).collect();
        PlainRounds { inode_size, rounds, outcomes }
    }

    /// Executes the same rounds on a new volume by an engine; returns how the changes were made.
    pub(crate) fn compare(&self, engine: &Engine<'_>) -> Result<Shares, Failure> {
        let volume = new_volume(self.inode_size);
        each_round(engine, &volume, &self.rounds, &mut |number| Ok(Cow::Borrowed(&self.outcomes[number])))
    }
}

/// Executes one round, change by change.
fn one_by_one(plain: &Volume, round: &Round) -> Result<PlainRound, String> {
    let changes: Vec<_> = round.ops.iter().map(Op::change).collect();
    let base = Base::of(plain, &round.base);
    let answers = plain.apply(base.ino, &changes).map_err(|error| format!("one by one: {error}"))?;
    drop(base);
    let (tree, inodes) = sound(plain, "one by one")?;
    Ok(PlainRound { answers, tree, inodes })
}

/// Executes one round by an engine, and compares everything.
fn together(
    apply: &mut Apply<'_>,
    other: &Volume,
    round: &Round,
    wanted: &PlainRound,
) -> Result<Shares, String> {
    let changes: Vec<_> = round.ops.iter().map(Op::change).collect();
    let base = Base::of(other, &round.base);
    let (found, shares) = apply(base.ino, &changes).map_err(|error| format!("together: {error}"))?;
    let answers = &wanted.answers;
    if answers.len() != found.len() || found.len() as u64 != shares.together + shares.one_by_one {
        return Err(format!("{} answers, {} wanted, {shares:?}", found.len(), answers.len()));
    }
    for (number, (op, (wanted, found))) in round.ops.iter().zip(answers.iter().zip(&found)).enumerate() {
        if wanted.code != found.code || wanted.ino.is_some() != found.ino.is_some() {
            return Err(format!("change {number}, {op}: {found:?}, not {wanted:?}"));
        }
    }
    lead_there(other, round, &found)?;
    drop(base);
    alike((&wanted.tree, wanted.inodes), sound(other, "together")?)?;
    Ok(shares)
}

/// Answers have the files of their paths, in rounds that only make something: else a number may be reused.
fn lead_there(volume: &Volume, round: &Round, answers: &[Applied]) -> Result<(), String> {
    let made: Option<Vec<&[u8]>> = round.ops.iter().map(Op::makes).collect();
    for (path, answer) in made.iter().flatten().zip(answers) {
        if answer.code == Code::Success && path.starts_with(b"/") {
            let found = volume.resolve(path).map_err(|error| format!("{}: {error}", path.escape_ascii()))?;
            if Some(found.ino) != answer.ino {
                return Err(format!("{}: {answer:?}, and {:?} is there", path.escape_ascii(), found.ino));
            }
        }
    }
    Ok(())
}

/// Both volumes have the same tree and as many inodes, and the check finds nothing.
fn same([plain, other]: [&Volume; 2]) -> Result<(), String> {
    let (tree, inodes) = sound(plain, "one by one")?;
    alike((&tree, inodes), sound(other, "together")?)
}

/// Returns the tree of a volume and its number of inodes, where the check finds nothing. Its directories are
/// old then.
fn sound(volume: &Volume, what: &str) -> Result<(Tree, u64), String> {
    let report = volume.check(false, &|_, _| {}).map_err(|error| format!("fsck, {what}: {error}"))?;
    if let Some(finding) = report.findings.first() {
        return Err(format!("fsck, {what}: {finding:?}"));
    }
    let tree = tree(volume).map_err(|text| format!("{what}: {text}"))?;
    let inodes = volume.statfs().map_err(|error| format!("{what}: {error}"))?.inodes;
    age(volume, &tree).map_err(|error| error.to_string())?;
    Ok((tree, inodes))
}

fn alike(wanted: (&Tree, u64), found: (Tree, u64)) -> Result<(), String> {
    match difference(wanted.0, &found.0) {
        Some(what) => Err(what),
        None if wanted.1 != found.1 => Err(format!("inodes in use: {}, not {}", found.1, wanted.1)),
        None => Ok(()),
    }
}

/// The directory where relative paths begin, held as a process holds its working directory: no other file
/// gets its number when it is removed meanwhile.
struct Base<'v> {
    volume: &'v Volume,
    ino: Ino,
}

impl<'v> Base<'v> {
    fn of(volume: &'v Volume, path: &[u8]) -> Self {
        let found = volume.resolve(path).ok().filter(|attr| attr.kind == lanefs::FileKind::Directory);
        let ino = found.map_or(volume.root(), |attr| attr.ino);
        volume.hold(ino).expect("it is there");
        Base { volume, ino }
    }
}

impl Drop for Base<'_> {
    fn drop(&mut self) {
        self.volume.release(self.ino, 1).expect("it was held");
    }
}

/// Rounds of a seed.
pub(crate) fn rounds(seed: u64, count: usize) -> Vec<Round> {
    let mut generator = Generator::new(seed);
    (0..count).map(|_| generator.round()).collect()
}

/// Executes the rounds of a seed by an engine. Where that fails, prints how to repeat it: as few rounds and
/// changes as can be found in a while.
pub(crate) fn must_be_same(engine: &Engine<'_>, plain: &PlainRounds, seed: u64, what: &str) -> Shares {
    match plain.compare(engine) {
        Ok(shares) => shares,
        Err(failure) => {
            let inode_size = plain.inode_size;
            let (rounds, failure) = shrink(engine, inode_size, plain.rounds.clone(), failure);
            let mut text = format!("{what}, {inode_size:?}, seed {seed}: {}\n", failure.what);
            for round in &rounds {
                text += &format!("from {}\n", round.base.escape_ascii());
                for op in &round.ops {
                    text += &format!("    {op}\n");
                }
            }
            panic!("{text}");
        }
    }
}

/// Leaves out rounds, then parts of them, for as long as the rest fails, in any way.
fn shrink(
    engine: &Engine<'_>,
    inode_size: InodeSize,
    mut rounds: Vec<Round>,
    mut failure: Failure,
) -> (Vec<Round>, Failure) {
    let start = Instant::now();
    rounds.truncate(failure.round + 1);
    let mut number = rounds.len();
    while number > 1 && start.elapsed() < MOST_TIME / 2 {
        number -= 1;
        let mut fewer = rounds.clone();
        fewer.remove(number - 1);
        if let Err(other) = in_memory(engine, inode_size, &fewer) {
            fewer.truncate(other.round + 1);
            (rounds, failure) = (fewer, other);
            number = number.min(rounds.len());
        }
    }
    for number in (0..rounds.len()).rev() {
        let mut piece = rounds.get(number).map_or(0, |round| round.ops.len().div_ceil(2));
        while piece > 0 {
            let mut from = 0;
            while rounds.get(number).is_some_and(|round| from < round.ops.len())
                && start.elapsed() < MOST_TIME
            {
                let mut fewer = rounds.clone();
                let end = fewer[number].ops.len().min(from + piece);
                fewer[number].ops.drain(from..end);
                match in_memory(engine, inode_size, &fewer) {
                    Err(other) => (rounds, failure) = (fewer, other),
                    Ok(_) => from += piece,
                }
            }
            piece /= 2;
        }
    }
    (rounds, failure)
}
