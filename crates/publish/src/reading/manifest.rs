//! The manifest of a version: its root, and the pages that are needed.

use super::fetch::Fetcher;
use super::lru::Lru;
use crate::error::{Error, Result};
use crate::format::hash::Hash;
use crate::format::layout::{FANOUT, MAX_ROOT_BYTES};
use crate::format::packs::Stored;
use crate::format::page::{self, Page, PageRef, Piece};
use crate::format::root::{self, Named, Root};
use lanefs_sync::lock::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Bytes of pages that are kept in memory: those of some 40 GiB of windows with one piece each.
const MEMORY_BYTES: u64 = 32 << 20;
/// A part of the memory for pages, for each of the leaf pages that are in use together.
const LEAF_BYTES: u64 = 512 << 10;
/// Bytes, as decompressed, of the pages that are fetched together, but for a single one.
const STEP_BYTES: u64 = 8 << 20;

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
            None => fetcher.objects.read_named(&object, &version, most.min(MAX_ROOT_BYTES) as u64)?,
        };
        let root = Root::parse(&bytes).map_err(|why| fetcher.objects.damaged(&object, why))?;
        if let Some(cache) = fetcher.cache().filter(|_| !is_cached) {
            cache.put(&version, &bytes);
        }
        Ok((Manifest { version, root, pages: Lru::new(MEMORY_BYTES).into() }, bytes, is_cached))
    }

    /// Keeps no more than so many bytes of pages in memory.
    pub(crate) fn with_memory(self, bytes: u64) -> Manifest {
        Manifest { pages: Lru::new(bytes).into(), ..self }
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

    /// Number of leaf pages that stay in memory while all of them are used.
    pub(crate) fn leaves_together(&self) -> usize {
        (self.pages.lock().limit() / LEAF_BYTES).max(1) as usize
    }

    /// Loads the leaf pages of these numbers that are not in memory, level by level, those of a level
    /// together. A page that fails here fails again when it is needed.
    pub(crate) fn load_leaves(&self, fetcher: &Fetcher, numbers: impl Iterator<Item = u64>) {
        let numbers: BTreeSet<u64> = numbers.collect();
        let mut found: Option<Vec<Arc<Page>>> = None;
        for level in (0..=self.root.level).rev() {
            let wanted: BTreeSet<u64> = numbers.iter().map(|number| number / FANOUT.pow(level)).collect();
            let refs = wanted.iter().filter_map(|number| match &found {
                None => page::find(&self.root.pages, *number),
                Some(above) => above.iter().find_map(|page| page.page(*number)),
            });
            let absent = |page: &&PageRef| !self.pages.lock().has(&(level, page.number));
            let refs: Vec<PageRef> = refs.copied().collect();
            let missing: Vec<PageRef> = refs.iter().filter(absent).copied().collect();
            // A single one is for who needs it.
            if missing.len() > 1 {
                steps(level, &missing).for_each(|step| drop(self.load(fetcher, level, step)));
            }
            if level > 0 {
                found = Some(refs.iter().filter_map(|page| self.page(fetcher, level, page).ok()).collect());
            }
        }
    }

    /// Returns a page.
    pub(crate) fn page(&self, fetcher: &Fetcher, level: u32, page: &PageRef) -> Result<Arc<Page>> {
        if let Some(found) = self.pages.lock().get(&(level, page.number)) {
            return Ok(found);
        }
        self.load(fetcher, level, &[*page]).pop().unwrap_or(Err(Error::Interrupted))
    }

    /// Loads pages of one level together. Some of them may fail.
    pub(crate) fn load(&self, fetcher: &Fetcher, level: u32, pages: &[PageRef]) -> Vec<Result<Arc<Page>>> {
        let stored: Vec<Stored> = pages.iter().map(|page| page.stored).collect();
        let bytes = fetcher.get_pages(&stored);
        pages.iter().zip(bytes).map(|(page, bytes)| self.parse(fetcher, level, page, &bytes?)).collect()
    }

    fn parse(&self, fetcher: &Fetcher, level: u32, page: &PageRef, bytes: &[u8]) -> Result<Arc<Page>> {
        let root = &self.root;
        let parsed = Page::parse(bytes, root.format, level, page.number, root.facts.volume_bytes);
        let object = page.stored.pack.object();
        let parsed = Arc::new(parsed.map_err(|why| fetcher.objects.damaged(&object, why))?);
        let memory = parsed.memory();
        self.pages.lock().insert((level, page.number), Arc::clone(&parsed), memory);
        Ok(parsed)
    }

    /// Passes all pages with the references to them: each page before those below it, and the leaf pages in
    /// their order. The walk has few pages in memory, however many there are.
    pub(crate) fn walk(
        &self,
        fetcher: &Fetcher,
        mut take: impl FnMut(u32, &PageRef, &Page) -> Result<()>,
    ) -> Result<()> {
        self.walk_each(fetcher, &mut |level, page, parsed| take(level, page, parsed?))
    }

    /// Does the same, and passes also the failures of pages. The pages below these stay unknown.
    pub(crate) fn walk_each(&self, fetcher: &Fetcher, take: Take<'_>) -> Result<()> {
        self.descend(fetcher, self.root.level, &self.root.pages, take)
    }

    fn descend(&self, fetcher: &Fetcher, level: u32, refs: &[PageRef], take: Take<'_>) -> Result<()> {
        for refs in steps(level, refs) {
            for (page, parsed) in refs.iter().zip(self.load(fetcher, level, refs)) {
                take(level, page, parsed.as_deref().map_err(Error::clone))?;
                if let Ok(Page::Inner(refs)) = parsed.as_deref() {
                    self.descend(fetcher, level - 1, refs, take)?;
                }
            }
        }
        Ok(())
    }
}

/// Function that takes the pages of a walk.
type Take<'t> = &'t mut dyn FnMut(u32, &PageRef, Result<&Page>) -> Result<()>;

/// Cuts references into those of pages that are fetched together. A page above others is fetched alone: those
/// below it are many.
fn steps(level: u32, refs: &[PageRef]) -> impl Iterator<Item = &[PageRef]> {
    let mut bytes = 0;
    refs.chunk_by(move |page, next| {
        bytes += u64::from(page.stored.raw);
        let goes_on = level == 0 && bytes + u64::from(next.stored.raw) <= STEP_BYTES;
        bytes = if goes_on { bytes } else { 0 };
        goes_on
    })
}
