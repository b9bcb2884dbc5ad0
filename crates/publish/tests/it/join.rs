//! Joins: shards that were published apart are one volume.

mod changes;
mod hostile;
mod many;

use crate::support::{Memory, names};
use lanefs::{Access, CreateOptions, MemoryDevice, Volume};
use lanefs_publish::{
    Error, JoinOptions, JoinReport, Publication, PublishOptions, ReadOptions, Receipt, Reference, Store,
    family_seed, join, publish_shard,
};
use std::sync::Arc;

/// Bytes of a shard.
const SHARD_BYTES: u64 = 16 << 20;

/// Makes a volume of a family, and fills it.
fn volume_of(family: &str, size: u64, fill: impl FnOnce(&Volume)) -> Volume {
    volume_with(&CreateOptions { size, seed: Some(family_seed(family)), ..CreateOptions::default() }, fill)
}

fn volume_with(options: &CreateOptions, fill: impl FnOnce(&Volume)) -> Volume {
    let device = MemoryDevice::new(vec![0; options.size as usize]);
    let volume = Volume::create_device(Box::new(device.clone()), options).expect("create");
    fill(&volume);
    volume.close().expect("close");
    Volume::open_device(Box::new(device), Access::Read).expect("open")
}

/// Publishes a volume as a shard.
fn shard(store: &Arc<Memory>, prefix: &str, volume: &Volume) -> Receipt {
    let options = PublishOptions { level: 1, ..PublishOptions::default() };
    let report = publish_shard(volume, store.clone(), &options, &|_, _| true).expect("published");
    Receipt {
        prefix: prefix.into(),
        version: report.version,
        uuid: report.facts.uuid,
        files: volume.superblock().inodes - 2,
        bytes: report.facts.blocks * 4096,
    }
}

/// Makes a shard with some files whose contents name it.
fn a_shard(store: &Arc<Memory>, prefix: &str) -> Receipt {
    let volume = volume_of("f", SHARD_BYTES, |volume| fill(volume, prefix));
    shard(store, prefix, &volume)
}

fn fill(volume: &Volume, text: &str) {
    volume.mkdir_all("/dir/deep", 0o755).expect("mkdir");
    volume.mkdir_all("/empty/er", 0o755).expect("mkdir");
    volume.write_file("/dir/name", text).expect("write");
    volume.write_file("/dir/deep/large", text.repeat(20_000)).expect("write");
    volume.hard_link("/dir/name", "/again").expect("link");
    volume.symlink("dir/name", "/link").expect("link");
    volume.set_xattr("/dir/name", "user.of", text).expect("set");
}

fn joined(store: &Arc<Memory>, receipts: &[Receipt]) -> Result<JoinReport, Error> {
    joined_with(store, receipts, &JoinOptions { now: 7, ..JoinOptions::default() })
}

fn joined_with(
    store: &Arc<Memory>,
    receipts: &[Receipt],
    options: &JoinOptions,
) -> Result<JoinReport, Error> {
    join(store.clone(), "latest", receipts, options, &|_, _| true)
}

fn open(store: &Arc<Memory>) -> Publication {
    Publication::open(store.clone() as Arc<dyn Store>, &Reference::default(), &ReadOptions::default())
        .expect("the join opens")
}

fn volume(publication: &Publication) -> Volume {
    publication.volume(Access::Read).expect("the volume opens")
}

fn read(volume: &Volume, path: &str) -> String {
    String::from_utf8(volume.read_file(path).expect("a file")).expect("text")
}

#[test]
fn shards_lie_at_their_prefixes_and_in_each_other() {
    let store = Arc::new(Memory::default());
    let prefixes = ["/a", "/a/empty/er", "/b/c", "/b/d e"];
    let receipts: Vec<Receipt> = prefixes.iter().map(|prefix| a_shard(&store, prefix)).collect();
    let report = joined(&store, &receipts).expect("a join");
    assert_eq!((report.shards, report.added, report.previous), (4, 4, None));
    let publication = open(&store);
    assert_eq!(publication.version(), report.version);
    assert_eq!(publication.shards().expect("a join").len(), 5, "the frame, too");
    let volume = volume(&publication);
    for prefix in prefixes {
        assert_eq!(read(&volume, &format!("{prefix}/dir/name")), prefix);
        assert_eq!(read(&volume, &format!("{prefix}/link")), prefix);
        assert_eq!(read(&volume, &format!("{prefix}/dir/deep/large")), prefix.repeat(20_000));
        assert_eq!(volume.xattr(format!("{prefix}/dir/name"), "user.of").expect("get"), prefix.as_bytes());
        let (one, other) = (format!("{prefix}/dir/name"), format!("{prefix}/again"));
        let (one, other) = (volume.metadata(one).expect("a file"), volume.metadata(other).expect("a file"));
        assert_eq!((one.ino, one.links), (other.ino, 2));
    }
    for (path, same) in [("/a/empty/er/..", "/a/empty"), ("/b/c/dir/../..", "/b"), ("/a/..", "/")] {
        let ino = |path| volume.metadata(path).expect("a directory").ino;
        assert_eq!(ino(path), ino(same), "{path}");
    }
    // Every directory has the links that its subdirectories give it, and every name is found again.
    let all = names(&volume);
    let directories = all.values().filter(|facts| facts.contains("kind: Directory")).count();
    assert_eq!(directories, 4 + 4 * 4, "/b, three roots of shards, and the directories in all four");
    let below = |path: &str| {
        let entries = volume.read_dir(path).expect("a directory").map(|entry| entry.expect("an entry"));
        entries.filter(|entry| entry.kind == lanefs::FileKind::Directory).count() as u32
    };
    for path in ["/", "/a", "/b", "/b/c", "/a/empty", "/a/empty/er"] {
        assert_eq!(volume.metadata(path).expect("a directory").links, 2 + below(path), "{path}");
    }
    // Space and inodes are those of all shards, without what nobody sees.
    let space = volume.statfs().expect("statfs");
    assert_eq!(space.inodes as usize, all.len() - 4 + 2, "a hard link in each shard; / and the orphans");
    let shards = publication.shards().expect("a join");
    let used: u64 = shards.iter().map(|shard| shard.volume_bytes / 4096 - shard.free_blocks).sum();
    assert_eq!(space.blocks - space.free_blocks, used + 6, "the blocks of the shards, and a group table");
    let verified = publication.verify(&|_, _| true).expect("verified");
    assert_eq!(verified.found, 0, "{:?}", verified.findings);
    assert!(publication.inventory(&|_, _| true).expect("counted").pieces >= verified.sound.pieces);
}

#[test]
fn the_same_receipts_make_the_same_join_whoever_was_killed_before() {
    let store = Arc::new(Memory::default());
    let receipts: Vec<Receipt> =
        ["/x/1", "/x/2", "/x/2/empty/er"].iter().map(|prefix| a_shard(&store, prefix)).collect();
    let before = store.puts.lock().len();
    let dry = joined_with(&store, &receipts, &JoinOptions { dry_run: true, ..JoinOptions::default() });
    let dry = dry.expect("a dry run");
    assert_eq!(store.puts.lock().len(), before, "nothing is written");
    let mut steps = 0;
    // The store fails after each number of writes, with and without its answer: the next try goes on.
    let report = loop {
        *store.puts_left.lock() = Some(steps);
        *store.loses_answers.lock() = steps % 2 == 1;
        let tried = joined(&store, &receipts);
        steps += 1;
        assert!(steps < 100, "{tried:?}");
        if let Ok(report) = tried {
            break report;
        }
        *store.puts_left.lock() = None;
        let tag = store.names().contains(&"tags/latest".to_string());
        assert!(!tag || steps % 2 == 0, "the tag is moved last");
    };
    assert!(steps > 6, "{steps}");
    *store.puts_left.lock() = None;
    assert_eq!(report.version, dry.version, "and a dry run knew it");
    let puts = store.puts.lock().len();
    let mut turned = receipts.clone();
    turned.reverse();
    let again = joined(&store, &[turned, receipts].concat()).expect("the same again");
    assert_eq!(
        (again.version, again.previous, again.written_bytes),
        (report.version, Some(report.version), 0)
    );
    assert_eq!(store.puts.lock().len(), puts, "nothing is written");
}
