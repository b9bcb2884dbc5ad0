//! The paths of a batch, in either form.

use lanefs::{NamesUnder, PathSet, Paths, ResolveOptions, Rows, Volume};
use std::ops::Range;

/// The paths of a batch: whole, or as names under directories.
#[derive(Clone, Copy)]
pub(crate) enum Asked<'p> {
    Paths(Paths<'p>),
    Names(NamesUnder<'p>),
}

impl<'p> Asked<'p> {
    pub(crate) fn len(&self) -> usize {
        self.texts().len()
    }

    /// Returns the texts that go to the device: the paths, or the names alone.
    pub(crate) fn texts(&self) -> Paths<'p> {
        match self {
            Asked::Paths(paths) => *paths,
            Asked::Names(names) => names.names(),
        }
    }

    pub(crate) fn slice(&self, range: Range<usize>) -> Asked<'p> {
        match self {
            Asked::Paths(paths) => Asked::Paths(paths.slice(range)),
            Asked::Names(names) => Asked::Names(names.slice(range)),
        }
    }

    /// Has the CPU engine answer those of these indices. Returns the number of paths that name an inode.
    ///
    /// # Errors
    /// An error of the volume.
    pub(crate) fn resolve_some(
        &self,
        volume: &Volume,
        options: &ResolveOptions,
        some: &[usize],
        rows: &mut dyn Rows,
    ) -> lanefs::Result<usize> {
        match self {
            Asked::Names(names) if some.len() == names.len() => volume.resolve_names(options, *names, rows),
            Asked::Paths(paths) => {
                let texts: PathSet = some.iter().map(|index| paths.get(*index).unwrap_or(&[])).collect();
                volume.resolve_rows(options, texts.view(), rows)
            }
            Asked::Names(names) => {
                let (mut texts, mut text) = (PathSet::new(), Vec::new());
                for index in some {
                    text.clear();
                    names.append_path(*index, &mut text);
                    texts.push(&text);
                }
                volume.resolve_rows(options, texts.view(), rows)
            }
        }
    }
}

impl<'p> From<Paths<'p>> for Asked<'p> {
    fn from(paths: Paths<'p>) -> Self {
        Asked::Paths(paths)
    }
}
