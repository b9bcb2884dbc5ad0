//! Joining: shards, which many machines have published, become one volume without a copy.
//!
//! 1. [`plan`]: the shards of the tag's join and the new ones, in the order of their prefixes, and their
//!    bases. A shard keeps its base where it can, so its inode numbers stay.
//! 2. The new shards are opened, and compared with the others: all have inodes of one size and one hash of
//!    names.
//! 3. [`places`]: the empty directories that the shards replace, in the frame ([`frame`]) or another shard.
//! 4. The roots of new shards are written again, which makes them young: no prune takes them meanwhile
//!    ([`condemned`]). Then the root of the join is written, and the tag is moved if it is still the same.
//!
//! The same receipts make the same version. So a join that was cut off is made again by the same call.

mod frame;
mod places;
mod plan;

use crate::condemned::{self, Seen};
use crate::error::{Error, Result};
use crate::format::facts::Facts;
use crate::format::hash::Hash;
use crate::format::join::{Join, Shard, check_prefix, table_and_size};
use crate::format::layout::{MAX_ROOT_BYTES, MAX_SHARDS, VERSION};
use crate::format::root::{Root, Tag};
use crate::objects::Objects;
use crate::publication::{ReadOptions, read_tag};
use crate::publish::{OnProgress, PublishOptions};
use crate::reading::fetch::Fetcher;
use crate::reading::join::{open_version, read_superblock};
use crate::reading::manifest::Manifest;
use crate::reading::threads;
use crate::store::Store;
use crate::versions::{renew, replace_tag};
use lanefs::escape::escape;
use lanefs::format::superblock::Superblock;
use plan::Wanted;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Shards that are opened at the same time.
const REQUESTS: usize = 32;

/// A publisher's word on its shard. A join takes the prefix and the version from it, and everything else from
/// the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Path of the shard in the join, such as `/a/b`.
    pub prefix: Vec<u8>,
    /// The version of the shard.
    pub version: Hash,
    /// UUID of its volume.
    pub uuid: [u8; 16],
    /// Its inodes but the root directory, for people.
    pub files: u64,
    /// Bytes of its published blocks, for people.
    pub bytes: u64,
}

impl Receipt {
    /// Checks the prefix, as a join does: an absolute path below the root directory, whose components are
    /// names.
    ///
    /// # Errors
    /// [`Error::Shard`].
    pub fn check_prefix(prefix: &[u8]) -> Result<()> {
        check_prefix(prefix).map_err(|why| refused(prefix, why))
    }
}

/// Options of [`join`].
#[derive(Clone, Debug)]
pub struct JoinOptions {
    /// Prefixes of shards that the join has no longer. One that it did not have changes nothing, so the same
    /// call may be made again.
    pub remove: Vec<Vec<u8>>,
    /// The join has the shards of the receipts, and no others.
    pub only: bool,
    /// Writes nothing, and reports what would be written.
    pub dry_run: bool,
    /// Time of the publication, in nanoseconds since 1970.
    pub now: i64,
}

impl Default for JoinOptions {
    fn default() -> Self {
        let now = PublishOptions::default().now;
        JoinOptions { remove: Vec::new(), only: false, dry_run: false, now }
    }
}

/// Result of [`join`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinReport {
    /// The version that the tag names now. A dry run knows it, too.
    pub version: Hash,
    /// The version that the tag named before.
    pub previous: Option<Hash>,
    /// Facts of the version.
    pub facts: Facts,
    /// Shards of the join.
    pub shards: u64,
    /// Those that it did not have before.
    pub added: u64,
    /// Those that have another version than before.
    pub replaced: u64,
    /// Those that it had before.
    pub removed: u64,
    /// Prefixes that were to be removed, and that it did not have.
    pub absent: Vec<Vec<u8>>,
    /// Bytes of all objects that were written.
    pub written_bytes: u64,
}

/// The error for a shard that cannot be a part of the join.
fn refused(prefix: &[u8], why: impl Into<String>) -> Error {
    Error::Shard { prefix: escape(prefix), why: why.into() }
}

/// Makes a tag name the join of its shards and those of the receipts. A receipt replaces the shard with the
/// same prefix. `progress` is called with shards.
///
/// # Errors
/// [`Error::NotAJoin`]; [`Error::Shard`] for prefixes that do not go together, a shard that is absent or
/// another one than its receipt says, or one that does not fit the others; [`Error::TagMoved`];
/// [`Error::Condemned`]; [`Error::Interrupted`]; the store's. The tag is then as it was.
pub fn join(
    store: Arc<dyn Store>,
    tag: &str,
    receipts: &[Receipt],
    options: &JoinOptions,
    progress: OnProgress<'_>,
) -> Result<JoinReport> {
    let objects = Objects { store };
    let fetcher = Arc::new(Fetcher::new(objects.clone(), None, ReadOptions::MEMORY_BYTES));
    let found = read_tag(&objects, tag)?;
    let before = found.as_ref().map(|(present, _)| Before::read(&fetcher, present, tag)).transpose()?;
    // Before any root is read: a prune that deletes one later has another list at the end.
    let seen = Seen::of(condemned::read(&objects)?.as_ref().map(|(list, _)| list));
    let job = JoinJob { objects, fetcher, before, options, progress };
    let planned = job.plan(receipts)?;
    let bytes = planned.root.encode();
    if bytes.len() > MAX_ROOT_BYTES {
        let prefix = planned.join.shards.last().map_or(&b""[..], |shard| &shard.prefix);
        return Err(refused(prefix, "is one too many: the prefixes of all shards are too long together"));
    }
    let mut report = job.report(&planned, Hash::of(&bytes));
    if report.previous == Some(report.version) {
        report.written_bytes = 0;
        return Ok(report);
    }
    let uuid = planned.root.facts.uuid;
    let next = Tag { version: report.version, root_bytes: bytes.len() as u32, uuid, published: options.now };
    let content = next.encode(&bytes);
    report.written_bytes += (bytes.len() + content.len()) as u64;
    if !options.dry_run {
        let renewed = job.renew(&planned.join)?;
        condemned::secure_join(&job.objects, seen, bytes, &renewed)?;
        replace_tag(&job.objects, tag, &next, content, found.map(|(_, stamp)| stamp))?;
    }
    Ok(report)
}

/// The join that the tag names.
struct Before {
    version: Hash,
    facts: Facts,
    join: Arc<Join>,
}

impl Before {
    fn read(fetcher: &Fetcher, tag: &Tag, name: &str) -> Result<Before> {
        let (manifest, _) = Manifest::open(fetcher, tag.version, tag.root_bytes as usize)?;
        let shown = || format!("{}#{name}", fetcher.objects.store.name());
        let join = manifest.root.join.clone().ok_or_else(|| Error::NotAJoin(shown()))?;
        Ok(Before { version: tag.version, facts: manifest.root.facts, join })
    }
}

/// A join that is being made.
struct JoinJob<'j> {
    objects: Objects,
    fetcher: Arc<Fetcher>,
    before: Option<Before>,
    options: &'j JoinOptions,
    progress: OnProgress<'j>,
}

/// All of a join but its objects.
struct Planned {
    root: Root,
    join: Arc<Join>,
    /// Bytes of the objects of a new frame.
    written_bytes: u64,
}

impl JoinJob<'_> {
    /// Finds out what the join is. Writes the frame where it is a new one.
    fn plan(&self, receipts: &[Receipt]) -> Result<Planned> {
        let before = self.before.as_ref().map(|before| &*before.join);
        let wanted = plan::wanted(before, receipts, self.options)?;
        if wanted.len() >= MAX_SHARDS {
            let why = format!("is one too many: a join has {} shards at most", MAX_SHARDS - 1);
            return Err(refused(&wanted[MAX_SHARDS - 1].prefix, why));
        }
        let mut shards = self.open_all(&wanted)?;
        let (inode_size, hash_seed, created) = self.common(&wanted, &shards)?;
        let made = plan::place(before, shards.iter_mut().map(|(shard, _)| shard));
        made.map_err(|prefix| {
            refused(&prefix, "has no room: the join would be larger than a volume can be")
        })?;
        let frame = frame::FrameOptions {
            uuid: self.uuid(&shards, b"frame"),
            inode_size,
            hash_seed,
            created: self.before.as_ref().map_or(created, |before| before.join.created),
        };
        let shards = shards.into_iter().map(|(shard, _)| shard).collect();
        let places = places::Places { job: self, frame };
        let (join, written_bytes) = places.find(shards)?;
        let root = self.root(&join, b"join")?;
        Ok(Planned { join: Arc::clone(&join), root, written_bytes })
    }

    /// Opens the new shards; the others are as they were.
    fn open_all(&self, wanted: &[Wanted<'_>]) -> Result<Vec<(Shard, Option<Superblock>)>> {
        let (mut all, count) = (Vec::with_capacity(wanted.len()), wanted.len() as u64);
        let fetcher = &self.fetcher;
        for wanted in wanted.chunks(REQUESTS) {
            if !(self.progress)(all.len() as u64, count) {
                return Err(Error::Interrupted);
            }
            let opened = threads::map(REQUESTS, wanted.iter().collect(), |wanted| open(fetcher, wanted));
            for shard in opened {
                all.push(shard?);
            }
        }
        Ok(all)
    }

    /// Size of inodes, seed of names, and the newest time of creation.
    fn common(
        &self,
        wanted: &[Wanted<'_>],
        shards: &[(Shard, Option<Superblock>)],
    ) -> Result<(lanefs::InodeSize, lanefs::format::HashSeed, i64)> {
        let opened = || shards.iter().filter_map(|(_, opened)| opened.as_ref());
        let of_before = self.before.as_ref().filter(|_| wanted.iter().any(|wanted| wanted.same().is_some()));
        let common = match (of_before, opened().next()) {
            (Some(before), _) => (before.join.inode_size, before.join.hash_seed),
            (None, Some(first)) => (first.inode_size, first.seed),
            (None, None) => return Err(refused(b"", "a join has one shard at least")),
        };
        for (shard, opened) in shards {
            let Some(superblock) = opened else { continue };
            if superblock.inode_size != common.0 {
                let (has, others) = (superblock.inode_size.bytes(), common.0.bytes());
                let why = format!(
                    "has inodes of {has} bytes, and other shards have {others}; make all of them with one \
                     --inode-size"
                );
                return Err(refused(&shard.prefix, why));
            }
            if superblock.seed != common.1 {
                let why = "has another hash of names than other shards; make the volumes of all of them by \
                           `lanefs mkfs --family NAME`, with one name for all, and import the files again";
                return Err(refused(&shard.prefix, why));
            }
        }
        let created = opened().map(|superblock| superblock.created).max().unwrap_or_default();
        Ok((common.0, common.1, created))
    }

    /// The UUID of the join, or of another part of it: that of the tag's join, else one that follows from the
    /// first shards.
    fn uuid(&self, shards: &[(Shard, Option<Superblock>)], part: &[u8]) -> [u8; 16] {
        let shards = shards.iter().map(|(shard, _)| shard);
        uuid_of(self.before.as_ref().map(|before| before.facts.uuid), shards, part)
    }

    /// The root of a join.
    fn root(&self, join: &Arc<Join>, part: &[u8]) -> Result<Root> {
        let mut facts = Facts {
            uuid: match &self.before {
                Some(before) => before.facts.uuid,
                None => uuid_of(None, join.shards.iter().skip(1), part),
            },
            volume_bytes: table_and_size(&join.shards).map_or(0, |(_, bytes)| bytes),
            sequence: self.before.as_ref().map_or(1, |before| before.facts.sequence),
            blocks: sum(join, |shard| shard.blocks),
            metadata_bytes: sum(join, |shard| shard.metadata_bytes),
            data_bytes: sum(join, |shard| shard.data_bytes),
        };
        if self.before.as_ref().is_some_and(|before| before.join != *join) {
            facts.sequence = facts.sequence.saturating_add(1);
        }
        // By the rules for readers: what they refuse is not published.
        join.check(&facts).map_err(|why| refused(b"", format!("the join {why}")))?;
        let join = Some(Arc::clone(join));
        Ok(Root { format: VERSION, facts, level: 0, pages: Vec::new(), ranges: Vec::new(), join })
    }

    fn report(&self, planned: &Planned, version: Hash) -> JoinReport {
        let shards = &planned.join.shards[1..];
        let before = self.before.as_ref().map_or(&[][..], |before| &before.join.shards[1..]);
        let find = |shard: &Shard| before.iter().find(|other| other.prefix == shard.prefix);
        let stayed = shards.iter().filter_map(|shard| Some((shard, find(shard)?)));
        let is_absent = |prefix: &&Vec<u8>| !before.iter().any(|shard| shard.prefix == **prefix);
        let absent = self.options.remove.iter().filter(is_absent).cloned().collect();
        let (mut kept, mut replaced) = (0, 0);
        for (shard, before) in stayed {
            kept += 1;
            replaced += u64::from(shard.version != before.version);
        }
        JoinReport {
            version,
            previous: self.before.as_ref().map(|before| before.version),
            facts: planned.root.facts,
            shards: shards.len() as u64,
            added: shards.len() as u64 - kept,
            replaced,
            removed: before.len() as u64 - kept,
            absent,
            written_bytes: planned.written_bytes,
        }
    }

    /// Writes the roots of shards again that the tag's join does not have. Returns their versions.
    fn renew(&self, join: &Join) -> Result<BTreeSet<Hash>> {
        renew(&self.fetcher, join, self.before.as_ref().map(|before| &*before.join), self.progress)
    }
}

/// Opens a version that is to be a shard; one that the tag's join has is as it was.
fn open(fetcher: &Arc<Fetcher>, wanted: &Wanted<'_>) -> Result<(Shard, Option<Superblock>)> {
    if let Some(shard) = wanted.same() {
        return Ok((shard.clone(), None));
    }
    let named = |error: Error| match error.is_broken_object() {
        true => refused(&wanted.prefix, format!("cannot be read: {error}; publish it again")),
        false => error,
    };
    let device = open_version(fetcher, &wanted.version, None).map_err(named)?;
    let facts = device.manifest.root.facts;
    let superblock = read_superblock(&device).map_err(named)?;
    let refuse = |why: &str| Err(refused(&wanted.prefix, why));
    if superblock.uuid != facts.uuid || superblock.volume_bytes != facts.volume_bytes {
        return refuse("has another volume than its root says, which is damaged or hostile");
    }
    if wanted.uuid.is_some_and(|uuid| uuid != facts.uuid) {
        return refuse("has another volume than its receipt says");
    }
    if !superblock.clean && superblock.journal_blocks > 0 {
        return refuse("was not closed when it was published, which is damaged or hostile");
    }
    let shard = Shard {
        prefix: wanted.prefix.clone(),
        version: wanted.version,
        uuid: facts.uuid,
        base: wanted.previous.map_or(0, |previous| previous.base),
        volume_bytes: facts.volume_bytes,
        free_blocks: superblock.free_blocks,
        inodes: superblock.inodes,
        blocks: facts.blocks,
        metadata_bytes: facts.metadata_bytes,
        data_bytes: facts.data_bytes,
        root: superblock.root,
        groups: superblock.groups,
        checksum_seed: superblock.checksum_seed,
        territory: 0,
        placeholder: 0,
        parent: 0,
    };
    Ok((shard, Some(superblock)))
}

fn sum(join: &Join, of: impl Fn(&Shard) -> u64) -> u64 {
    join.shards.iter().map(of).fold(0, u64::saturating_add)
}

/// A UUID for a part of a join: it follows from the UUID of the join, or else from its first shards.
fn uuid_of<'s>(join: Option<[u8; 16]>, shards: impl Iterator<Item = &'s Shard>, part: &[u8]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(part);
    match join {
        Some(uuid) => {
            hasher.update(&uuid);
        }
        None => shards.for_each(|shard| {
            hasher.update(&(shard.prefix.len() as u64).to_le_bytes());
            hasher.update(&shard.prefix).update(&shard.uuid);
        }),
    }
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    // Version 8, variant 1 of RFC 9562.
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// Returns the seed of the hash of names for all volumes of a family, for
/// [`CreateOptions::seed`](lanefs::CreateOptions): the volumes of one family can be shards of one join.
pub fn family_seed(name: &str) -> [u8; 16] {
    let mut seed = [0; 16];
    let hash = blake3::derive_key("lanefs 2026 seed of the hash of names of a family", name.as_bytes());
    seed.copy_from_slice(&hash[..16]);
    seed
}
