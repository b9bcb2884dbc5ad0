//! Roots of joins as bytes, and hostile ones.

use super::*;
use crate::format::layout::{MAX_ROOT_BYTES, VERSION};
use crate::format::root::Root;
use lanefs_testkit::seeded::Seeded;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

fn shard(prefix: &str, number: u64, territory: usize) -> Shard {
    Shard {
        prefix: prefix.into(),
        version: Hash::of(prefix.as_bytes()),
        uuid: [number as u8; 16],
        base: number * GROUP,
        volume_bytes: 64 * MIB,
        free_blocks: 100,
        inodes: 12,
        blocks: 1,
        metadata_bytes: 2,
        data_bytes: 3,
        root: 8192 + number,
        groups: BLOCK,
        checksum_seed: number as u32,
        territory,
        placeholder: if number == 0 { 0 } else { 8000 + number },
        parent: if number == 0 { 0 } else { 8000 },
    }
}

fn root_of(shards: Vec<Shard>) -> Root {
    let volume_bytes = table_and_size(&shards).expect("a size").1;
    let facts =
        Facts { uuid: [7; 16], volume_bytes, sequence: 3, blocks: 4, metadata_bytes: 5, data_bytes: 6 };
    let join = Join {
        inode_size: InodeSize::B256,
        hash_seed: HashSeed([1, 2, 3, 4]),
        created: 99,
        orphans: 8193,
        shards,
    };
    Root {
        format: VERSION,
        facts,
        level: 0,
        pages: Vec::new(),
        ranges: Vec::new(),
        join: Some(Arc::new(join)),
    }
}

/// A frame, and four shards of which one lies in another one.
fn sound() -> Vec<Shard> {
    vec![shard("", 0, 0), shard("/a", 2, 0), shard("/a/b/c", 4, 1), shard("/a-b", 1, 0), shard("/z/y", 3, 0)]
}

fn parsed(shards: Vec<Shard>) -> Result<Root, Bad> {
    let root = root_of(shards);
    Root::parse(&root.encode()).inspect(|parsed| assert_eq!(*parsed, root))
}

#[test]
fn the_root_of_a_join_survives_its_bytes() {
    let root = parsed(sound()).expect("a root");
    let join = root.join.as_ref().expect("a join");
    assert_eq!(join.territories(), [0, 0, 1, 0, 0], "/a/b/c lies in /a, and not in /a-b before it");
    let aliases = join.aliases();
    assert_eq!(aliases.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1, 0, 0, 0]);
    let inner = RootAlias { placeholder: 8004, root: 8196 + 4 * GROUP / 256 };
    assert_eq!(aliases[1], [inner], "inode numbers of the join");
    let superblock = join.superblock(&root.facts);
    assert_eq!((superblock.groups, superblock.volume_bytes), (5 * GROUP, 5 * GROUP + 6 * BLOCK));
    assert_eq!(superblock.inodes, 5 * 12 - 2 * 4);
    let used = 5 * (64 * MIB / BLOCK - 100) + 6;
    assert_eq!(superblock.free_blocks, superblock.volume_bytes / BLOCK - used);
    assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock));
    assert!(parsed(vec![shard("", 0, 0)]).is_ok(), "a join without shards");
}

#[test]
fn a_table_of_groups_counts_its_own_groups() {
    let mut shards = sound();
    shards[2].volume_bytes = 40_000 * GROUP;
    let (table, bytes) = table_and_size(&shards).expect("a size");
    assert_eq!(table, 40_004 * GROUP);
    assert_eq!((bytes - table) / BLOCK, bytes.div_ceil(GROUP), "a block for each group");
}

#[test]
fn hostile_roots_of_joins_are_refused() {
    type Spoil = fn(&mut Vec<Shard>);
    let spoils: [(&str, Spoil); 30] = [
        ("impossible number", |shards| shards.clear()),
        ("no frame", |shards| shards[0].base = GROUP),
        ("no frame", |shards| drop(shards.remove(0))),
        ("at an impossible position", |shards| shards[1].base += BLOCK),
        ("at an impossible position", |shards| shards[1].base = u64::MAX / GROUP * GROUP),
        ("overlap", |shards| shards[1].base = shards[2].base),
        ("overlap", |shards| shards[1].volume_bytes = 126 * MIB * 9),
        ("overlap", |shards| shards[1].base = 0),
        ("impossible size", |shards| shards[1].volume_bytes = 0),
        ("impossible size", |shards| shards[1].volume_bytes += 1),
        ("impossible size", |shards| shards[1].volume_bytes = u64::MAX / BLOCK * BLOCK),
        ("group table", |shards| shards[1].groups = 0),
        ("group table", |shards| shards[1].groups = 64 * MIB),
        ("group table", |shards| shards[1].groups = 17),
        ("root directory", |shards| shards[1].root = 0),
        ("root directory", |shards| shards[1].root = u64::MAX),
        ("counts", |shards| shards[1].free_blocks = u64::MAX),
        ("counts", |shards| shards[1].inodes = u64::MAX),
        ("counts", |shards| shards[1].blocks = 64 * MIB / BLOCK + 1),
        ("twice", |shards| shards[2].prefix = b"/a".to_vec()),
        ("not in order", |shards| shards.swap(3, 4)),
        ("not an absolute path", |shards| shards[1].prefix = b"a".to_vec()),
        ("component", |shards| shards[1].prefix = b"/".to_vec()),
        ("component", |shards| shards[1].prefix = b"/a/../b".to_vec()),
        ("component", |shards| shards[1].prefix = b"/a//b".to_vec()),
        ("component", |shards| shards[1].prefix = b"/a\0".to_vec()),
        ("too long", |shards| shards[4].prefix = b"/z".repeat(2048)),
        ("territory", |shards| shards[2].territory = 4),
        ("directory of its own", |shards| shards[1].placeholder = shards[4].placeholder),
        ("directory of its own", |shards| shards[2].placeholder = 64 * MIB / 256),
    ];
    for (expected, spoil) in spoils {
        let mut shards = sound();
        spoil(&mut shards);
        let mut root = root_of(sound());
        root.facts.volume_bytes = table_and_size(&shards).map_or(root.facts.volume_bytes, |(_, bytes)| bytes);
        let join = root.join.take().expect("a join");
        root.join = Some(Arc::new(Join { shards, ..(*join).clone() }));
        let refused = Root::parse(&root.encode()).expect_err(expected);
        assert!(refused.contains(expected), "{refused} for {expected}");
    }
}

#[test]
fn numbers_that_are_claims_cost_nothing() {
    let root = root_of(sound()).encode();
    let with = |at: usize, value: u32| {
        let mut bytes = root.clone();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        Root::parse(&bytes)
    };
    for shards in [4098, u32::MAX] {
        assert_eq!(with(root::SIZE, shards), Err("has an impossible number of shards"));
    }
    assert_eq!(with(root::SIZE, 4097), Err(CUT_OFF));
    assert_eq!(with(root::PACKS.offset, 1), Err("is a join and has pages of its own"));
    assert_eq!(with(root::VOLUME_BYTES.offset, 1 << 20), Err("has an impossible size of the volume"));
    let kind = with(root::KIND.offset, 2).expect_err("another kind");
    assert!(kind.contains("of a kind that this program does not know"));
    let many = (1..4096).map(|number| shard(&format!("/{number:0200}"), number, 0));
    let large = root_of(std::iter::once(shard("", 0, 0)).chain(many).collect()).encode();
    assert!(large.len() > MAX_ROOT_BYTES);
    assert_eq!(Root::parse(&large), Err("is too large"));
}

#[test]
fn roots_of_joins_with_random_changes_are_refused_or_sound() {
    let mut random = Seeded::new(77);
    let bytes = root_of(sound()).encode();
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut bytes = bytes.clone();
        for _ in 0..1 + random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(4) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] = if random.chance(50) { 0xff } else { 0 },
                _ => bytes[at] ^= 1 << random.below(8),
            }
            if bytes.len() < 2 {
                break;
            }
        }
        let Ok(Root { join: Some(join), facts, .. }) = Root::parse(&bytes) else { continue };
        accepted += 1;
        let superblock = join.superblock(&facts);
        assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock));
        for (shard, territory) in join.shards.iter().zip(join.territories()) {
            assert!(shard.end() <= facts.volume_bytes && territory <= shard.territory);
        }
    }
    assert!(accepted > 100, "{accepted}");
}
