//! The shards that a join is to have, and where they lie.

use super::frame::FRAME_BYTES;
use super::{JoinOptions, Receipt, refused};
use crate::error::Result;
use crate::format::hash::Hash;
use crate::format::join::{Join, Shard, order};
use lanefs::format::{GROUP, MAX_VOLUME};
use std::collections::HashMap;

/// A shard that the join is to have.
pub(super) struct Wanted<'b> {
    pub(super) prefix: Vec<u8>,
    pub(super) version: Hash,
    /// UUID that its receipt says.
    pub(super) uuid: Option<[u8; 16]>,
    /// The shard with this prefix in the join of the tag.
    pub(super) previous: Option<&'b Shard>,
}

impl<'b> Wanted<'b> {
    /// The same shard in the join of the tag.
    pub(super) fn same(&self) -> Option<&'b Shard> {
        self.previous.filter(|previous| previous.version == self.version)
    }
}

/// Returns the shards of the join in the order of their prefixes.
pub(super) fn wanted<'b>(
    before: Option<&'b Join>,
    receipts: &[Receipt],
    options: &JoinOptions,
) -> Result<Vec<Wanted<'b>>> {
    let previous: HashMap<&[u8], &Shard> =
        before.iter().flat_map(|join| &join.shards[1..]).map(|shard| (&shard.prefix[..], shard)).collect();
    let mut all: HashMap<&[u8], Wanted<'b>> = HashMap::new();
    for receipt in receipts {
        let prefix = &receipt.prefix[..];
        Receipt::check_prefix(prefix)?;
        let (uuid, version) = (Some(receipt.uuid), receipt.version);
        let one = Wanted { prefix: prefix.into(), version, uuid, previous: previous.get(prefix).copied() };
        if let Some(other) = all.insert(prefix, one)
            && (other.version, other.uuid) != (version, uuid)
        {
            let why = format!("has two receipts, of {} and of {version}; choose one", other.version);
            return Err(refused(prefix, why));
        }
    }
    for prefix in &options.remove {
        if all.contains_key(&prefix[..]) {
            return Err(refused(prefix, "is to be removed, and has a receipt"));
        }
    }
    let is_removed = |prefix: &[u8]| options.only || options.remove.iter().any(|other| other == prefix);
    for (prefix, shard) in &previous {
        if !is_removed(prefix) && !all.contains_key(prefix) {
            let (prefix, version) = (prefix.to_vec(), shard.version);
            all.insert(&shard.prefix, Wanted { prefix, version, uuid: None, previous: Some(shard) });
        }
    }
    let mut all: Vec<Wanted<'b>> = all.into_values().collect();
    all.sort_by(|a, b| order(&a.prefix, &b.prefix));
    Ok(all)
}

/// Gives each shard its base: the one that it had, where its volume fits there, else the first gap that is
/// large enough. Fails with the prefix of a shard that finds no room.
pub(super) fn place<'s>(
    before: Option<&Join>,
    shards: impl Iterator<Item = &'s mut Shard>,
) -> std::result::Result<(), Vec<u8>> {
    let had: HashMap<(&[u8], u64), &Shard> = before
        .iter()
        .flat_map(|join| &join.shards[1..])
        .map(|shard| ((&shard.prefix[..], shard.base), shard))
        .collect();
    let (mut stay, mut new): (Vec<&mut Shard>, Vec<&mut Shard>) =
        shards.partition(|shard| had.contains_key(&(&shard.prefix[..], shard.base)));
    stay.sort_by_key(|shard| shard.base);
    // One that has become too large for its place moves. The others are as large as they were.
    let mut taken: Vec<(u64, u64)> = vec![(0, FRAME_BYTES)];
    let bases: Vec<u64> = stay.iter().skip(1).map(|shard| shard.base).chain([u64::MAX]).collect();
    for (shard, next) in stay.into_iter().zip(bases) {
        if shard.end() <= next {
            taken.push((shard.base, shard.end()));
        } else {
            new.push(shard);
        }
    }
    new.sort_by(|a, b| order(&a.prefix, &b.prefix));
    for shard in new {
        let gaps = taken.iter().zip(taken.iter().skip(1).map(|(base, _)| *base).chain([MAX_VOLUME]));
        let found = gaps.enumerate().find_map(|(number, ((_, end), next))| {
            let base = end.next_multiple_of(GROUP);
            (shard.volume_bytes <= next.saturating_sub(base)).then_some((number + 1, base))
        });
        let Some((number, base)) = found else { return Err(shard.prefix.clone()) };
        shard.base = base;
        taken.insert(number, (base, shard.end()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanefs::InodeSize;
    use lanefs::format::HashSeed;

    const SMALL: u64 = 64 << 20;

    fn shard(prefix: &str, volume_bytes: u64) -> Shard {
        Shard {
            prefix: prefix.into(),
            version: Hash::of(prefix.as_bytes()),
            uuid: [1; 16],
            base: 0,
            volume_bytes,
            free_blocks: 0,
            inodes: 2,
            blocks: 0,
            metadata_bytes: 0,
            data_bytes: 0,
            root: 1,
            groups: 4096,
            checksum_seed: 0,
            territory: 0,
            placeholder: 0,
            parent: 0,
        }
    }

    fn placed(before: Option<&Join>, shards: &mut [Shard]) -> Vec<u64> {
        place(before, shards.iter_mut()).expect("there is room");
        shards.iter().map(|shard| shard.base / GROUP).collect()
    }

    #[test]
    fn shards_keep_their_bases_as_long_as_they_fit() {
        let mut shards = [shard("/a", SMALL), shard("/b", 3 * GROUP), shard("/c", SMALL)];
        assert_eq!(placed(None, &mut shards), [1, 2, 5]);
        let frame = shard("", FRAME_BYTES);
        let before = Join {
            inode_size: InodeSize::B256,
            hash_seed: HashSeed::MD4,
            created: 0,
            orphans: 2,
            shards: std::iter::once(frame).chain(shards.clone()).collect(),
        };
        // /a has grown out of its place, /b is gone, and the new one fits there.
        let mut next = [shards[0].clone(), shard("/aa", 2 * GROUP), shards[2].clone()];
        next[0].volume_bytes = 4 * GROUP;
        assert_eq!(placed(Some(&before), &mut next), [1, 6, 5], "/a has room, since /b is gone");
        next[0].volume_bytes = 5 * GROUP;
        next[0].base = GROUP;
        next[1].base = 0;
        assert_eq!(placed(Some(&before), &mut next), [6, 1, 5]);
        let mut huge = [shard("/x", MAX_VOLUME - GROUP), shard("/y", SMALL)];
        assert_eq!(place(None, huge.iter_mut()), Err(b"/y".to_vec()));
    }

    #[test]
    fn receipts_add_to_and_replace_the_shards_of_the_tag() {
        let receipt = |prefix: &str, version: &[u8]| Receipt {
            prefix: prefix.into(),
            version: Hash::of(version),
            uuid: [1; 16],
            files: 1,
            bytes: 1,
        };
        let before = Join {
            inode_size: InodeSize::B256,
            hash_seed: HashSeed::MD4,
            created: 0,
            orphans: 2,
            shards: vec![shard("", FRAME_BYTES), shard("/a", SMALL), shard("/b", SMALL)],
        };
        let names = |receipts: &[Receipt], options: &JoinOptions| -> Vec<(String, bool)> {
            let all = wanted(Some(&before), receipts, options).expect("they go together");
            let name = |wanted: &Wanted<'_>| String::from_utf8(wanted.prefix.clone()).expect("text");
            all.iter().map(|wanted| (name(wanted), wanted.same().is_some())).collect()
        };
        let new =
            [receipt("/b", b"new"), receipt("/a-c", b"1"), receipt("/a-c", b"1"), receipt("/a/c", b"2")];
        let expected = [("/a", true), ("/a/c", false), ("/a-c", false), ("/b", false)];
        assert_eq!(names(&new, &JoinOptions::default()), expected.map(|(name, same)| (name.into(), same)));
        let only = JoinOptions { only: true, ..JoinOptions::default() };
        assert_eq!(names(&new[..1], &only), [("/b".into(), false)]);
        let without = JoinOptions { remove: vec![b"/b".to_vec()], ..JoinOptions::default() };
        assert_eq!(names(&[], &without), [("/a".into(), true)]);
        let refused = |receipts: &[Receipt], options: &JoinOptions| {
            wanted(Some(&before), receipts, options).map(drop).expect_err("refused").to_string()
        };
        let two = [receipt("/a", b"1"), receipt("/a", b"2")];
        assert!(refused(&two, &JoinOptions::default()).contains("two receipts"));
        assert!(refused(&new[..1], &without).contains("to be removed"));
        for prefix in ["", "/", "a", "/a/", "/a/./b", "/../x"] {
            let error = refused(&[receipt(prefix, b"1")], &JoinOptions::default());
            assert!(error.contains("has a prefix"), "{error}");
        }
    }
}
