//! The manifest of a version: its root, and the pages that are needed.

use crate::error::Result;
use crate::fetch::Fetcher;
use crate::hash::Hash;
use crate::layout::{FANOUT, MAX_ROOT};
use crate::lru::Lru;
use crate::packs::Stored;
use crate::page::{self, Page, PageRef, Piece};
use crate::root::{self, Named, Root};
use parking_lot::Mutex;
use std::sync::Arc;

/// Pages that are kept in memory: manifests of 64 GiB.
const PAGES: u64 = 256;

/// The manifest of a version.
pub(crate) struct Manifest {
    pub(crate) version: Hash,
    pub(crate) root: Root,
    /// Pages by level and number.
    pages: Mutex<Lru<(u32, u64), Arc<Page>>>,
}

impl Manifest {
    /// Reads the root of a version, which has `most` bytes at most. Returns also whether the cache had it.
    pub(crate) fn open(fetcher: &Fetcher, version: Hash, most: usize) -> Result<(Manifest, bool)> {
        Self::open_named(fetcher, Named { version, most, root: None })
    }

    /// Does the same for a version whose root may be here already.
    pub(crate) fn open_named(fetcher: &Fetcher, named: Named) -> Result<(Manifest, bool)> {
        Self::open_root(fetcher, named).map(|(manifest, _, is_cached)| (manifest, is_cached))
    }

    /// Does the same, and returns also the verified bytes of the root. Only these have the version as their
    /// hash: another publisher may order packs in another way, say.
    pub(crate) fn open_root(fetcher: &Fetcher, named: Named) -> Result<(Manifest, Vec<u8>, bool)> {
        let Named { version, most, root } = named;
        let object = root::object(&version);
        let cached = fetcher.cache().and_then(|cache| cache.get(&version));
        let cached = cached.filter(|bytes| Hash::of(bytes) == version);
        let is_cached = cached.is_some();
        let bytes = match cached.or(root.filter(|bytes| Hash::of(bytes) == version)) {
            Some(bytes) => bytes,
            None => fetcher.objects.read_named(&object, &version, most.min(MAX_ROOT) as u64)?,
        };
        let root = Root::parse(&bytes).map_err(|why| fetcher.objects.damaged(&object, why))?;
        if let Some(cache) = fetcher.cache().filter(|_| !is_cached) {
            cache.put(&version, &bytes);
        }
        Ok((Manifest { version, root, pages: Lru::new(PAGES).into() }, bytes, is_cached))
    }

    /// Returns the pieces of a window.
    pub(crate) fn pieces(&self, fetcher: &Fetcher, window: u64) -> Result<Vec<Piece>> {
        Ok(match self.leaf(fetcher, window / FANOUT)? {
            Some(leaf) => leaf.pieces(window).to_vec(),
            None => Vec::new(),
        })
    }

    /// Returns a leaf page; `None` where no block of its windows is published.
    pub(crate) fn leaf(&self, fetcher: &Fetcher, number: u64) -> Result<Option<Arc<Page>>> {
        let level = self.root.level;
        let number_at = |at: u32| number / FANOUT.pow(at);
        let Some(mut found) = page::find(&self.root.pages, number_at(level)).copied() else {
            return Ok(None);
        };
        for below in (0..level).rev() {
            let above = self.page(fetcher, below + 1, &found)?;
            let Some(next) = above.page(number_at(below)) else { return Ok(None) };
            found = *next;
        }
        self.page(fetcher, 0, &found).map(Some)
    }

    /// Returns a page.
    pub(crate) fn page(&self, fetcher: &Fetcher, level: u32, page: &PageRef) -> Result<Arc<Page>> {
        if let Some(found) = self.pages.lock().get(&(level, page.number)) {
            return Ok(found);
        }
        self.parse(fetcher, level, page, &fetcher.get(&page.stored)?)
    }

    /// Loads pages of one level together.
    pub(crate) fn load(&self, fetcher: &Fetcher, level: u32, pages: &[PageRef]) -> Result<Vec<Arc<Page>>> {
        self.load_each(fetcher, level, pages).into_iter().collect()
    }

    /// Loads pages of one level together. Some of them may fail.
    pub(crate) fn load_each(
        &self,
        fetcher: &Fetcher,
        level: u32,
        pages: &[PageRef],
    ) -> Vec<Result<Arc<Page>>> {
        let stored: Vec<Stored> = pages.iter().map(|page| page.stored).collect();
        let bytes = fetcher.get_many(&stored);
        pages.iter().zip(bytes).map(|(page, bytes)| self.parse(fetcher, level, page, &bytes?)).collect()
    }

    fn parse(&self, fetcher: &Fetcher, level: u32, page: &PageRef, bytes: &[u8]) -> Result<Arc<Page>> {
        let parsed = Page::parse(bytes, level, page.number, self.root.facts.volume_bytes);
        let object = page.stored.pack.object();
        let parsed = Arc::new(parsed.map_err(|why| fetcher.objects.damaged(&object, why))?);
        self.pages.lock().insert((level, page.number), Arc::clone(&parsed), 1);
        Ok(parsed)
    }

    /// Passes the references to all pages of each level, from the top down, and all leaf pages.
    pub(crate) fn walk(
        &self,
        fetcher: &Fetcher,
        mut take: impl FnMut(u32, &PageRef, &Page) -> Result<()>,
    ) -> Result<()> {
        let mut refs = self.root.pages.clone();
        for level in (0..=self.root.level).rev() {
            let mut below = Vec::new();
            for refs in refs.chunks(PAGES as usize / 4) {
                for (page, parsed) in refs.iter().zip(self.load(fetcher, level, refs)?) {
                    take(level, page, &parsed)?;
                    if let Page::Inner(refs) = &*parsed {
                        below.extend_from_slice(refs);
                    }
                }
            }
            refs = below;
        }
        Ok(())
    }
}
