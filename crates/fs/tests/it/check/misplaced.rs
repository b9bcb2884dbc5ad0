//! File maps that lead into the volume's own tables. (A read of the block with its own checksum once waited
//! for itself.)

use crate::check::faults::{FixtureInodes, extent_at, pointers};
use crate::check::fixture::{OWNER, closed};
use crate::check::image::{Good, Image};
use lanefs::format::{
    BLOCK, BlockKind, BlockSize, Field, JOURNAL_HEADERS, Pointer, SUPERBLOCK_COPY, SumPlace, chunk_entry,
    extent, group,
};
use lanefs::*;

fn good() -> (Good, FixtureInodes) {
    let good = Good::new(closed(16 << 20, InodeSize::B256, 0));
    let known = FixtureInodes::of(&good.image().open());
    (good, known)
}

/// A position in each table of the volume.
fn tables(good: &Good) -> Vec<(&'static str, u64)> {
    let of = |kind| *good.of_kind(kind).last().expect("a block of this kind");
    let sums = SumPlace::of(SumPlace::of(0).at).at;
    assert_eq!(good.kinds.get(&sums), Some(&BlockKind::Sums), "the fixture has checksums of file data");
    vec![
        ("the superblock's copy", SUPERBLOCK_COPY),
        ("the group table", good.superblock.groups),
        ("a journal's header", good.superblock.journal),
        ("the log", good.superblock.journal + (JOURNAL_HEADERS + 7) * BLOCK),
        ("the block with its own checksum", sums),
        ("another block of checksums", sums + 5 * BLOCK),
        ("a chunk's table", of(BlockKind::ChunkHeader)),
        ("inodes", of(BlockKind::Inodes)),
        ("a leaf", of(BlockKind::Leaf)),
        ("a free block of a metadata chunk", free_block(good)),
    ]
}

fn free_block(good: &Good) -> u64 {
    let last = *good.of_kind(BlockKind::ChunkHeader).last().expect("a chunk") - BLOCK;
    let free = (2..512).find(|n| good.bytes[(last + n * chunk_entry::SIZE as u64) as usize] == 0);
    last + free.expect("a free block") * BLOCK
}

/// A volume in which a file of one extent, and one of a radix tree, begin at `at`.
fn mapped_to<'g>(good: &'g Good, known: &FixtureInodes, at: u64) -> Image<'g> {
    let mut image = good.image();
    let word = Pointer::data(at, BlockSize::Small).word();
    let extents = extent_at(&image, known.extents, 0);
    image.put(extents, extent::POINTER, word);
    let slots = pointers(&image, known.mapped);
    image.put(slots, Field::<u64>::at(0), word);
    image.seal();
    image
}

/// Reads and copies the files in all ways. Each says that the volume is damaged.
fn assert_refused(volume: &Volume, known: &FixtureInodes, access: Access, at: u64, place: &str) {
    for ino in [known.extents, known.mapped] {
        let ino = Ino(ino);
        let error = volume.read(&OWNER, ino, 0, &mut [0; 100]).expect_err(place);
        assert_eq!(error.code(), Code::InvariantViolated, "{place}: {error}");
        assert!(error.to_string().contains(&format!("position {at:#x}")), "{place}: {error}");
        let mut files = FileContents::new();
        volume.read_files(&ReadFiles::default(), &[ino][..], &mut files).expect("read");
        assert_eq!(files.codes(), [Code::InvariantViolated], "{place}");
        if access == Access::Read {
            let views = volume.view_files(&ReadFiles::default(), &[ino][..]).expect("view");
            assert_eq!(views.codes(), [Code::InvariantViolated], "{place}");
            continue;
        }
        let copy = volume.write_file("/copy", b"").expect("write").ino;
        let error = volume.copy_range(&OWNER, ino, 0, copy, 0, BLOCK).expect_err(place);
        assert_eq!(error.code(), Code::InvariantViolated, "{place}: {error}");
    }
}

#[test]
fn data_in_a_table_are_refused_by_every_read() {
    let (good, known) = good();
    for (place, at) in tables(&good) {
        let image = mapped_to(&good, &known, at);
        for access in [Access::Read, Access::Write] {
            let volume = image.open_for(access);
            assert_refused(&volume, &known, access, at, place);
            // The table is as usable as before.
            volume
                .write_file("/more", vec![1; 9000])
                .map(drop)
                .or_else(|error| match error.code() {
                    Code::ReadOnly => Ok(()),
                    _ => Err(error),
                })
                .expect(place);
            assert!(volume.resolve("/tree/sub").is_ok(), "{place}");
            assert_eq!(volume.read_file("/a/b/f7").expect(place), vec![8; 9000]);
        }
    }
}

#[test]
fn a_damaged_group_table_costs_no_data() {
    let (good, known) = good();
    let mut image = mapped_to(&good, &known, good.superblock.groups);
    image.spoil(good.superblock.groups);
    let volume = image.open_for(Access::Read);
    for _ in 0..2 {
        assert_eq!(volume.read_file("/big").expect("read"), vec![9; 3 << 20]);
    }
    // Positions alone say what the table is, and the checksums.
    let error = volume.read(&OWNER, Ino(known.extents), 0, &mut [0; 100]).expect_err("no data");
    assert_eq!(error.code(), Code::InvariantViolated, "{error}");
}

#[test]
fn a_chunk_that_files_and_metadata_claim_holds_no_data() {
    let (good, known) = good();
    let mut image = good.image();
    let at = Pointer::decode(image.get(extent_at(&image, known.big, 0), extent::POINTER)).expect("a pointer");
    let at = at.expect("data").offset;
    // The bit of the group says so, and nobody asks the chunk's table.
    let chunk = at / format::CHUNK % format::CHUNKS_PER_GROUP;
    let table = good.superblock.groups + at / format::GROUP * BLOCK;
    let mask = image.get(table, group::METADATA);
    image.put(table, group::METADATA, mask | 1 << chunk);
    image.seal();
    let error = image.open_for(Access::Read).read_file("/big").map(|read| read.len()).expect_err("metadata");
    assert!(error.to_string().contains("file data where metadata is"), "{error}");
}
