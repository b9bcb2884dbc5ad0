//! The part of a root that makes it the root of a join.
//!
//! A join is one volume, made of the volumes of other versions: the *frame*, which has the directories above
//! the shards, at position 0, the shards after it, and at its end a table of all their groups. A join that
//! this module accepts has shards that do not overlap, a place of its own for each of them, and sums that do
//! not overflow.

use super::facts::Facts;
use super::hash::Hash;
use super::layout::{MAX_PREFIX_BYTES, MAX_SHARDS, join, root, shard};
use super::words::{Bad, CUT_OFF, Input, append, get, uuid};
use lanefs::format::superblock::Superblock;
use lanefs::format::{
    BLOCK, Checksummer, GROUP, HashSeed, InodeSize, MAX_VOLUME, MIN_VOLUME, RootAlias, SUPERBLOCK_COPY,
};
use lanefs::path::is_name;
use std::cmp::Ordering;
use std::collections::HashSet;

/// A shard of a join: the volume of a version, which lies below a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Path in the join, such as `/a/b`. That of the frame, which has the directories above the others, is
    /// empty.
    pub prefix: Vec<u8>,
    /// The version.
    pub version: Hash,
    /// UUID of its volume.
    pub uuid: [u8; 16],
    /// Byte position in the join at which the volume begins.
    pub base: u64,
    /// Size of the volume in bytes.
    pub volume_bytes: u64,
    /// Free blocks of the volume.
    pub free_blocks: u64,
    /// Inodes of the volume in use.
    pub inodes: u64,
    /// Blocks of the volume that are published.
    pub blocks: u64,
    /// Stored bytes of the pieces of windows with metadata.
    pub metadata_bytes: u64,
    /// Stored bytes of all other pieces of windows.
    pub data_bytes: u64,
    /// Inode number of the root directory in the volume.
    pub(crate) root: u64,
    /// Position of the group table in the volume.
    pub(crate) groups: u64,
    pub(crate) checksum_seed: u32,
    /// Number of the shard in which the prefix lies, among those of the join.
    pub(crate) territory: usize,
    /// Inode numbers there of the empty directory that the shard replaces, and of the one above.
    pub(crate) placeholder: u64,
    pub(crate) parent: u64,
}

impl Shard {
    /// Byte position in the join at which the volume ends.
    pub(crate) fn end(&self) -> u64 {
        self.base.saturating_add(self.volume_bytes)
    }

    /// True where the superblock of the volume says the same as the join.
    pub(crate) fn agrees_with(&self, superblock: &Superblock, join: &Join) -> bool {
        superblock.uuid == self.uuid
            && superblock.checksum_seed == self.checksum_seed
            && superblock.volume_bytes == self.volume_bytes
            && superblock.inode_size == join.inode_size
            && superblock.seed == join.hash_seed
            && superblock.root == self.root
            && superblock.groups == self.groups
            && superblock.incompat == 0
            && (superblock.clean || superblock.journal_blocks == 0)
    }
}

/// The shards of a join, by their prefixes; the first one is the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Join {
    pub(crate) inode_size: InodeSize,
    pub(crate) hash_seed: HashSeed,
    /// Time of the superblock, in nanoseconds since 1970.
    pub(crate) created: i64,
    /// Inode number of the frame's orphan directory.
    pub(crate) orphans: u64,
    pub(crate) shards: Vec<Shard>,
}

/// Checks the path of a shard: absolute, not the root, its components as they are in a volume.
pub(crate) fn check_prefix(prefix: &[u8]) -> Result<(), Bad> {
    let Some(path) = prefix.strip_prefix(b"/") else {
        return Err("has a prefix that is not an absolute path");
    };
    if prefix.len() > MAX_PREFIX_BYTES {
        return Err("has a prefix that is too long");
    }
    match path.split(|byte| *byte == b'/').all(is_name) {
        true => Ok(()),
        false => Err("has a prefix with an impossible component; it has none that is empty, . or .."),
    }
}

/// The order of prefixes: by their components, so that all below a directory follow it.
pub(crate) fn order(a: &[u8], b: &[u8]) -> Ordering {
    a.split(|byte| *byte == b'/').cmp(b.split(|byte| *byte == b'/'))
}

/// True where `above` is the path of a directory above `prefix`. The empty path is above all others.
pub(crate) fn is_above(above: &[u8], prefix: &[u8]) -> bool {
    prefix.strip_prefix(above).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// Returns the position of the group table that follows the last shard, and the size of the join.
pub(crate) fn table_and_size(shards: &[Shard]) -> Option<(u64, u64)> {
    let end = shards.iter().map(Shard::end).max()?;
    let table = end.checked_next_multiple_of(GROUP).filter(|table| *table < MAX_VOLUME)?;
    // The table has a block for each group, those of its own blocks included.
    let mut groups = table / GROUP;
    loop {
        let bytes = groups.checked_mul(BLOCK).and_then(|bytes| table.checked_add(bytes))?;
        match bytes.div_ceil(GROUP) {
            more if more > groups => groups = more,
            _ => return (bytes <= MAX_VOLUME).then_some((table, bytes)),
        }
    }
}

impl Join {
    /// Parses what follows the head of a root whose hash was verified.
    pub(super) fn parse(head: &[u8], input: &mut Input<'_>, facts: &Facts) -> Result<Join, Bad> {
        for count in [root::LEVEL, root::PACKS, root::PAGES, root::RANGES] {
            if get(count, head)? != 0 {
                return Err("is a join and has pages of its own");
            }
        }
        let head = input.take(join::SIZE)?;
        let count = get(join::SHARDS, head)?;
        if !(1..=MAX_SHARDS).contains(&(count as usize)) {
            return Err("has an impossible number of shards");
        }
        let mut seed = [0; 4];
        for (i, word) in seed.iter_mut().enumerate() {
            *word = get(join::HASH_SEED.index(i), head)?;
        }
        let inode_size = InodeSize::from_bytes(get(join::INODE_BYTES, head)?.into());
        let rows: Vec<&[u8]> = input.list(count, shard::SIZE)?.collect();
        let mut shards = Vec::with_capacity(rows.len());
        for row in rows {
            let prefix = get(shard::PREFIX_BYTES, row)? as usize;
            if prefix > MAX_PREFIX_BYTES {
                return Err("has a prefix that is too long");
            }
            shards.push(parse_shard(row, input.take(prefix)?)?);
        }
        input.end()?;
        let join = Join {
            inode_size: inode_size.ok_or("has an impossible size of inodes")?,
            hash_seed: HashSeed(seed),
            created: get(join::CREATED, head)?,
            orphans: get(join::ORPHANS, head)?,
            shards,
        };
        join.check(facts)?;
        Ok(join)
    }

    /// Checks that the shards make one volume.
    pub(crate) fn check(&self, facts: &Facts) -> Result<(), Bad> {
        let frame = self.shards.first().ok_or("has an impossible number of shards")?;
        if frame.base != 0 || !frame.prefix.is_empty() || frame.territory != 0 {
            return Err("has no frame at its beginning");
        }
        if !self.is_inode(frame, self.orphans) {
            return Err("has an impossible orphan directory");
        }
        self.shards.iter().try_for_each(|shard| self.check_shard(shard))?;
        if !self.shards.is_sorted_by(|a, b| order(&a.prefix, &b.prefix) == Ordering::Less) {
            return Err("has a prefix twice, or prefixes that are not in order");
        }
        let mut by_base: Vec<&Shard> = self.shards.iter().collect();
        by_base.sort_by_key(|shard| shard.base);
        if by_base.windows(2).any(|pair| pair[0].end() > pair[1].base) {
            return Err("has shards that overlap");
        }
        let mut placeholders = HashSet::new();
        let territories = self.territories();
        for (shard, territory) in self.shards.iter().zip(territories).skip(1) {
            if shard.territory != territory {
                return Err("has a shard in the territory of another one than its prefix says");
            }
            let above = &self.shards[territory];
            let has_place = self.is_inode(above, shard.placeholder) && self.is_inode(above, shard.parent);
            if !has_place || !placeholders.insert((territory, shard.placeholder)) {
                return Err("has a shard without a directory of its own");
            }
        }
        match table_and_size(&self.shards) {
            Some((_, bytes)) if bytes == facts.volume_bytes => Ok(()),
            _ => Err("has an impossible size of the volume"),
        }
    }

    fn check_shard(&self, shard: &Shard) -> Result<(), Bad> {
        let bytes = shard.volume_bytes;
        if !(MIN_VOLUME..=MAX_VOLUME).contains(&bytes) || !bytes.is_multiple_of(BLOCK) {
            return Err("has a shard of an impossible size");
        }
        if !shard.base.is_multiple_of(GROUP) || shard.base > MAX_VOLUME {
            return Err("has a shard at an impossible position");
        }
        let count = bytes.div_ceil(GROUP);
        let fits = |at: u64| at < bytes && count <= (bytes - at) / BLOCK;
        let at = shard.groups;
        let spans_copy = at <= SUPERBLOCK_COPY && at.saturating_add(count * BLOCK) > SUPERBLOCK_COPY;
        if at == 0 || !at.is_multiple_of(BLOCK) || !fits(at) || spans_copy {
            return Err("has a shard with an impossible group table");
        }
        if !self.is_inode(shard, shard.root) {
            return Err("has a shard with an impossible root directory");
        }
        let most = bytes / BLOCK;
        if shard.free_blocks > most || shard.blocks > most || shard.inodes > bytes / self.inode_size.bytes() {
            return Err("has a shard with impossible counts");
        }
        if shard.prefix.is_empty() { Ok(()) } else { check_prefix(&shard.prefix) }
    }

    /// True for a number of an inode inside a shard.
    fn is_inode(&self, shard: &Shard, number: u64) -> bool {
        number > 0 && number < shard.volume_bytes / self.inode_size.bytes()
    }

    /// For each shard the number of the one in which its prefix lies: the one with the longest path above.
    pub(crate) fn territories(&self) -> Vec<usize> {
        // In their order the shards above are those on a stack.
        let mut above: Vec<usize> = Vec::new();
        let mut found = Vec::with_capacity(self.shards.len());
        for (number, shard) in self.shards.iter().enumerate() {
            while above.last().is_some_and(|last| !is_above(&self.shards[*last].prefix, &shard.prefix)) {
                above.pop();
            }
            found.push(above.last().copied().unwrap_or(0));
            above.push(number);
        }
        found
    }

    /// Inode number in the join of an inode of a shard.
    pub(crate) fn joined_inode(&self, shard: &Shard, number: u64) -> u64 {
        number + shard.base / self.inode_size.bytes()
    }

    /// For each shard, the names in it that lead to others.
    pub(crate) fn aliases(&self) -> Vec<Vec<RootAlias>> {
        let mut aliases = vec![Vec::new(); self.shards.len()];
        for shard in self.shards.iter().skip(1) {
            let root = self.joined_inode(shard, shard.root);
            aliases[shard.territory].push(RootAlias { placeholder: shard.placeholder, root });
        }
        aliases.iter_mut().for_each(|aliases| aliases.sort_unstable());
        aliases
    }

    /// The superblock of the join.
    pub(crate) fn superblock(&self, facts: &Facts) -> Superblock {
        let (groups, volume_bytes) = table_and_size(&self.shards).unwrap_or((0, facts.volume_bytes));
        let used = |shard: &Shard| (shard.volume_bytes / BLOCK).saturating_sub(shard.free_blocks);
        let table_blocks = (volume_bytes - groups) / BLOCK;
        let used = self.shards.iter().map(used).fold(table_blocks, u64::saturating_add);
        // Of each shard an empty directory and the orphan directory of its volume are out of sight.
        let unseen = 2 * (self.shards.len() as u64 - 1);
        let inodes = self.shards.iter().map(|shard| shard.inodes).fold(0, u64::saturating_add);
        Superblock {
            compat: 0,
            ro_compat: 0,
            incompat: 0,
            uuid: facts.uuid,
            checksum_seed: Checksummer::seed_of(&facts.uuid),
            seed: self.hash_seed,
            volume_bytes,
            inode_size: self.inode_size,
            root: self.shards.first().map_or(0, |frame| frame.root),
            groups,
            group_count: volume_bytes.div_ceil(GROUP),
            journal: 0,
            journal_blocks: 0,
            clean: true,
            errors: false,
            sequence: facts.sequence,
            free_blocks: (volume_bytes / BLOCK).saturating_sub(used),
            inodes: inodes.saturating_sub(unseen),
            created: self.created,
            orphans: self.orphans,
            label: [0; 64],
        }
    }

    /// Appends what follows the head of the root.
    pub(super) fn append_to(&self, out: &mut Vec<u8>) {
        append(out, join::SIZE, |head| {
            join::SHARDS.write(head, self.shards.len() as u32);
            join::INODE_BYTES.write(head, self.inode_size.bytes() as u32);
            for (i, word) in self.hash_seed.0.into_iter().enumerate() {
                join::HASH_SEED.index(i).write(head, word);
            }
            join::CREATED.write(head, self.created);
            join::ORPHANS.write(head, self.orphans);
        });
        self.shards.iter().for_each(|shard| append_shard(out, shard));
        self.shards.iter().for_each(|shard| out.extend_from_slice(&shard.prefix));
    }
}

fn parse_shard(row: &[u8], prefix: &[u8]) -> Result<Shard, Bad> {
    Ok(Shard {
        prefix: prefix.to_vec(),
        version: Hash::read(shard::ROOT_HASH, row).ok_or(CUT_OFF)?,
        uuid: uuid(shard::UUID.offset, row)?,
        base: get(shard::BASE, row)?,
        volume_bytes: get(shard::VOLUME_BYTES, row)?,
        free_blocks: get(shard::FREE_BLOCKS, row)?,
        inodes: get(shard::INODES, row)?,
        blocks: get(shard::BLOCKS, row)?,
        metadata_bytes: get(shard::METADATA_BYTES, row)?,
        data_bytes: get(shard::DATA_BYTES, row)?,
        root: get(shard::ROOT, row)?,
        groups: get(shard::GROUPS, row)?,
        checksum_seed: get(shard::CHECKSUM_SEED, row)?,
        territory: get(shard::TERRITORY, row)? as usize,
        placeholder: get(shard::PLACEHOLDER, row)?,
        parent: get(shard::PARENT, row)?,
    })
}

fn append_shard(out: &mut Vec<u8>, one: &Shard) {
    append(out, shard::SIZE, |row| {
        one.version.write(shard::ROOT_HASH, row);
        row[shard::UUID.offset..][..16].copy_from_slice(&one.uuid);
        shard::BASE.write(row, one.base);
        shard::VOLUME_BYTES.write(row, one.volume_bytes);
        shard::ROOT.write(row, one.root);
        shard::GROUPS.write(row, one.groups);
        shard::FREE_BLOCKS.write(row, one.free_blocks);
        shard::INODES.write(row, one.inodes);
        shard::PLACEHOLDER.write(row, one.placeholder);
        shard::PARENT.write(row, one.parent);
        shard::TERRITORY.write(row, one.territory as u32);
        shard::CHECKSUM_SEED.write(row, one.checksum_seed);
        shard::PREFIX_BYTES.write(row, one.prefix.len() as u32);
        shard::BLOCKS.write(row, one.blocks);
        shard::METADATA_BYTES.write(row, one.metadata_bytes);
        shard::DATA_BYTES.write(row, one.data_bytes);
    });
}

#[cfg(test)]
mod tests;
