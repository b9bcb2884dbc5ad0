//! The paths of a batch, in either form.

use super::prefixes::start_of;
use crate::names::resolve::Start;
use crate::vocabulary::name_set::NamesUnder;
use crate::vocabulary::path_set::Paths;
use std::ops::Range;

/// The paths of a batch, or of a part of one.
#[derive(Clone, Copy)]
pub(super) enum Asked<'p> {
    Paths(Paths<'p>),
    Names(NamesUnder<'p>),
}

impl<'p> Asked<'p> {
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        match self {
            Asked::Paths(paths) => paths.len(),
            Asked::Names(names) => names.len(),
        }
    }

    #[inline(always)]
    pub(super) fn slice(&self, range: Range<usize>) -> Asked<'p> {
        match self {
            Asked::Paths(paths) => Asked::Paths(paths.slice(range)),
            Asked::Names(names) => Asked::Names(names.slice(range)),
        }
    }

    /// Returns a whole path. That of a name is put together in `buffer`.
    pub(super) fn path<'b>(&self, index: usize, buffer: &'b mut Vec<u8>) -> &'b [u8]
    where
        'p: 'b,
    {
        match self {
            Asked::Paths(paths) => paths.get(index).unwrap_or(&[]),
            Asked::Names(names) => {
                buffer.clear();
                names.append_path(index, buffer);
                buffer
            }
        }
    }

    /// Returns the directory in which a path without a prefix starts.
    #[inline(always)]
    pub(super) fn start_of(&self, start: &Start<'_>, index: usize) -> u64 {
        match self {
            Asked::Paths(paths) => start_of(start, paths.get(index).unwrap_or(&[])),
            // Each name has a prefix.
            Asked::Names(_) => start.base,
        }
    }
}
