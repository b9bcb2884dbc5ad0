//! Which of many reads failed, and why.

use std::{fmt, io};

/// The errors of [`read_many`](crate::Device::read_many): at least one, by ascending index of the request.
///
/// Where all went well there is no such value, and nothing was allocated.
#[derive(Debug, Default)]
pub struct ReadErrors {
    errors: Vec<(usize, io::Error)>,
}

impl ReadErrors {
    /// Notes that the request at `index` failed. Each index is noted once at most, in any order.
    pub fn add(&mut self, index: usize, error: io::Error) {
        self.errors.push((index, error));
    }

    /// `Ok` when nothing was noted.
    ///
    /// # Errors
    /// Itself, when something was.
    pub fn into_result(mut self) -> Result<(), Self> {
        self.errors.sort_unstable_by_key(|(index, _)| *index);
        if self.errors.is_empty() { Ok(()) } else { Err(self) }
    }

    /// The error of the request at `index`, or none when that one went well.
    pub fn of(&self, index: usize) -> Option<&io::Error> {
        let found = self.errors.binary_search_by_key(&index, |(index, _)| *index).ok()?;
        self.errors.get(found).map(|(_, error)| error)
    }

    /// The requests that failed, with their errors.
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
