//! Conditions of a search.

use crate::session::context::{Context, OWNER};
use crate::terminal::failure::Failure;
use crate::text::bytes;
use globset::{GlobBuilder, GlobMatcher};
use lanefs::{Attr, FileKind, Ino};
use lanefs_gpu::Filter;
use std::ops::RangeInclusive;

/// A condition on an entry. [`Condition::is_met`] alone decides it; a device only leaves out entries early.
pub(super) enum Condition {
    /// The depth is this or greater.
    MinDepth(usize),
    /// The type is one of these.
    Kinds(Vec<FileKind>),
    /// The name matches.
    Name(Pattern),
    /// The whole path matches.
    Path(Pattern),
    /// The size in bytes is in the range.
    Size(RangeInclusive<u64>),
    /// The time of the last change of content is in the range.
    Mtime(RangeInclusive<i64>),
    /// The file or directory is empty.
    Empty,
}

/// An entry that a search reached.
pub(super) struct Candidate<'p> {
    /// Its path, from the start's.
    pub(super) path: &'p [u8],
    /// Its name.
    pub(super) name: &'p [u8],
    /// Inode number.
    pub(super) ino: Ino,
    /// Type.
    pub(super) kind: FileKind,
    /// Number of directories between it and the start.
    pub(super) depth: usize,
    /// Its attributes, once they were needed.
    attr: Option<Attr>,
}

impl<'p> Candidate<'p> {
    /// Creates a candidate.
    pub(super) fn new(path: &'p [u8], name: &'p [u8], ino: Ino, kind: FileKind, depth: usize) -> Self {
        Candidate { path, name, ino, kind, depth, attr: None }
    }

    /// Reads the attributes. They cost another lookup, so conditions on names come first.
    ///
    /// # Errors
    /// Names the path.
    pub(super) fn attr(&mut self, context: &Context<'_>) -> Result<Attr, Failure> {
        match self.attr {
            Some(attr) => Ok(attr),
            None => Ok(*self.attr.insert(context.attr(self.path, self.ino)?)),
        }
    }
}

impl Condition {
    /// Decides the condition.
    ///
    /// # Errors
    /// The volume could not answer.
    pub(super) fn is_met(&self, context: &Context<'_>, entry: &mut Candidate<'_>) -> Result<bool, Failure> {
        Ok(match self {
            Condition::MinDepth(depth) => entry.depth >= *depth,
            Condition::Kinds(kinds) => kinds.contains(&entry.kind),
            Condition::Name(pattern) => pattern.matches(entry.name),
            Condition::Path(pattern) => pattern.matches(entry.path),
            Condition::Size(sizes) => sizes.contains(&entry.attr(context)?.size),
            Condition::Mtime(times) => times.contains(&entry.attr(context)?.mtime.0),
            Condition::Empty => match entry.kind {
                FileKind::File => entry.attr(context)?.size == 0,
                FileKind::Directory => {
                    let first = context.volume.readdir(&OWNER, entry.ino, 0, 1);
                    first.map_err(|e| Failure::volume(entry.path, &e))?.is_empty()
                }
                _ => false,
            },
        })
    }

    /// Narrows the filter of a device, as far as it can express the condition. The filter never rejects an
    /// entry for which [`is_met`](Self::is_met) is true.
    pub(super) fn narrow(&self, filter: &mut Filter) {
        match self {
            Condition::Kinds(kinds) => filter.kinds.clone_from(kinds),
            Condition::Name(pattern) => {
                // A device has no alternatives (`{a,b}`); such a pattern does not narrow the filter.
                let _ = filter.names.and(&pattern.text, pattern.ignore_case);
            }
            Condition::Size(sizes) => filter.size = sizes.clone(),
            Condition::Mtime(times) => {
                let (from, to) =
                    (filter.mtime.start().max(times.start()), filter.mtime.end().min(times.end()));
                filter.mtime = *from..=*to;
            }
            Condition::MinDepth(_) | Condition::Path(_) | Condition::Empty => {}
        }
    }
}

/// A glob pattern.
pub(super) struct Pattern {
    text: String,
    ignore_case: bool,
    matcher: GlobMatcher,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// Names the pattern and its mistake.
    pub(super) fn new(text: &str, ignore_case: bool) -> Result<Self, Failure> {
        let matcher = compile(text, ignore_case)?;
        Ok(Pattern { text: text.to_string(), ignore_case, matcher })
    }

    fn matches(&self, bytes: &[u8]) -> bool {
        self.matcher.is_match(bytes::to_path(bytes))
    }
}

fn compile(pattern: &str, ignore_case: bool) -> Result<GlobMatcher, Failure> {
    GlobBuilder::new(pattern)
        .case_insensitive(ignore_case)
        .backslash_escape(true)
        .literal_separator(false)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| {
            Failure::usage(pattern, &error.kind().to_string(), "--help explains the syntax of GLOB")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_takes_patterns_as_they_are_taken_here() {
        let mut state = 1u64;
        let mut below = |count: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % count
        };
        let parts = [
            "*", "?", "a", "B", "-", "]", "[ab]", "[!a-b]", "[^b-]", "[]a]", r"\*", r"\]", "{a,b}", "**",
            "é", ",", "!",
        ];
        let names = ["", "a", "b", "B", "*", "-", "]", "é", "\u{ff}", ",", "!"];
        let (mut compared, mut matched) = (0, 0);
        for _ in 0..20_000 {
            let ignore_case = below(2) == 0;
            let mut some = |of: &[&str]| -> String { (0..below(5)).map(|_| of[below(of.len())]).collect() };
            let pattern = some(&parts);
            let mut ours = lanefs_gpu::Names::default();
            if !ours.and(&pattern, ignore_case) {
                continue;
            }
            let here = compile(&pattern, ignore_case).unwrap();
            for _ in 0..10 {
                let name = some(&names);
                let (found, wanted) = (ours.matches(name.as_bytes()), here.is_match(&name));
                assert_eq!(found, wanted, "{pattern} {ignore_case} {name}");
                (compared, matched) = (compared + 1, matched + u32::from(wanted));
            }
        }
        assert!(compared > 50_000 && matched > 5_000, "{compared}, {matched}");
    }

    #[test]
    fn globs_take_any_bytes() {
        let matches =
            |pattern: &str, name: &[u8]| compile(pattern, false).unwrap().is_match(bytes::to_path(name));
        assert!(matches("*.jpg", b"\xff\n.jpg"));
        assert!(matches("a*b", b"a/x/b"));
        assert!(matches(r"\*", b"*"));
        assert!(!matches(r"\*", b"x"));
        assert!(matches("{a,b}?", b"bz"));
        assert!(compile("[", false).is_err());
        assert!(compile("ABC", true).unwrap().is_match("abc"));
    }
}
