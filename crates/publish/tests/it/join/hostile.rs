//! Shards that are absent, damaged, or not what the join says, and those that reach for others.

use super::{a_shard, joined, open, read, volume, volume_of};
use crate::support::Memory;
use lanefs::{Access, Device, ErrorKind, Volume};
use lanefs_publish::{Publication, ReadOptions, Receipt, Reference, Store};
use std::sync::Arc;

fn a_join() -> (Arc<Memory>, Vec<Receipt>) {
    let store = Arc::new(Memory::default());
    let receipts: Vec<Receipt> =
        ["/a", "/a/empty/er", "/b"].iter().map(|prefix| a_shard(&store, prefix)).collect();
    joined(&store, &receipts).expect("a join");
    (store, receipts)
}

/// Without reading ahead and without memory, so that each read asks the store.
fn forgetful(store: &Arc<Memory>, open_shards: usize) -> Publication {
    let options = ReadOptions { ahead: 0, memory: 0, open_shards, ..ReadOptions::default() };
    Publication::open(store.clone() as Arc<dyn Store>, &Reference::default(), &options).expect("open")
}

#[test]
fn a_shard_that_is_absent_or_damaged_fails_only_below_it() {
    type Spoil = fn(&Memory, &str);
    let spoils: [Spoil; 3] = [
        |store, object| drop(store.objects.lock().remove(object)),
        |store, object| {
            let mut objects = store.objects.lock();
            let (bytes, _) = objects.get_mut(object).expect("an object");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        },
        |store, object| {
            let mut objects = store.objects.lock();
            let other = objects.keys().find(|name| name.starts_with("versions/") && *name != object);
            let other = other.cloned().expect("another version");
            let bytes = objects[&other].clone();
            objects.insert(object.into(), bytes);
        },
    ];
    for spoil in spoils {
        let (store, receipts) = a_join();
        spoil(&store, &format!("versions/{}", receipts[0].version));
        let publication = open(&store);
        let volume = volume(&publication);
        let error = volume.read_file("/a/dir/name").expect_err("it is gone");
        assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Damaged), "{error}");
        assert!(volume.metadata("/a/empty/er/dir/name").is_err(), "the way leads through it");
        assert_eq!(read(&volume, "/b/dir/name"), "/b");
        assert_eq!(volume.read_dir("/").expect("the frame").count(), 2);
        assert!(volume.load_metadata(&|_, _| true).expect("that of the others") > 0);
        let verified = publication.verify(&|_, _| true).expect("verified");
        assert_eq!((verified.found, verified.findings.len()), (1, 1), "{:?}", verified.findings);
        // The one in it is sound all the same.
        let inner = receipts.len();
        assert!(publication.shard(inner).is_ok() && publication.shard(1).is_err());
    }
}

#[test]
fn a_prune_stops_where_a_shard_of_a_tag_cannot_be_read() {
    let (store, receipts) = a_join();
    store.objects.lock().remove(&format!("versions/{}", receipts[2].version));
    let options = lanefs_publish::PruneOptions { grace: 0, ..Default::default() };
    let error = lanefs_publish::prune(store.clone(), &options, &|_, _| true).expect_err("refused");
    assert!(matches!(error, lanefs_publish::Error::BrokenTag { .. }), "{error}");
    assert!(error.to_string().contains("latest"), "{error}");
}

#[test]
fn few_shards_are_open_and_each_is_opened_when_it_is_read() {
    let (store, receipts) = a_join();
    let object = |receipt: &Receipt| format!("versions/{}", receipt.version);
    let opened = |store: &Memory| -> Vec<usize> {
        let reads = store.reads.lock();
        receipts
            .iter()
            .map(|receipt| reads.iter().filter(|(name, _)| *name == object(receipt)).count())
            .collect()
    };
    store.reads.lock().clear();
    let publication = forgetful(&store, 1);
    let volume = publication.volume(Access::Read).expect("open");
    assert_eq!(opened(&store), [0, 0, 0], "nothing of the shards was read");
    assert_eq!(read(&volume, "/b/dir/name"), "/b");
    assert_eq!(opened(&store)[..2], [0, 0]);
    for _ in 0..3 {
        volume.read_file("/a/dir/deep/large").expect("read");
        volume.read_file("/b/dir/deep/large").expect("read");
    }
    assert_eq!(opened(&store)[1], 0, "nobody has read it");
    assert!(opened(&store)[0] >= 1);
}

#[test]
fn the_device_of_a_join_gives_the_same_bytes_in_whatever_pieces() {
    let (store, _) = a_join();
    let publication = open(&store);
    let device = publication.device();
    let end = Device::len(&device);
    let shards = publication.shards().expect("a join");
    let mut places = vec![0, 4096, (2 << 20) - 8192, end - 4 * 4096];
    places.extend(
        shards.iter().flat_map(|shard| {
            [shard.base, shard.base + shard.volume_bytes].map(|at| at.saturating_sub(8192))
        }),
    );
    for at in places {
        let mut whole = vec![0; 16384];
        device.read_slice(at, &mut whole).expect("read");
        for (from, len) in [(0, 1), (1, 4096), (4095, 2), (4000, 9000), (12288, 4096)] {
            let mut part = vec![0; len];
            device.read_slice(at + from as u64, &mut part).expect("read");
            assert!(part == whole[from..from + len], "{len} bytes at {at} + {from}");
        }
    }
    let past = device.read_slice(end - 1, &mut [0; 2]).expect_err("past the end");
    assert_eq!(past.kind(), std::io::ErrorKind::UnexpectedEof);
    assert!(device.write_slice(0, &[0]).is_err());
}

#[test]
fn a_directory_of_the_host_has_joins_as_any_store_has() {
    let home = tempfile::tempdir().expect("a directory");
    let store: Arc<dyn Store> = crate::support::directory(&home.path().join("store"));
    let made = volume_of("f", 16 << 20, |volume| super::fill(volume, "here"));
    let options = lanefs_publish::PublishOptions { level: 1, ..Default::default() };
    let report =
        lanefs_publish::publish_shard(&made, store.clone(), &options, &|_, _| true).expect("a shard");
    let receipt = Receipt {
        prefix: b"/one".to_vec(),
        version: report.version,
        uuid: report.facts.uuid,
        files: 0,
        bytes: 0,
    };
    let options = lanefs_publish::JoinOptions::default();
    lanefs_publish::join(store.clone(), "t", &[receipt], &options, &|_, _| true).expect("a join");
    let reference = Reference::parse("t").expect("a tag");
    let publication = Publication::open(store, &reference, &ReadOptions::default()).expect("open");
    let there: Volume = publication.volume(Access::Read).expect("open");
    assert_eq!(read(&there, "/one/dir/name"), "here");
}
