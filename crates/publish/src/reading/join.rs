//! A join as a device: the blocks of its shards at their bases, and blocks of its own.
//!
//! A shard is opened when a block of it is read for the first time, and a bounded number of them is open.
//! Each is compared with what the join says of it, so a shard that is absent, damaged or another one costs
//! the blocks in it and no others. The blocks of shards are given as they are published; the store of the
//! volume verifies them at home and relocates them ([`Origins`]).

use super::device::{OnFailure, VersionDevice};
use super::fetch::{Counts, Fetcher};
use super::lru::Lru;
use super::manifest::Manifest;
use super::read_ahead::ReadAhead;
use super::threads;
use crate::error::{Error, Result};
use crate::format::facts::Facts;
use crate::format::hash::Hash;
use crate::format::join::{Join, Shard};
use crate::format::layout::{MAX_ROOT_BYTES, UNBOUND};
use crate::format::root;
use lanefs::format::superblock::Superblock;
use lanefs::format::{
    BLOCK, BLOCKS_PER_GROUP, BlockKind, Checksummer, GROUP, Relocation, RootAlias, SUPERBLOCK_COPY, group,
};
use lanefs::{BlockOrigin, Device, IoBufMut, Origins, Read, ReadErrors};
use lanefs_sync::lock::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Memory for the pages of one shard in bytes: that of the largest page, and of some of a usual size.
const PAGES_BYTES: u64 = 4 << 20;
/// Shards that are read at the same time for one call. Each has up to 32 MiB of pieces in memory, and they
/// share the requests of a call.
const SHARDS_AT_ONCE: usize = 8;

/// The state of a join that is open. All devices on it share it.
pub(crate) struct OpenJoin {
    pub(crate) fetcher: Arc<Fetcher>,
    pub(crate) version: Hash,
    pub(crate) join: Arc<Join>,
    superblock: Superblock,
    /// Its bytes.
    superblock_bytes: Vec<u8>,
    aliases: Vec<Vec<RootAlias>>,
    /// Numbers of the shards in the order of their bases.
    by_base: Vec<usize>,
    open: Mutex<Lru<usize, VersionDevice>>,
    /// The reading ahead whose memory all shards share.
    read_ahead: Option<ReadAhead>,
}

impl OpenJoin {
    /// Makes the state of a join of which no shard is open, and `shards` are at most. `read_ahead` is the
    /// memory for pieces in bytes, where data are read ahead.
    pub(crate) fn new(
        fetcher: Arc<Fetcher>,
        manifest: &Manifest,
        join: &Arc<Join>,
        shards: usize,
        read_ahead: Option<u64>,
    ) -> OpenJoin {
        let facts: &Facts = &manifest.root.facts;
        let superblock = join.superblock(facts);
        let mut by_base: Vec<usize> = (0..join.shards.len()).collect();
        by_base.sort_by_key(|number| join.shards[*number].base);
        OpenJoin {
            fetcher,
            version: manifest.version,
            superblock_bytes: superblock.encode(),
            superblock,
            aliases: join.aliases(),
            by_base,
            open: Mutex::new(Lru::new(shards.max(1) as u64)),
            join: Arc::clone(join),
            read_ahead: read_ahead.map(ReadAhead::new),
        }
    }

    /// The device of a shard, which is opened where it is not open.
    pub(crate) fn shard(&self, number: usize) -> Result<VersionDevice> {
        if let Some(found) = self.open.lock().get(&number) {
            return Ok(found);
        }
        // Two threads may open the same shard: the one that comes last stays.
        let opened = open_shard(&self.fetcher, &self.join, number, self.read_ahead.as_ref())?;
        self.open.lock().insert(number, opened.clone(), 1);
        Ok(opened)
    }

    /// Number of the shard that has the byte at a position of the join.
    fn at(&self, position: u64) -> Option<usize> {
        let shards = &self.join.shards;
        let after = self.by_base.partition_point(|number| shards[*number].base <= position);
        let number = *self.by_base.get(after.checked_sub(1)?)?;
        (position < shards[number].end()).then_some(number)
    }

    /// The place from which the block at a position comes.
    fn place(&self, at: u64) -> BlockPlace {
        if at == 0 || at == SUPERBLOCK_COPY {
            return BlockPlace::Superblock;
        }
        let groups = self.superblock.groups;
        let Some(in_table) = at.checked_sub(groups) else {
            return match self.at(at) {
                Some(number) => BlockPlace::Shard { number, home: at - self.join.shards[number].base },
                None => BlockPlace::Nothing,
            };
        };
        let first = in_table / BLOCK * GROUP;
        match self.at(first) {
            Some(number) => {
                let shard = &self.join.shards[number];
                let home = shard.groups + (first - shard.base) / GROUP * BLOCK;
                BlockPlace::Shard { number, home }
            }
            None => BlockPlace::Group(first / GROUP),
        }
    }

    /// A block of the group table for a group without a shard: all of its blocks are used.
    fn empty_group(&self, number: u64) -> Vec<u8> {
        let mut block = vec![0; BLOCK as usize];
        group::KIND.write(&mut block, BlockKind::Group as u8);
        group::OWNER.write(&mut block, number);
        (0..BLOCKS_PER_GROUP as usize / 64)
            .for_each(|word| group::BITMAP.index(word).write(&mut block, u64::MAX));
        let at = self.superblock.groups + number * BLOCK;
        Checksummer::new(self.superblock.checksum_seed).seal(BlockKind::Group, at, &mut block, 0);
        block
    }
}

/// The place from which a block of a join comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockPlace {
    /// A block of a shard.
    Shard { number: usize, home: u64 },
    /// The superblock of the join, which is also its copy.
    Superblock,
    /// The block of the group table for a group without a shard.
    Group(u64),
    /// Space between shards.
    Nothing,
}

/// Opens a shard, and compares it with what the join says of it.
pub(crate) fn open_shard(
    fetcher: &Arc<Fetcher>,
    join: &Join,
    number: usize,
    read_ahead: Option<&ReadAhead>,
) -> Result<VersionDevice> {
    let shard = join.shards.get(number).ok_or(Error::Interrupted)?;
    let differs = || {
        let object = fetcher.objects.shown(&root::object(&shard.version));
        Error::Damaged { object, offset: None, why: "is not the shard that the join describes".into() }
    };
    let device = open_version(fetcher, &shard.version, read_ahead)?;
    let facts = &device.manifest.root.facts;
    if facts.uuid != shard.uuid || facts.volume_bytes != shard.volume_bytes {
        return Err(differs());
    }
    match read_superblock(&device)? {
        superblock if shard.agrees_with(&superblock, join) => Ok(device),
        _ => Err(differs()),
    }
}

/// Opens a version of one volume, with little memory. One that binds no content is not a shard.
pub(crate) fn open_version(
    fetcher: &Arc<Fetcher>,
    version: &Hash,
    read_ahead: Option<&ReadAhead>,
) -> Result<VersionDevice> {
    let (manifest, _) = Manifest::open(fetcher, *version, MAX_ROOT_BYTES)?;
    if manifest.root.join.is_some() {
        let object = fetcher.objects.shown(&root::object(version));
        return Err(Error::Damaged { object, offset: None, why: "is a join, and not one volume".into() });
    }
    if manifest.root.format == UNBOUND {
        // File data of a join have no other checksums.
        let why = "is of a version before CONTENT, so nothing binds what a join would give of it";
        return Err(Error::damaged(fetcher.objects.shown(&root::object(version)), why));
    }
    let manifest = Arc::new(manifest.with_memory(PAGES_BYTES));
    let read_ahead = read_ahead.map(|all| Arc::new(all.beside()));
    Ok(VersionDevice {
        fetcher: Arc::clone(fetcher),
        manifest,
        read_ahead,
        requests: fetcher.most_requests(),
        on_failure: None,
    })
}

/// Reads the superblock of a version: the newer one of its two copies.
pub(crate) fn read_superblock(device: &VersionDevice) -> Result<Superblock> {
    let read = |at| {
        let mut block = [0; BLOCK as usize];
        device.read_checked(at, &mut block).map(|()| Superblock::decode(&block).ok())
    };
    let found = match (read(0)?, read(SUPERBLOCK_COPY)?) {
        (Some(first), Some(copy)) if first.is_of_another_moment(&copy) && copy.sequence > first.sequence => {
            Some(copy)
        }
        (first, copy) => first.or(copy),
    };
    found.ok_or_else(|| {
        let object = device.fetcher.objects.shown(&root::object(&device.manifest.version));
        Error::Damaged { object, offset: None, why: "has no volume that this program knows".into() }
    })
}

/// The bytes of a join.
#[derive(Clone)]
pub(crate) struct JoinDevice {
    pub(crate) state: Arc<OpenJoin>,
    pub(crate) on_failure: Option<OnFailure>,
}

/// Requests to one shard, with the numbers of the requests to the join that they are of.
type ShardReads<'r> = (Vec<usize>, Vec<Read<'r>>);

impl JoinDevice {
    /// Returns counts of the requests to the store.
    pub(crate) fn counts(&self) -> Counts {
        self.state.fetcher.counts()
    }

    /// Reads from a shard, with so many requests at the same time.
    fn read_shard(
        &self,
        number: usize,
        requests: usize,
        reads: &mut [Read<'_>],
        is_batch: bool,
    ) -> std::result::Result<(), ReadErrors> {
        match self.state.shard(number) {
            Ok(device) => {
                let on_failure = self.on_failure.clone();
                let device = VersionDevice { requests, on_failure, ..device };
                if is_batch { device.read_batch(reads) } else { device.read_many(reads) }
            }
            Err(error) => {
                let error = self.report(error);
                let mut errors = ReadErrors::default();
                for index in 0..reads.len() {
                    errors.add(index, io::Error::new(error.kind(), error.to_string()));
                }
                errors.into_result()
            }
        }
    }

    fn report(&self, error: Error) -> io::Error {
        super::device::report(error, self.on_failure.as_ref(), self.counts())
    }

    /// Fills a buffer that lies in several places, part by part.
    fn read_parts(&self, at: u64, buffer: &mut IoBufMut<'_>, is_batch: bool) -> io::Result<()> {
        for part in parts(at, buffer.len()) {
            let position = at + part.start as u64;
            let (block, skip) = (position - position % BLOCK, (position % BLOCK) as usize);
            let mut target = buffer.part(part.clone());
            let own = skip..skip + part.len();
            match self.state.place(block) {
                BlockPlace::Superblock => target.copy_from(&self.state.superblock_bytes[own]),
                BlockPlace::Group(number) => target.copy_from(&self.state.empty_group(number)[own]),
                BlockPlace::Nothing => target.fill(0),
                BlockPlace::Shard { number, home } => {
                    let mut reads = [Read { at: home + skip as u64, buffer: target }];
                    self.read_shard(number, self.state.fetcher.most_requests(), &mut reads, is_batch)?;
                }
            }
        }
        Ok(())
    }

    /// Divides requests by shard, and reads from some of these at the same time.
    fn read_by_shard(
        &self,
        requests: &mut [Read<'_>],
        is_batch: bool,
    ) -> std::result::Result<(), ReadErrors> {
        let mut failures: HashMap<usize, io::Error> = HashMap::new();
        let mut by_shard: BTreeMap<usize, ShardReads<'_>> = BTreeMap::new();
        for (index, request) in requests.iter_mut().enumerate() {
            let (at, len) = (request.at, request.buffer.len());
            if at.checked_add(len as u64).is_none_or(|end| end > Device::len(self)) {
                failures.insert(index, io::ErrorKind::UnexpectedEof.into());
            } else if let Some((number, home)) = self.whole(at, len) {
                let (indexes, reads) = by_shard.entry(number).or_default();
                indexes.push(index);
                reads.push(Read { at: home, buffer: request.buffer.reborrow() });
            } else if let Err(error) = self.read_parts(at, &mut request.buffer, is_batch) {
                failures.insert(index, error);
            }
        }
        let share = self.state.fetcher.most_requests() / by_shard.len().clamp(1, SHARDS_AT_ONCE);
        let share = share.max(1);
        let done = threads::map(SHARDS_AT_ONCE, by_shard.into_iter().collect(), |(number, work)| {
            let (indexes, mut reads) = work;
            (indexes, self.read_shard(number, share, &mut reads, is_batch).err())
        });
        for (indexes, failed) in done {
            let Some(failed) = failed else { continue };
            for (part, index) in indexes.into_iter().enumerate() {
                if let Some(error) = failed.of(part) {
                    failures.insert(index, io::Error::new(error.kind(), error.to_string()));
                }
            }
        }
        let mut errors = ReadErrors::default();
        failures.into_iter().for_each(|(index, error)| errors.add(index, error));
        errors.into_result()
    }

    /// The shard of a whole request, and its position there; `None` where it has other bytes, too.
    fn whole(&self, at: u64, len: usize) -> Option<(usize, u64)> {
        let first = at - at % BLOCK;
        let last = at.checked_add(len as u64)?.checked_sub(1)? / BLOCK * BLOCK;
        let is_own = |copy: u64| (first..=last).contains(&copy);
        if last >= self.state.superblock.groups && last != first || is_own(0) || is_own(SUPERBLOCK_COPY) {
            return None;
        }
        match (self.state.place(first), self.state.place(last)) {
            (BlockPlace::Shard { number, home }, BlockPlace::Shard { number: other, .. })
                if number == other =>
            {
                Some((number, home + at % BLOCK))
            }
            _ => None,
        }
    }
}

/// Cuts a range of bytes from position `at` on into those of one block each.
fn parts(at: u64, len: usize) -> impl Iterator<Item = Range<usize>> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let in_block = ((at + done as u64) % BLOCK) as usize;
        let range = done..len.min(done + BLOCK as usize - in_block);
        done = range.end;
        (!range.is_empty()).then_some(range)
    })
}

impl Origins for OpenJoin {
    fn of(&self, at: u64) -> Option<BlockOrigin<'_>> {
        let BlockPlace::Shard { number, home } = self.place(at - at % BLOCK) else { return None };
        let shard: &Shard = self.join.shards.get(number)?;
        let territory = self.join.shards.get(shard.territory)?;
        let parent = if number == 0 { shard.root } else { self.join.joined_inode(territory, shard.parent) };
        let relocation = Relocation {
            sums: Checksummer::new(shard.checksum_seed),
            base: shard.base,
            bytes: shard.volume_bytes,
            inode_size: self.join.inode_size,
            root: shard.root,
            parent,
            aliases: self.aliases.get(number)?,
        };
        Some(BlockOrigin { home, relocation })
    }
}

impl Device for JoinDevice {
    fn len(&self) -> u64 {
        self.state.superblock.volume_bytes
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn is_for_closed_volumes(&self) -> bool {
        true
    }

    fn given(&self) -> u64 {
        self.counts().given()
    }

    fn engine(&self) -> String {
        let cache = match self.state.fetcher.cache() {
            Some(cache) => format!("cache in {}", cache.path().display()),
            None => "no cache".into(),
        };
        let (name, shards) = (self.state.fetcher.objects.store.name(), self.state.join.shards.len() - 1);
        format!("publication {name}, join {} of {shards} shards, {cache}", self.state.version)
    }

    fn origins(&self) -> Option<&dyn Origins> {
        Some(&*self.state)
    }

    fn read_at(&self, at: u64, buffer: IoBufMut<'_>) -> io::Result<()> {
        Ok(self.read_many(&mut [Read { at, buffer }])?)
    }

    fn read_many(&self, requests: &mut [Read<'_>]) -> std::result::Result<(), ReadErrors> {
        self.read_by_shard(requests, false)
    }

    fn read_batch(&self, requests: &mut [Read<'_>]) -> std::result::Result<(), ReadErrors> {
        self.read_by_shard(requests, true)
    }
}
