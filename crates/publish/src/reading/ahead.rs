//! A reader fetches at once, when it opens a version: the first pages and, at the same time, the first
//! metadata. None of it takes more memory than the bytes that are read ahead, whatever a hostile store says.

use super::fetch::{Fetcher, SharedBytes};
use super::manifest::Manifest;
use super::threads;
use crate::error::Result;
use crate::format::packs::{PackRef, Stored};
use crate::format::page::{Page, PageRef};
use crate::format::piece;
use crate::format::root::Range;
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of one request that reads ahead.
const REQUEST_BYTES: u64 = 2 << 20;
/// Requests that read ahead at the same time.
const REQUESTS: usize = 32;

/// Connections for them beside the one that brought the root: one more for the pages, one for each end of a
/// volume's metadata, where most of it fits into a request.
pub(crate) const MORE_CONNECTIONS: usize = 3;

/// One of the requests of the first fetch.
enum First {
    Pages(Vec<PageRef>),
    Bytes(Range),
}

/// The answer to a request.
enum Given {
    Pages(Vec<Arc<Page>>),
    Bytes(Range, Arc<Vec<u8>>),
    Nothing,
}

/// Bytes that were read ahead of each pack, in their order.
type Read = HashMap<PackRef, Vec<(u64, Arc<Vec<u8>>)>>;

/// Fetches the first pages and, at the same time, the first metadata: `most` bytes of each at most, of the
/// pages as decompressed.
pub(crate) fn fetch(fetcher: &Fetcher, manifest: &Manifest, most: u64) -> Result<()> {
    let mut left = most;
    let fits = |page: &&PageRef| take(&mut left, page.stored.raw.into()) == u64::from(page.stored.raw);
    let pages: Vec<PageRef> = manifest.root.pages.iter().take_while(fits).copied().collect();
    let mut first = vec![First::Pages(pages)];
    if manifest.root.level == 0 {
        first.extend(ranges(manifest, most).into_iter().map(First::Bytes));
    }
    let given = threads::map(REQUESTS, first, |first| match first {
        First::Pages(pages) => {
            let loaded = manifest.load(fetcher, manifest.root.level, &pages).into_iter();
            loaded.collect::<Result<_>>().map(Given::Pages)
        }
        First::Bytes(range) => {
            let bytes = fetcher.read_ahead(&range.pack, range.offset.into(), range.bytes.into());
            Ok(bytes.map_or(Given::Nothing, |bytes| Given::Bytes(range, Arc::new(bytes))))
        }
    });
    let (mut pages, mut read) = (Vec::new(), Read::new());
    for given in given {
        match given? {
            Given::Pages(loaded) => pages = loaded,
            Given::Bytes(range, bytes) => {
                read.entry(range.pack).or_default().push((range.offset.into(), bytes));
            }
            Given::Nothing => {}
        }
    }
    keep(fetcher, metadata(&pages), &mut read);
    Ok(())
}

/// Takes as much of `wanted` as is left, and returns it.
fn take(left: &mut u64, wanted: u64) -> u64 {
    let taken = wanted.min(*left);
    *left -= taken;
    taken
}

/// The first `most` bytes of metadata, in requests of a moderate size that end where pieces may end.
fn ranges(manifest: &Manifest, most: u64) -> Vec<Range> {
    let mut left = most;
    let mut parts = Vec::new();
    for range in &manifest.root.ranges {
        let bytes = take(&mut left, range.bytes.into());
        let mut done = 0;
        while done < bytes {
            let count = (bytes - done).min(REQUEST_BYTES);
            parts.push(Range { pack: range.pack, offset: range.offset + done as u32, bytes: count as u32 });
            done += count;
        }
    }
    parts
}

/// The pieces of windows with metadata, by pack and offset.
fn metadata(pages: &[Arc<Page>]) -> Vec<Stored> {
    let pieces = pages.iter().flat_map(|page| match &**page {
        Page::Leaf(pieces) => &pieces[..],
        Page::Inner(_) => &[],
    });
    let of_metadata = pieces.filter(|piece| piece.is_metadata).map(|piece| piece.stored);
    let mut found: Vec<Stored> = of_metadata.collect();
    found.sort_unstable_by_key(|stored| (stored.pack.name, stored.offset, stored.bytes));
    found
}

/// Keeps the pieces that lie in bytes that were read ahead. Each of these bytes is kept once, and only under
/// the hash that it has: so a page that names some bytes many times, or by other hashes, costs nothing.
fn keep(fetcher: &Fetcher, pieces: Vec<Stored>, read: &mut Read) {
    read.values_mut().for_each(|parts| parts.sort_unstable_by_key(|(from, _)| *from));
    let mut behind = (None, 0);
    for stored in pieces {
        let (from, bytes) = (u64::from(stored.offset), u64::from(stored.bytes));
        if behind.0 == Some(stored.pack) && from < behind.1 {
            continue;
        }
        let Some(parts) = read.get(&stored.pack) else { continue };
        let Some(part) = gather(parts, from, bytes) else { continue };
        behind = (Some(stored.pack), from + bytes);
        if piece::verify(&stored, part.bytes()).is_ok() {
            fetcher.keep_ahead(stored.hash, part);
        }
    }
}

/// Finds bytes of a pack in parts of it, which follow one another; `None` where some of them are missing.
/// Only bytes of two parts are copied.
fn gather(parts: &[(u64, Arc<Vec<u8>>)], offset: u64, bytes: u64) -> Option<SharedBytes> {
    let first = parts.partition_point(|(from, _)| *from <= offset).checked_sub(1)?;
    let (from, part) = &parts[first];
    let start = (offset - from) as usize;
    let range = start..start + bytes as usize;
    if range.end <= part.len() {
        return Some(SharedBytes { bytes: Arc::clone(part), range });
    }
    let mut found = part.get(start..)?.to_vec();
    for (from, part) in &parts[first + 1..] {
        if *from != offset + found.len() as u64 {
            return None;
        }
        let missing = bytes as usize - found.len();
        found.extend_from_slice(&part[..missing.min(part.len())]);
        if found.len() as u64 == bytes {
            return Some(SharedBytes { range: 0..found.len(), bytes: Arc::new(found) });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::hash::Hash;
    use crate::format::layout::pack_end;
    use crate::format::packs::{Framing, ZSTD};
    use crate::objects::Objects;
    use crate::store::Directory;

    fn fetcher() -> Fetcher {
        Fetcher::new(Objects { store: Arc::new(Directory::new("/nowhere")) }, None, 0)
    }

    fn pack() -> PackRef {
        PackRef { name: Hash([1; 32]), bytes: 1 << 20, footer: pack_end::SIZE as u32 }
    }

    fn stored(offset: u32, bytes: &[u8]) -> Stored {
        let (len, hash) = (bytes.len() as u32, Hash::of(bytes));
        let (pack, framing) = (pack(), Framing::None);
        Stored { pack, offset, bytes: len, raw: 1 << 18, codec: ZSTD, hash, framing }
    }

    /// Two parts of a pack that follow one another.
    fn read() -> (Vec<u8>, Read) {
        let bytes: Vec<u8> = (0..20_000_u32).map(|at| ((at * at) >> 5) as u8).collect();
        let part = |from: usize, to: usize| (from as u64, Arc::new(bytes[from..to].to_vec()));
        let parts = vec![part(9000, 20_000), part(0, 9000)];
        (bytes, [(pack(), parts)].into())
    }

    #[test]
    fn bytes_are_kept_once_and_under_the_hash_that_they_have_only() {
        let (fetcher, (bytes, mut read)) = (fetcher(), read());
        let (first, second) = (stored(0, &bytes[..8000]), stored(8000, &bytes[8000..15_000]));
        // Any number of references to the same bytes, with hashes that these do not have, or have.
        let lie = |number: u32| Stored {
            hash: Hash::of(&number.to_le_bytes()),
            ..stored(16_000, &bytes[16_000..])
        };
        let inside = (1..100).map(|at| stored(at, &bytes[at as usize..8000]));
        let pieces = [first, second].into_iter().chain(inside).chain((0..8000).map(lie));
        let mut pieces: Vec<Stored> = pieces.collect();
        pieces.sort_unstable_by_key(|stored| (stored.pack.name, stored.offset, stored.bytes));
        keep(&fetcher, pieces, &mut read);
        assert_eq!(fetcher.take_ahead(&first.hash).as_deref(), Some(&bytes[..8000]));
        assert_eq!(fetcher.take_ahead(&second.hash).as_deref(), Some(&bytes[8000..15_000]), "of two parts");
        assert_eq!(fetcher.count_ahead(), 0);
    }

    #[test]
    fn bytes_that_were_not_read_are_not_there() {
        let (bytes, mut read) = read();
        let parts = read.get_mut(&pack()).expect("parts");
        parts.sort_unstable_by_key(|(from, _)| *from);
        assert!(gather(parts, 19_000, 2000).is_none());
        let whole = gather(parts, 0, 20_000).expect("all of it");
        assert_eq!(whole.bytes(), bytes);
        parts.remove(0);
        assert!(gather(parts, 8999, 10).is_none() && gather(parts, 9000, 10).is_some());
    }
}
