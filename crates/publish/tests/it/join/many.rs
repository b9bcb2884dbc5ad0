//! A join of a thousand shards.

use super::{joined, open, volume};
use crate::support::Memory;
use lanefs::{CreateOptions, MemoryDevice, ResolveOptions, Volume};
use lanefs_publish::{PublishOptions, Receipt, family_seed, publish_shard};
use std::sync::Arc;

const SHARDS: usize = 1000;
const FILES: usize = 100;

fn path(shard: usize, file: usize) -> String {
    format!("/{:02}/{shard}/f{file}", shard % 25)
}

/// One volume, published with the files of a shard again and again: each is a version of its own.
fn publish_all(store: &Arc<Memory>) -> Vec<Receipt> {
    let options = CreateOptions {
        size: 8 << 20,
        seed: Some(family_seed("f")),
        data_checksums: false,
        ..CreateOptions::default()
    };
    let publish = PublishOptions { level: 1, ..PublishOptions::default() };
    let one = |shard: usize| {
        let volume = Volume::create_memory(&options).expect("create");
        (0..FILES).for_each(|file| {
            volume.write_file(format!("/f{file}"), format!("{shard} {file}")).expect("write");
        });
        let device = MemoryDevice::new(volume.to_bytes().expect("bytes"));
        drop(volume);
        let volume = Volume::open_device(Box::new(device.clone()), lanefs::Access::Write).expect("open");
        volume.close().expect("close");
        let volume = Volume::open_device(Box::new(device), lanefs::Access::Read).expect("open");
        let report = publish_shard(&volume, store.clone(), &publish, &|_, _| true).expect("published");
        let prefix = path(shard, 0).rsplit_once('/').expect("a path").0.as_bytes().to_vec();
        let (files, bytes) = (FILES as u64, report.facts.blocks * 4096);
        Receipt { prefix, version: report.version, uuid: report.facts.uuid, files, bytes }
    };
    (0..SHARDS).map(one).collect()
}

#[test]
fn a_thousand_shards_resolve_and_read_as_one_volume() {
    let store = Arc::new(Memory::default());
    let receipts = publish_all(&store);
    let report = joined(&store, &receipts).expect("a join");
    assert_eq!(report.shards, 1000);
    let publication = open(&store);
    let volume = volume(&publication);
    let paths: Vec<String> = (0..SHARDS * FILES).map(|i| path(i * 7 % SHARDS, i / SHARDS)).collect();
    let found = volume.resolve_batch(&ResolveOptions::default(), &paths).expect("a batch");
    let inodes: std::collections::HashSet<_> = found.iter().filter_map(|one| one.ino).collect();
    assert_eq!(inodes.len(), SHARDS * FILES, "each path has a file of its own");
    for i in (0..SHARDS * FILES).step_by(97) {
        let (shard, file) = (i * 7 % SHARDS, i / SHARDS);
        let expected = format!("{shard} {file}").into_bytes();
        assert_eq!(volume.read_file(path(shard, file)).expect("a file"), expected);
    }
    assert_eq!(volume.statfs().expect("statfs").inodes as usize, SHARDS * (FILES + 1) + 25 + 2);
    // One shard is replaced: a new root and a new tag are written, and the root of the new shard.
    let puts = store.puts.lock().len();
    let other = Receipt { version: receipts[1].version, uuid: receipts[1].uuid, ..receipts[0].clone() };
    let report = joined(&store, &[other]).expect("a join");
    assert_eq!((report.replaced, report.shards), (1, 1000));
    assert!(store.puts.lock().len() - puts <= 3, "{:?}", &store.puts.lock()[puts..]);
}
