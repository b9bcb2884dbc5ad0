//! Compares the results of one operation.

use crate::engine::{Engine, Stat};
use crate::model::Model;
use crate::ops::{Bytes, Op, Outcome};
use lanefs_format::{Code, FileKind};
use std::collections::{BTreeSet, HashMap};

/// Returns the difference between the model's result and an engine's, in words; `None` where they agree.
///
/// `before` is the model before the operation, for listings that were mixed with changes. Codes must be equal
/// with `exact_codes`. Without it, errnos must be equal where a path went through symbolic links: then
/// engines may differ in which component of which path was missing.
pub fn difference(
    model: &mut Model,
    before: Option<&Model>,
    exact_codes: bool,
    op: &Op,
    expected: &Outcome,
    got: &Outcome,
) -> Option<String> {
    if let Outcome::Failed(error) = got
        && error.broken
    {
        return Some(format!("reports damage: {error:?} (expected {expected:?})"));
    }
    let same = match (expected, got) {
        (Outcome::Failed(a), Outcome::Failed(b)) => {
            same_code(a.code, b.code) || any_error_will_do(op, a.code, b.code)
        }
        (Outcome::Stat(a), Outcome::Stat(b)) => return stat_difference(a, b),
        (Outcome::Stats(a), Outcome::Stats(b)) => return stats_difference(a, b, exact_codes),
        (Outcome::Position(_), Outcome::Position(answer)) => return seek_difference(model, op, answer),
        (Outcome::Each(a), Outcome::Each(b)) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| match (a, b) {
                    (Ok(()), Ok(())) => true,
                    (Err(a), Err(b)) => same_code(*a, *b),
                    _ => false,
                })
        }
        (Outcome::Listing { between: a, .. }, Outcome::Listing { seen, between: b }) => {
            return listing_difference(model, before, op, a, seen, b);
        }
        (a, b) => a == b,
    };
    (!same).then(|| format!("expected {expected:?}, got {got:?}"))
}

/// Returns true for codes that a caller of the POSIX interface cannot tell apart.
fn same_code(expected: Code, got: Code) -> bool {
    expected.errno() == got.errno()
}

/// Cases that POSIX and the design leave open.
fn any_error_will_do(op: &Op, expected: Code, got: Code) -> bool {
    match op {
        // A file in place of a directory: mkdir -p reports one or the other, depending on its order of
        // checks.
        Op::MkdirAll { .. } => [Code::Exists, Code::NotDirectory, Code::NotFound].contains(&got),
        // rm -r of `.` or `..` is refused by one name or another.
        Op::RemoveAll { .. } => {
            let refused = [Code::Invalid, Code::IsDirectory, Code::NotEmpty];
            refused.contains(&expected) && refused.contains(&got)
        }
        // No system call defines the error of reading, writing or allocating an inode that is not a regular
        // file.
        Op::Read { .. } | Op::Write { .. } | Op::Fallocate { .. } | Op::Set { .. } => {
            matches!(expected, Code::Invalid | Code::IsDirectory)
                && matches!(got, Code::Invalid | Code::IsDirectory | Code::Unsupported)
        }
        _ => false,
    }
}

/// Returns the difference between two inodes' attributes.
pub(super) fn stat_difference(expected: &Stat, got: &Stat) -> Option<String> {
    let mut different = Vec::new();
    let mut field = |name: &str, a: u64, b: u64| {
        if a != b {
            different.push(format!("{name} is {b:#o}, not {a:#o}"));
        }
    };
    field("kind", expected.kind as u64, got.kind as u64);
    // A symbolic link's permissions mean nothing.
    if expected.kind != FileKind::Symlink {
        field("perm", expected.perm.into(), got.perm.into());
    }
    // Engines that count no links of directories say so with the largest number.
    if got.links != u32::MAX {
        field("links", expected.links.into(), got.links.into());
    }
    field("uid", expected.uid.into(), got.uid.into());
    field("gid", expected.gid.into(), got.gid.into());
    field("size", expected.size, got.size);
    field("rdev", expected.rdev, got.rdev);
    for (which, name) in ["atime", "mtime", "ctime", "btime"].into_iter().enumerate() {
        let (known, seen) = (expected.times[which], got.times[which]);
        // Following a symbolic link reads it, which may change its access time.
        let moot = which == 0 && expected.kind == FileKind::Symlink;
        if !moot && !known.allows(seen) {
            different.push(format!("{name} is {seen:?}, not {known:?}"));
        }
    }
    (!different.is_empty()).then(|| different.join(", "))
}

fn stats_difference(
    expected: &[crate::engine::EngineResult<Stat>],
    got: &[crate::engine::EngineResult<Stat>],
    exact_codes: bool,
) -> Option<String> {
    if expected.len() != got.len() {
        return Some(format!("{} answers for {} paths", got.len(), expected.len()));
    }
    for (index, pair) in expected.iter().zip(got).enumerate() {
        let text = match pair {
            (Ok(a), Ok(b)) => stat_difference(a, b),
            (Err(a), Err(b))
                if !b.broken && (a.code == b.code || (!exact_codes && same_code(a.code, b.code))) =>
            {
                None
            }
            // An engine that knows only errnos, such as the host, has one code for both kinds of absence.
            (Err(a), Err(b)) if b.text == "errno" && same_code(a.code, b.code) => None,
            (a, b) => Some(format!("expected {a:?}, got {b:?}")),
        };
        if let Some(text) = text {
            return Some(format!("path {index}: {text}"));
        }
    }
    None
}

fn seek_difference(model: &mut Model, op: &Op, answer: &crate::engine::EngineResult<u64>) -> Option<String> {
    let Op::Seek { path, offset, what } = op else { return None };
    let handle = model.resolve(&lanefs::Caller::OWNER, None, &path.0, true).ok()?;
    if let Err(error) = answer
        && error.broken
    {
        return Some(format!("reports damage: {error:?}"));
    }
    (!model.seek_is_sound(handle, *offset, *what, answer)).then(|| {
        format!(
            "unsound answer {answer:?}; first data there is {:?}",
            model.content(handle).map(|c| (c.size(), c.first_nonzero(*offset)))
        )
    })
}

/// Names that stay are listed once, and names that never existed are not listed, whatever happens in between.
fn listing_difference(
    model: &mut Model,
    before: Option<&Model>,
    op: &Op,
    expected: &[Outcome],
    seen: &[Bytes],
    got: &[Outcome],
) -> Option<String> {
    let Op::ListWhile { path, between, .. } = op else { return None };
    if expected.len() != got.len() {
        return Some("not all operations in between were done".to_owned());
    }
    for ((op, a), b) in between.iter().zip(expected).zip(got) {
        if let Some(text) = difference(model, None, false, op, a, b) {
            return Some(format!("{op:?} in between: {text}"));
        }
    }
    let mut before = before?.clone();
    let dir = before.resolve(&lanefs::Caller::OWNER, None, &path.0, true).ok()?;
    let present: BTreeSet<&Vec<u8>> = before.entries(dir)?.keys().collect();
    let mut touched = BTreeSet::new();
    for op in between {
        match op {
            Op::Rename { from, to, .. } => touched.extend([&from.name.0, &to.name.0]),
            Op::Create { at, .. } | Op::Mkdir { at, .. } | Op::Unlink { at, .. } => {
                touched.insert(&at.name.0);
            }
            _ => {}
        }
    }
    let mut times: HashMap<&Vec<u8>, usize> = HashMap::new();
    for name in seen {
        *times.entry(&name.0).or_default() += 1;
        if !present.contains(&name.0) && !touched.contains(&name.0) {
            return Some(format!("the listing gives {name:?}, which was never there"));
        }
    }
    // Where the path resolves to another directory at the end, the rest of the listing is undefined.
    if model.resolve(&lanefs::Caller::OWNER, None, &path.0, true).ok() != Some(dir) {
        return None;
    }
    present.into_iter().filter(|name| !touched.contains(*name)).find_map(|name| {
        let count = times.get(name).copied().unwrap_or(0);
        (count != 1)
            .then(|| format!("the listing gives {:?}, which stays, {count} times", Bytes(name.clone())))
    })
}
