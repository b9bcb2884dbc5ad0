//! Queries in fzf's syntax.

use nucleo_matcher::chars::{is_upper_case, normalize, to_lower_case};

/// Most characters of a query.
pub const MAX_QUERY_CHARS: usize = 400;

/// Part of a path that a term matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The characters of the term, in their order, with any others between them.
    Fuzzy,
    /// A part of the path.
    Part,
    /// The beginning.
    Prefix,
    /// The end.
    Suffix,
    /// All of the path.
    Equal,
}

/// A term of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) kind: Kind,
    /// It matches the other paths.
    pub(super) is_inverse: bool,
    /// In lower case where case does not matter.
    pub(super) text: Vec<char>,
    /// The same as bytes, if it is ASCII.
    pub(super) ascii: Option<Vec<u8>>,
    pub(super) ignores_case: bool,
    /// It matches letters with accents that it has not.
    pub(super) normalizes: bool,
}

/// A query: terms that spaces separate. A path must match all of them; of terms with `|` between them, one.
///
/// `abc` matches the three letters in this order, `'abc` the word, `^abc` the beginning, `abc$` the end, and
/// `!abc` all paths without the word. A backslash before a space makes it part of the term. A term without
/// capitals ignores case, one without accents ignores them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub(super) groups: Vec<Vec<Term>>,
}

impl Query {
    /// Parses a query. Characters after the first [`MAX_QUERY_CHARS`] are left out.
    pub fn parse(text: &str) -> Query {
        let text: Vec<char> = text.chars().take(MAX_QUERY_CHARS).collect();
        let mut groups: Vec<Vec<Term>> = Vec::new();
        let mut continues = false;
        for word in words(&text) {
            if word == ['|'] && !continues && !groups.is_empty() {
                continues = true;
                continue;
            }
            let Some(term) = Term::parse(&word) else { continue };
            match groups.last_mut() {
                Some(group) if continues => group.push(term),
                _ => groups.push(vec![term]),
            }
            continues = false;
        }
        Query { groups }
    }

    /// True if every path matches, without a score.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// True if each path that matches this query also matches `former`.
    pub(super) fn narrows(&self, former: &Query) -> bool {
        let covers = |old: &Vec<Term>| {
            self.groups
                .iter()
                .any(|new| new == old || matches!((&old[..], &new[..]), ([old], [new]) if new.implies(old)))
        };
        former.groups.iter().all(covers)
    }
}

/// Words between spaces that no backslash precedes.
fn words(text: &[char]) -> Vec<Vec<char>> {
    let mut words = vec![Vec::new()];
    let mut chars = text.iter().peekable();
    while let Some(c) = chars.next() {
        let last = words.len() - 1;
        match c {
            '\\' if chars.next_if(|next| **next == ' ').is_some() => words[last].push(' '),
            ' ' => words.push(Vec::new()),
            c => words[last].push(*c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

impl Term {
    fn parse(mut word: &[char]) -> Option<Term> {
        let ignores_case = !word.iter().any(|c| is_upper_case(*c));
        let mut kind = Kind::Fuzzy;
        let is_inverse = word.first() == Some(&'!');
        if is_inverse {
            kind = Kind::Part;
            word = &word[1..];
        }
        if let [rest @ .., '$'] = word
            && !rest.is_empty()
        {
            kind = Kind::Suffix;
            word = rest;
        }
        match word {
            ['\'', rest @ ..] => {
                kind = if is_inverse { Kind::Fuzzy } else { Kind::Part };
                word = rest;
            }
            ['^', rest @ ..] => {
                kind = if kind == Kind::Suffix { Kind::Equal } else { Kind::Prefix };
                word = rest;
            }
            _ => {}
        }
        let text: Vec<char> = word.to_vec();
        let normalizes = text.iter().all(|c| normalize(*c) == *c);
        let ascii = text.iter().map(|c| u8::try_from(*c).ok().filter(u8::is_ascii)).collect();
        (!text.is_empty()).then_some(Term { kind, is_inverse, text, ascii, ignores_case, normalizes })
    }

    /// The letters of a fuzzy term that is not inverse, if they are ASCII.
    pub(super) fn letters(&self) -> Option<&[u8]> {
        let is_fuzzy = self.kind == Kind::Fuzzy && !self.is_inverse;
        self.ascii.as_deref().filter(|_| is_fuzzy)
    }

    /// A character of a path as the term compares it.
    pub(super) fn fold(&self, mut c: char) -> char {
        if self.normalizes {
            c = normalize(c);
        }
        if self.ignores_case { to_lower_case(c) } else { c }
    }

    /// True if a path that matches this term also matches `old`.
    fn implies(&self, old: &Term) -> bool {
        if self.is_inverse || old.is_inverse {
            return self == old;
        }
        // A term that became stricter about case or accents still has the same letters.
        let is_as_strict = (old.ignores_case || !self.ignores_case) && (old.normalizes || !self.normalizes);
        let old_text: Vec<char> = old.text.clone();
        let new_text: Vec<char> = self.text.iter().map(|c| old.fold(*c)).collect();
        let has = match (old.kind, self.kind) {
            (Kind::Fuzzy, _) => is_subsequence(&old_text, &new_text),
            (Kind::Part, kind) if kind != Kind::Fuzzy => {
                new_text.windows(old_text.len()).any(|part| part == old_text)
            }
            // The same first or last character: white space around the path counts in both or in none.
            (Kind::Prefix, Kind::Prefix) => new_text.starts_with(&old_text),
            (Kind::Suffix, Kind::Suffix) => new_text.ends_with(&old_text),
            _ => false,
        };
        self == old || is_as_strict && has
    }
}

fn is_subsequence(part: &[char], whole: &[char]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|c| whole.any(|other| other == c))
}
