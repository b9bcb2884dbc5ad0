//! The state of the store: the version of the tag, and packs that this version does not name.

use super::choose::{Candidate, Loan};
use crate::condemned;
use crate::error::{Error, Result};
use crate::format::hash::Hash;
use crate::format::layout::{VERSION, WINDOW_BYTES, pack_end};
use crate::format::pack::{Entry, PackEnd};
use crate::format::packs::{self, PackRef};
use crate::format::page::{Page, PageRef, Piece};
use crate::format::root::Tag;
use crate::reading::fetch::Fetcher;
use crate::reading::lru::Lru;
use crate::reading::manifest::Manifest;
use crate::reading::threads;
use crate::store::Listed;
use lanefs::{UsedBlocks, Volume};
use lanefs_sync::lock::Mutex;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Footers that are fetched at the same time.
const REQUESTS: usize = 16;
/// Footers of the version of the tag that are kept: those of some 8 GiB of pieces.
const FOOTERS: u64 = 256;
/// Packs of interrupted uploads that are looked at, the newest first.
const MAX_UNNAMED: usize = 1024;
/// Seconds by which the clocks of a publisher and the store may differ.
const CLOCKS_APART_SECONDS: i64 = 3600;

/// Footers by pack.
pub(super) type Footers = HashMap<PackRef, Arc<Footer>>;

/// The footer of a pack.
pub(super) struct Footer {
    entries: Vec<Entry>,
    by_offset: HashMap<u32, usize>,
}

impl Footer {
    /// Reads the footer of a pack.
    fn read(fetcher: &Fetcher, pack: &PackRef) -> Result<Self> {
        let entries = fetcher.objects.read_footer(pack)?;
        let by_offset = entries.iter().enumerate().map(|(index, entry)| (entry.offset, index)).collect();
        Ok(Footer { entries, by_offset })
    }

    /// The entry of a piece, if it says the same of it as the page.
    fn of(&self, piece: &Piece) -> Option<&Entry> {
        let entry = &self.entries[*self.by_offset.get(&piece.stored.offset)?];
        let is_its_window = piece.borrowed.is_some() || entry.window == piece.window;
        let is_same =
            is_its_window && entry.blocks == piece.blocks && entry.stored(piece.stored.pack) == piece.stored;
        is_same.then_some(entry)
    }
}

/// A piece of a pack that no version names.
struct Unnamed {
    pack: PackRef,
    footer: Arc<Footer>,
    index: usize,
}

/// The state of the store before the publication.
pub(super) struct Base {
    pub(super) uuid: [u8; 16],
    /// True where nothing is taken over unread.
    checks: bool,
    /// The list of condemned objects, before anything else was read.
    pub(super) seen: condemned::Seen,
    /// Packs that the version of the tag names.
    pub(super) named: HashSet<Hash>,
    /// Manifest of the version that the tag names.
    manifest: Option<Manifest>,
    /// Its pieces, by window.
    pieces: BTreeMap<u64, Vec<Piece>>,
    /// Its pages, by level and number.
    pub(super) pages: HashMap<(u32, u64), PageRef>,
    unnamed: HashMap<u64, Vec<Unnamed>>,
    /// Packs of the store, with their bytes.
    pub(super) listed: HashMap<Hash, u64>,
    footers: Mutex<Lru<PackRef, Arc<Footer>>>,
}

impl Base {
    /// Looks at the store. For a shard it looks for no interrupted upload: other shards write packs there at
    /// the same time, and to read the footers of all of these would cost more than it spares.
    pub(super) fn load(
        fetcher: &Fetcher,
        volume: &Volume,
        tag: Option<&Tag>,
        is_shard: bool,
        checks: bool,
    ) -> Result<Base> {
        let objects = &fetcher.objects;
        // Before the packs are listed: then a prune that takes a listed pack has another list at the end.
        let condemned = condemned::read(objects)?.map(|(list, _)| list);
        let mut listed = objects.list(packs::FOLDER)?;
        let seen = condemned::Seen::of(condemned.as_ref());
        let mut base = Base {
            seen,
            checks,
            named: HashSet::new(),
            uuid: volume.superblock().uuid,
            manifest: None,
            pieces: BTreeMap::new(),
            pages: HashMap::new(),
            unnamed: HashMap::new(),
            listed: HashMap::new(),
            footers: Lru::new(FOOTERS).into(),
        };
        let mut named = HashSet::new();
        if let Some(tag) = tag {
            let (manifest, _) = Manifest::open(fetcher, tag.version, tag.root_bytes as usize)?;
            if manifest.root.join.is_some() {
                return Err(Error::IsJoin(objects.store.name()));
            }
            base.take_manifest(fetcher, &manifest, &mut named)?;
            base.manifest = Some(manifest);
        }
        // A pack that a prune may take is none to build upon. Where the version needs the same, it is written
        // again, which renews its time. Those of the tag's version are needed, whatever a list says.
        if let Some(list) = &condemned {
            listed.retain(|pack| {
                Hash::parse(&pack.name)
                    .is_none_or(|name| !list.packs.contains(&name) || named.contains(&name))
            });
        }
        let since = tag.map_or(i64::MIN, |tag| tag.published / 1_000_000_000 - CLOCKS_APART_SECONDS);
        if !is_shard {
            base.take_unnamed(fetcher, &listed, &named, since);
        }
        for pack in listed {
            base.listed.extend(Hash::parse(&pack.name).map(|name| (name, pack.bytes)));
        }
        base.named = named;
        Ok(base)
    }

    fn take_manifest(
        &mut self,
        fetcher: &Fetcher,
        manifest: &Manifest,
        named: &mut HashSet<Hash>,
    ) -> Result<()> {
        manifest.walk_each(fetcher, &mut |level, page, parsed| {
            named.insert(page.stored.pack.name);
            let parsed = match parsed {
                // All that is below a damaged page is written again.
                Err(error) if self.checks && error.is_broken_object() => return Ok(()),
                parsed => parsed?,
            };
            self.pages.insert((level, page.number), *page);
            if let Page::Leaf(pieces) = parsed {
                named.extend(pieces.iter().map(|piece| piece.stored.pack.name));
                for piece in pieces {
                    self.pieces.entry(piece.window).or_default().push(*piece);
                }
            }
            Ok(())
        })
    }

    /// Finds the pieces of packs that the version does not name and that are not older than it. Packs that
    /// cannot be read are of no use, and do no harm.
    fn take_unnamed(&mut self, fetcher: &Fetcher, listed: &[Listed], named: &HashSet<Hash>, since: i64) {
        let mut packs: Vec<(&Listed, Hash)> = listed
            .iter()
            .filter(|pack| pack.modified >= since)
            .filter_map(|pack| Some((pack, Hash::parse(&pack.name)?)))
            .filter(|(_, name)| !named.contains(name))
            .collect();
        packs.sort_by_key(|(pack, name)| (-pack.modified, *name));
        packs.truncate(MAX_UNNAMED);
        let uuid = self.uuid;
        let read = threads::map(REQUESTS, packs, |(pack, name)| {
            let pack = end_of(fetcher, name, pack.bytes, &uuid)?;
            Some((pack, Arc::new(Footer::read(fetcher, &pack).ok()?)))
        });
        for (pack, footer) in read.into_iter().flatten() {
            for (index, entry) in footer.entries.iter().enumerate() {
                let unnamed = Unnamed { pack, footer: Arc::clone(&footer), index };
                self.unnamed.entry(entry.window).or_default().push(unnamed);
            }
        }
    }

    /// Returns the footers of the packs that have pieces of some windows.
    pub(super) fn footers(&self, fetcher: &Fetcher, windows: &[UsedBlocks]) -> Result<Footers> {
        let mut found = Footers::new();
        let mut missing = HashSet::new();
        let pieces = windows.iter().filter_map(|window| self.pieces.get(&(window.position / WINDOW_BYTES)));
        for pack in pieces.flatten().map(|piece| piece.stored.pack) {
            match self.footers.lock().get(&pack) {
                Some(footer) => drop(found.insert(pack, footer)),
                None => drop(missing.insert(pack)),
            }
        }
        let read = threads::map(REQUESTS, missing.into_iter().collect(), |pack| {
            Footer::read(fetcher, &pack).map(|footer| (pack, Arc::new(footer)))
        });
        for read in read {
            let (pack, footer) = match read {
                // The pieces of a damaged pack are written again.
                Err(error) if self.checks && error.is_broken_object() => continue,
                read => read?,
            };
            self.footers.lock().insert(pack, Arc::clone(&footer), 1);
            found.insert(pack, footer);
        }
        Ok(found)
    }

    /// Returns the pieces that may have blocks of a window.
    pub(super) fn candidates<'c>(&'c self, window: u64, footers: &'c Footers) -> Vec<Candidate<'c>> {
        let of_version = self.pieces.get(&window).into_iter().flatten().filter_map(|piece| {
            let entry = footers.get(&piece.stored.pack)?.of(piece)?;
            let borrowed = piece.borrowed.map(|first| Loan { taken: piece.taken, first });
            Some(Candidate {
                stored: piece.stored,
                blocks: piece.blocks,
                borrowed,
                digests: &entry.digests,
                is_trusted: !self.checks,
            })
        });
        let unnamed = self.unnamed.get(&window).into_iter().flatten().map(|unnamed| {
            let entry = &unnamed.footer.entries[unnamed.index];
            let stored = entry.stored(unnamed.pack);
            // Nobody vouches for it: whoever can write to the store may have made it.
            let (blocks, digests) = (entry.blocks, &entry.digests[..]);
            Candidate { stored, blocks, borrowed: None, digests, is_trusted: false }
        });
        of_version.chain(unnamed).collect()
    }

    /// True for a pack that need not be read to know that it is there: the version of the tag names it.
    pub(super) fn trusts(&self, pack: &Hash) -> bool {
        !self.checks && self.named.contains(pack)
    }

    /// Returns a page of the version that the tag names; `None` for one of an older format.
    pub(super) fn page(&self, fetcher: &Fetcher, level: u32, page: &PageRef) -> Result<Option<Arc<Page>>> {
        let manifest = self.manifest.as_ref().filter(|manifest| manifest.root.format == VERSION);
        manifest.map(|manifest| manifest.page(fetcher, level, page)).transpose()
    }
}

/// Reads the end of a pack of this volume; `None` for any other object.
fn end_of(fetcher: &Fetcher, name: Hash, bytes: u64, uuid: &[u8; 16]) -> Option<PackRef> {
    let from = bytes.checked_sub(pack_end::SIZE as u64)?;
    let end = fetcher.objects.store.read(&packs::object(&name), from..bytes).ok()?;
    let end = PackEnd::parse(&end).ok().filter(|end| end.uuid == *uuid)?;
    (u64::from(end.footer) <= bytes).then_some(PackRef { name, bytes, footer: end.footer })
}
