//! Selection of rows.

use crate::error::{Error, Result};
use globset::{Glob, GlobMatcher};

/// The selected rows.
pub(crate) struct Selection(Option<GlobMatcher>);

impl Selection {
    /// Reads the argument; fails if it is not a pattern, or if no name matches it.
    pub(crate) fn new(pattern: Option<&str>, names: &[String]) -> Result<Self> {
        let Some(pattern) = pattern else { return Ok(Selection(None)) };
        let glob = Glob::new(pattern).map_err(|e| Error::Arguments(format!("--rows: {e}")))?;
        let selection = Selection(Some(glob.compile_matcher()));
        if names.iter().any(|name| selection.has(name)) {
            return Ok(selection);
        }
        Err(Error::Arguments(format!("--rows {pattern} matches no row; the rows are: {}", names.join(" "))))
    }

    pub(crate) fn has(&self, row: &str) -> bool {
        self.0.as_ref().is_none_or(|glob| glob.is_match(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["create-flat", "unlink-flat", "lookup-wide-1", "lookup-wide-10"].map(Into::into).into()
    }

    #[test]
    fn patterns_choose_rows() {
        let chosen = |pattern| {
            let selection = Selection::new(pattern, &names()).unwrap();
            names().into_iter().filter(|name| selection.has(name)).count()
        };
        assert_eq!(chosen(None), 4);
        assert_eq!(chosen(Some("lookup-wide-*")), 2);
        assert_eq!(chosen(Some("{create,unlink}-flat")), 2);
        assert_eq!(chosen(Some("lookup-wide-1")), 1);
    }

    #[test]
    fn a_pattern_without_a_row_lists_them_all() {
        let refused = Selection::new(Some("nothing"), &names()).map(drop).unwrap_err();
        assert!(refused.to_string().contains("unlink-flat"), "{refused}");
        assert_eq!(refused.exit_code(), 2);
        assert!(Selection::new(Some("a{"), &names()).is_err());
    }
}
