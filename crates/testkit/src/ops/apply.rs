//! Executes an operation on any engine.

use super::{Bulk, Bytes, EntryPath, Identity, Op, bulk_name};
use crate::engine::{Engine, EngineError, EngineResult, Handle, Stat};
use crate::one_hash;
use lanefs::Caller;
use lanefs_format::{Code, FileKind};

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It failed.
    Failed(EngineError),
    /// It succeeded and returns nothing.
    Done,
    /// Attributes after the operation.
    Stat(Box<Stat>),
    /// One result per path.
    Stats(Vec<EngineResult<Stat>>),
    /// A type.
    Kind(FileKind),
    /// Bytes read.
    Bytes(Bytes),
    /// A number of bytes.
    Count(usize),
    /// End of a seek. Failures of a seek are in here too, as both are judged together.
    Position(EngineResult<u64>),
    /// Names of a directory and their types, in the order listed.
    Names(Vec<(Bytes, FileKind)>),
    /// Names of extended attributes.
    Attributes(Vec<Bytes>),
    /// Result of each part of a bulk operation.
    Each(Vec<Result<(), Code>>),
    /// A listing with operations in between: the names, and the results of the operations.
    Listing {
        /// Names in the order listed.
        seen: Vec<Bytes>,
        /// Results of the operations.
        between: Vec<Outcome>,
    },
}

impl Outcome {
    /// Returns true if the volume reported that it is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Outcome::Failed(error) if error.code == Code::NoSpace)
    }
}

impl From<EngineResult<()>> for Outcome {
    fn from(answer: EngineResult<()>) -> Self {
        answer.map_or_else(Outcome::Failed, |()| Outcome::Done)
    }
}

impl From<EngineResult<Stat>> for Outcome {
    fn from(answer: EngineResult<Stat>) -> Self {
        answer.map_or_else(Outcome::Failed, |stat| Outcome::Stat(Box::new(stat)))
    }
}

/// An engine and its caller.
struct Session<'e> {
    engine: &'e mut dyn Engine,
    caller: Caller,
}

impl Session<'_> {
    fn path(&mut self, path: &Bytes, follow: bool) -> EngineResult<Handle> {
        self.engine.resolve(&self.caller, None, &path.0, follow)
    }

    /// A path that leads to a file is left to the next call, which must notice by itself.
    fn dir(&mut self, at: &EntryPath) -> EngineResult<Handle> {
        self.path(&at.dir, true)
    }
}

/// Executes `op` and returns its result.
pub fn apply(engine: &mut dyn Engine, op: &Op) -> Outcome {
    engine.begin();
    let mut session = Session { engine, caller: op.identity().caller() };
    run(&mut session, op).unwrap_or_else(Outcome::Failed)
}

fn run(s: &mut Session<'_>, op: &Op) -> EngineResult<Outcome> {
    match op {
        Op::Create { .. }
        | Op::CreateWhole { .. }
        | Op::Mknod { .. }
        | Op::Mkdir { .. }
        | Op::Symlink { .. } => make(s, op),
        Op::Link { path, at, .. } => {
            let (node, dir) = (s.path(path, false)?, s.dir(at)?);
            Ok(s.engine.link(&s.caller, node, dir, &at.name.0).into())
        }
        Op::Unlink { at, .. } => {
            let dir = s.dir(at)?;
            Ok(s.engine.unlink(&s.caller, dir, &at.name.0).into())
        }
        Op::Rmdir { at, .. } => {
            let dir = s.dir(at)?;
            Ok(s.engine.rmdir(&s.caller, dir, &at.name.0).into())
        }
        Op::Rename { from, to, mode, .. } => {
            let (old, new) = (s.dir(from)?, s.dir(to)?);
            Ok(s.engine.rename(&s.caller, (old, &from.name.0), (new, &to.name.0), *mode).into())
        }
        Op::RemoveAll { at } => {
            let dir = s.dir(at)?;
            Ok(s.engine.remove_all(&s.caller, dir, &at.name.0).into())
        }
        Op::MkdirAll { path, perm } => Ok(s.engine.mkdir_all(&path.0, *perm).into()),
        Op::Lookup { at, .. } => {
            let dir = s.dir(at)?;
            let found = s.engine.lookup(&s.caller, dir, &at.name.0)?;
            Ok(Outcome::Kind(s.engine.stat(found)?.kind))
        }
        Op::Resolve { base, paths, follow, .. } => {
            let base = base.as_ref().map(|base| s.path(base, true)).transpose()?;
            let paths: Vec<Vec<u8>> = paths.iter().map(|path| path.0.clone()).collect();
            Ok(Outcome::Stats(s.engine.resolve_many(&s.caller, base, &paths, *follow)))
        }
        Op::Stat { path, follow } => {
            let node = s.path(path, *follow)?;
            Ok(s.engine.stat(node).into())
        }
        Op::Set { path, follow, set, .. } => {
            let node = s.path(path, *follow)?;
            Ok(s.engine.set(&s.caller, node, set).into())
        }
        Op::Readlink { path } => {
            let node = s.path(path, false)?;
            Ok(Outcome::Bytes(Bytes(s.engine.readlink(node)?)))
        }
        Op::List { path, page, .. } => {
            let dir = s.path(path, true)?;
            list(s, dir, *page)
        }
        Op::ListWhile { path, page, between } => list_while(s, path, *page, between),
        Op::Bulk { dir, what, first, step, count } => bulk(s, dir, *what, *first, *step, *count),
        Op::OneHash { dir, make, first, count } => of_one_hash(s, dir, *make, *first, *count),
        Op::Sync => Ok(s.engine.sync().into()),
        Op::Reopen => Ok(s.engine.reopen().into()),
        _ => content(s, op),
    }
}

fn make(s: &mut Session<'_>, op: &Op) -> EngineResult<Outcome> {
    Ok(match op {
        Op::Create { at, perm, .. } => {
            let dir = s.dir(at)?;
            s.engine.create(&s.caller, dir, &at.name.0, *perm)
        }
        Op::CreateWhole { at, data, set, .. } => {
            let dir = s.dir(at)?;
            s.engine.create_whole(&s.caller, dir, &at.name.0, &data.bytes(), set)
        }
        Op::Mknod { at, kind, perm, rdev, .. } => {
            let dir = s.dir(at)?;
            s.engine.mknod(&s.caller, dir, &at.name.0, *kind, *perm, *rdev)
        }
        Op::Mkdir { at, perm, .. } => {
            let dir = s.dir(at)?;
            s.engine.mkdir(&s.caller, dir, &at.name.0, *perm)
        }
        Op::Symlink { at, target, .. } => {
            let dir = s.dir(at)?;
            s.engine.symlink(&s.caller, dir, &at.name.0, &target.0)
        }
        _ => return Ok(Outcome::Done),
    }
    .into())
}

/// Operations on file data and on attributes.
fn content(s: &mut Session<'_>, op: &Op) -> EngineResult<Outcome> {
    Ok(match op {
        Op::Read { path, offset, len, .. } => {
            let node = s.path(path, true)?;
            // Bytes that the engine does not fill must keep this value: it shows a wild write after the
            // count.
            let mut buffer = vec![0xa5; *len];
            let n = s.engine.read(&s.caller, node, *offset, &mut buffer)?;
            if n > *len || buffer[n..].iter().any(|byte| *byte != 0xa5) {
                return Err(Code::InvariantViolated.into());
            }
            buffer.truncate(n);
            Outcome::Bytes(Bytes(buffer))
        }
        Op::Write { path, offset, data, .. } => {
            let node = s.path(path, true)?;
            Outcome::Count(s.engine.write(&s.caller, node, *offset, &data.bytes())?)
        }
        Op::Fallocate { path, mode, offset, len, .. } => {
            let node = s.path(path, true)?;
            s.engine.fallocate(&s.caller, node, *mode, *offset, *len).into()
        }
        Op::Seek { path, offset, what } => {
            let node = s.path(path, true)?;
            Outcome::Position(s.engine.seek(node, *offset, *what))
        }
        Op::Getxattr { path, follow, name, .. } => {
            let node = s.path(path, *follow)?;
            Outcome::Bytes(Bytes(s.engine.getxattr(&s.caller, node, &name.0)?))
        }
        Op::Setxattr { path, follow, name, value, mode, .. } => {
            let node = s.path(path, *follow)?;
            s.engine.setxattr(&s.caller, node, &name.0, &value.bytes(), *mode).into()
        }
        Op::Listxattr { path, follow } => {
            let node = s.path(path, *follow)?;
            let mut names: Vec<Bytes> = s.engine.listxattr(node)?.into_iter().map(Bytes).collect();
            names.sort();
            Outcome::Attributes(names)
        }
        Op::Removexattr { path, follow, name, .. } => {
            let node = s.path(path, *follow)?;
            s.engine.removexattr(&s.caller, node, &name.0).into()
        }
        _ => Outcome::Done,
    })
}

/// Most pages of a listing: more than any test's directory has entries, so a cookie that does not advance
/// shows.
const MOST_PAGES: usize = 1_000_000;

fn list(s: &mut Session<'_>, dir: Handle, page: usize) -> EngineResult<Outcome> {
    let (mut names, mut cookie) = (Vec::new(), 0);
    for _ in 0..MOST_PAGES {
        let entries = s.engine.list(&s.caller, dir, cookie, page)?;
        let Some((_, _, last)) = entries.last() else {
            names.sort();
            return Ok(Outcome::Names(names));
        };
        cookie = *last;
        names.extend(entries.into_iter().map(|(name, kind, _)| (Bytes(name), kind)));
    }
    Err(EngineError {
        text: "a listing does not end".to_owned(),
        broken: true,
        ..Code::InvariantViolated.into()
    })
}

/// The listing resumes by cookie after every operation. The handle is resolved again each time, because an
/// operation forgets handles.
fn list_while(s: &mut Session<'_>, path: &Bytes, page: usize, between: &[Op]) -> EngineResult<Outcome> {
    let (mut seen, mut answers, mut cookie) = (Vec::new(), Vec::new(), 0);
    let mut operations = between.iter();
    for _ in 0..MOST_PAGES {
        let entries = match s.path(path, true).and_then(|dir| s.engine.list(&s.caller, dir, cookie, page)) {
            Ok(entries) => entries,
            // One of the operations may have removed the directory.
            Err(error) if !error.broken && cookie != 0 => break,
            Err(error) => return Err(error),
        };
        let Some((_, _, last)) = entries.last() else { break };
        cookie = *last;
        seen.extend(entries.into_iter().map(|(name, _, _)| Bytes(name)));
        if let Some(op) = operations.next() {
            answers.push(apply(s.engine, op));
        }
    }
    // The model's pages are not the volume's, so the remaining operations run at the end: both run all of
    // them.
    answers.extend(operations.map(|op| apply(s.engine, op)));
    Ok(Outcome::Listing { seen, between: answers })
}

fn bulk(
    s: &mut Session<'_>,
    dir: &Bytes,
    what: Bulk,
    first: u64,
    step: u64,
    count: u64,
) -> EngineResult<Outcome> {
    let dir = s.path(dir, true)?;
    let mut each = Vec::with_capacity(count as usize);
    let mut original = None;
    for number in (0..count).map(|i| first + i * step) {
        let name = bulk_name(number);
        let answer = match (what, original) {
            (Bulk::Files, _) | (Bulk::Links, None) => {
                s.engine.create(&s.caller, dir, &name, 0o644).map(|_| ())
            }
            (Bulk::Directories, _) => s.engine.mkdir(&s.caller, dir, &name, 0o755).map(|_| ()),
            (Bulk::Links, Some(node)) => s.engine.link(&s.caller, node, dir, &name).map(|_| ()),
            (Bulk::Remove, _) => match s.engine.unlink(&s.caller, dir, &name) {
                Err(error) if error.code == Code::IsDirectory => s.engine.rmdir(&s.caller, dir, &name),
                other => other,
            },
        };
        if what == Bulk::Links && original.is_none() && answer.is_ok() {
            original = Some(s.engine.lookup(&s.caller, dir, &name)?);
        }
        each.push(whole(answer)?);
    }
    Ok(Outcome::Each(each))
}

fn of_one_hash(
    s: &mut Session<'_>,
    dir: &Bytes,
    make: bool,
    first: usize,
    count: usize,
) -> EngineResult<Outcome> {
    let dir = s.path(dir, true)?;
    let mut each = Vec::new();
    for name in one_hash::names().iter().skip(first).take(count) {
        each.push(whole(if make {
            s.engine.create(&s.caller, dir, name, 0o600).map(|_| ())
        } else {
            s.engine.unlink(&s.caller, dir, name)
        })?);
    }
    Ok(Outcome::Each(each))
}

/// Damage ends a bulk operation and keeps its text; ordinary outcomes are collected.
fn whole(answer: EngineResult<()>) -> EngineResult<Result<(), Code>> {
    match answer {
        Err(error) if error.broken => Err(error),
        Err(error) => Ok(Err(error.code)),
        Ok(()) => Ok(Ok(())),
    }
}

impl Identity {
    /// Returns true for a caller whom permissions bind.
    pub fn is_bound(self) -> bool {
        Identity::USERS.contains(&self)
    }
}
