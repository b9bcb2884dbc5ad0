//! Publishing volumes that are in use.

use crate::support::{Image, Memory, change_at_random, content, names, open, text, volume};
use lanefs::{Access, Volume};
use lanefs_publish::{Error, OnProgress, PublishOptions, PublishReport, Snapshot, publish};
use lanefs_testkit::seeded::Seeded;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

const MEMORY: u64 = 64 << 20;

fn publish_snapshot(
    volume: &Volume,
    store: &Arc<Memory>,
    memory: u64,
    progress: OnProgress<'_>,
) -> Result<PublishReport, Error> {
    let snapshot = Snapshot::take(volume, memory).expect("a snapshot");
    let options = PublishOptions { level: 1, ..PublishOptions::default() };
    publish(&snapshot, store.clone(), "latest", &options, progress)
}

/// Writes everything in place that has changed.
fn in_place(volume: &Volume) {
    drop(volume.snapshot(MEMORY).expect("a snapshot"));
}

#[test]
fn a_publication_is_the_state_of_the_snapshot_whatever_changes_meanwhile() {
    let random = RefCell::new(Seeded::new(11));
    let image = Image::new(128 << 20, |volume| change_at_random(volume, &mut random.borrow_mut(), 400));
    let store = Arc::new(Memory::default());
    let here = Volume::open(&image.path, Access::Write).expect("open");
    for round in 0..3 {
        change_at_random(&here, &mut random.borrow_mut(), 30);
        let before = names(&here);
        let calls = Cell::new(0);
        let change = |_, _| {
            // The first call comes before anything is read.
            if calls.replace(calls.get() + 1) < 3 {
                change_at_random(&here, &mut random.borrow_mut(), 60);
                in_place(&here);
            }
            true
        };
        publish_snapshot(&here, &store, MEMORY, &change).expect("published");
        assert!(calls.get() >= 2, "nothing has changed meanwhile");
        let there = volume(&open(&store).expect("a publication"));
        assert!(names(&there) == before, "round {round}: not the state of the snapshot");
        assert!(names(&here) != before, "round {round}: nothing has changed");
        assert!(there.check(false, &|_, _| {}).expect("check").findings.is_empty());
        assert!(there.scrub(0, &mut |_, _| true).expect("scrub").wrong.is_empty());
    }
    here.close().expect("close");
}

#[test]
fn a_volume_in_use_that_does_not_change_has_one_version() {
    let image = Image::new(64 << 20, |volume| {
        volume.write_file("/f", [7; 50_000]).expect("write");
    });
    let store = Arc::new(Memory::default());
    let here = Volume::open(&image.path, Access::Write).expect("open");
    here.write_file("/g", [8; 50_000]).expect("write");
    let first = publish_snapshot(&here, &store, 0, &|_, _| true).expect("published");
    let second = publish_snapshot(&here, &store, 0, &|_, _| true).expect("published");
    assert_eq!((second.version, second.written_bytes), (first.version, 0));
    let published = content(&volume(&open(&store).expect("a publication")));
    here.close().expect("close");
    // Of the closed volume only the superblock and the journal's headers are others.
    let closed = content(&image.open());
    assert!(closed.names == published.names);
    assert_eq!(closed.blocks.len(), published.blocks.len());
    let others = closed.blocks.iter().filter(|(at, block)| published.blocks.get(at) != Some(block));
    assert!(others.count() <= 4, "more than superblocks and headers of the journal");
}

#[test]
fn a_snapshot_that_is_given_up_leaves_the_tag_and_publishing_again_goes_on() {
    let mut random = Seeded::new(5);
    let image = Image::new(128 << 20, |volume| {
        volume.write_file("/f", text(&mut random, 30 << 20)).expect("write");
    });
    let store = Arc::new(Memory::default());
    let here = Volume::open(&image.path, Access::Write).expect("open");
    let first = publish_snapshot(&here, &store, 0, &|_, _| true).expect("published");
    here.write_file("/g", text(&mut random, 20 << 20)).expect("write");
    let calls = Cell::new(0);
    let overwrite = |_, _| {
        // Once metadata have been read, the blocks of a file that is not read yet find another use.
        if calls.replace(calls.get() + 1) == 1 {
            here.remove_all("/f").expect("removed");
            in_place(&here);
            here.write_file("/h", vec![9; 90 << 20]).expect("write");
            in_place(&here);
        }
        true
    };
    let error = publish_snapshot(&here, &store, 1 << 20, &overwrite).expect_err("given up");
    assert!(matches!(error, Error::GivenUp(_)), "{error}");
    assert_eq!(open(&store).expect("a publication").version(), first.version);
    let report = publish_snapshot(&here, &store, 0, &|_, _| true).expect("published");
    assert_eq!(report.previous, Some(first.version));
    assert!(names(&volume(&open(&store).expect("a publication"))) == names(&here));
}
