//! Opening a version for reading.

use crate::cache::Cache;
use crate::device::{OnFailure, PublicationDevice};
use crate::error::{Error, Result};
use crate::fetch::{Counts, Fetcher};
use crate::hash::Hash;
use crate::layout::MAX_ROOT;
use crate::manifest::Manifest;
use crate::objects::Objects;
use crate::packs::PackRef;
use crate::page::{Page, PageRef};
use crate::read_ahead::ReadAhead;
use crate::root::{Facts, Named, Range, Tag};
use crate::store::{Stamp, Store};
use crate::threads;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Bytes of one request that reads ahead.
const REQUEST: u64 = 2 << 20;
/// Requests that read ahead at the same time.
const REQUESTS: usize = 32;
/// Most bytes of a tag's name.
const MAX_NAME: usize = 128;

/// A version of a publication, by tag or by its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The version that the tag names now.
    Tag(String),
    /// This version.
    Version(Hash),
}

impl Reference {
    /// Parses the part of a URL behind `#`: a version is 64 hexadecimal digits, everything else the name of
    /// a tag: letters, digits, `.`, `_` and `-`, the first no `.`, 128 bytes at most.
    ///
    /// # Errors
    /// [`Error::Url`] for any other text.
    pub fn parse(text: &str) -> Result<Self> {
        if let Some(version) = Hash::parse(text) {
            return Ok(Reference::Version(version));
        }
        let is_fine = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if text.is_empty() || text.len() > MAX_NAME || text.starts_with('.') || !text.chars().all(is_fine) {
            let why = "a tag has letters, digits, '.', '_' and '-', and does not begin with '.'";
            return Err(Error::Url(format!("#{text}: {why}")));
        }
        Ok(Reference::Tag(text.into()))
    }
}

impl Default for Reference {
    fn default() -> Self {
        Reference::Tag("latest".into())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reference::Tag(name) => write!(f, "{name}"),
            Reference::Version(version) => write!(f, "{version}"),
        }
    }
}

/// Options for reading a publication.
#[derive(Clone)]
pub struct ReadOptions {
    /// Local cache.
    pub cache: Option<Arc<Cache>>,
    /// Pieces that are fetched go to the cache. False for one who reads each piece once.
    pub fills_cache: bool,
    /// Bytes of decompressed pieces in memory.
    pub memory: u64,
    /// Stored bytes of metadata, and of pages, that are fetched together with the first pages. 0: none.
    pub ahead: u64,
    /// Data that comes next is fetched before it is asked for, where a reader goes by positions.
    pub reads_ahead: bool,
    /// Function that learns of reads that failed.
    pub on_failure: Option<OnFailure>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            cache: None,
            fills_cache: true,
            memory: 64 << 20,
            ahead: 16 << 20,
            reads_ahead: true,
            on_failure: None,
        }
    }
}

/// A version that is open for reading. It stays the same, whatever is published meanwhile.
pub struct Publication {
    pub(crate) fetcher: Arc<Fetcher>,
    pub(crate) manifest: Arc<Manifest>,
    read_ahead: Option<Arc<ReadAhead>>,
    on_failure: Option<OnFailure>,
}

impl Publication {
    /// Opens a version.
    ///
    /// # Errors
    /// [`Error::NoTag`]; the store's; a damaged tag, root or page.
    pub fn open(store: Arc<dyn Store>, reference: &Reference, options: &ReadOptions) -> Result<Self> {
        let objects = Objects { store };
        let named = match reference {
            Reference::Version(version) => Named { version: *version, most: MAX_ROOT, root: None },
            Reference::Tag(name) => named(&objects, name)?,
        };
        let fetcher = Fetcher::new(objects, options.cache.clone(), options.memory);
        let fetcher = Arc::new(fetcher.filling(options.fills_cache));
        let (manifest, is_known) = Manifest::open_named(&fetcher, named)?;
        if !is_known && options.ahead > 0 {
            read_ahead(&fetcher, &manifest, options.ahead)?;
        }
        let read_ahead = options.reads_ahead.then(|| ReadAhead::new(options.memory).into());
        Ok(Publication {
            fetcher,
            manifest: manifest.into(),
            read_ahead,
            on_failure: options.on_failure.clone(),
        })
    }

    /// Opens the version that a tag names now; `None` where it is this one. Both share their memory, the
    /// local cache and the counts of requests: pieces that both have are fetched once, as long as one of the
    /// two keeps them.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn newer(&self, tag: &str) -> Result<Option<Publication>> {
        let named = named(&self.fetcher.objects, tag)?;
        if named.version == self.version() {
            return Ok(None);
        }
        let fetcher = Arc::clone(&self.fetcher);
        // Nothing is read ahead: most pieces are here.
        let (manifest, _) = Manifest::open_named(&fetcher, named)?;
        let (read_ahead, on_failure) = (self.read_ahead.clone(), self.on_failure.clone());
        Ok(Some(Publication { fetcher, manifest: manifest.into(), read_ahead, on_failure }))
    }

    /// Returns the version.
    pub fn version(&self) -> Hash {
        self.manifest.version
    }

    /// Returns the facts that the root states.
    pub fn facts(&self) -> Facts {
        self.manifest.root.facts
    }

    /// Returns counts of the requests to the store.
    pub fn counts(&self) -> Counts {
        self.fetcher.counts()
    }

    /// Returns the bytes of the version as a device.
    pub fn device(&self) -> PublicationDevice {
        PublicationDevice {
            fetcher: Arc::clone(&self.fetcher),
            manifest: Arc::clone(&self.manifest),
            read_ahead: self.read_ahead.clone(),
            on_failure: self.on_failure.clone(),
        }
    }
}

/// Folder of the tags.
pub(crate) const TAGS: &str = "tags";

/// Returns the name of a tag's object.
pub(crate) fn tag_object(name: &str) -> String {
    format!("{TAGS}/{name}")
}

/// Reads a tag; `None` where there is none.
pub(crate) fn read_tag(objects: &Objects, name: &str) -> Result<Option<(Tag, Stamp)>> {
    Ok(read_tag_object(objects, name)?.map(|object| (object.tag, object.stamp)))
}

/// The object of a tag.
struct TagObject {
    tag: Tag,
    /// Bytes that may be the root of the version.
    root: Option<Vec<u8>>,
    stamp: Stamp,
}

fn read_tag_object(objects: &Objects, name: &str) -> Result<Option<TagObject>> {
    let object = tag_object(name);
    let Some((bytes, stamp)) = objects.read_small(&object, Tag::MAX as u64)? else { return Ok(None) };
    let (tag, root) = Tag::parse(&bytes).map_err(|why| objects.damaged(&object, why))?;
    Ok(Some(TagObject { tag, root: root.map(<[u8]>::to_vec), stamp }))
}

/// Returns the version that a tag names.
fn named(objects: &Objects, name: &str) -> Result<Named> {
    let missing = || Error::NoTag(format!("{}#{name}", objects.store.name()));
    let TagObject { tag, root, .. } = read_tag_object(objects, name)?.ok_or_else(missing)?;
    Ok(Named { version: tag.version, most: tag.root_bytes as usize, root })
}

/// One of the requests of the first fetch.
enum First {
    Pages(Vec<PageRef>),
    Bytes(Range),
}

/// Fetches the first pages and, at the same time, the first metadata.
fn read_ahead(fetcher: &Fetcher, manifest: &Manifest, most: u64) -> Result<()> {
    let mut pages = manifest.root.pages.clone();
    let mut left = most;
    pages.retain(|page| take(&mut left, page.stored.bytes.into()) == u64::from(page.stored.bytes));
    let mut first = vec![First::Pages(pages.clone())];
    if manifest.root.level == 0 {
        first.extend(ranges(manifest, most).into_iter().map(First::Bytes));
    }
    let read = threads::map(REQUESTS, first, |first| match first {
        First::Pages(pages) => manifest.load(fetcher, manifest.root.level, &pages).map(|_| None),
        First::Bytes(range) => {
            let bytes = fetcher.read_ahead(&range.pack, range.offset.into(), range.bytes.into());
            Ok(bytes.map(|bytes| (range, bytes)))
        }
    });
    let read: Vec<_> = read.into_iter().collect::<Result<_>>()?;
    let mut by_pack: HashMap<PackRef, Vec<(Range, Vec<u8>)>> = HashMap::new();
    for (range, bytes) in read.into_iter().flatten() {
        by_pack.entry(range.pack).or_default().push((range, bytes));
    }
    for page in manifest.load(fetcher, manifest.root.level, &pages)? {
        keep(fetcher, &page, &by_pack);
    }
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
            let count = (bytes - done).min(REQUEST);
            parts.push(Range { pack: range.pack, offset: range.offset + done as u32, bytes: count as u32 });
            done += count;
        }
    }
    parts
}

/// Keeps the pieces of a page that lie in bytes that were read ahead.
fn keep(fetcher: &Fetcher, page: &Page, read: &HashMap<PackRef, Vec<(Range, Vec<u8>)>>) {
    let Page::Leaf(pieces) = page else { return };
    for piece in pieces.iter().filter(|piece| piece.is_metadata) {
        let stored = piece.stored;
        if let Some(parts) = read.get(&stored.pack)
            && let Some(bytes) = gather(parts, stored.offset.into(), stored.bytes.into())
        {
            fetcher.keep_ahead(stored.hash, bytes);
        }
    }
}

/// Copies bytes of a pack from parts of it; `None` where some of them are missing.
fn gather(parts: &[(Range, Vec<u8>)], offset: u64, bytes: u64) -> Option<Vec<u8>> {
    let mut found = Vec::with_capacity(bytes as usize);
    while (found.len() as u64) < bytes {
        let at = offset + found.len() as u64;
        let holds = |part: &&(Range, Vec<u8>)| {
            let from = u64::from(part.0.offset);
            (from..from + part.1.len() as u64).contains(&at)
        };
        let (range, part) = parts.iter().find(holds)?;
        let skip = (at - u64::from(range.offset)) as usize;
        let count = (bytes as usize - found.len()).min(part.len() - skip);
        found.extend_from_slice(&part[skip..skip + count]);
    }
    Some(found)
}
