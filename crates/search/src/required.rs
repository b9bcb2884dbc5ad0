//! Parts that each match of a query has: sequences of sets of bytes, which a device finds faster than lines
//! that match. A text without any of them has no line that matches.

use crate::query::{Case, QueryOptions};
use regex_syntax::hir::{Class, ClassUnicode, Hir, HirKind, Repetition};
use regex_syntax::utf8::Utf8Sequences;

/// A step of a [`Sequence`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// A bit for each byte that it takes: byte `b` is bit `b % 64` of word `b / 64`. Never that of `\n`.
    pub bytes: [u64; 4],
    /// It may be left out.
    pub is_optional: bool,
    /// It may come several times in a row.
    pub is_repeated: bool,
}

/// Steps that follow one another. The first and the last one come once.
pub type Sequence = Vec<Step>;

/// Sequences at most, and alternatives at most inside a pattern.
const MAX_ALTERNATIVES: usize = 64;
/// Steps of an alternative that are looked at.
const MAX_STEPS: usize = 256;
/// Copies of an optional step that are kept apart; from more on it counts as one that is repeated.
const MAX_OPTIONAL: u32 = 4;
/// A text of random bytes has a sequence at a position with a probability of 2 to the minus this, at most.
const MIN_BITS: f64 = 10.0;

/// An alternative of a pattern: steps, and `None` for anything.
type Alternative = Vec<Option<Step>>;

impl QueryOptions {
    /// Returns sequences, of at most `longest` steps each, of which each matching line has one. `None` for a
    /// query without such sequences, or with such as nearly every text has.
    pub fn required(&self, longest: usize) -> Option<Vec<Sequence>> {
        // As in ripgrep, the patterns are one, so regard to case is decided for all of them.
        let pattern = |pattern: &String| match self.is_fixed {
            true => format!("(?:{})", regex_syntax::escape(pattern)),
            false => format!("(?:{pattern})"),
        };
        let pattern = self.patterns.iter().map(pattern).collect::<Vec<_>>().join("|");
        if self.inverts || self.patterns.is_empty() {
            return None;
        }
        let regards = match self.case {
            Case::Sensitive => &[false][..],
            Case::Insensitive => &[true],
            // Either way, whatever the pattern has.
            Case::Smart => &[false, true],
        };
        let mut sequences = Vec::new();
        for is_insensitive in regards {
            let mut parser = regex_syntax::ParserBuilder::new();
            parser.utf8(false).multi_line(true).unicode(true).octal(false).case_insensitive(*is_insensitive);
            for alternative in alternatives(&parser.build().parse(&pattern).ok()?) {
                let sequence = best(&alternative, longest)?;
                if !sequences.contains(&sequence) {
                    sequences.push(sequence);
                }
            }
        }
        Some(sequences)
    }
}

/// Returns alternatives that have every match between them.
fn alternatives(hir: &Hir) -> Vec<Alternative> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => vec![Vec::new()],
        HirKind::Literal(literal) => {
            let step = |byte: &u8| Some(Step::of(std::iter::once(*byte)));
            vec![cut(literal.0.iter().map(step).collect())]
        }
        HirKind::Class(Class::Bytes(class)) => {
            let bytes = class.ranges().iter().flat_map(|range| range.start()..=range.end());
            vec![vec![Some(Step::of(bytes))]]
        }
        HirKind::Class(Class::Unicode(class)) => vec![of_characters(class)],
        HirKind::Repetition(repetition) => repeated(repetition),
        HirKind::Capture(capture) => alternatives(&capture.sub),
        HirKind::Concat(parts) => {
            parts.iter().fold(vec![Vec::new()], |before, part| joined(before, alternatives(part)))
        }
        HirKind::Alternation(parts) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(alternatives(part));
                if all.len() > MAX_ALTERNATIVES {
                    return vec![vec![any_of(&all)]];
                }
            }
            all
        }
    }
}

/// Returns the steps of a class of characters: the bytes that a character may have at each position.
fn of_characters(class: &ClassUnicode) -> Alternative {
    let mut positions = [[0u64; 4]; 4];
    let (mut shortest, mut longest) = (4, 0);
    for range in class.ranges() {
        for sequence in Utf8Sequences::new(range.start(), range.end()) {
            for (position, range) in positions.iter_mut().zip(sequence.as_slice()) {
                (range.start..=range.end).for_each(|byte| insert(position, byte));
            }
            shortest = shortest.min(sequence.len());
            longest = longest.max(sequence.len());
        }
    }
    let step = |(i, bytes): (usize, &[u64; 4])| {
        Some(Step { bytes: *bytes, is_optional: i >= shortest, is_repeated: false })
    };
    // A class without characters has none in the first position.
    positions.iter().take(longest.max(1)).enumerate().map(step).collect()
}

fn repeated(repetition: &Repetition) -> Vec<Alternative> {
    let part = alternatives(&repetition.sub);
    let single = match &part[..] {
        [one] if one.len() == 1 => one[0],
        _ => None,
    };
    let mut all = vec![Vec::new()];
    for _ in 0..repetition.min.min(MAX_STEPS as u32) {
        all = joined(all, part.clone());
    }
    let more = repetition.max.map(|max| max.saturating_sub(repetition.min));
    match (single, more) {
        // Not all copies are there.
        _ if repetition.min > MAX_STEPS as u32 => joined(all, vec![vec![any_of(&part)]]),
        (_, Some(0)) => all,
        (Some(step), Some(more)) if more <= MAX_OPTIONAL => {
            let optional = Some(Step { is_optional: true, ..step });
            joined(all, vec![vec![optional; more as usize]])
        }
        // The last copy itself is repeated.
        (Some(step), None) if (1..=MAX_STEPS as u32 / 2).contains(&repetition.min) => {
            all[0].pop();
            joined(all, vec![vec![Some(Step { is_repeated: true, ..step })]])
        }
        _ => joined(all, vec![vec![any_of(&part)]]),
    }
}

/// Returns each alternative of one list with each of another after it.
fn joined(mut before: Vec<Alternative>, mut behind: Vec<Alternative>) -> Vec<Alternative> {
    if before.len() * behind.len() > MAX_ALTERNATIVES {
        let more = if before.len() > behind.len() { &mut before } else { &mut behind };
        *more = vec![vec![any_of(more)]];
    }
    let with = |one: &Alternative| {
        let one = one.clone();
        move |other: &Alternative| cut(one.iter().chain(other).copied().collect())
    };
    before.iter().flat_map(|one| behind.iter().map(with(one)).collect::<Vec<_>>()).collect()
}

/// Returns a step that takes any number of any of the alternatives, and `None` where one has anything.
fn any_of(alternatives: &[Alternative]) -> Option<Step> {
    let mut bytes = [0; 4];
    for step in alternatives.iter().flatten() {
        bytes.iter_mut().zip((*step)?.bytes).for_each(|(word, other)| *word |= other);
    }
    Some(Step { bytes, is_optional: true, is_repeated: true })
}

/// Leaves out what is too long, for anything.
fn cut(mut alternative: Alternative) -> Alternative {
    if alternative.len() > MAX_STEPS {
        alternative.truncate(MAX_STEPS);
        alternative.push(None);
    }
    alternative
}

/// Returns the part of an alternative, of at most `longest` steps, that the fewest texts have.
fn best(alternative: &Alternative, longest: usize) -> Option<Sequence> {
    let mut best = (MIN_BITS, None);
    for part in alternative.split(Option::is_none) {
        let part: Sequence = part.iter().copied().flatten().collect();
        for first in 0..=part.len().saturating_sub(longest) {
            let some = trimmed(&part[first..part.len().min(first + longest)]);
            let bits = some.iter().map(Step::bits).sum();
            if bits >= best.0 && best.1.as_ref().is_none_or(|_| bits > best.0) {
                best = (bits, Some(some.to_vec()));
            }
        }
    }
    let mut sequence: Sequence = best.1?;
    // More of what comes first and last does not matter.
    sequence.first_mut()?.is_repeated = false;
    sequence.last_mut()?.is_repeated = false;
    Some(sequence)
}

/// Leaves out optional steps at both ends.
fn trimmed(steps: &[Step]) -> &[Step] {
    let is_there = |step: &Step| !step.is_optional;
    let first = steps.iter().position(is_there).unwrap_or(steps.len());
    let end = steps.iter().rposition(is_there).map_or(first, |last| last + 1);
    &steps[first..end]
}

impl Step {
    fn of(bytes: impl Iterator<Item = u8>) -> Self {
        let mut set = [0; 4];
        bytes.for_each(|byte| insert(&mut set, byte));
        Step { bytes: set, is_optional: false, is_repeated: false }
    }

    /// Information in the step: the binary logarithm of one by its probability.
    fn bits(&self) -> f64 {
        let count: u32 = self.bytes.iter().map(|word| word.count_ones()).sum();
        if self.is_optional { 0.0 } else { 8.0 - f64::from(count.max(1)).log2() }
    }
}

/// Adds a byte, unless it ends a line: no match goes beyond a line.
fn insert(set: &mut [u64; 4], byte: u8) {
    if byte != b'\n' {
        set[usize::from(byte / 64)] |= 1 << (byte % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(pattern: &str) -> QueryOptions {
        QueryOptions { patterns: vec![pattern.into()], ..QueryOptions::default() }
    }

    /// The sequences as text: `.` for a set of more than four bytes, `?`, `+` and `*` after steps.
    fn shown(query: &QueryOptions, longest: usize) -> Option<Vec<String>> {
        let step = |step: &Step| {
            let bytes: Vec<u8> =
                (0..=255).filter(|byte| step.bytes[usize::from(byte / 64)] >> (byte % 64) & 1 != 0).collect();
            let set = match &bytes[..] {
                [one] => one.escape_ascii().to_string(),
                few if few.len() <= 4 => format!("[{}]", few.escape_ascii()),
                _ => ".".into(),
            };
            set + ["", "+", "?", "*"][usize::from(step.is_repeated) + 2 * usize::from(step.is_optional)]
        };
        let sequences = query.required(longest)?;
        Some(sequences.iter().map(|sequence| sequence.iter().map(step).collect()).collect())
    }

    #[test]
    fn each_pattern_has_the_sequences_that_it_requires() {
        for (pattern, expected) in [
            ("word", &["word"][..]),
            ("^two|w[io]n$", &["two", "w[io]n"]),
            ("ab?c*d+e", &["ab?c*d+e"]),
            ("x?ab+", &["ab"]),
            (r"\bfn\s+name", &["fn..?.?.*name"]),
            ("a{3}b{2,4}c{1,9}d", &["aaabbb?b?cc*d"]),
            ("(?i)ab", &["[Aa][Bb]"]),
            ("(one|two)three", &["onethree", "twothree"]),
            ("a(xy)*b", &["a[xy]*b"]),
            ("\u{e9}\u{e8}", &[r"\xc3\xa9\xc3\xa8"]),
            ("a.b", &["a..?.?.?b"]),
        ] {
            let found = shown(&query(pattern), 64).unwrap_or_else(|| panic!("{pattern} has none"));
            assert_eq!(found, expected, "{pattern}");
        }
        assert_eq!(shown(&query("abc[0-9]*defgh"), 4), Some(vec!["defg".into()]));
    }

    #[test]
    fn queries_without_a_sequence_of_their_own_have_none() {
        for pattern in ["", "a", "[a-z]+", "a*", "word|", r"\w+", ".*"] {
            assert_eq!(query(pattern).required(64), None, "{pattern}");
        }
        assert_eq!(QueryOptions { inverts: true, ..query("word") }.required(64), None);
        assert_eq!(QueryOptions::default().required(64), None);
        // As many words as there are, their letters are all that is left.
        let words: Vec<String> = (0..1000).map(|number| format!("word{number}")).collect();
        assert_eq!(QueryOptions { patterns: words, ..QueryOptions::default() }.required(64), None);
    }

    #[test]
    fn options_count() {
        let fixed = QueryOptions { is_fixed: true, ..query("a.b*") };
        assert_eq!(shown(&fixed, 64), Some(vec![r"a.b*".into()]));
        let smart = QueryOptions { case: Case::Smart, ..query("A[^b]c") };
        let found = smart.required(64).expect("some");
        assert_eq!(found.len(), 2, "with regard to case, and without");
        let long = QueryOptions { patterns: vec!["a{900}".into(), "(ab){400}".into()], ..query("") };
        assert_eq!(long.required(64).expect("some").iter().map(Vec::len).collect::<Vec<_>>(), [64, 64]);
    }
}
