//! Addresses of the mirror's tables, and the parameters that every dispatch has.

use super::cache::DirectoryCache;
use super::dir_table::TableAddresses;
use super::mirror::Mirror;
use crate::shared::limits::MAX_GROUPS;
use crate::shared::query::LookupQuery;
use crate::shared::structures::{Parameters, Vector};

/// Bytes of a dispatch's parameters. A list after them begins at a multiple of the alignment of any element.
pub(crate) const PARAMETERS_BYTES: u64 = Parameters::SIZE.next_multiple_of(64) as u64;

/// Addresses of the mirror's tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MirrorTables {
    chunks: u64,
    chunk_count: u64,
    copies: u64,
    versions: u64,
    version_count: u32,
    directories: TableAddresses,
}

impl MirrorTables {
    pub(crate) fn of(mirror: &Mirror) -> MirrorTables {
        let (chunks, copies, chunk_count) = mirror.table();
        let (versions, version_count) = mirror.versions();
        let directories = mirror.directories.addresses();
        MirrorTables { chunks, chunk_count, copies, versions, version_count, directories }
    }

    /// Returns the parameters of a dispatch, without its lists.
    pub(crate) fn parameters(&self, query: &LookupQuery, cache: &DirectoryCache) -> Parameters {
        let user = query.user.as_ref();
        let mut groups = [0; MAX_GROUPS];
        let all = user.map_or(&[][..], |user| &user.groups);
        debug_assert!(all.len() <= MAX_GROUPS, "callers with more groups are left to the host");
        let used = groups.iter_mut().zip(all).map(|(to, group)| *to = *group).count();
        let (cache_at, buckets) = cache.buckets();
        Parameters {
            chunks: self.chunks,
            chunk_count: self.chunk_count,
            copies: self.copies,
            versions: self.versions,
            version_count: self.version_count,
            cache: cache_at,
            buckets,
            dir_table: self.directories.buckets,
            dir_buckets: self.directories.bucket_count,
            dir_records: self.directories.records,
            dir_units: self.directories.units,
            epoch: self.directories.epoch,
            claim: cache.claim(),
            root: query.root,
            base: query.base,
            seed: Vector(query.seed.0),
            inode_size: query.inode_size.bytes() as u32,
            follow: query.follow.into(),
            fuel: query.fuel,
            is_checked: user.is_some().into(),
            uid: user.map_or(0, |user| user.uid),
            gid: user.map_or(0, |user| user.gid),
            group_count: used as u32,
            groups,
            ..Parameters::default()
        }
    }
}
