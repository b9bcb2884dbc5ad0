//! Names of the rows, and which of them are asked for.

use crate::workload::Sizes;
use crate::{Error, Result};
use globset::{Glob, GlobMatcher};

/// Every row of a run with these sizes, in the order measured.
pub fn row_names(sizes: &Sizes) -> Vec<String> {
    let mut names: Vec<String> =
        ["resolve-random-1t", "resolve-random-2t", "resolve-absent-1t"].map(Into::into).into();
    names.extend(sizes.wide_steps().into_iter().map(wide_name));
    names.extend(
        ["create-flat", "unlink-flat", "bytes-per-file", "chain-create", "chain-lookup"].map(Into::into),
    );
    names.extend(["wide-mkdir", "wide-lookup", "readdir-stat", "import-tree"].map(Into::into));
    names
}

/// The row of lookups in a directory of `entries` entries.
pub(super) fn wide_name(entries: usize) -> String {
    format!("lookup-wide-{entries}")
}

/// The rows asked for.
pub(super) struct Selection(Option<GlobMatcher>);

impl Selection {
    /// From the argument; fails where it is no pattern, or no row of these sizes matches it.
    pub(super) fn new(pattern: Option<&str>, sizes: &Sizes) -> Result<Self> {
        let Some(pattern) = pattern else { return Ok(Selection(None)) };
        let glob = Glob::new(pattern).map_err(|e| Error::Arguments(format!("--rows: {e}")))?;
        let selection = Selection(Some(glob.compile_matcher()));
        let names = row_names(sizes);
        if names.iter().any(|name| selection.has(name)) {
            return Ok(selection);
        }
        Err(Error::Arguments(format!("--rows {pattern} matches no row; the rows are: {}", names.join(" "))))
    }

    pub(super) fn has(&self, row: &str) -> bool {
        self.0.as_ref().is_none_or(|glob| glob.is_match(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_choose_rows() {
        let chosen = |pattern| {
            let selection = Selection::new(pattern, &Sizes::QUICK).unwrap();
            row_names(&Sizes::QUICK).into_iter().filter(|name| selection.has(name)).count()
        };
        assert_eq!(chosen(None), row_names(&Sizes::QUICK).len());
        assert_eq!(chosen(Some("lookup-wide-*")), 6);
        assert_eq!(chosen(Some("{create,unlink}-flat")), 2);
        assert_eq!(chosen(Some("import-tree")), 1);
    }

    #[test]
    fn a_pattern_without_a_row_lists_them_all() {
        let refused = Selection::new(Some("nothing"), &Sizes::QUICK).map(drop).unwrap_err();
        assert!(refused.to_string().contains("bytes-per-file"), "{refused}");
        assert_eq!(refused.exit_code(), 2);
        assert!(Selection::new(Some("a{"), &Sizes::QUICK).is_err());
    }

    #[test]
    fn the_documentation_names_every_row() {
        let text = include_str!("../../../../docs/benchmarks.md");
        for name in row_names(&Sizes::FULL) {
            let name = if name.starts_with("lookup-wide-") { "lookup-wide-N".into() } else { name };
            assert!(text.contains(&format!("`{name}`")), "docs/benchmarks.md does not name {name}");
        }
    }
}
