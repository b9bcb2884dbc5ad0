//! Equal files are stored once, wherever they lie, and stay whole whatever happens to the others.

use crate::support::{Image, Memory, assert_same, content, open, text};
use lanefs::{Access, Volume};
use lanefs_publish::{PruneOptions, prune};
use lanefs_testkit::seeded::Seeded;
use std::sync::Arc;

/// Sizes of the files of a tree: less than a block, some blocks, and more than a window.
const SIZES: [usize; 6] = [3_000, 9_000, 30_000, 4096, 700_000, 70_000];

/// Writes a tree of files, each of which is the same wherever the tree is.
fn write_tree(volume: &Volume, root: &str) {
    volume.mkdir_all(root, 0o755).expect("mkdir");
    for (number, size) in SIZES.into_iter().enumerate() {
        let bytes = text(&mut Seeded::new(number as u64), size);
        volume.write_file(format!("{root}/{number}"), bytes).expect("write");
        // So the copies lie otherwise in their windows.
        volume
            .write_file(format!("{root}/own {number}"), format!("{root} {number}").repeat(900))
            .expect("write");
    }
}

#[test]
fn equal_files_are_stored_once() {
    let published = |copies: u32| {
        let image = Image::new(64 << 20, |volume| {
            (0..copies).for_each(|copy| write_tree(volume, &format!("/copy {copy}")));
        });
        let store = Arc::new(Memory::default());
        let report = image.publish(&store).expect("published");
        assert_same(&image, &open(&store).expect("a publication"));
        report
    };
    let (one, four) = (published(1), published(4));
    let blocks: usize = SIZES.iter().map(|size| size.div_ceil(4096)).sum();
    assert_eq!(one.equal_blocks, 0);
    // A window has few runs, and the volume's allocator decides how many it would need.
    assert!(four.equal_blocks as usize >= 3 * blocks * 3 / 4, "{} blocks", four.equal_blocks);
    assert!(
        four.facts.data_bytes < one.facts.data_bytes * 2,
        "{} and {} bytes",
        one.facts.data_bytes,
        four.facts.data_bytes
    );
}

#[test]
fn a_copy_of_what_was_published_costs_its_metadata() {
    let image = Image::new(64 << 20, |volume| write_tree(volume, "/first"));
    let store = Arc::new(Memory::default());
    let first = image.publish(&store).expect("published");
    image.change(|volume| write_tree(volume, "/second"));
    let second = image.publish(&store).expect("published");
    assert_same(&image, &open(&store).expect("a publication"));
    assert!(second.written_bytes * 3 < first.written_bytes, "{second:?} after {first:?}");
    let again = image.publish(&store).expect("published");
    assert_eq!((again.version, again.written_bytes), (second.version, 0));
}

#[test]
fn what_is_borrowed_stays_when_its_lender_is_removed_and_all_else_is_pruned() {
    let image = Image::new(64 << 20, |volume| write_tree(volume, "/lender"));
    let store = Arc::new(Memory::default());
    image.publish(&store).expect("published");
    image.change(|volume| write_tree(volume, "/borrower"));
    image.publish(&store).expect("published");
    image.change(|volume| volume.remove_all("/lender").expect("removed"));
    let report = image.publish(&store).expect("published");
    assert!(report.written_bytes < 64 << 10, "metadata only: {report:?}");
    // Changes in the middle of what is borrowed.
    image.change(|volume| {
        let mut bytes = text(&mut Seeded::new(4), SIZES[4]);
        bytes[300_000..310_000].fill(b'x');
        volume.write_file("/borrower/4", bytes).expect("write");
        volume.write_file("/new", "new").expect("write");
    });
    image.publish(&store).expect("published");
    let options = PruneOptions { grace: 0, ..PruneOptions::default() };
    let objects = store.names().len();
    prune(store.clone(), &options, &|_, _| true).expect("pruned");
    assert!(store.names().len() < objects, "nothing was removed");
    let publication = open(&store).expect("a publication");
    assert_same(&image, &publication);
    let verified = publication.verify(&|_, _| true).expect("verified");
    assert!(verified.findings.is_empty(), "{:?}", verified.findings);
    let to = image.home.path().join("there.lane");
    publication.pull(&to, &|_, _| true).expect("pulled");
    let there = Volume::open(&to, Access::Read).expect("an image");
    assert!(content(&there).names == content(&image.open()).names, "names differ");
    assert!(content(&there).blocks == content(&image.open()).blocks, "blocks differ");
}
