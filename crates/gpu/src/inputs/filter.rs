//! Conditions of a search. Patterns of names are compiled to a program that a kernel executes in one step
//! for each byte of a name.

use crate::shared::layout::{WANTS_ATTRIBUTES, WANTS_DIRECTORIES};
use crate::shared::structures::FilterProgram;
use lanefs::{Attr, FileKind, Time};
use std::ops::RangeInclusive;

/// Patterns of names, all of which must match, as one machine of up to 64 states: a state for each position
/// in each pattern, before its first byte, between two, after its last. A byte leads on from the positions
/// whose pattern has that byte next; a position before a `*` stays. So a name costs its length, whatever
/// the stars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// States that are on at first, that stay on, that must all be on at the end.
    pub(crate) start: u64,
    pub(crate) stays: u64,
    pub(crate) end: u64,
    /// States that each byte leads on from.
    pub(crate) leads: Box<[u64; 256]>,
    /// States in use.
    states: u32,
}

impl Default for Names {
    /// Any name.
    fn default() -> Self {
        Names { start: 0, stays: 0, end: 0, leads: Box::new([0; 256]), states: 0 }
    }
}

/// An element of a pattern.
enum PatternPart {
    Star,
    /// Any of a set of bytes.
    One(Box<[bool; 256]>),
}

impl Names {
    /// Adds a pattern: `*` stands for any bytes, `?` for one, `[a-z]` for one of a set, `[!a-z]` for one
    /// outside it; a backslash takes the next character as it is. Returns false, and changes nothing, where
    /// the machine cannot match it (alternatives in braces, slashes, `**`, sets beyond ASCII, too many
    /// positions), or where it is not a pattern.
    #[must_use]
    pub fn and(&mut self, pattern: &str, ignore_case: bool) -> bool {
        let Some(parts) = parts(pattern, ignore_case) else { return false };
        let positions = 1 + parts.iter().filter(|part| matches!(part, PatternPart::One(_))).count() as u32;
        if self.states + positions > u64::BITS {
            return false;
        }
        let mut state = 1u64 << self.states;
        self.start |= state;
        for part in &parts {
            match part {
                PatternPart::Star => self.stays |= state,
                PatternPart::One(bytes) => {
                    let leads = self.leads.iter_mut().zip(bytes.iter());
                    leads.filter(|(_, holds)| **holds).for_each(|(leads, _)| *leads |= state);
                    state <<= 1;
                }
            }
        }
        self.end |= state;
        self.states += positions;
        true
    }

    /// Tells whether all patterns match a name.
    pub fn matches(&self, name: &[u8]) -> bool {
        let step =
            |states: u64, byte: &u8| (states & self.leads[usize::from(*byte)]) << 1 | (states & self.stays);
        name.iter().fold(self.start, step) & self.end == self.end
    }
}

fn parts(pattern: &str, ignore_case: bool) -> Option<Vec<PatternPart>> {
    let mut parts = Vec::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        let part = match c {
            '*' if chars.peek() == Some(&'*') => return None,
            '*' => PatternPart::Star,
            '?' => PatternPart::One(Box::new([true; 256])),
            '[' => PatternPart::One(set(&mut chars, ignore_case)?),
            '{' | '}' | '/' => return None,
            c => {
                let c = if c == '\\' { chars.next()? } else { c };
                let mut text = [0; 4];
                for byte in c.encode_utf8(&mut text).bytes() {
                    parts.push(PatternPart::One(either_case(ignore_case, |other| other == byte)));
                }
                continue;
            }
        };
        parts.push(part);
    }
    Some(parts)
}

/// Parses a set, after its bracket.
fn set(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, ignore_case: bool) -> Option<Box<[bool; 256]>> {
    let is_negated = chars.next_if(|c| matches!(c, '!' | '^')).is_some();
    let mut ranges: Vec<(char, char)> = Vec::new();
    let mut is_range = false;
    loop {
        let c = chars.next().filter(char::is_ascii)?;
        match (c, ranges.last_mut()) {
            // A character that ends a set, or makes a range, stands for itself at the beginning.
            (']', Some(_)) => break,
            ('-', Some(_)) if !is_range => {
                is_range = true;
                continue;
            }
            (c, Some(last)) if is_range => {
                last.1 = c;
                if last.1 < last.0 {
                    return None;
                }
            }
            (c, _) => ranges.push((c, c)),
        }
        is_range = false;
    }
    if is_range {
        ranges.push(('-', '-'));
    }
    let is_in = |byte: u8| ranges.iter().any(|(low, high)| (*low..=*high).contains(&char::from(byte)));
    let mut bytes = either_case(ignore_case, is_in);
    if is_negated {
        bytes.iter_mut().for_each(|holds| *holds = !*holds);
    }
    Some(bytes)
}

/// Returns the bytes for which a condition holds, in either case of letters if wanted.
fn either_case(ignore_case: bool, holds: impl Fn(u8) -> bool) -> Box<[bool; 256]> {
    let mut bytes = Box::new([false; 256]);
    for (byte, is_in) in (0..=255u8).zip(bytes.iter_mut()) {
        *is_in = holds(byte)
            || ignore_case && (holds(byte.to_ascii_lowercase()) || holds(byte.to_ascii_uppercase()));
    }
    bytes
}

/// Conditions of a search; an entry must fulfil all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The name.
    pub names: Names,
    /// Types; none: any.
    pub kinds: Vec<FileKind>,
    /// Size in bytes, as [`Attr::size`].
    pub size: RangeInclusive<u64>,
    /// Time of the last change of content.
    pub mtime: RangeInclusive<i64>,
}

impl Default for Filter {
    /// All entries.
    fn default() -> Self {
        Filter { names: Names::default(), kinds: Vec::new(), size: 0..=u64::MAX, mtime: i64::MIN..=i64::MAX }
    }
}

impl Filter {
    /// Tells whether a condition needs the inode.
    pub(crate) fn asks_for_attributes(&self) -> bool {
        let any = Filter::default();
        self.size != any.size || self.mtime != any.mtime
    }

    /// Tells whether name and type fulfil the conditions.
    pub(crate) fn by_name(&self, kind: FileKind, name: &[u8]) -> bool {
        self.mask() >> kind as u32 & 1 != 0 && self.names.matches(name)
    }

    /// Tells whether the attributes fulfil the conditions.
    pub(crate) fn by_attributes(&self, attr: &Attr) -> bool {
        let Time(mtime) = attr.mtime;
        self.size.contains(&attr.size) && self.mtime.contains(&mtime)
    }

    /// Returns a bit for each type.
    fn mask(&self) -> u32 {
        if self.kinds.is_empty() {
            u32::MAX
        } else {
            self.kinds.iter().fold(0, |mask, kind| mask | 1 << *kind as u32)
        }
    }

    /// Returns the program for the kernel. With `directories` the search gives all of them.
    pub(crate) fn program(&self, directories: bool) -> FilterProgram {
        let turned = |time: &i64| (*time as u64) ^ 1 << 63;
        let attributes = if self.asks_for_attributes() { WANTS_ATTRIBUTES } else { 0 };
        FilterProgram {
            start: self.names.start,
            stays: self.names.stays,
            end: self.names.end,
            size_min: *self.size.start(),
            size_max: *self.size.end(),
            time_min: turned(self.mtime.start()),
            time_max: turned(self.mtime.end()),
            kinds: self.mask(),
            wants: attributes | if directories { WANTS_DIRECTORIES } else { 0 },
            leads: *self.names.leads,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pattern: &str, ignore_case: bool) -> Names {
        let mut names = Names::default();
        assert!(names.and(pattern, ignore_case), "{pattern}");
        names
    }

    #[test]
    fn patterns_match_as_they_say() {
        for (pattern, yes, no) in [
            ("*.jpg", &b"\xff\n.jpg"[..], &b"a.jpgx"[..]),
            ("a*b*c", b"abxbbc", b"acb"),
            ("a?c", b"a\x80c", b"ac"),
            ("[a-c]x", b"bx", b"dx"),
            ("[!a-c]x", b"dx", b"bx"),
            ("[]-]", b"-", b"a"),
            (r"\*", b"*", b"x"),
            ("\u{e9}?", b"\xc3\xa9x", b"\xc3\xa9"),
            ("", b"", b"a"),
        ] {
            assert!(names(pattern, false).matches(yes) && !names(pattern, false).matches(no), "{pattern}");
        }
        assert!(names("A[b]", true).matches(b"aB") && !names("A[b]", false).matches(b"aB"));
        assert!(!names("[!a]", true).matches(b"A"));
    }

    #[test]
    fn several_patterns_must_all_match_and_what_does_not_fit_changes_nothing() {
        let mut both = names("a*", false);
        assert!(both.and("*z", false));
        assert!(both.matches(b"abz") && !both.matches(b"ab") && !both.matches(b"z"));
        let before = both.clone();
        for no in ["{a,b}", "**", "a/b", "[", "[b-a]", "[\u{e9}]", "\\", &"x".repeat(64)] {
            assert!(!both.and(no, false), "{no}");
        }
        assert_eq!(both, before);
        assert!(names(&"x".repeat(63), false).matches(&[b'x'; 63]));
    }
}
