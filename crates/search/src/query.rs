//! The pattern of a search, and the lines that it finds.

use crate::error::{Error, MAX_LINE_BYTES, Result};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};

/// Regard to case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Case {
    /// `a` is not `A`.
    #[default]
    Sensitive,
    /// `a` is `A`.
    Insensitive,
    /// As insensitive, unless a pattern has a character in upper case.
    Smart,
}

/// Treatment of files with NUL bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binary {
    /// The search in a file ends at the first NUL byte. In a file that the caller named it goes on, and tells
    /// that the file matches rather than its lines.
    #[default]
    Detect,
    /// All files are text.
    Text,
}

/// Patterns of a search, and how they match.
#[derive(Clone, Debug, Default)]
pub struct QueryOptions {
    /// Patterns: regular expressions of the crate `regex`. A line matches that has one of them.
    pub patterns: Vec<String>,
    /// The patterns are literal text.
    pub is_fixed: bool,
    /// Regard to case.
    pub case: Case,
    /// A match has word boundaries at its ends.
    pub words: bool,
    /// A match is a whole line, whatever `words` says.
    pub lines: bool,
    /// Lines without a match are found.
    pub inverts: bool,
    /// Treatment of files with NUL bytes.
    pub binary: Binary,
    /// Lines at most that are found in a file.
    pub max_count: Option<u64>,
}

impl QueryOptions {
    /// Makes the engine.
    ///
    /// # Errors
    /// [`Error::Pattern`].
    pub(crate) fn matcher(&self) -> Result<RegexMatcher> {
        let mut builder = RegexMatcherBuilder::new();
        builder
            .multi_line(true)
            .unicode(true)
            .octal(false)
            .fixed_strings(self.is_fixed)
            .case_insensitive(self.case == Case::Insensitive)
            .case_smart(self.case == Case::Smart)
            .word(self.words && !self.lines)
            .whole_line(self.lines)
            .line_terminator(Some(b'\n'));
        builder.build_many(&self.patterns).map_err(|error| Error::Pattern(error.to_string()))
    }

    /// Makes the part that finds lines.
    pub(crate) fn searcher(&self, line_numbers: bool, before: usize, after: usize) -> Searcher {
        SearcherBuilder::new()
            .line_number(line_numbers)
            .invert_match(self.inverts)
            .before_context(before)
            .after_context(after)
            .max_matches(self.max_count)
            .heap_limit(Some(MAX_LINE_BYTES))
            .build()
    }

    /// Treatment of NUL bytes in a file.
    pub(crate) fn binary_detection(&self, is_named: bool) -> BinaryDetection {
        match (self.binary, is_named) {
            (Binary::Text, _) => BinaryDetection::none(),
            (Binary::Detect, false) => BinaryDetection::quit(0),
            (Binary::Detect, true) => BinaryDetection::convert(0),
        }
    }
}
