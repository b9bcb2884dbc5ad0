//! The rows, and the steps that measure them.

use crate::error::{Error, Result};
use crate::measure::machine::peak_memory;
use std::collections::BTreeMap;
use std::time::Instant;

/// The task of a worker process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Step {
    /// Makes a volume.
    Make,
    /// Opens it, works on it and closes it.
    Use,
    /// Makes files without a name, and ends without closing the volume.
    Leave,
    /// Opens the volume after that.
    Recover,
    /// Checks it.
    Check,
    /// Makes a volume of 1 GiB, which grows.
    Grow,
    /// Entries in one directory.
    Entries,
    /// Hard links of one file.
    Links,
    /// Extended attributes.
    Attributes,
    /// Extents of one file.
    Extents,
    /// Directories, each in the one before.
    Levels,
    /// Open files.
    Handles,
}

/// A row: name, unit, and the step that measures it.
pub(super) type RowOf = (&'static str, &'static str, Step);

/// Rows by the size of the volume.
pub(super) const SIZES: [RowOf; 19] = [
    ("size-mkfs", "ns", Step::Make),
    ("size-mkfs-memory", "bytes", Step::Make),
    ("size-open", "ns", Step::Use),
    ("size-first-create", "ns", Step::Use),
    ("size-create", "ns/file", Step::Use),
    ("size-statfs", "ns", Step::Use),
    ("size-sync-creates", "ns", Step::Use),
    ("size-sync", "ns/file", Step::Use),
    ("size-write", "ns/MiB", Step::Use),
    ("size-fill", "ns/MiB", Step::Use),
    ("size-fill-slowest", "ns/MiB", Step::Use),
    ("size-close", "ns", Step::Use),
    ("size-fetched", "blocks", Step::Use),
    ("size-use-memory", "bytes", Step::Use),
    ("size-recover", "ns", Step::Recover),
    ("size-fsck", "ns", Step::Check),
    ("size-fsck-memory", "bytes", Step::Check),
    ("size-grow", "ns", Step::Grow),
    ("size-grow-memory", "bytes", Step::Grow),
];

/// Rows by the number of things of a kind.
pub(super) const ITEMS: [RowOf; 14] = [
    ("items-entries-create", "ns/entry", Step::Entries),
    ("items-entries-list", "ns/entry", Step::Entries),
    ("items-entries-remove", "ns/entry", Step::Entries),
    ("items-links-create", "ns/link", Step::Links),
    ("items-links-remove", "ns/link", Step::Links),
    ("items-attributes-set", "ns/attribute", Step::Attributes),
    ("items-attributes-remove", "ns/attribute", Step::Attributes),
    ("items-extents-write", "ns/extent", Step::Extents),
    ("items-extents-remove", "ns/extent", Step::Extents),
    ("items-levels-create", "ns/level", Step::Levels),
    ("items-levels-remove", "ns/level", Step::Levels),
    ("items-handles-open", "ns/file", Step::Handles),
    ("items-handles-close", "ns/file", Step::Handles),
    ("items-orphans-open", "ns/file", Step::Recover),
];

/// Returns the names of all rows in the order of the report.
pub fn row_names() -> Vec<String> {
    SIZES.iter().chain(&ITEMS).map(|(name, ..)| (*name).into()).collect()
}

/// Values of a worker by row.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub(super) struct StepOutcome(pub(super) BTreeMap<String, f64>);

impl StepOutcome {
    pub(super) fn set(&mut self, row: &str, value: f64) {
        self.0.insert(row.into(), value);
    }

    /// Adds the nanoseconds for one of `count` operations that `work` does.
    pub(super) fn time<T>(
        &mut self,
        row: &str,
        count: u64,
        work: impl FnOnce() -> lanefs::Result<T>,
    ) -> Result<T> {
        let start = Instant::now();
        let done = work().map_err(Error::volume(row))?;
        self.set(row, start.elapsed().as_secs_f64() * 1e9 / count.max(1) as f64);
        Ok(done)
    }

    /// Adds the most memory that this process had, in bytes.
    pub(super) fn memory(&mut self, row: &str) {
        self.set(row, peak_memory() as f64);
    }
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
