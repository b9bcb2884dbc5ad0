//! The choice of files by type and glob, as ripgrep has it.

use crate::error::{Error, Result};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Options of a [`Selection`].
#[derive(Clone, Debug, Default)]
pub struct SelectionOptions {
    /// Types of files that are searched, such as `rust`; none: all.
    pub types: Vec<String>,
    /// Types of files that are left out.
    pub not_types: Vec<String>,
    /// Globs of files that are searched or, with `!` before them, left out. The last one that matches counts.
    pub globs: Vec<String>,
    /// The same, without regard to case.
    pub case_insensitive_globs: Vec<String>,
}

/// Chooses files by their paths.
pub struct Selection {
    types: Types,
    globs: Override,
}

impl Selection {
    /// Makes a selection.
    ///
    /// # Errors
    /// [`Error::Type`], [`Error::Glob`].
    pub fn new(options: &SelectionOptions) -> Result<Self> {
        let mut types = TypesBuilder::new();
        types.add_defaults();
        for name in &options.types {
            types.select(name);
        }
        for name in &options.not_types {
            types.negate(name);
        }
        let types = types.build().map_err(|error| Error::Type(error.to_string()))?;
        let failed = |error: ignore::Error| Error::Glob(error.to_string());
        let mut globs = OverrideBuilder::new("/");
        for glob in &options.globs {
            globs.add(glob).map_err(failed)?;
        }
        globs.case_insensitive(true).map_err(failed)?;
        for glob in &options.case_insensitive_globs {
            globs.add(glob).map_err(failed)?;
        }
        Ok(Selection { types, globs: globs.build().map_err(failed)? })
    }

    /// True for a directory that may have files of the selection. The path is absolute.
    pub fn enters(&self, path: &[u8]) -> bool {
        !self.globs.matched(as_path(path), true).is_ignore()
    }

    /// True for a file of the selection. The path is absolute.
    pub fn takes(&self, path: &[u8]) -> bool {
        let path = as_path(path);
        match self.globs.matched(path, false) {
            // As in ripgrep: a glob that names a file comes before its type.
            ignore::Match::Whitelist(_) => true,
            ignore::Match::Ignore(_) => false,
            ignore::Match::None => !self.types.matched(path, false).is_ignore(),
        }
    }

    /// The known types with their globs, by name.
    pub fn known_types() -> Vec<(String, Vec<String>)> {
        let mut types = TypesBuilder::new();
        types.add_defaults();
        let known = types.definitions().into_iter();
        known.map(|known| (known.name().to_owned(), known.globs().to_vec())).collect()
    }
}

fn as_path(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(types: &[&str], not_types: &[&str], globs: &[&str], case_insensitive: &[&str]) -> Selection {
        let own = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        let options = SelectionOptions {
            types: own(types),
            not_types: own(not_types),
            globs: own(globs),
            case_insensitive_globs: own(case_insensitive),
        };
        Selection::new(&options).expect("a selection")
    }

    #[test]
    fn types_and_globs_choose_as_in_ripgrep() {
        let all = selection(&[], &[], &[], &[]);
        assert!(all.takes(b"/a/b\xff") && all.enters(b"/.git"));
        let rust = selection(&["rust"], &[], &[], &[]);
        assert!(rust.takes(b"/a/b.rs") && !rust.takes(b"/a/b.c") && rust.enters(b"/a.c"));
        let other = selection(&[], &["rust"], &[], &[]);
        assert!(!other.takes(b"/a/b.rs") && other.takes(b"/a/b.c"));
        let globs = selection(&["rust"], &[], &["*.c", "!x*"], &["*.TXT"]);
        assert!(globs.takes(b"/b.c") && globs.takes(b"/b.txt") && !globs.takes(b"/x.c"));
        assert!(!globs.takes(b"/b.py") && !globs.enters(b"/d/xyz") && globs.enters(b"/d/y"));
        assert!(Selection::known_types().iter().any(|(name, globs)| name == "rust" && globs == &["*.rs"]));
    }

    #[test]
    fn impossible_ones_are_refused() {
        let glob = SelectionOptions { globs: vec!["a[".into()], ..SelectionOptions::default() };
        assert!(matches!(Selection::new(&glob), Err(Error::Glob(_))));
        let none = SelectionOptions { types: vec!["nosuch".into()], ..SelectionOptions::default() };
        assert!(matches!(Selection::new(&none), Err(Error::Type(why)) if why.contains("nosuch")));
    }
}
