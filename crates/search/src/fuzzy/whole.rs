//! Terms in a whole path.

use super::bonus::{BOUNDARY, CLASS, CONSECUTIVE, Class, FIRST, INITIAL, MATCH, bonus, class_of_char};
use super::query::{Kind, Query, Term};
use nucleo_matcher::{Config, Matcher, Utf32Str};

/// Matches terms in whole paths: by nucleo, where there are gaps.
pub(super) struct Whole {
    matcher: Matcher,
    /// The characters of a path that is not ASCII.
    chars: Vec<char>,
    is_ascii: bool,
}

impl Whole {
    pub(super) fn new() -> Self {
        let matcher = Matcher::new(Config::DEFAULT.match_paths());
        Whole { matcher, chars: Vec::new(), is_ascii: true }
    }

    /// Takes a path. Bytes that are not UTF-8 count as characters that no term has.
    pub(super) fn set(&mut self, path: &[u8]) {
        self.chars.clear();
        self.is_ascii = path.is_ascii();
        if self.is_ascii {
            return;
        }
        for chunk in path.utf8_chunks() {
            self.chars.extend(chunk.valid().chars());
            self.chars.extend((!chunk.invalid().is_empty()).then_some(char::REPLACEMENT_CHARACTER));
        }
    }

    /// The score of a group of terms: of the first one that matches.
    pub(super) fn group(&mut self, path: &[u8], group: &[Term]) -> Option<u32> {
        let mut result = None;
        for term in group {
            match self.term(path, term, None) {
                Some(score) if !term.is_inverse => return Some(score),
                None if term.is_inverse => result = Some(0),
                _ => {}
            }
        }
        result
    }

    /// The score of a term, without regard to its being inverse. The indexes of its characters are appended
    /// to `indexes`.
    fn term(&mut self, path: &[u8], term: &Term, indexes: Option<&mut Vec<u32>>) -> Option<u32> {
        if term.kind == Kind::Fuzzy {
            return self.fuzzy(path, term, indexes).map(u32::from);
        }
        let (score, at) = match &term.ascii {
            Some(needle) if self.is_ascii && term.ignores_case => {
                part(path, needle, term.kind, |own, other| own.eq_ignore_ascii_case(other))
            }
            Some(needle) if self.is_ascii => part(path, needle, term.kind, |own, other| own == other),
            None if self.is_ascii => None,
            _ => part(&self.chars, &term.text, term.kind, |own, other| term.fold(*own) == *other),
        }?;
        if let Some(indexes) = indexes {
            indexes.extend(at as u32..(at + term.text.len()) as u32);
        }
        Some(score)
    }

    fn fuzzy(&mut self, path: &[u8], term: &Term, indexes: Option<&mut Vec<u32>>) -> Option<u16> {
        self.matcher.config.ignore_case = term.ignores_case;
        self.matcher.config.normalize = term.normalizes;
        let haystack = if self.is_ascii { Utf32Str::Ascii(path) } else { Utf32Str::Unicode(&self.chars) };
        let needle = match &term.ascii {
            Some(ascii) => Utf32Str::Ascii(ascii),
            None => Utf32Str::Unicode(&term.text),
        };
        match indexes {
            Some(indexes) => self.matcher.fuzzy_indices(haystack, needle, indexes),
            None => self.matcher.fuzzy_match(haystack, needle),
        }
    }
}

/// A character of a path.
trait Unit: Copy {
    fn class(self) -> Class;
    fn is_white(self) -> bool;
}

impl Unit for char {
    fn class(self) -> Class {
        class_of_char(self)
    }

    fn is_white(self) -> bool {
        self.is_whitespace()
    }
}

impl Unit for u8 {
    fn class(self) -> Class {
        CLASS[usize::from(self)]
    }

    fn is_white(self) -> bool {
        char::from(self).is_whitespace()
    }
}

/// The best occurrence of a needle without gaps: its score and index.
fn part<U: Unit>(
    path: &[U],
    needle: &[U],
    kind: Kind,
    is_equal: impl Fn(&U, &U) -> bool,
) -> Option<(u32, usize)> {
    let (len, count) = (path.len(), needle.len());
    let (first, last) = (needle.first()?, needle.last()?);
    let is_match = |at: &usize| {
        let part = path.get(*at..*at + count);
        part.is_some_and(|part| part.iter().zip(needle).all(|(own, other)| is_equal(own, other)))
    };
    // As in fzf: white space around the path counts only if the term has it.
    let white = |units: &mut dyn Iterator<Item = &U>| units.take_while(|unit| unit.is_white()).count();
    let front = if kind == Kind::Part || first.is_white() { 0 } else { white(&mut path.iter()) };
    let back = if kind == Kind::Part || last.is_white() { 0 } else { white(&mut path.iter().rev()) };
    let end = len.saturating_sub(back).max(front);
    let at = match kind {
        Kind::Part | Kind::Fuzzy => {
            let starts = (0..(len + 1).saturating_sub(count)).filter(|at| is_equal(&path[*at], first));
            let scored = starts.filter(is_match).map(|at| (part_score(path, at, count), at));
            return scored.reduce(|best, next| if next.0 > best.0 { next } else { best });
        }
        Kind::Prefix => front,
        Kind::Suffix => end.checked_sub(count)?,
        Kind::Equal if end - front == count => front,
        Kind::Equal => return None,
    };
    is_match(&at).then(|| (part_score(path, at, count), at))
}

/// The score of characters that match without a gap.
fn part_score<U: Unit>(path: &[U], at: usize, count: usize) -> u32 {
    let mut before = at.checked_sub(1).map_or(INITIAL, |before| path[before].class());
    let (mut score, mut first) = (0, 0);
    for (index, unit) in path[at..at + count].iter().enumerate() {
        let here = unit.class();
        let own = bonus(before, here);
        before = here;
        let counted = if index == 0 {
            first = own;
            u32::from(own) * u32::from(FIRST)
        } else {
            if own >= BOUNDARY && own > first {
                first = own;
            }
            u32::from(own.max(first).max(CONSECUTIVE))
        };
        score += u32::from(MATCH) + counted;
    }
    score
}

/// The characters of a path that a query matches, as indexes in order; none if it does not match. Bytes that
/// are not UTF-8 count as one character for each sequence that [`String::from_utf8_lossy`] replaces.
pub fn highlights(query: &Query, path: &[u8]) -> Vec<u32> {
    let (mut whole, mut indexes) = (Whole::new(), Vec::new());
    whole.set(path);
    for group in &query.groups {
        let mut positive = group.iter().filter(|term| !term.is_inverse);
        positive.any(|term| whole.term(path, term, Some(&mut indexes)).is_some());
    }
    indexes.sort_unstable();
    indexes.dedup();
    indexes
}
