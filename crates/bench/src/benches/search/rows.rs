//! The rows: what is searched for, and what is in memory before.

/// A row in which lines are found.
#[derive(Clone, Copy, Debug)]
pub(super) struct GrepWork {
    pub(super) name: &'static str,
    pub(super) pattern: &'static str,
    /// Nothing is in memory before each run.
    pub(super) is_cold: bool,
    /// Times as fast as ripgrep.
    pub(super) goal: f64,
}

/// The text of the rows with a literal, and the pattern with five alternatives. Some files of a hundred have
/// a line with it.
pub(super) const LITERAL: &str = "lock_ordering_violated";
pub(super) const ALTERNATIVES: &str = "(read|write|open|close|flush)_[a-z]+_refused";

pub(super) const GREP: [GrepWork; 4] = [
    GrepWork { name: "grep-literal-warm", pattern: LITERAL, is_cold: false, goal: 1.5 },
    GrepWork { name: "grep-regex-warm", pattern: ALTERNATIVES, is_cold: false, goal: 1.3 },
    GrepWork { name: "grep-literal-cold", pattern: LITERAL, is_cold: true, goal: 3.0 },
    GrepWork { name: "grep-regex-cold", pattern: ALTERNATIVES, is_cold: true, goal: 3.0 },
];

/// The row in which equal files are found, and the goal beside fclones.
pub(super) const DUPLICATES: &str = "dups-warm";
pub(super) const DUPLICATES_GOAL: f64 = 1.5;

/// The row in which names are found, and the goal beside nucleo.
pub(super) const FUZZY: &str = "fuzzy-keys";
pub(super) const FUZZY_GOAL: f64 = 1.0;

/// Lists the rows of files, in the order measured.
pub(super) fn file_rows() -> Vec<String> {
    GREP.iter().map(|work| work.name).chain([DUPLICATES]).map(String::from).collect()
}

/// Lists every row, in the order measured.
pub fn row_names() -> Vec<String> {
    file_rows().into_iter().chain([FUZZY.to_string()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::documented::assert_documented;

    #[test]
    fn the_documentation_names_every_row() {
        assert_documented(row_names());
    }
}
