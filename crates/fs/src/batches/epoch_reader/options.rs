//! Arguments of an epoch.

use super::order::EpochOrder;
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::types::ResolveOptions;
use lanefs_format::Code;
use std::sync::Arc;

/// Options of an [`EpochReader`](super::EpochReader).
#[derive(Clone, Debug)]
pub struct EpochOptions {
    /// The order of the files.
    pub order: EpochOrder,
    /// Files of each batch; the last one may have fewer. Not 0.
    pub batch: usize,
    /// Memory in bytes for the batches that are read ahead, together with those that the caller holds: their
    /// contents, and 16 bytes a file. A batch that is larger by itself is read alone.
    pub memory: u64,
    /// Number of files of the order to leave out: [`EpochReader::position`](super::EpochReader::position) of
    /// an epoch to resume.
    pub start: u64,
    /// Threads that find files, and threads that read them, at most; 0: as many as the host has processors,
    /// up to 8, and some more while they wait for the device. Never more than 64.
    pub threads: usize,
    /// How paths are resolved, and the caller whose permission to search and to read is checked.
    /// [`ResolveOptions::attributes`] does not matter.
    pub resolve: ResolveOptions,
    /// Plants a bug: this stage panics when it begins.
    #[cfg(test)]
    pub(super) panics: Option<super::hand_over::Stage>,
}

impl Default for EpochOptions {
    fn default() -> Self {
        EpochOptions {
            order: EpochOrder::AsGiven,
            batch: 256,
            memory: 256 << 20,
            start: 0,
            threads: 0,
            resolve: ResolveOptions::default(),
            #[cfg(test)]
            panics: None,
        }
    }
}

impl EpochOptions {
    /// The order of the epoch over so many paths.
    ///
    /// # Errors
    /// [`Code::Invalid`] for options that do not fit.
    pub(super) fn rows(&self, paths: usize) -> Result<Arc<[u32]>> {
        let refuse = |what: String| Err(Error::At { code: Code::Invalid, what });
        if self.batch == 0 {
            return refuse("batches of an epoch with no file".into());
        }
        let Ok(count) = u32::try_from(paths) else {
            return refuse(format!("an epoch over {paths} paths ({} at most)", u32::MAX));
        };
        let rows = self.order.rows(count);
        if let Some(row) = rows.iter().find(|row| **row >= count) {
            return refuse(format!("row {row} of an epoch over {paths} paths"));
        }
        if self.start > rows.len() as u64 {
            return refuse(format!("an epoch of {} files that starts at {}", rows.len(), self.start));
        }
        Ok(rows)
    }
}
