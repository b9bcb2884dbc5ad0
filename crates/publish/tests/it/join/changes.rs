//! A join that changes: its shards are replaced, removed, tagged and pruned.

use super::{
    SHARD_BYTES, a_shard, fill, joined, joined_with, open, read, shard, volume, volume_of, volume_with,
};
use crate::support::{Image, Memory};
use lanefs::{CreateOptions, InodeSize, Volume};
use lanefs_publish::{
    Error, Hash, JoinOptions, PruneOptions, PublishOptions, Receipt, Reference, Store, delete_tag, prune,
    publish, set_tag,
};
use std::sync::Arc;

const DAY: i64 = 24 * 3600;

/// A store with a join of these shards, and their receipts.
fn a_join(prefixes: &[&str]) -> (Arc<Memory>, Vec<Receipt>) {
    let store = Arc::new(Memory::default());
    let receipts: Vec<Receipt> = prefixes.iter().map(|prefix| a_shard(&store, prefix)).collect();
    joined(&store, &receipts).expect("a join");
    (store, receipts)
}

fn ino(volume: &Volume, path: &str) -> u64 {
    volume.metadata(path).expect("attributes").ino.0
}

#[test]
fn a_new_shard_replaces_the_one_with_its_prefix_and_the_others_keep_their_numbers() {
    let (store, receipts) = a_join(&["/a", "/b", "/b/empty/er", "/c"]);
    let before = open(&store);
    let old = volume(&before);
    // A larger one does not fit between the others.
    let large = volume_of("f", 300 << 20, |volume| fill(volume, "new"));
    let receipt = shard(&store, "/b", &large);
    let report = joined(&store, &[receipt]).expect("a join");
    assert_eq!((report.shards, report.added, report.replaced, report.removed), (4, 0, 1, 0));
    assert_eq!(report.facts.uuid, before.facts().uuid, "it is the same volume");
    assert_eq!(report.facts.sequence, before.facts().sequence + 1);
    let newer = before.newer("latest").expect("asked").expect("a newer version");
    let new = volume(&newer);
    assert_eq!((read(&old, "/b/dir/name"), read(&new, "/b/dir/name")), ("/b".into(), "new".into()));
    for path in ["/a/dir/name", "/c/dir/deep/large", "/b/empty/er/dir/name", "/"] {
        assert_eq!(ino(&old, path), ino(&new, path), "{path}");
    }
    assert_ne!(ino(&old, "/b"), ino(&new, "/b"));
    assert_eq!(read(&new, "/b/empty/er/dir/name"), "/b/empty/er", "it lies in the new one");
    // The old one comes back to a place where it fits.
    joined(&store, &receipts).expect("as it was");
    let back = volume(&open(&store));
    assert_eq!(read(&back, "/b/dir/name"), "/b");
    assert!(before.newer("latest").expect("asked").is_some(), "it has another sequence number");
}

#[test]
fn shards_are_removed_by_name_or_because_they_have_no_receipt() {
    let (store, receipts) = a_join(&["/a", "/b", "/b/empty/er"]);
    let remove = |prefix: &str| JoinOptions { remove: vec![prefix.into()], ..JoinOptions::default() };
    let report = joined_with(&store, &[], &remove("/b/empty/er")).expect("removed");
    assert_eq!((report.shards, report.removed), (2, 1));
    let there = volume(&open(&store));
    assert_eq!(there.read_dir("/b/empty/er").expect("the directory of /b").count(), 0);
    let only = JoinOptions { only: true, ..JoinOptions::default() };
    let report = joined_with(&store, &receipts[..1], &only).expect("only one");
    assert_eq!((report.shards, report.removed), (1, 1));
    assert!(!volume(&open(&store)).exists("/b").expect("asked"));
    // The same again, after a command that was cut off, changes nothing.
    let again = joined_with(&store, &[], &remove("/b")).expect("it is gone already");
    assert_eq!((again.previous, again.removed), (Some(report.version), 0));
    assert_eq!((again.version, again.absent), (report.version, vec![b"/b".to_vec()]));
    let error = joined_with(&store, &[], &remove("/a")).expect_err("refused").to_string();
    assert!(error.contains("one shard at least"), "{error}");
}

#[test]
fn shards_that_do_not_go_together_are_refused_with_the_reason() {
    let (store, receipts) = a_join(&["/a", "/b"]);
    let other = |prefix: &str, family: &str, inode_size: InodeSize| {
        let options = CreateOptions {
            size: SHARD_BYTES,
            inode_size,
            seed: Some(lanefs_publish::family_seed(family)),
            ..CreateOptions::default()
        };
        let volume = volume_with(&options, |_| {});
        shard(&store, prefix, &volume)
    };
    let lies = Receipt { uuid: [1; 16], ..receipts[0].clone() };
    let absent = Receipt { version: Hash::of(b"absent"), ..receipts[0].clone() };
    let of_join = Receipt { version: open(&store).version(), prefix: b"/j".to_vec(), ..lies.clone() };
    let before = open(&store).version();
    for (receipt, says) in [
        (other("/x", "another", InodeSize::B256), "another hash of names"),
        (other("/x", "f", InodeSize::B128), "inodes of 128 bytes"),
        (Receipt { prefix: b"/n".to_vec(), ..lies }, "another volume than its receipt"),
        (Receipt { prefix: b"/n".to_vec(), ..absent }, "publish it again"),
        (of_join, "is a join"),
        (a_shard(&store, "/a/dir"), "is not empty"),
        (a_shard(&store, "/a/no/where"), "there is no"),
        (a_shard(&store, "/a/dir/name"), "is not a directory"),
        (a_shard(&store, "/a/link"), "is not a directory"),
    ] {
        let error = joined(&store, &[receipt]).expect_err(says);
        assert!(matches!(error, Error::Shard { .. }) && error.to_string().contains(says), "{error}");
    }
    assert_eq!(open(&store).version(), before, "the tag is as it was");
}

#[test]
fn volumes_and_joins_do_not_take_each_others_tags() {
    let (store, receipts) = a_join(&["/a"]);
    let image = Image::new(SHARD_BYTES, |volume| fill(volume, "image"));
    let error = image.publish(&store).expect_err("refused").to_string();
    assert!(error.contains("names a join") && error.contains("lanefs join"), "{error}");
    image.publish_as(&store, "single", false).expect("another tag");
    let error =
        lanefs_publish::join(store.clone(), "single", &receipts, &JoinOptions::default(), &|_, _| true);
    let error = error.expect_err("refused").to_string();
    assert!(error.contains("versions of one volume"), "{error}");
    // A join is not published again, and has no image: both say what to do.
    let options = PublishOptions::default();
    let error = publish(&volume(&open(&store)), store.clone(), "again", &options, &|_, _| true);
    assert!(error.expect_err("refused").to_string().contains("with each of them"));
    let error = open(&store).pull(&image.home.path().join("w.lane"), &|_, _| true).expect_err("refused");
    assert!(error.to_string().contains("lanefs export"), "{error}");
    // Its shards do.
    let pulled = image.home.path().join("a.lane");
    let all = open(&store);
    all.shard(1).expect("a shard").pull(&pulled, &|_, _| true).expect("pulled");
    let there = Volume::open(&pulled, lanefs::Access::Read).expect("open");
    assert_eq!(read(&there, "/dir/name"), "/a");
}

/// Sets the clock of the store.
fn at(store: &Memory, seconds: i64) {
    *store.clock.lock() = Some(1_800_000_000 + seconds);
}

fn prune_by_days(store: &Arc<Memory>, days: u64) -> lanefs_publish::PruneReport {
    let options = PruneOptions { grace: days * DAY as u64, ..PruneOptions::default() };
    prune(store.clone(), &options, &|_, _| true).expect("pruned")
}

#[test]
fn a_prune_keeps_what_the_join_of_a_tag_needs_and_nothing_more() {
    let store = Arc::new(Memory::default());
    at(&store, 0);
    let receipts: Vec<Receipt> = ["/a", "/b"].iter().map(|prefix| a_shard(&store, prefix)).collect();
    let orphan = a_shard(&store, "/never-joined");
    joined(&store, &receipts).expect("a join");
    let first = open(&store).version();
    at(&store, 1);
    set_tag(&(store.clone() as Arc<dyn Store>), "kept", &Reference::default(), 9, false)
        .expect("a second tag");
    let other = volume_of("f", SHARD_BYTES, |volume| fill(volume, "new b"));
    let replaced = shard(&store, "/b", &other);
    joined(&store, &[replaced]).expect("a join");
    // All tags name joins. After two prunes only the shard that no join has is gone.
    for day in [30, 60] {
        at(&store, day * DAY);
        prune_by_days(&store, 14);
    }
    let there = |version: &Hash| store.names().contains(&format!("versions/{version}"));
    assert!(!there(&orphan.version) && receipts.iter().all(|receipt| there(&receipt.version)));
    assert_eq!(open(&store).verify(&|_, _| true).expect("verified").found, 0);
    assert_eq!(read(&volume(&open(&store)), "/b/dir/name"), "new b");
    // Without its second tag the first join goes, and the shard that it alone has.
    let dynamic = store.clone() as Arc<dyn Store>;
    assert_eq!(delete_tag(&dynamic, "kept").expect("deleted"), Some(first));
    for day in [90, 120] {
        at(&store, day * DAY);
        prune_by_days(&store, 14);
    }
    assert!(there(&receipts[0].version) && !there(&receipts[1].version) && !there(&first));
    assert_eq!(open(&store).verify(&|_, _| true).expect("verified").found, 0);
}

#[test]
fn a_shard_that_a_prune_takes_is_not_joined_and_one_that_waits_is_saved() {
    let store = Arc::new(Memory::default());
    at(&store, 0);
    let receipts: Vec<Receipt> = ["/a", "/b"].iter().map(|prefix| a_shard(&store, prefix)).collect();
    at(&store, 30 * DAY);
    let condemned = prune_by_days(&store, 14);
    assert_eq!(condemned.condemned.versions, 2);
    at(&store, 40 * DAY);
    joined(&store, &receipts).expect("a join of condemned shards");
    at(&store, 50 * DAY);
    assert_eq!(prune_by_days(&store, 14).deleted.packs, 0, "they are needed again");
    assert_eq!(open(&store).verify(&|_, _| true).expect("verified").found, 0);
    // A list that changes while a join is made: nobody knows what was deleted.
    let late = a_shard(&store, "/late");
    let (other, now) = (store.clone(), 51 * DAY);
    at(&store, now);
    let again = store.clone();
    *store.before_replace.lock() = Some(Box::new(move || {
        // The replacement of the tag: a prune may run now, and keeps what the root of the join names.
        at(&other, now + 30 * DAY);
        prune_by_days(&other, 14);
        at(&other, now + 60 * DAY);
        prune_by_days(&other, 14);
        drop(again);
    }));
    let tried = joined(&store, &[late]);
    assert!(tried.is_ok() || matches!(tried, Err(Error::Condemned(_))), "{tried:?}");
}
