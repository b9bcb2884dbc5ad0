//! Filling of the local cache before a version is read.

use crate::error::{Error, Result};
use crate::format::packs::Stored;
use crate::format::page::Page;
use crate::publication::Publication;
use crate::publish::OnProgress;
use std::collections::HashSet;

/// Bytes of pieces, as decompressed, that are fetched together.
const BATCH_BYTES: u64 = 128 << 20;

/// The part of a version that [`Publication::warm`] brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmPart {
    /// Pages, and pieces of windows with metadata: names, attributes and where the data are.
    Metadata,
    /// All of it.
    All,
}

/// Result of [`Publication::warm`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarmReport {
    /// Pieces that the local cache has now.
    pub pieces: u64,
    /// Their stored bytes.
    pub bytes: u64,
    /// Those of them that it had before.
    pub found: u64,
}

impl Publication {
    /// Fetches a part of the version into the local cache, verified, a join's of all its shards. Pieces that
    /// the cache has already are left. `progress` is called with stored bytes.
    ///
    /// A cache that is smaller than the part forgets the beginning of it.
    ///
    /// # Errors
    /// [`Error::Interrupted`]; the store's; damaged objects. The cache has all that was fetched before.
    pub fn warm(&self, part: WarmPart, progress: OnProgress<'_>) -> Result<WarmReport> {
        let facts = self.facts();
        let all = match part {
            WarmPart::Metadata => facts.metadata_bytes,
            WarmPart::All => facts.metadata_bytes.saturating_add(facts.data_bytes),
        };
        let mut report = WarmReport::default();
        match self.shards().map(<[_]>::len) {
            None => self.warm_volume(part, all, progress, &mut report)?,
            Some(shards) => {
                for number in 0..shards {
                    self.shard(number)?.warm_volume(part, all, progress, &mut report)?;
                }
            }
        }
        Ok(report)
    }

    fn warm_volume(
        &self,
        part: WarmPart,
        all: u64,
        progress: OnProgress<'_>,
        report: &mut WarmReport,
    ) -> Result<()> {
        let mut batch: HashSet<Stored> = HashSet::new();
        let mut raw = 0;
        self.manifest.walk(&self.fetcher, |_, _, page| {
            let Page::Leaf(pieces) = page else { return Ok(()) };
            for piece in pieces.iter().filter(|piece| part == WarmPart::All || piece.is_metadata) {
                // (A piece from which windows of several batches borrow is in the cache the second time.)
                if batch.insert(piece.stored) {
                    raw += u64::from(piece.stored.raw);
                }
                if raw >= BATCH_BYTES {
                    self.warm_batch(&mut batch, report)?;
                    raw = 0;
                    check(progress, report, all)?;
                }
            }
            check(progress, report, all)
        })?;
        self.warm_batch(&mut batch, report)?;
        check(progress, report, all)
    }

    fn warm_batch(&self, batch: &mut HashSet<Stored>, report: &mut WarmReport) -> Result<()> {
        let mut wanted: Vec<Stored> = Vec::with_capacity(batch.len());
        for stored in batch.drain() {
            report.pieces += 1;
            report.bytes += u64::from(stored.bytes);
            match self.fetcher.is_cached(&stored) {
                true => report.found += 1,
                false => wanted.push(stored),
            }
        }
        self.fetcher.get_many(&wanted).into_iter().try_for_each(|piece| piece.map(drop))?;
        // The cache, or its disk, may have had no room.
        for stored in wanted.iter().filter(|stored| !self.fetcher.is_cached(stored)) {
            report.pieces -= 1;
            report.bytes -= u64::from(stored.bytes);
        }
        Ok(())
    }
}

fn check(progress: OnProgress<'_>, report: &WarmReport, all: u64) -> Result<()> {
    if progress(report.bytes, all) { Ok(()) } else { Err(Error::Interrupted) }
}
