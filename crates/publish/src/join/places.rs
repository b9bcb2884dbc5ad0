//! The empty directories that shards replace: in the frame, or in another shard.

use super::frame::{self, FrameOptions};
use super::{JoinJob, refused};
use crate::error::{Error, Result};
use crate::format::join::{Join, Shard};
use crate::publish::{PublishOptions, publish_shard};
use crate::reading::join::open_version;
use crate::reading::publication_device::{AnyDevice, PublicationDevice};
use lanefs::escape::escape;
use lanefs::{Access, Caller, ErrorKind, FileKind, OpenOptions, Volume};
use std::collections::HashMap;
use std::sync::Arc;

/// Memory for blocks of a shard in which another one lies, in bytes.
const CACHE_BYTES: u64 = 64 << 20;

/// Finds the places of shards.
pub(super) struct Places<'p, 'j> {
    pub(super) job: &'p JoinJob<'j>,
    pub(super) frame: FrameOptions,
}

impl Places<'_, '_> {
    /// Makes a join of shards that are in order and have their bases. Returns also the bytes of the objects
    /// of a new frame.
    pub(super) fn find(&self, shards: Vec<Shard>) -> Result<(Arc<Join>, u64)> {
        let FrameOptions { inode_size, hash_seed, created, .. } = self.frame;
        let mut join = Join { inode_size, hash_seed, created, orphans: 0, shards: Vec::new() };
        // Its other fields come with the frame.
        let frame = shards.first().map(|first| Shard { prefix: Vec::new(), base: 0, ..first.clone() });
        join.shards.extend(frame.into_iter().chain(shards));
        let territories = join.territories();
        for (shard, territory) in join.shards.iter_mut().zip(territories) {
            shard.territory = territory;
        }
        let written_bytes = match self.keep_frame(&mut join) {
            true => 0,
            false => self.make_frame(&mut join)?,
        };
        self.find_nested(&mut join)?;
        Ok((Arc::new(join), written_bytes))
    }

    /// Takes the frame of the tag's join, where it has the same prefixes.
    fn keep_frame(&self, join: &mut Join) -> bool {
        let Some(before) = self.job.before.as_ref().map(|before| &before.join) else { return false };
        let is_same_kind = (before.inode_size, before.hash_seed) == (join.inode_size, join.hash_seed);
        let in_frame = |join: &Join| -> Vec<Vec<u8>> {
            let shards = join.shards.iter().skip(1).filter(|shard| shard.territory == 0);
            shards.map(|shard| shard.prefix.clone()).collect()
        };
        if !is_same_kind || in_frame(before) != in_frame(join) {
            return false;
        }
        (join.orphans, join.created) = (before.orphans, before.created);
        join.shards[0] = before.shards[0].clone();
        let had = before.shards.iter().skip(1).filter(|shard| shard.territory == 0);
        let shards = join.shards.iter_mut().skip(1).filter(|shard| shard.territory == 0);
        for (shard, had) in shards.zip(had) {
            (shard.placeholder, shard.parent) = (had.placeholder, had.parent);
        }
        true
    }

    /// Makes and publishes a new frame, and returns the bytes of its objects.
    fn make_frame(&self, join: &mut Join) -> Result<u64> {
        let in_frame = || join.shards.iter().skip(1).filter(|shard| shard.territory == 0);
        let volume = frame::make(&self.frame, in_frame().map(|shard| &shard.prefix[..]))?;
        let found: Vec<(u64, u64)> = in_frame()
            .map(|shard| place_in(&volume, &shard.prefix).map_err(|why| refused(&shard.prefix, why)))
            .collect::<Result<_>>()?;
        for (shard, place) in join.shards.iter_mut().skip(1).filter(|shard| shard.territory == 0).zip(found) {
            (shard.placeholder, shard.parent) = place;
        }
        let options = PublishOptions { dry_run: self.job.options.dry_run, ..PublishOptions::default() };
        let store = Arc::clone(&self.job.objects.store);
        let report = publish_shard(&volume, store, &options, &|_, _| true)?;
        let superblock = volume.superblock();
        join.orphans = superblock.orphans;
        join.shards[0] = Shard {
            prefix: Vec::new(),
            version: report.version,
            uuid: superblock.uuid,
            base: 0,
            volume_bytes: superblock.volume_bytes,
            free_blocks: superblock.free_blocks,
            inodes: superblock.inodes,
            blocks: report.facts.blocks,
            metadata_bytes: report.facts.metadata_bytes,
            data_bytes: report.facts.data_bytes,
            root: superblock.root,
            groups: superblock.groups,
            checksum_seed: superblock.checksum_seed,
            territory: 0,
            placeholder: 0,
            parent: 0,
        };
        Ok(report.written_bytes)
    }

    /// Finds the places of shards that lie in other shards.
    fn find_nested(&self, join: &mut Join) -> Result<()> {
        let before = self.job.before.as_ref().map(|before| &before.join.shards[..]).unwrap_or_default();
        let had: HashMap<&[u8], &Shard> = before.iter().map(|shard| (&shard.prefix[..], shard)).collect();
        // In the order of prefixes the shards of one territory follow one another, but for those below them.
        let mut open: Option<(usize, Volume)> = None;
        for number in 1..join.shards.len() {
            let shard = &join.shards[number];
            if shard.territory == 0 {
                continue;
            }
            let territory = &join.shards[shard.territory];
            let is_same = |had: &&&Shard| {
                before.get(had.territory).is_some_and(|other| {
                    (&other.prefix, other.version) == (&territory.prefix, territory.version)
                })
            };
            let place = match had.get(&shard.prefix[..]).filter(is_same) {
                Some(had) => (had.placeholder, had.parent),
                None => {
                    if open.as_ref().is_none_or(|(number, _)| *number != shard.territory) {
                        open = Some((shard.territory, self.open(territory)?));
                    }
                    let Some((_, volume)) = &open else { return Err(Error::Interrupted) };
                    let rest = &shard.prefix[territory.prefix.len()..];
                    place_in(volume, rest).map_err(|why| {
                        let above = escape(&territory.prefix);
                        refused(&shard.prefix, format!("lies in the shard {above}, and {why}"))
                    })?
                }
            };
            (join.shards[number].placeholder, join.shards[number].parent) = place;
        }
        Ok(())
    }

    fn open(&self, shard: &Shard) -> Result<Volume> {
        let device = open_version(&self.job.fetcher, &shard.version, None)?;
        let device = PublicationDevice(AnyDevice::Version(device));
        let options = OpenOptions { cache: Some(CACHE_BYTES), ..OpenOptions::from(Access::Read) };
        Ok(Volume::open_device(Box::new(device), options)?)
    }
}

/// Finds an empty directory and the one above it, which no link leads to.
fn place_in(volume: &Volume, path: &[u8]) -> std::result::Result<(u64, u64), String> {
    let caller = &Caller::OWNER;
    let (mut above, mut found) = (volume.root(), volume.root());
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        let (next, kind) = volume.lookup(caller, found, name).map_err(|error| match error.kind() {
            ErrorKind::NotFound => format!("there is no {} in it; make an empty directory", escape(path)),
            _ => error.to_string(),
        })?;
        if kind != FileKind::Directory {
            return Err(format!("{} is not a directory there", escape(path)));
        }
        (above, found) = (found, next);
    }
    let entries = volume.readdir(caller, found, 0, 3).map_err(|error| error.to_string())?;
    if entries.iter().any(|entry| !matches!(&entry.name[..], b"." | b"..")) {
        return Err(format!("its directory {} is not empty", escape(path)));
    }
    Ok((found.0, above.0))
}
