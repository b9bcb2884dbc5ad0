//! Opening a version for reading.

use crate::error::{Error, Result};
use crate::format::facts::Facts;
use crate::format::hash::Hash;
use crate::format::join::Shard;
use crate::format::layout::{MAX_ROOT_BYTES, UNBOUND};
use crate::format::root::{Named, Tag};
use crate::objects::Objects;
use crate::reading::ahead;
use crate::reading::cache::Cache;
use crate::reading::device::{OnFailure, VersionDevice};
use crate::reading::fetch::{Counts, Fetcher};
use crate::reading::join::{JoinDevice, OpenJoin};
use crate::reading::manifest::Manifest;
use crate::reading::publication_device::{AnyDevice, PublicationDevice};
use crate::reading::read_ahead::ReadAhead;
use crate::store::{Stamp, Store};
use lanefs::format::superblock::Superblock;
use lanefs::format::{BLOCK, SUPERBLOCK_COPY};
use lanefs::{Access, Device, OpenOptions, Volume};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Most bytes of a tag's name.
const MAX_NAME_BYTES: usize = 128;

/// A version of a publication, by tag or by its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The version that the tag names now.
    Tag(String),
    /// This version.
    Version(Hash),
}

impl Reference {
    /// Parses the part of a URL after `#`: a version is 64 hexadecimal digits, everything else the name of
    /// a tag: letters, digits, `.`, `_` and `-`, the first no `.`, 128 bytes at most.
    ///
    /// # Errors
    /// [`Error::Url`] for any other text.
    pub fn parse(text: &str) -> Result<Self> {
        if let Some(version) = Hash::parse(text) {
            return Ok(Reference::Version(version));
        }
        let is_fine = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if text.is_empty()
            || text.len() > MAX_NAME_BYTES
            || text.starts_with('.')
            || !text.chars().all(is_fine)
        {
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
    /// Bytes of metadata, as stored, and of pages, as decompressed, that are fetched at once. 0: none.
    pub ahead: u64,
    /// Data that comes next is fetched before it is asked for, where a reader goes by positions.
    pub reads_ahead: bool,
    /// Requests to the store that are under way at the same time at most. 0: as many as the store
    /// [bears](Store::concurrency).
    pub requests: usize,
    /// Latency of the store, and the bytes per second that it gives, where they are known; else they are
    /// measured. They decide what is read beside the bytes that are needed.
    pub pace: Option<(Duration, u64)>,
    /// Shards of a join that are open at the same time at most: each has up to 4 MiB of pages in memory.
    pub open_shards: usize,
    /// Function that learns of reads that failed.
    pub on_failure: Option<OnFailure>,
}

impl ReadOptions {
    /// Shards of a join that are open at the same time, by default.
    pub const OPEN_SHARDS: usize = 64;
    /// Bytes of decompressed pieces in memory, by default.
    pub(crate) const MEMORY_BYTES: u64 = 64 << 20;
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            cache: None,
            fills_cache: true,
            memory: Self::MEMORY_BYTES,
            ahead: 16 << 20,
            reads_ahead: true,
            requests: 0,
            pace: None,
            open_shards: Self::OPEN_SHARDS,
            on_failure: None,
        }
    }
}

/// A version that is open for reading. It stays the same, whatever is published meanwhile.
pub struct Publication {
    pub(crate) fetcher: Arc<Fetcher>,
    pub(crate) manifest: Arc<Manifest>,
    /// The shards of a join.
    join: Option<Arc<OpenJoin>>,
    read_ahead: Option<Arc<ReadAhead>>,
    /// Options by which a newer version is opened.
    shards: ShardOptions,
    on_failure: Option<OnFailure>,
}

/// Options for the shards of a join.
#[derive(Clone, Copy)]
struct ShardOptions {
    open: usize,
    read_ahead: Option<u64>,
}

impl ShardOptions {
    /// Makes the state of a join; `None` for one volume.
    fn join(self, fetcher: &Arc<Fetcher>, manifest: &Manifest) -> Option<Arc<OpenJoin>> {
        let join = manifest.root.join.as_ref()?;
        Some(Arc::new(OpenJoin::new(Arc::clone(fetcher), manifest, join, self.open, self.read_ahead)))
    }
}

impl Publication {
    /// Opens a version.
    ///
    /// # Errors
    /// [`Error::NoTag`]; the store's; a damaged tag, root or page.
    pub fn open(store: Arc<dyn Store>, reference: &Reference, options: &ReadOptions) -> Result<Self> {
        let objects = Objects { store };
        prepare(&objects, reference, options);
        let named = match reference {
            Reference::Version(version) => Named { version: *version, most: MAX_ROOT_BYTES, root: None },
            Reference::Tag(name) => named(&objects, name)?,
        };
        let fetcher = Fetcher::new(objects, options.cache.clone(), options.memory);
        let fetcher = fetcher.filling(options.fills_cache);
        let fetcher = fetcher.with_pace(options.pace);
        let fetcher = Arc::new(match options.requests {
            0 => fetcher,
            most => fetcher.with_requests(most),
        });
        let (manifest, is_known) = Manifest::open_named(&fetcher, named)?;
        if !is_known && options.ahead > 0 {
            ahead::fetch(&fetcher, &manifest, options.ahead)?;
        }
        let read_ahead = options.reads_ahead.then(|| ReadAhead::new(options.memory).into());
        let memory = options.reads_ahead.then_some(options.memory);
        let shards = ShardOptions { open: options.open_shards, read_ahead: memory };
        Ok(Publication {
            join: shards.join(&fetcher, &manifest),
            fetcher,
            manifest: manifest.into(),
            read_ahead,
            shards,
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
        let (read_ahead, on_failure, shards) =
            (self.read_ahead.clone(), self.on_failure.clone(), self.shards);
        let join = shards.join(&fetcher, &manifest);
        Ok(Some(Publication { fetcher, manifest: manifest.into(), join, read_ahead, shards, on_failure }))
    }

    /// Returns the version.
    pub fn version(&self) -> Hash {
        self.manifest.version
    }

    /// Returns the facts that the root states.
    pub fn facts(&self) -> Facts {
        self.manifest.root.facts
    }

    /// Returns the shards of a join, by their prefixes; the first one is the frame. `None` for one volume.
    pub fn shards(&self) -> Option<&[Shard]> {
        self.join.as_ref().map(|open| &open.join.shards[..])
    }

    /// Opens a shard of a join, by its number, as the version that it is. Both share their memory, the local
    /// cache and the counts of requests.
    ///
    /// # Errors
    /// The store's; a damaged root; a version that is not what the join says of it.
    pub fn shard(&self, number: usize) -> Result<Publication> {
        let open = self.join.as_ref().ok_or(Error::Interrupted)?;
        let device = open.shard(number)?;
        Ok(Publication {
            fetcher: device.fetcher,
            manifest: device.manifest,
            join: None,
            read_ahead: device.read_ahead,
            shards: self.shards,
            on_failure: self.on_failure.clone(),
        })
    }

    /// True where the version binds the content that its publisher saw. One of version 2 of the format binds
    /// stored bytes only.
    pub fn is_bound(&self) -> bool {
        self.manifest.root.format != UNBOUND
    }

    /// Opens the volume of the version for reading.
    ///
    /// # Errors
    /// [`Error::NotClosed`]; the volume's.
    pub fn volume(&self, options: impl Into<OpenOptions>) -> Result<Volume> {
        self.check_closed()?;
        let options = OpenOptions { access: Access::Read, ..options.into() };
        Ok(Volume::open_device(Box::new(self.device()), options)?)
    }

    /// Checks that the volume was closed, so that it has no log. None that is published has one: the log of a
    /// hostile version would be read to its end.
    ///
    /// # Errors
    /// [`Error::NotClosed`]. A superblock that cannot be read says nothing: who opens the volume tells why.
    pub fn check_closed(&self) -> Result<()> {
        let device = self.device();
        let read = |at| {
            let mut block = [0; BLOCK as usize];
            device.read_slice(at, &mut block).ok().and_then(|()| Superblock::decode(&block).ok())
        };
        // The copy counts where it is newer, or the only one.
        let in_use = match (read(0), read(SUPERBLOCK_COPY)) {
            (Some(first), Some(copy)) if copy.sequence > first.sequence => Some(copy),
            (first, copy) => first.or(copy),
        };
        match in_use.filter(|superblock| !superblock.clean && superblock.journal_blocks > 0) {
            Some(_) => Err(Error::NotClosed(self.shown())),
            None => Ok(()),
        }
    }

    /// The version for messages.
    pub(crate) fn shown(&self) -> String {
        format!("{}#{}", self.fetcher.objects.store.name(), self.version())
    }

    /// Returns counts of the requests to the store.
    pub fn counts(&self) -> Counts {
        self.fetcher.counts()
    }

    /// Returns the bytes of the version as a device.
    pub fn device(&self) -> PublicationDevice {
        let on_failure = self.on_failure.clone();
        PublicationDevice(match &self.join {
            Some(open) => AnyDevice::Join(JoinDevice { state: Arc::clone(open), on_failure }),
            None => AnyDevice::Version(VersionDevice {
                fetcher: Arc::clone(&self.fetcher),
                manifest: Arc::clone(&self.manifest),
                read_ahead: self.read_ahead.clone(),
                requests: self.fetcher.most_requests(),
                on_failure,
            }),
        })
    }
}

/// Has the store connect for the requests that follow the first one, unless the local cache has the root:
/// then nothing is fetched at once.
fn prepare(objects: &Objects, reference: &Reference, options: &ReadOptions) {
    let is_known = match reference {
        Reference::Tag(_) => false,
        Reference::Version(version) => {
            options.cache.as_ref().is_some_and(|cache| cache.len(version).is_some())
        }
    };
    if options.ahead > 0 && !is_known {
        objects.store.prepare(ahead::MORE_CONNECTIONS);
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
    let Some((bytes, stamp)) = objects.read_small(&object, Tag::MAX_BYTES as u64)? else { return Ok(None) };
    let (tag, root) = Tag::parse(&bytes).map_err(|why| objects.damaged(&object, why))?;
    Ok(Some(TagObject { tag, root: root.map(<[u8]>::to_vec), stamp }))
}

/// Returns the version that a tag names.
fn named(objects: &Objects, name: &str) -> Result<Named> {
    let missing = || Error::NoTag(format!("{}#{name}", objects.store.name()));
    let TagObject { tag, root, .. } = read_tag_object(objects, name)?.ok_or_else(missing)?;
    Ok(Named { version: tag.version, most: tag.root_bytes as usize, root })
}
