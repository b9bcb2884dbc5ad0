//! Prunes remove what nobody needs, and nothing else, whatever others do at the same time.

mod beside;
mod random;

use crate::support::{Image, Memory, directory, text};
use lanefs::{Access, Volume};
use lanefs_publish::{
    Error, Hash, Listed, OnProgress, PruneOptions, PruneReport, Publication, PublishOptions, ReadOptions,
    Reference, Stamp, Store, StoreError, Tag, delete_tag, prune, publish, set_tag, tags, versions,
};
use lanefs_testkit::seeded::Seeded;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

const GRACE: u64 = 1000;
const START: i64 = 1_700_000_000;

type Outcome<T> = Result<T, StoreError>;

fn small_volume() -> Image {
    Image::new(64 << 20, |volume| {
        volume.mkdir_all("/d", 0o755).expect("mkdir");
        for file in 0..20 {
            volume.write_file(format!("/d/{file}"), text(&mut Seeded::new(file), 9000)).expect("write");
        }
    })
}

fn write(volume: &Volume, path: &str, content: &[u8]) {
    volume.write_file(path, content).expect("write");
}

fn clocked() -> Arc<Memory> {
    let store = Arc::new(Memory::default());
    *store.clock.lock() = Some(START);
    store
}

fn advance(store: &Memory, seconds: i64) {
    *store.clock.lock() = Some(store.now() + seconds);
}

fn options() -> PruneOptions {
    PruneOptions { grace: GRACE, ..PruneOptions::default() }
}

fn prune_with(store: &Arc<Memory>, options: &PruneOptions) -> PruneReport {
    prune(store.clone(), options, &|_, _| true).expect("prune")
}

fn open(store: &Arc<dyn Store>, reference: &Reference) -> Result<Publication, Error> {
    Publication::open(store.clone(), reference, &ReadOptions { ahead: 0, ..ReadOptions::default() })
}

/// The tags of a store, none of which is damaged.
fn named(store: &Arc<dyn Store>) -> Vec<(String, Hash)> {
    let sound = |(name, tag): (String, Result<Tag, Error>)| (name, tag.expect("a sound tag").version);
    tags(store).expect("tags").into_iter().map(sound).collect()
}

fn is_whole(store: &Arc<Memory>, version: Hash) -> bool {
    let store: Arc<dyn Store> = store.clone();
    let Ok(publication) = open(&store, &Reference::Version(version)) else { return false };
    publication.verify(&|_, _| true).is_ok_and(|verified| verified.found == 0)
}

/// A store with two versions, of which the tag names the second.
fn two_versions() -> (Image, Arc<Memory>, [Hash; 2]) {
    let (image, store) = (small_volume(), clocked());
    let first = image.publish(&store).expect("publish").version;
    image.change(|volume| write(volume, "/d/1", b"another"));
    let second = image.publish(&store).expect("publish").version;
    (image, store, [first, second])
}

#[test]
fn what_no_tag_needs_is_condemned_and_deleted_after_the_grace_period() {
    let (_image, store, [first, second]) = two_versions();
    let young = prune_with(&store, &options());
    assert_eq!((young.condemned.versions, young.kept.versions), (0, 2), "a young version is kept");
    advance(&store, GRACE as i64 + 1);
    let condemned = prune_with(&store, &options());
    assert_eq!((condemned.condemned.versions, condemned.deleted.versions), (1, 0));
    assert!(condemned.condemned.packs > 0 && condemned.condemned.bytes > 0);
    assert_eq!(condemned.due, Some(store.now() + GRACE as i64));
    assert!(is_whole(&store, first), "nothing is deleted before the grace period has passed");
    advance(&store, GRACE as i64 - 1);
    let waiting = prune_with(&store, &options());
    assert_eq!((waiting.condemned, waiting.deleted.versions), (condemned.condemned, 0));
    advance(&store, 1);
    let before = store.bytes();
    let deleted = prune_with(&store, &options());
    assert_eq!(deleted.deleted, condemned.condemned);
    assert!(store.bytes() < before && !is_whole(&store, first) && is_whole(&store, second));
    assert_eq!(prune_with(&store, &options()).condemned.versions, 0);
}

#[test]
fn without_a_grace_period_all_is_deleted_at_once() {
    let (_image, store, [first, second]) = two_versions();
    let report = prune_with(&store, &PruneOptions { grace: 0, ..options() });
    assert_eq!((report.deleted.versions, report.kept.versions), (1, 1));
    assert!(!is_whole(&store, first) && is_whole(&store, second));
}

#[test]
fn a_shorter_grace_period_counts_from_now_on() {
    let (_image, store, [first, _]) = two_versions();
    advance(&store, GRACE as i64 + 1);
    prune_with(&store, &options());
    let shorter = prune_with(&store, &PruneOptions { grace: 900, ..options() });
    assert_eq!((shorter.due, shorter.condemned.versions), (Some(store.now() + 900), 1));
    advance(&store, 900);
    assert_eq!(prune_with(&store, &options()).deleted.versions, 1);
    assert!(!is_whole(&store, first));
}

#[test]
fn a_dry_run_tells_what_would_be_done_and_writes_nothing() {
    let (_image, store, _) = two_versions();
    let none = PruneOptions { grace: 0, dry_run: true, ..options() };
    let before = store.names();
    let told = prune_with(&store, &none);
    assert_eq!(store.names(), before);
    let done = prune_with(&store, &PruneOptions { dry_run: false, ..none });
    assert_eq!(told.condemned, done.deleted);
}

#[test]
fn the_newest_versions_are_kept_without_a_tag() {
    let (image, store, [first, second]) = two_versions();
    advance(&store, 5);
    image.change(|volume| write(volume, "/d/2", b"a third"));
    let third = image.publish(&store).expect("publish").version;
    prune_with(&store, &PruneOptions { grace: 0, keep: 2, ..options() });
    // The first two are of one second: the one with the smaller hash counts as newer.
    let kept = if first < second { first } else { second };
    let other = if first < second { second } else { first };
    assert!(is_whole(&store, third) && is_whole(&store, kept) && !is_whole(&store, other));
}

#[test]
fn packs_of_an_interrupted_upload_are_removed_when_they_are_old() {
    let (image, store) = (small_volume(), clocked());
    *store.puts_left.lock() = Some(1);
    image.publish(&store).expect_err("the store fails");
    *store.puts_left.lock() = None;
    assert_eq!(prune_with(&store, &options()).condemned.packs, 0);
    advance(&store, GRACE as i64 + 1);
    assert_eq!(prune_with(&store, &options()).condemned.packs, 1);
    // A publisher does not build on what is condemned: it writes it again, and so it stays.
    let report = image.publish(&store).expect("publish");
    assert_eq!(report.found_bytes, 0);
    advance(&store, GRACE as i64);
    assert_eq!(prune_with(&store, &options()).deleted.packs, 0);
    assert!(is_whole(&store, report.version));
}

#[test]
fn a_version_with_a_tag_that_cannot_be_read_stops_the_prune() {
    let (_image, store, [first, second]) = two_versions();
    let dyn_store: Arc<dyn Store> = store.clone();
    let mut stopped = 0;
    for object in store.names() {
        let content = store.objects.lock().remove(&object).expect("an object");
        let is_needed = open(&dyn_store, &Reference::Version(second))
            .and_then(|open| open.inventory(&|_, _| true))
            .is_err();
        if is_needed {
            let refused = prune(store.clone(), &PruneOptions { grace: 0, ..options() }, &|_, _| true);
            let told = refused.expect_err("it is refused").to_string();
            let is_named = told.contains("no such object; the tag memory:#latest needs it");
            assert!(is_named && told.contains(&object), "{told}");
            stopped += 1;
        }
        store.objects.lock().insert(object, content);
    }
    assert_eq!(stopped, 2, "the root, and the pack of the pages");
    store.objects.lock().get_mut(&format!("versions/{second}")).expect("a root").0[90] ^= 1;
    let refused = prune(store.clone(), &PruneOptions { grace: 0, ..options() }, &|_, _| true);
    let is_damaged =
        matches!(&refused, Err(Error::BrokenTag { source, .. }) if matches!(**source, Error::Damaged { .. }));
    assert!(is_damaged, "{refused:?}");
    assert!(is_whole(&store, first), "nothing was deleted");
}

#[test]
fn a_damaged_tag_is_listed_named_by_a_prune_and_deleted() {
    let (_image, store, [first, second]) = two_versions();
    let dyn_store: Arc<dyn Store> = store.clone();
    let mut wrong = store.content("tags/latest");
    wrong[20] ^= 1;
    for content in [wrong, Vec::new(), vec![7; 100_000]] {
        store.write("tags/bad", content).expect("a tag");
        let listed = tags(&dyn_store).expect("tags");
        let listed: Vec<_> = listed.iter().map(|(name, tag)| (&name[..], tag.as_ref().ok())).collect();
        assert!(matches!(listed[..], [("bad", None), ("latest", Some(tag))] if tag.version == second));
        let refused = prune(store.clone(), &PruneOptions { grace: 0, ..options() }, &|_, _| true);
        let told = refused.expect_err("nobody knows what it needs").to_string();
        assert!(told.contains("memory:/tags/bad: ") && told.contains("delete the tag"), "{told}");
        assert!(is_whole(&store, first), "nothing was deleted");
        assert_eq!(delete_tag(&dyn_store, "bad").expect("deleted"), None);
        assert_eq!(named(&dyn_store).len(), 1);
    }
    prune_with(&store, &PruneOptions { grace: 0, ..options() });
    assert!(!is_whole(&store, first) && is_whole(&store, second));
}

#[test]
fn a_grace_period_that_is_shorter_than_the_wait_for_another_prune_is_refused() {
    let (_image, store, _) = two_versions();
    let before = store.names();
    for grace in [1, 899] {
        let refused = prune(store.clone(), &PruneOptions { grace, ..options() }, &|_, _| true);
        assert!(matches!(refused, Err(Error::ShortGrace(told)) if told == grace), "{refused:?}");
    }
    assert_eq!(store.names(), before);
}

/// Work that a progress may stop.
type Work<'w> = &'w dyn Fn(OnProgress<'_>) -> Result<(), Error>;

#[test]
fn counting_verifying_and_pruning_end_at_each_call_that_says_so() {
    let (image, store, _) = two_versions();
    for number in 0..20 {
        advance(&store, 1);
        image.change(|volume| write(volume, "/d/3", &[number; 5000]));
        image.publish(&store).expect("publish");
    }
    let dyn_store: Arc<dyn Store> = store.clone();
    let keeps = PruneOptions { keep: 2, dry_run: true, ..options() };
    let works: [Work<'_>; 3] = [
        &|progress| open(&dyn_store, &Reference::default())?.inventory(progress).map(drop),
        &|progress| open(&dyn_store, &Reference::default())?.verify(progress).map(drop),
        &|progress| prune(store.clone(), &keeps, progress).map(drop),
    ];
    // A page; a page, pieces and footers; 22 roots by sixteen, then two versions with a page each.
    for (work, least) in works.into_iter().zip([1, 3, 6]) {
        let calls = AtomicI64::new(0);
        work(&|_, _| calls.fetch_add(1, Ordering::Relaxed) >= 0).expect("it ends");
        let calls = calls.into_inner();
        assert!(calls >= least, "{calls} of {least}");
        for most in 0..calls {
            let left = AtomicI64::new(most);
            let stopped = work(&|_, _| left.fetch_sub(1, Ordering::Relaxed) > 0);
            assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
            assert_eq!(left.into_inner(), -1, "no call follows");
        }
    }
}

#[test]
fn tags_are_set_listed_and_deleted() {
    let (_image, store, [first, second]) = two_versions();
    let dyn_store: Arc<dyn Store> = store.clone();
    let of_first = Reference::Version(first);
    assert_eq!(set_tag(&dyn_store, "old", &of_first, 7, false).expect("a new tag"), None);
    assert_eq!(set_tag(&dyn_store, "old", &of_first, 8, false).expect("the same"), Some(first));
    let refused = set_tag(&dyn_store, "latest", &of_first, 8, false);
    assert!(matches!(refused, Err(Error::TagExists(_))), "{refused:?}");
    assert_eq!(named(&dyn_store), [("latest".to_owned(), second), ("old".to_owned(), first)]);
    let listed: HashSet<Hash> =
        versions(&dyn_store).expect("versions").iter().map(|info| info.version).collect();
    assert_eq!(listed, HashSet::from([first, second]));
    prune_with(&store, &PruneOptions { grace: 0, ..options() });
    assert!(is_whole(&store, first), "a tag keeps its version");
    let latest = Reference::default();
    assert_eq!(set_tag(&dyn_store, "old", &latest, 9, true).expect("by force"), Some(first));
    assert_eq!(delete_tag(&dyn_store, "old").expect("deleted"), Some(second));
    assert!(matches!(delete_tag(&dyn_store, "old"), Err(Error::NoTag(_))));
    prune_with(&store, &PruneOptions { grace: 0, ..options() });
    let gone = set_tag(&dyn_store, "old", &of_first, 9, false);
    assert!(matches!(gone, Err(Error::Store { source: StoreError::Missing, .. })), "{gone:?}");
}

#[test]
fn a_tag_names_no_version_whose_packs_are_gone() {
    let (_image, store, [first, _]) = two_versions();
    let dyn_store: Arc<dyn Store> = store.clone();
    let root = store.objects.lock()[&format!("versions/{first}")].clone();
    prune_with(&store, &PruneOptions { grace: 0, ..options() });
    store.objects.lock().insert(format!("versions/{first}"), root);
    let refused = set_tag(&dyn_store, "old", &Reference::Version(first), 1, false);
    assert!(matches!(refused, Err(Error::Store { source: StoreError::Missing, .. })), "{refused:?}");
    assert_eq!(tags(&dyn_store).expect("tags").len(), 1);
}

#[test]
fn a_version_that_had_a_tag_has_the_whole_grace_period_again() {
    let (_image, store, [first, _]) = two_versions();
    let dyn_store: Arc<dyn Store> = store.clone();
    advance(&store, GRACE as i64 + 1);
    assert_eq!(prune_with(&store, &options()).condemned.versions, 1);
    set_tag(&dyn_store, "old", &Reference::Version(first), 1, false).expect("a tag");
    // The list is due, but what the tag needed is no longer on it.
    advance(&store, 2 * GRACE as i64);
    delete_tag(&dyn_store, "old").expect("deleted");
    let report = prune_with(&store, &options());
    assert_eq!((report.deleted.packs, report.condemned.versions), (0, 1));
    assert!(is_whole(&store, first));
    advance(&store, GRACE as i64);
    assert_eq!(prune_with(&store, &options()).deleted.versions, 1);
}

/// A store with a version that is condemned, and may be deleted now.
fn one_due() -> (Image, Arc<Memory>, Hash) {
    let (image, store, [first, _]) = two_versions();
    advance(&store, GRACE as i64 + 1);
    prune_with(&store, &options());
    advance(&store, GRACE as i64);
    (image, store, first)
}

#[test]
fn a_prune_that_was_cut_off_is_continued_after_a_while() {
    let (_image, store, first) = one_due();
    // The second list renews the first one before the deletions, and is the last write.
    *store.puts_left.lock() = Some(2);
    prune(store.clone(), &options(), &|_, _| true).expect_err("the store fails");
    *store.puts_left.lock() = None;
    let early = prune(store.clone(), &options(), &|_, _| true);
    assert!(matches!(early, Err(Error::PruneRuns(_))), "{early:?}");
    advance(&store, 15 * 60);
    assert_eq!(prune_with(&store, &options()).deleted.versions, 1);
    assert!(!is_whole(&store, first));
}

#[test]
fn an_interrupted_prune_is_continued_at_once() {
    // For the version with a tag, its page, and the deletions.
    for calls in 0..3 {
        let (_image, store, first) = one_due();
        let left = AtomicI64::new(calls);
        let go_on = |_, _| left.fetch_sub(1, Ordering::Relaxed) > 0;
        let cut = prune(store.clone(), &options(), &go_on);
        assert!(matches!(cut, Err(Error::Interrupted)), "{cut:?}");
        assert!(is_whole(&store, first));
        assert_eq!(prune_with(&store, &options()).deleted.versions, 1, "after {calls} calls");
        assert!(!is_whole(&store, first));
    }
}

#[test]
fn a_dry_run_counts_what_it_would_delete_once() {
    let (_image, store, _) = one_due();
    let told = prune_with(&store, &PruneOptions { dry_run: true, ..options() });
    let done = prune_with(&store, &options());
    assert_eq!(done.deleted.versions, 1);
    assert_eq!((told.deleted, told.condemned, told.kept), (done.deleted, done.condemned, done.kept));
}

#[test]
fn a_tag_leaves_a_root_of_another_implementation_as_it_is() {
    let (_image, store, [first, _]) = two_versions();
    let dyn_store: Arc<dyn Store> = store.clone();
    let mut root = store.content(&format!("versions/{first}"));
    // A reserved byte: a reader ignores it, and this publisher writes a zero.
    root[88] = 1;
    let version = Hash::parse(&blake3::hash(&root).to_hex()).expect("a hash");
    let object = format!("versions/{version}");
    store.write(&object, root.clone()).expect("a root");
    set_tag(&dyn_store, "other", &Reference::Version(version), 1, false).expect("a tag");
    assert_eq!(store.content(&object), root);
    assert!(is_whole(&store, version));
}

#[test]
fn verification_finds_each_damaged_and_missing_pack() {
    let (_image, store, [_, second]) = two_versions();
    let dyn_store: Arc<dyn Store> = store.clone();
    let whole = open(&dyn_store, &Reference::default()).expect("open");
    let verified = whole.verify(&|_, _| true).expect("verify");
    assert_eq!((verified.found, verified.sound), (0, whole.inventory(&|_, _| true).expect("an inventory")));
    assert!(verified.sound.pieces > 0 && verified.sound.stored_bytes > 0);
    let mut found = 0;
    for object in store.names().into_iter().filter(|name| name.starts_with("packs/")) {
        let sound = store.objects.lock()[&object].clone();
        let last = sound.0.len() - 1;
        for damage in [Some(0), Some(last), None] {
            let mut objects = store.objects.lock();
            match damage {
                Some(at) => objects.get_mut(&object).expect("a pack").0[at] ^= 1,
                None => drop(objects.remove(&object)),
            }
            drop(objects);
            let is_wrong = !is_whole(&store, second);
            found += usize::from(is_wrong);
            store.objects.lock().insert(object.clone(), sound.clone());
        }
    }
    // All but those of the first version's pages and pieces.
    assert!(found >= 6 && is_whole(&store, second), "{found}");
    let stopped = whole.verify(&|_, _| false);
    assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
}

#[test]
fn what_lies_in_the_place_of_a_tag_stops_a_prune() {
    use std::os::unix::fs::symlink;
    let home = tempfile::tempdir().expect("a directory");
    let store: Arc<dyn Store> = directory(home.path());
    let image = small_volume();
    publish(&image.open(), store.clone(), "one", &PublishOptions::default(), &|_, _| true)
        .expect("published");
    let tag = home.path().join("tags/one");
    type Place = fn(&std::path::Path);
    let others: [(&str, Place); 2] = [
        ("a link", |tag| symlink("elsewhere", tag).expect("a link")),
        ("a directory", |tag| std::fs::create_dir(tag).expect("a directory")),
    ];
    for (what, make) in others {
        std::fs::rename(&tag, home.path().join("tags/elsewhere")).expect("a rename");
        make(&tag);
        std::fs::remove_file(home.path().join("tags/elsewhere")).expect("removed");
        let listed = tags(&store).expect("a listing");
        let [(name, Err(Error::Damaged { .. }))] = &listed[..] else { panic!("{what}: {listed:?}") };
        assert_eq!(name, "one", "{what}");
        let options = PruneOptions { grace: 0, ..PruneOptions::default() };
        let pruned = prune(store.clone(), &options, &|_, _| true);
        assert!(matches!(pruned, Err(Error::BrokenTag { .. })), "{what}: {pruned:?}");
        assert_eq!(versions(&store).expect("a listing").len(), 1, "{what}");
        if what == "a link" {
            assert_eq!(delete_tag(&store, "one").expect("deleted"), None);
        } else {
            std::fs::remove_dir(&tag).expect("removed");
        }
        let version = versions(&store).expect("a listing")[0].version;
        set_tag(&store, "one", &Reference::Version(version), 9, false).expect("a tag");
    }
}
