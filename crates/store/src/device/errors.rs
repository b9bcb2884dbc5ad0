//! Errors of many reads at once.

use std::{fmt, io};

/// The errors of [`read_many`](crate::Device::read_many): at least one, by ascending index of the request.
///
/// Where all reads succeed there is no such value, and nothing is allocated.
#[derive(Debug, Default)]
pub struct ReadErrors {
    errors: Vec<(usize, io::Error)>,
}

impl ReadErrors {
    /// Adds the error of the request at `index`. Each index is added once at most, in any order.
    pub fn add(&mut self, index: usize, error: io::Error) {
        self.errors.push((index, error));
    }

    /// Returns `Ok` where there is no error.
    ///
    /// # Errors
    /// Itself, where there is one.
    pub fn into_result(mut self) -> Result<(), Self> {
        self.errors.sort_unstable_by_key(|(index, _)| *index);
        if self.errors.is_empty() { Ok(()) } else { Err(self) }
    }

    /// Returns the error of the request at `index`, or `None` where that one succeeded.
    pub fn of(&self, index: usize) -> Option<&io::Error> {
        let found = self.errors.binary_search_by_key(&index, |(index, _)| *index).ok()?;
        self.errors.get(found).map(|(_, error)| error)
    }

    /// Returns the failed requests, with their errors.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (usize, &io::Error)> {
        self.errors.iter().map(|(index, error)| (*index, error))
    }
}

impl fmt::Display for ReadErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errors.as_slice() {
            [] => write!(f, "no read failed"),
            [(_, error)] => write!(f, "{error}"),
            [(_, error), ..] => write!(f, "{error} (the first of {} failed reads)", self.errors.len()),
        }
    }
}

impl std::error::Error for ReadErrors {}

/// The error of the first failed request, for callers that need all or nothing.
impl From<ReadErrors> for io::Error {
    fn from(errors: ReadErrors) -> Self {
        match errors.errors.into_iter().next() {
            Some((_, error)) => error,
            None => io::Error::other("no read failed"),
        }
    }
}
