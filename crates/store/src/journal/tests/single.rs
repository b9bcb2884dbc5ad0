//! One case each: wraps, torn headers, numbers, rot, hostile journals, failing devices.

use super::medium::{Event, Recorder, block};
use crate::device::Device;
use crate::journal::header::{self, Tail};
use crate::journal::ring::{Ring, SEQUENCE_END, SEQUENCE_WORN};
use crate::journal::{AlignedBuffer, Commit, Journal, recover};
use crate::vocabulary::fault::Fault;
use lanefs_format::{
    BLOCK, BlockKind, Checksummer, Code, JOURNAL_COMMIT, JOURNAL_HEADERS, MAX_JOURNAL, SUPERBLOCK_COPY,
    journal_commit as c, journal_descriptor as d, journal_header as h,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

/// Byte position of the journal.
const AT: u64 = 2 * BLOCK;
/// Byte position of the first block of its ring.
const RING: u64 = AT + JOURNAL_HEADERS * BLOCK;
/// Length of the volume in blocks.
const VOLUME: u64 = 3300;

fn sums() -> Checksummer {
    Checksummer::new(3)
}

/// Returns the position of the `n`th block that a commit may have.
fn cell(n: u64) -> u64 {
    (2000 + n) * BLOCK
}

fn new(blocks: u64) -> (Recorder, Journal) {
    let device = Recorder::new(vec![0; (VOLUME * BLOCK) as usize]);
    let journal = Journal::format(&device, &sums(), AT, blocks).expect("format");
    device.take();
    (device, journal)
}

fn open(device: &Recorder, blocks: u64) -> Result<(Journal, bool), Fault> {
    Journal::open(device, &sums(), AT, blocks, VOLUME * BLOCK)
}

fn append(
    device: &Recorder,
    journal: &mut Journal,
    cells: &[(u64, u64)],
    revoked: &[u64],
) -> Result<(), Fault> {
    let images: Vec<(u64, [u8; 4096])> = cells.iter().map(|(n, tag)| (cell(*n), block(*tag))).collect();
    let blocks: Vec<(u64, &[u8])> = images.iter().map(|(at, image)| (*at, &image[..])).collect();
    let revoked: Vec<u64> = revoked.iter().map(|n| cell(*n)).collect();
    journal.append(device, &sums(), &Commit { blocks: &blocks, summed: &[], revoked: &revoked, totals: None })
}

fn read(device: &Recorder, at: u64) -> [u8; 4096] {
    let mut bytes = [0; 4096];
    device.read_slice(at, &mut bytes).expect("memory");
    bytes
}

/// Changes a block of the journal and seals it again.
fn forge(device: &Recorder, at: u64, change: impl FnOnce(&mut [u8])) {
    let mut bytes = AlignedBuffer::zeroed(BLOCK as usize);
    bytes.copy_from_slice(&read(device, at));
    change(&mut bytes);
    sums().seal(BlockKind::Journal, at, &mut bytes, 0);
    device.write_slice(at, &bytes).expect("memory");
}

#[test]
fn a_commit_is_one_write_and_one_flush_and_two_writes_around_the_end() {
    let (device, mut journal) = new(18);
    let mut around = 0;
    for n in 0..40 {
        append(&device, &mut journal, &[(0, n), (1, n + 100), (2, n + 200)], &[]).expect("append");
        let events = device.take();
        let writes = events.iter().filter(|event| matches!(event, Event::Write(..))).count();
        assert!(matches!(events.last(), Some(Event::Flush)) && events.len() == writes + 1);
        around += usize::from(writes == 2);
        assert!((1..=2).contains(&writes));
        let copy = Recorder::new(device.bytes());
        assert!(open(&copy, 18).expect("open").1);
        assert_eq!(read(&copy, cell(1)), block(n + 100));
        if !journal.fits(3, 0) {
            assert!(journal.used() > 0.6);
            journal.advance(&device, &sums(), journal.last() - 1).expect("advance");
            assert!(journal.used() < 0.4);
            device.take();
        }
    }
    assert!(around >= 5, "{around}");
}

#[test]
fn a_commit_may_fill_the_whole_ring_and_no_more() {
    for blocks in [5, 6, 17, 503, 504, 505, 506, 1007] {
        let (device, mut journal) = new(blocks);
        let most = journal.capacity();
        assert!(journal.fits(most, 0) && !journal.fits(most + 1, 0), "{blocks} blocks");
        // The first slot varies, so that commits wrap too.
        for round in 1..4 {
            let cells: Vec<(u64, u64)> = (0..most as u64).map(|n| (n, n + round * 5000)).collect();
            append(&device, &mut journal, &cells, &[]).expect("append");
            let copy = Recorder::new(device.bytes());
            assert!(open(&copy, blocks).expect("open").1);
            assert!(cells.iter().all(|(n, tag)| read(&copy, cell(*n)) == block(*tag)));
            let full = append(&device, &mut journal, &cells, &[]);
            assert_eq!(full, Err(Fault::Code(Code::NoSpace)));
            journal.advance(&device, &sums(), journal.last()).expect("advance");
            if blocks > 5 {
                append(&device, &mut journal, &[], &[0]).expect("a commit of two blocks");
                journal.advance(&device, &sums(), journal.last()).expect("advance");
            }
        }
        assert!(journal.written() >= 3 * most as u64 * BLOCK);
        // The memory for the encoding does not grow with the commit.
        assert!(journal.staging.len() as u64 <= 256 * BLOCK, "{blocks} blocks");
    }
}

#[test]
fn a_revocation_holds_for_its_own_commit_and_earlier_ones_and_not_for_later_ones() {
    let (device, mut journal) = new(1600);
    let all: Vec<u64> = (0..1200).collect();
    let cells: Vec<(u64, u64)> = all.iter().map(|n| (*n, n + 1)).collect();
    append(&device, &mut journal, &cells, &[]).expect("append");
    append(&device, &mut journal, &[], &all[1..]).expect("append");
    append(&device, &mut journal, &[(7, 7000)], &[]).expect("append");
    assert!(open(&device, 1600).expect("open").1);
    assert_eq!(read(&device, cell(0)), block(1));
    assert_eq!(read(&device, cell(7)), block(7000));
    let others = all.iter().filter(|n| **n != 0 && **n != 7);
    assert!(others.clone().count() > 1000 && others.clone().all(|n| read(&device, cell(*n)) == [0; 4096]));
}

#[test]
fn of_each_block_only_the_newest_copy_is_written() {
    let (device, mut journal) = new(64);
    for n in 0..10 {
        append(&device, &mut journal, &[(0, n), (1, n + 50)], &[]).expect("append");
    }
    device.take();
    assert!(open(&device, 64).expect("open").1);
    let events = device.take();
    assert!(matches!(&events[0], Event::Write(at, data) if *at == cell(0) && data.len() == 8192));
    assert!(matches!(events[1..], [Event::Flush, Event::Write(AT, _), Event::Flush]));
    assert!(!open(&device, 64).expect("open").1);
    assert!(device.take().is_empty(), "an open that finds nothing writes nothing");
}

/// A journal whose two commits are in place, though its headers do not say so yet, and the blocks in place.
fn in_place() -> (Recorder, Journal, [(u64, [u8; 4096]); 2]) {
    let (device, mut journal) = new(16);
    append(&device, &mut journal, &[(0, 1), (1, 2)], &[]).expect("append");
    append(&device, &mut journal, &[(0, 3)], &[]).expect("append");
    let expected = [(cell(0), block(3)), (cell(1), block(2))];
    for (at, image) in &expected {
        let mut aligned = AlignedBuffer::zeroed(BLOCK as usize);
        aligned.copy_from_slice(image);
        device.write_slice(*at, &aligned).expect("memory");
    }
    device.take();
    (device, journal, expected)
}

#[test]
fn torn_headers_are_old_ones_or_new_ones() {
    let (device, mut journal, expected) = in_place();
    let old = [read(&device, AT), read(&device, AT + BLOCK)].concat();
    journal.advance(&device, &sums(), journal.last()).expect("advance");
    let [Event::Write(AT, new), Event::Flush] = &device.take()[..] else { panic!("a write and a flush") };
    assert_eq!(new.len(), old.len());
    for sectors in 0..1_u32 << 16 {
        // Sectors other than the first of each block are zero: some of their combinations are enough.
        if sectors & 0xfefe != 0 && !sectors.is_multiple_of(251) {
            continue;
        }
        let mut torn = AlignedBuffer::zeroed(new.len());
        for sector in 0..16 {
            let part = sector * 512..(sector + 1) * 512;
            let landed = if sectors >> sector & 1 == 1 { &new[part.clone()] } else { &old[part.clone()] };
            torn[part].copy_from_slice(landed);
        }
        device.write_slice(AT, &torn).expect("memory");
        let (_, recovered) = open(&device, 16).expect("a header");
        assert_eq!(recovered, sectors & 0x101 == 0, "sectors {sectors:b}");
        assert!(expected.iter().all(|(at, bytes)| read(&device, *at) == *bytes));
    }
}

#[test]
fn one_bad_header_costs_nothing() {
    for lost in [AT, AT + BLOCK] {
        let (device, mut journal, _) = in_place();
        // The log wraps over the commits that the headers freed.
        journal.advance(&device, &sums(), journal.last()).expect("advance");
        for n in 10..13 {
            append(&device, &mut journal, &[(2, n), (3, n)], &[]).expect("append");
        }
        device.write_slice(lost, &AlignedBuffer::zeroed(BLOCK as usize)).expect("memory");
        let (mut journal, recovered) = open(&device, 16).expect("the other header");
        assert!(recovered && read(&device, cell(2)) == block(12) && read(&device, cell(0)) == block(3));
        // It is there again.
        append(&device, &mut journal, &[(0, 20)], &[]).expect("append");
        device.write_slice(AT + BLOCK - (lost - AT), &AlignedBuffer::zeroed(BLOCK as usize)).expect("memory");
        assert!(open(&device, 16).expect("the header").1);
        assert_eq!(read(&device, cell(0)), block(20));
        // A journal made again has no old header that could count.
        device.write_slice(AT, &AlignedBuffer::zeroed(BLOCK as usize)).expect("memory");
        let anew = Journal::format(&device, &sums(), AT, 16).expect("format");
        for copy in [AT, AT + BLOCK] {
            assert_eq!(h::SEQUENCE.read(&read(&device, copy)), Some(anew.last() + 1));
        }
    }
    let (device, _) = new(16);
    *device.bad.lock() = Some(AT);
    assert!(open(&device, 16).is_ok(), "one that cannot be read costs nothing either");
}

#[test]
fn a_commit_that_was_lost_is_not_completed_by_a_later_one() {
    let (device, mut journal) = new(16);
    let lost = journal.last() + 1;
    let empty = device.bytes();
    append(&device, &mut journal, &[(0, 1), (1, 2)], &[]).expect("append");
    // Only its second copy, the third block of the ring, did not land.
    let copy = (RING + 2 * BLOCK) as usize..(RING + 3 * BLOCK) as usize;
    let mut torn = device.bytes();
    torn[copy.clone()].copy_from_slice(&empty[copy.clone()]);

    // Another commit follows, in the same blocks; only this copy of it lands.
    let device = Recorder::new(torn.clone());
    let (mut journal, recovered) = open(&device, 16).expect("open");
    assert!(!recovered);
    append(&device, &mut journal, &[(0, 9), (1, 2)], &[]).expect("append");
    torn[copy.clone()].copy_from_slice(&device.bytes()[copy]);
    let events = device.take();
    let [Event::Write(AT, header), Event::Flush, Event::Write(..), Event::Flush] = &events[..] else {
        panic!("the header goes first, and is flushed");
    };
    let mut with_header = torn.clone();
    with_header[AT as usize..][..header.len()].copy_from_slice(header);
    let device = Recorder::new(with_header);
    assert!(!open(&device, 16).expect("open").1, "commit {lost} was lost");
    assert_eq!(read(&device, cell(0)), [0; 4096]);
    // With the old header, recovery would replay the lost commit.
    assert!(open(&Recorder::new(torn), 16).expect("open").1);
}

#[test]
fn a_journal_that_is_made_anew_takes_nothing_from_the_old_one() {
    let (device, mut journal) = new(32);
    for n in 0..12 {
        append(&device, &mut journal, &[(0, n), (1, n)], &[]).expect("append");
        if n == 5 {
            journal.advance(&device, &sums(), journal.last()).expect("advance");
        }
    }
    let before = device.bytes();
    let last = journal.last();
    let mut anew = Journal::format(&device, &sums(), AT, 32).expect("format");
    assert!(anew.last() > last);
    append(&device, &mut anew, &[(0, 500), (1, 500)], &[]).expect("append");
    assert!(open(&device, 32).expect("open").1);
    assert_eq!(read(&device, cell(0)), block(500));

    // With low numbers, recovery would find the old commits.
    let device = Recorder::new(before);
    let ring = Ring::new(AT, 32).expect("a ring");
    let oldest = [7, 8, 9].map(|sequence| Tail { slot: 24, sequence, totals: None });
    let found = oldest.iter().any(|tail| {
        let device = Recorder::new(device.bytes());
        header::write(&device, &sums(), ring, *tail).expect("memory");
        open(&device, 32).is_ok_and(|(_, recovered)| recovered)
    });
    assert!(found, "the old commits are there");

    // Unreadable blocks are overwritten, because they may have high numbers.
    *device.bad.lock() = Some(AT + 9 * BLOCK + 5);
    let fresh = Journal::format(&device, &sums(), AT, 32).expect("format");
    assert_eq!(fresh.last(), 9, "one piece was all there was, beside the headers");
    assert!(device.bad.lock().is_none());
}

#[test]
fn a_journal_that_is_made_anew_begins_above_blocks_of_unknown_roles() {
    let (device, journal) = new(32);
    let (at, number) = (RING + 5 * BLOCK, journal.last() + 40);
    let mut unknown = AlignedBuffer::zeroed(BLOCK as usize);
    d::KIND.write(&mut unknown, BlockKind::Journal as u8);
    d::ROLE.write(&mut unknown, 120);
    d::SEQUENCE.write(&mut unknown, number);
    sums().seal(BlockKind::Journal, at, &mut unknown, 0);
    device.write_slice(at, &unknown).expect("memory");
    assert_eq!(Journal::highest(&device, &sums(), AT, 32), number);
    assert!(Journal::format(&device, &sums(), AT, 32).expect("format").next() > number + 1);
}

#[test]
fn rot_in_the_middle_is_reported_and_a_torn_end_is_not() {
    let (device, mut journal) = new(64);
    for n in 0..5 {
        append(&device, &mut journal, &[(0, n + 1), (1, n + 50)], &[]).expect("append");
    }
    let image = device.bytes();
    for slot in 0..20_u64 {
        let mut rotten = image.clone();
        rotten[(RING + slot * BLOCK + 999) as usize] ^= 4;
        let device = Recorder::new(rotten);
        let outcome = open(&device, 64);
        if slot < 16 {
            let commit = RING + slot / 4 * 4 * BLOCK;
            assert!(matches!(outcome, Err(Fault::Damaged { at, .. }) if at == commit), "block {slot}");
            assert_eq!(read(&device, cell(0)), [0; 4096], "nothing was written");
        } else {
            assert!(outcome.expect("open").1);
            assert_eq!(read(&device, cell(0)), block(4));
        }
    }
}

#[test]
fn what_cannot_be_read_matters_where_it_is_needed() {
    let (device, mut journal) = new(64);
    append(&device, &mut journal, &[(0, 1), (1, 2)], &[]).expect("append");
    for slot in 0..10 {
        let device = Recorder::new(device.bytes());
        *device.bad.lock() = Some(RING + slot * BLOCK);
        match open(&device, 64) {
            // Recovery reads one block past the end.
            Err(Fault::Io { at, .. }) => assert!(slot <= 4 && at == RING + slot * BLOCK),
            opened => assert!(slot > 4 && opened.expect("open").1),
        }
    }
}

#[test]
fn positions_that_cannot_be_are_damage() {
    let end = VOLUME * BLOCK;
    let bad = [0, 1, AT, AT + 15 * BLOCK, SUPERBLOCK_COPY, cell(0) + 512, end - 512, end, u64::MAX - 4095];
    for at in bad {
        for revoked in [false, true] {
            let (device, mut journal) = new(16);
            append(&device, &mut journal, &[(0, 1)], &[]).expect("append");
            let image = block(9);
            let blocks = [(at, &image[..])];
            let commit = match revoked {
                true => Commit { blocks: &[], summed: &[], revoked: &[at], totals: None },
                false => Commit { blocks: &blocks, summed: &[], revoked: &[], totals: None },
            };
            journal.append(&device, &sums(), &commit).expect("append");
            device.take();
            let outcome = open(&device, 16).map(|_| ());
            let why = "a journal that names a block outside the volume";
            assert_eq!(outcome, Err(Fault::Damaged { at: RING + 3 * BLOCK, why }), "position {at}");
            assert!(device.take().is_empty(), "nothing was written");
        }
    }
    let (device, mut journal) = new(16);
    append(&device, &mut journal, &[(0, 1)], &[]).expect("append");
    for short in [0, 1, 4095, AT] {
        assert!(Journal::open(&device, &sums(), AT, 16, short).is_err());
    }
}

#[test]
fn counts_and_headers_that_cannot_be_are_damage() {
    for count in [0, 12, 13, 501, u16::MAX] {
        let (device, mut journal) = new(16);
        append(&device, &mut journal, &[(0, 1)], &[]).expect("append");
        forge(&device, RING, |bytes| d::COUNT.write(bytes, count));
        let outcome = open(&device, 16).map(|_| ());
        match count {
            // Twelve would fit, but the record's checksum is of another count.
            12 => assert_eq!(
                outcome,
                Err(Fault::damaged(RING, "a journal that names a block outside the volume"))
            ),
            _ => assert_eq!(outcome, Err(Fault::damaged(RING, "an impossible count in the journal"))),
        }
    }
    for (tail, sequence) in [(1, 5), (16, 5), (u64::MAX, 5), (2, 0), (2, SEQUENCE_END), (2, u64::MAX)] {
        let (device, _) = new(16);
        for at in [AT, AT + BLOCK] {
            assert!(open(&device, 16).is_ok(), "one good header is enough");
            forge(&device, at, |bytes| {
                h::TAIL.write(bytes, tail);
                h::SEQUENCE.write(bytes, sequence);
            });
        }
        assert!(matches!(open(&device, 16), Err(Fault::Damaged { at: AT, .. })), "{tail}, {sequence}");
    }
    let (device, _) = new(16);
    for (at, blocks) in [(AT, 0), (AT, 4), (AT, u64::MAX), (u64::MAX - 4095, 16)] {
        let opened = Journal::open(&device, &sums(), at, blocks, VOLUME * BLOCK);
        assert!(matches!(opened, Err(Fault::Damaged { .. })));
        assert!(matches!(Journal::format(&device, &sums(), at, blocks), Err(Fault::Damaged { .. })));
    }
    forge(&device, AT, |bytes| bytes[1] = 3);
    forge(&device, AT + BLOCK, |bytes| bytes[1] = 3);
    assert!(open(&device, 16).is_err(), "a record is not a header");
}

#[test]
fn a_journal_whose_numbers_are_used_up_is_damaged_and_begins_anew() {
    let ring = Ring::new(AT, 16).expect("a ring");
    for sequence in [SEQUENCE_WORN - 1, SEQUENCE_WORN, SEQUENCE_END - 1] {
        let (device, _) = new(16);
        header::write(&device, &sums(), ring, Tail { slot: 14, sequence, totals: None }).expect("memory");
        assert!(matches!(open(&device, 16), Err(Fault::Damaged { at: AT, .. })), "{sequence}");
        assert!(Journal::open_closed(&device, &sums(), AT, 16).is_err(), "{sequence}");
        assert!(Journal::examine(&device, &sums(), AT, 16, None).is_err(), "{sequence}");
        // A record with such a number lets none of its blocks stay.
        forge(&device, AT + 9 * BLOCK, |bytes| {
            c::KIND.write(bytes, BlockKind::Journal as u8);
            c::ROLE.write(bytes, JOURNAL_COMMIT);
            c::SEQUENCE.write(bytes, sequence);
        });
        let mut anew = Journal::format(&device, &sums(), AT, 16).expect("format");
        assert_eq!((anew.next(), Journal::highest(&device, &sums(), AT, 16)), (1, 0), "{sequence}");
        append(&device, &mut anew, &[(0, 1)], &[]).expect("append");
        assert!(open(&device, 16).expect("open").1);
    }
}

#[test]
fn the_log_of_a_closed_volume_counts_for_nothing() {
    let (device, mut journal) = new(16);
    append(&device, &mut journal, &[(0, 1)], &[]).expect("append");
    let number = journal.last();
    let before = device.bytes();
    let mut journal = Journal::open_closed(&device, &sums(), AT, 16).expect("open");
    assert!(device.bytes() == before && journal.next() > number);
    append(&device, &mut journal, &[(1, 2)], &[]).expect("append");
    assert!(open(&device, 16).expect("open").1);
    assert_eq!((read(&device, cell(0)), read(&device, cell(1))), ([0; 4096], block(2)));
}

#[test]
fn a_header_with_a_number_below_those_of_its_blocks_is_found() {
    let (device, mut journal) = new(16);
    append(&device, &mut journal, &[(0, 1)], &[]).expect("append");
    append(&device, &mut journal, &[(0, 2)], &[]).expect("append");
    let examine = |next| Journal::examine(&device, &sums(), AT, 16, next);
    assert!(examine(Some(journal.next())).is_ok() && examine(Some(journal.last())).is_err());
    assert!(matches!(examine(None), Err(Fault::Damaged { at: AT, .. })), "the log is not empty");
    journal.advance(&device, &sums(), journal.last()).expect("advance");
    assert!(examine(None).is_ok());
}

#[test]
fn after_a_failed_write_the_journal_takes_nothing_more() {
    let (device, mut journal) = new(16);
    append(&device, &mut journal, &[(0, 1)], &[]).expect("append");
    device.fails.store(true, Ordering::Relaxed);
    assert!(matches!(append(&device, &mut journal, &[(0, 2)], &[]), Err(Fault::Io { .. })));
    device.fails.store(false, Ordering::Relaxed);
    assert!(matches!(append(&device, &mut journal, &[(0, 3)], &[]), Err(Fault::Io { .. })));
    assert!(matches!(journal.advance(&device, &sums(), journal.last()), Err(Fault::Io { .. })));
    assert!(open(&device, 16).expect("open").1);
    assert_eq!(read(&device, cell(0)), block(1));
}

#[test]
fn a_journal_that_has_lost_its_head_writes_nothing_more() {
    let (device, mut journal) = new(16);
    append(&device, &mut journal, &[(0, 1)], &[]).expect("append");
    device.take();
    journal.head = journal.ring.len();
    catch_unwind(AssertUnwindSafe(|| append(&device, &mut journal, &[(0, 2)], &[]))).expect_err("a panic");
    assert!(matches!(append(&device, &mut journal, &[(0, 3)], &[]), Err(Fault::Io { .. })));
    assert!(device.take().is_empty(), "something is written");
    assert!(open(&device, 16).expect("open").1);
    assert_eq!(read(&device, cell(0)), block(1));
}

#[test]
fn a_commit_that_breaks_its_promises_is_refused_and_an_empty_one_is_not_written() {
    let (device, mut journal) = new(16);
    let broken = Err(Fault::Code(Code::InvariantViolated));
    assert_eq!(append(&device, &mut journal, &[(1, 1), (0, 2)], &[]), broken);
    assert_eq!(append(&device, &mut journal, &[(1, 1), (1, 2)], &[]), broken);
    assert_eq!(append(&device, &mut journal, &[(0, 1), (1, 2)], &[5, 1]), broken);
    let short = [(cell(0), &[0; 512][..])];
    assert_eq!(
        journal.append(&device, &sums(), &Commit { blocks: &short, summed: &[], revoked: &[], totals: None }),
        broken
    );
    let last = journal.last();
    append(&device, &mut journal, &[], &[]).expect("nothing");
    assert!(device.take().is_empty() && journal.last() == last && journal.used() == 0.0);
}

#[test]
fn a_log_of_many_pieces_is_replayed_piece_by_piece() {
    // 1,200 blocks are five pieces; the later commit has newer copies of blocks in all of them, and its
    // revocations lie in another piece than its end.
    let (device, mut journal) = new(1900);
    let first: Vec<(u64, u64)> = (0..900).map(|n| (n, n)).collect();
    append(&device, &mut journal, &first, &[]).expect("room");
    let second: Vec<(u64, u64)> = (0..900).step_by(3).map(|n| (n, n + 5000)).collect();
    append(&device, &mut journal, &second, &[1, 301, 601]).expect("room");
    assert!(open(&device, 1900).expect("a sound log").1, "commits are replayed");
    for n in 0..900 {
        let wanted = match n {
            1 | 301 | 601 => [0; 4096],
            n if n % 3 == 0 => block(n + 5000),
            n => block(n),
        };
        assert!(read(&device, cell(n)) == wanted, "block {n}");
    }
}

#[test]
fn a_log_that_changes_while_it_is_read_is_not_replayed() {
    let (device, mut journal) = new(1900);
    let all: Vec<(u64, u64)> = (0..900).map(|n| (n, n)).collect();
    append(&device, &mut journal, &all, &[]).expect("room");
    // A copy in the first piece, which is read again for the replay, when others were read.
    let ring = Ring::new(AT, 1900).expect("a size");
    let tail = header::read(&device, &sums(), ring).expect("a header");
    let mut found = recover::scan(&device, &sums(), ring, tail, VOLUME * BLOCK).expect("a sound log");
    let mut other = AlignedBuffer::zeroed(BLOCK as usize);
    other.copy_from_slice(&block(77_777));
    device.write_slice(RING + 7 * BLOCK, &other).expect("memory");
    device.take();
    let fault = found.replay(&sums()).expect_err("it has changed");
    assert!(matches!(fault, Fault::Io { doing, .. } if doing.starts_with("replaying")), "{fault:?}");
    assert!(device.take().is_empty(), "nothing of the piece is in place");
}

#[test]
fn a_journal_has_a_largest_size() {
    assert!(Ring::new(AT, MAX_JOURNAL).is_ok());
    assert_eq!(
        Ring::new(AT, MAX_JOURNAL + 1).map(drop),
        Err(Fault::damaged(AT, "a journal of an impossible size"))
    );
}
