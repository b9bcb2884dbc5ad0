//! What the parts have in common.

use super::sizes::Sizes;
use crate::Result;
use crate::error::Error;
use crate::lane::Lane;
use crate::peers::{Host, Medium, SpaceRequest};
use crate::session::Session;
use tempfile::TempDir;

/// The whole benchmark.
pub(super) type ConcurrencyBench = Session<Settings>;

/// What only this benchmark has.
pub(super) struct Settings {
    pub(super) sizes: Sizes,
}

/// New, empty systems: a memory volume of LaneFS and every peer that could be had.
pub(super) struct ConcurrencySystems {
    pub(super) lane: Lane,
    pub(super) hosts: Vec<Host>,
}

impl ConcurrencyBench {
    /// New systems in memory with room for `need`.
    pub(super) fn systems(&mut self, need: SpaceRequest) -> Result<ConcurrencySystems> {
        let hosts = self.hosts(need, Medium::Memory)?;
        Ok(ConcurrencySystems { lane: Lane::new((512 << 20) + need.inodes * 1024 + need.bytes * 2)?, hosts })
    }
}

/// A directory for volumes in files, where temporary files go; removed with its value.
pub(super) fn temp_dir() -> Result<TempDir> {
    TempDir::with_prefix("lanefs-bench-").map_err(Error::host("a temporary directory"))
}

/// Fails where a system gave another number of good answers than were asked for: its time then means nothing.
pub(super) fn expect(system: &str, what: &'static str, found: u64, expected: u64) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::Wrong { system: system.into(), what, found, expected })
}
