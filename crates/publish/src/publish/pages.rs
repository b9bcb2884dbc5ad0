//! Pages of a new version.

use super::PublishJob;
use super::upload::{INCOMPLETE, Uploader};
use crate::error::Result;
use crate::format::hash::Hash;
use crate::format::layout::{FANOUT, MAX_RANGES};
use crate::format::packs::Stored;
use crate::format::page::{Page, PageRef, Piece, is_justified, top_level};
use crate::format::piece::{self, Packed};
use crate::format::root::Range;
use std::collections::HashSet;

/// Bytes between two pieces of metadata that belong to one range all the same.
const GAP_BYTES: u64 = 64 << 10;

impl PublishJob<'_> {
    /// Makes the pages of all levels, and stores those that the version before does not have. The pieces are
    /// sorted by window. Returns the level of the pages that the root names, and these pages; adds the packs
    /// of all pages to `packs`.
    pub(super) fn pages(
        &self,
        pieces: Vec<Piece>,
        volume_bytes: u64,
        uploader: &mut Uploader<'_, '_>,
        packs: &mut HashSet<Hash>,
    ) -> Result<(u32, Vec<PageRef>)> {
        let top = top_level(volume_bytes);
        let leaves = pieces.chunk_by(|a, b| a.window / FANOUT == b.window / FANOUT);
        let leaves = leaves.map(|pieces| (pieces[0].window / FANOUT, Page::Leaf(pieces.to_vec())));
        let mut refs = self.level(0, leaves.collect(), uploader)?;
        packs.extend(refs.iter().map(|page| page.stored.pack.name));
        for level in 1..=top {
            let inner = refs.chunk_by(|a, b| a.number / FANOUT == b.number / FANOUT);
            let inner = inner.map(|refs| (refs[0].number / FANOUT, Page::Inner(refs.to_vec())));
            refs = self.level(level, inner.collect(), uploader)?;
            packs.extend(refs.iter().map(|page| page.stored.pack.name));
        }
        Ok((top, refs))
    }

    /// Stores the pages of a level that are new. The packs of a level are complete before the level above
    /// names them.
    fn level(
        &self,
        level: u32,
        pages: Vec<(u64, Page)>,
        uploader: &mut Uploader<'_, '_>,
    ) -> Result<Vec<PageRef>> {
        let mut pack = uploader.begin();
        let (mut refs, mut numbers) = (Vec::new(), Vec::new());
        for (number, page) in pages {
            if let Some(same) = self.same_page(level, number, &page)? {
                refs.push(same);
                numbers.push(None);
                continue;
            }
            let raw = page.encode(level, number);
            let len = raw.len() as u32;
            let mut packed = piece::pack(&raw, self.options.level);
            if !is_justified(packed.bytes.len() as u32, len) {
                packed = piece::as_it_is(&raw);
            }
            let offset = pack.builder.add(&packed.bytes);
            let Packed { codec, hash, framing, .. } = packed;
            let bytes = packed.bytes.len() as u32;
            let stored = Stored { pack: INCOMPLETE, offset, bytes, raw: len, codec, hash, framing };
            refs.push(PageRef { number, stored });
            numbers.push(Some(pack.number));
            if pack.builder.is_full() {
                uploader.renew(&mut pack)?;
            }
        }
        uploader.send(pack)?;
        for (page, number) in refs.iter_mut().zip(numbers) {
            if let Some(number) = number {
                page.stored.pack = uploader.pack(number)?;
            }
        }
        Ok(refs)
    }

    /// The page of the version before, if it is the same.
    fn same_page(&self, level: u32, number: u64, page: &Page) -> Result<Option<PageRef>> {
        let Some(before) = self.base.pages.get(&(level, number)) else { return Ok(None) };
        let is_same = self.base.page(&self.fetcher, level, before)?.is_some_and(|before| *before == *page);
        Ok(is_same.then_some(*before))
    }
}

/// The ranges of packs that have metadata, in the order of the windows.
pub(super) fn ranges(pieces: &[Piece]) -> Vec<Range> {
    let mut metadata: Vec<(u64, Stored)> =
        pieces.iter().filter(|piece| piece.is_metadata).map(|piece| (piece.window, piece.stored)).collect();
    metadata.sort_by_key(|(_, stored)| (stored.pack.name, stored.offset));
    let mut ranges: Vec<(u64, Range)> = Vec::new();
    for (window, stored) in metadata {
        let end = u64::from(stored.offset) + u64::from(stored.bytes);
        match ranges.last_mut() {
            Some((first, range)) if is_near(range, &stored) => {
                range.bytes = (end - u64::from(range.offset)) as u32;
                *first = window.min(*first);
            }
            _ => {
                let range = Range { pack: stored.pack, offset: stored.offset, bytes: stored.bytes };
                ranges.push((window, range));
            }
        }
    }
    ranges.sort_by_key(|(window, _)| *window);
    ranges.truncate(MAX_RANGES);
    ranges.into_iter().map(|(_, range)| range).collect()
}

fn is_near(range: &Range, next: &Stored) -> bool {
    let end = u64::from(range.offset) + u64::from(range.bytes);
    range.pack == next.pack && u64::from(next.offset) <= end + GAP_BYTES
}
