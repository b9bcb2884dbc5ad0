//! Rules that leave names out, in the form of gitignore(5).

use crate::vocabulary::error::{Error, Result};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Names that a sync or a comparison leaves out, on both sides: it neither copies nor removes them. The rules
/// are those of gitignore(5), from the top of the tree; the last one that matches a name decides, and of a
/// directory that is left out nothing is compared.
#[derive(Clone)]
pub struct Filter(Gitignore);

impl Default for Filter {
    /// Leaves out nothing.
    fn default() -> Self {
        Filter(Gitignore::empty())
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Filter({} rules)", self.0.len())
    }
}

impl Filter {
    /// Makes a filter of lines as a `.gitignore` has them.
    ///
    /// # Errors
    /// [`Error::Usage`] names a line that is not a pattern, such as `[` without its `]`: git takes that for
    /// one that matches nothing.
    pub fn new<'l>(lines: impl IntoIterator<Item = &'l str>) -> Result<Self> {
        let mut builder = GitignoreBuilder::new("/");
        builder.allow_unclosed_class(false);
        for line in lines {
            let added = builder.add_line(None, line).map(drop);
            added.map_err(|error| {
                // The error may name the pattern once more.
                let why = match &error {
                    ignore::Error::Glob { err, .. } => err.clone(),
                    error => error.to_string(),
                };
                Error::Usage(format!("'{}' is not a pattern: {why}", line.escape_debug()))
            })?;
        }
        builder
            .build()
            .map(Filter)
            .map_err(|error| Error::Usage(format!("the patterns are too many: {error}")))
    }

    /// True for an empty line and a comment, which are not rules.
    #[must_use]
    pub fn is_no_rule(line: &str) -> bool {
        line.starts_with('#') || line.trim().is_empty()
    }

    /// True where there are no rules.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True for a path, below the top, that is left out.
    pub(super) fn leaves_out(&self, path: &[u8], is_dir: bool) -> bool {
        self.0.matched(Path::new(OsStr::from_bytes(path)), is_dir).is_ignore()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_those_of_gitignore() {
        let filter = Filter::new(["*.o", "!keep.o", "/top", "build/", "# no rule"]).unwrap();
        for (path, is_dir, is_out) in [
            (&b"a.o"[..], false, true),
            (b"d/a.o", false, true),
            (b"d/keep.o", false, false),
            (b"top", false, true),
            (b"d/top", false, false),
            (b"d/build", true, true),
            (b"d/build", false, false),
            (b"\xff.o", false, true),
        ] {
            assert_eq!(filter.leaves_out(path, is_dir), is_out, "{path:?}");
        }
        assert!(Filter::default().is_empty() && !Filter::default().leaves_out(b"a", false));
    }

    #[test]
    fn a_line_that_is_not_a_pattern_is_named() {
        for line in ["[", "a[b", "d/[!x", "a[z-a]", "x\\", "{a,b", "![", "b}"] {
            let error = Filter::new(["*.o", line]).unwrap_err().to_string();
            let named = format!("'{}' is not a pattern: ", line.escape_debug());
            assert!(error.starts_with(&named), "{error}");
        }
        for (line, path) in [("\\[", &b"["[..]), ("[[]", b"["), ("a]", b"a]"), ("[]]", b"]"), ("\\#a", b"#a")]
        {
            assert!(Filter::new([line]).unwrap().leaves_out(path, false), "{line}");
        }
    }
}
