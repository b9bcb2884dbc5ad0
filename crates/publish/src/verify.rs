//! The objects of a version: counting and verifying them.

use crate::error::{Error, Result};
use crate::format::buffers::Buffer;
use crate::format::hash::Hash;
use crate::format::layout::MAX_ROOT_BYTES;
use crate::format::packs::{Framing, PackRef, Stored};
use crate::format::page::{Page, PageRef, Promise};
use crate::format::root;
use crate::format::words::Bad;
use crate::publication::Publication;
use crate::publish::OnProgress;
use crate::reading::threads;
use lanefs::expansion::is_justified;
use lanefs::format::BLOCK;
use std::collections::HashSet;

/// Bytes, as decompressed, of the pieces between two calls of a progress.
const BATCH_BYTES: u64 = 64 << 20;
/// Footers that are read at the same time.
const REQUESTS: usize = 16;
/// Most bytes of footers that are read at the same time, but for a single one.
const FOOTER_BYTES: u64 = 64 << 20;
/// Findings that are reported one by one.
const MAX_FINDINGS: usize = 1000;

/// Numbers and bytes of the parts of a version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Pages of the manifest.
    pub pages: u64,
    /// Pieces.
    pub pieces: u64,
    /// Blocks of the volume that are read from them.
    pub blocks: u64,
    /// Stored bytes of pages and pieces.
    pub stored_bytes: u64,
    /// Packs that have them.
    pub packs: u64,
    /// Bytes of these packs, with pieces of other versions.
    pub pack_bytes: u64,
}

impl Inventory {
    /// Adds the parts of a shard. A pack that two shards share counts twice.
    fn add(&mut self, other: &Inventory) {
        self.pages += other.pages;
        self.pieces += other.pieces;
        self.blocks += other.blocks;
        self.stored_bytes += other.stored_bytes;
        self.packs += other.packs;
        self.pack_bytes += other.pack_bytes;
    }

    /// True where the blocks may be more than [`Publication::pull_with`] takes by this bound. (Those of
    /// zeros do not count there.)
    pub fn expands(&self, max_expansion: u32) -> bool {
        !is_justified(self.blocks.saturating_mul(BLOCK), self.stored_bytes, max_expansion.into())
    }
}

/// Result of [`Publication::verify`].
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// Sound parts.
    pub sound: Inventory,
    /// Damaged and missing parts (root, pages, pieces, footers of packs), the first thousand.
    pub findings: Vec<Error>,
    /// Number of all findings. Behind a damaged page nothing was looked at.
    pub found: u64,
}

impl Publication {
    /// Counts what the version consists of, a join of all its shards. Reads the pages of the manifest.
    /// `progress` is called with pages, of which the number is not known (0).
    ///
    /// # Errors
    /// [`Error::Interrupted`]; the store's; a damaged page.
    pub fn inventory(&self, progress: OnProgress<'_>) -> Result<Inventory> {
        if let Some(shards) = self.shards() {
            let mut all = Inventory::default();
            for number in 0..shards.len() {
                all.add(&self.shard(number)?.inventory(progress)?);
            }
            return Ok(all);
        }
        let mut parts = Parts::default();
        self.manifest.walk(&self.fetcher, |_, page, parsed| {
            parts.add(page, parsed);
            if progress(parts.pages, 0) { Ok(()) } else { Err(Error::Interrupted) }
        })?;
        parts.finish();
        Ok(parts.inventory())
    }

    /// Reads the root, all pages and pieces of the version and the footers of its packs, of a join those of
    /// all its shards, one by one, and verifies them, the content of pieces by each reference too, where the
    /// version [binds](Publication::is_bound) it. Root and pieces come from the store, and so do the pages
    /// where the publication was opened without a cache.
    /// `progress` is called with stored bytes.
    ///
    /// # Errors
    /// [`Error::Interrupted`]; the store's, but for missing objects.
    pub fn verify(&self, progress: OnProgress<'_>) -> Result<Verified> {
        let mut result = Verified::default();
        // The root in use may be that of the tag or the cache; readers by hash need this one.
        let version = self.version();
        let root = self.fetcher.objects.read_named(&root::object(&version), &version, MAX_ROOT_BYTES as u64);
        root.map(drop).or_else(|error| result.note(error))?;
        if let Some(shards) = self.shards() {
            for number in 0..shards.len() {
                match self.shard(number).and_then(|shard| shard.verify(progress)) {
                    Ok(verified) => result.add(verified),
                    Err(error) => result.note(error)?,
                }
            }
            return Ok(result);
        }
        let parts = self.verify_pages(&mut result, progress)?;
        result.sound = parts.inventory();
        self.verify_pieces(&parts, &mut result, progress)?;
        self.verify_footers(&parts, &mut result, progress)?;
        Ok(result)
    }

    /// Finds the parts of the version, page by page. All that is after a damaged page stays unknown.
    fn verify_pages(&self, result: &mut Verified, progress: OnProgress<'_>) -> Result<Parts> {
        let mut parts = Parts::default();
        let facts = &self.manifest.root.facts;
        let pieces = facts.metadata_bytes.saturating_add(facts.data_bytes);
        self.manifest.walk_each(&self.fetcher, &mut |_, page, parsed| {
            if !progress(parts.page_bytes, pieces.saturating_add(parts.page_bytes)) {
                return Err(Error::Interrupted);
            }
            match parsed {
                Ok(parsed) => parts.add(page, parsed),
                Err(error) => result.note(error)?,
            }
            Ok(())
        })?;
        parts.finish();
        Ok(parts)
    }

    fn verify_pieces(&self, parts: &Parts, result: &mut Verified, progress: OnProgress<'_>) -> Result<()> {
        let pieces: Vec<Stored> = parts.pieces().map(|references| references[0].stored).collect();
        let check = |stored: &Stored, piece: &Buffer| parts.check(stored, piece);
        let (mut left, mut done, all) = (&pieces[..], parts.page_bytes, result.sound.stored_bytes);
        while !left.is_empty() {
            if !progress(done, all) {
                return Err(Error::Interrupted);
            }
            let mut bytes = 0;
            let fits = |stored: &&Stored| {
                bytes += u64::from(stored.raw);
                bytes <= BATCH_BYTES
            };
            let (batch, rest) = left.split_at(left.iter().take_while(fits).count().max(1));
            for (stored, read) in self.fetcher.check_many(batch.to_vec(), check) {
                done += u64::from(stored.bytes);
                if let Err(error) = read {
                    result.note(error)?;
                    result.sound.pieces -= 1;
                    result.sound.stored_bytes -= u64::from(stored.bytes);
                }
            }
            left = rest;
        }
        Ok(())
    }

    /// Verifies the footers, which only publishers read.
    fn verify_footers(&self, parts: &Parts, result: &mut Verified, progress: OnProgress<'_>) -> Result<()> {
        let packs: Vec<PackRef> = parts.packs.iter().copied().collect();
        let bytes = parts.inventory().stored_bytes;
        let mut left = &packs[..];
        while !left.is_empty() {
            if !progress(bytes, bytes) {
                return Err(Error::Interrupted);
            }
            let mut footers = 0;
            let fits = |pack: &&PackRef| {
                footers += u64::from(pack.footer);
                footers <= FOOTER_BYTES
            };
            let count = left.iter().take(4 * REQUESTS).take_while(fits).count().max(1);
            let (packs, rest) = left.split_at(count);
            left = rest;
            let objects = &self.fetcher.objects;
            let read =
                threads::map(REQUESTS, packs.to_vec(), |pack| (pack, objects.read_footer(&pack).map(drop)));
            for (pack, read) in read {
                if let Err(error) = read {
                    result.note(error)?;
                    result.sound.packs -= 1;
                    result.sound.pack_bytes -= pack.bytes;
                }
            }
        }
        Ok(())
    }
}

impl Verified {
    /// Adds what was found in a shard.
    fn add(&mut self, other: Verified) {
        self.sound.add(&other.sound);
        self.found += other.found;
        let room = MAX_FINDINGS.saturating_sub(self.findings.len());
        self.findings.extend(other.findings.into_iter().take(room));
    }

    /// Notes a part that is damaged or missing. Other errors say nothing of the store's objects.
    fn note(&mut self, error: Error) -> Result<()> {
        if !error.is_broken_object() {
            return Err(error);
        }
        self.found += 1;
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(error);
        }
        Ok(())
    }
}

/// A reference to a piece, and what it promises of the content.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Referred {
    stored: Stored,
    promise: Promise,
}

/// The order of pieces in packs. Pieces that differ in anything count apart: a false page may name other
/// bytes at the same offset.
fn order(stored: &Stored) -> (Hash, u32, u32, u32, u16, Hash, u64, u32, Framing) {
    let Stored { pack, offset, bytes, raw, codec, hash, framing } = *stored;
    (pack.name, offset, bytes, raw, codec, hash, pack.bytes, pack.footer, framing)
}

/// The parts of a version.
#[derive(Default)]
struct Parts {
    pages: u64,
    page_bytes: u64,
    blocks: u64,
    /// References to pieces; in their order, and each once, when all are there.
    references: Vec<Referred>,
    packs: HashSet<PackRef>,
}

impl Parts {
    fn add(&mut self, page: &PageRef, parsed: &Page) {
        self.pages += 1;
        self.page_bytes += u64::from(page.stored.bytes);
        self.packs.insert(page.stored.pack);
        if let Page::Leaf(pieces) = parsed {
            for piece in pieces {
                self.packs.insert(piece.stored.pack);
                self.blocks += u64::from(piece.taken.count_ones());
                self.references.push(Referred { stored: piece.stored, promise: piece.promise() });
            }
        }
    }

    /// Sorts the references, when all are there.
    fn finish(&mut self) {
        self.references.sort_unstable_by_key(|one| (order(&one.stored), one.promise));
        self.references.dedup();
    }

    /// The references to each piece.
    fn pieces(&self) -> impl Iterator<Item = &[Referred]> {
        self.references.chunk_by(|a, b| a.stored == b.stored)
    }

    /// Checks a piece by all references to it.
    fn check(&self, stored: &Stored, piece: &Buffer) -> std::result::Result<(), Bad> {
        let first = self.references.partition_point(|one| order(&one.stored) < order(stored));
        let mut of_piece = self.references[first..].iter().take_while(|one| one.stored == *stored);
        of_piece.try_for_each(|one| one.promise.check(piece))
    }

    fn inventory(&self) -> Inventory {
        let pieces = self.pieces().map(|references| u64::from(references[0].stored.bytes));
        let (count, bytes) = pieces.fold((0, 0), |(count, all), bytes| (count + 1, all + bytes));
        Inventory {
            pages: self.pages,
            pieces: count,
            blocks: self.blocks,
            stored_bytes: self.page_bytes + bytes,
            packs: self.packs.len() as u64,
            pack_bytes: self.packs.iter().map(|pack| pack.bytes).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::layout::pack_end;
    use crate::format::packs::ZSTD;
    use crate::format::page::Piece;

    #[test]
    fn pieces_that_two_pages_name_with_other_hashes_or_sizes_count_apart() {
        let pack = PackRef { name: Hash([1; 32]), bytes: 1 << 20, footer: pack_end::SIZE as u32 };
        let stored = |hash, raw| {
            let (hash, framing) = (Hash([hash; 32]), Framing::None);
            Stored { pack, offset: 7, bytes: 100, raw, codec: ZSTD, hash, framing }
        };
        let mut parts = Parts::default();
        for (number, stored) in
            [stored(2, 4096), stored(3, 4096), stored(2, 8192), stored(2, 4096)].into_iter().enumerate()
        {
            let number = number as u64;
            let piece = Piece {
                window: number * 1024,
                is_metadata: false,
                taken: 1,
                blocks: 1,
                borrowed: None,
                stored,
                content: None,
            };
            parts.add(&PageRef { number, stored }, &Page::Leaf(vec![piece]));
        }
        parts.finish();
        assert_eq!((parts.pages, parts.inventory().pieces), (4, 3));
    }
}
