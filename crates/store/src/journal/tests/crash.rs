//! Random lives of a small volume that end in power cuts; each continues from the state that recovery left.
//!
//! The model knows each block after each commit: metadata with known content, or free, in which case the
//! tester writes file data to it in place. `LANEFS_SEED` sets the first seed, `LANEFS_CRASH_STATES` the
//! number of states.

use super::medium::{Event, Random, Recorder, block, crashed, flushed};
use crate::device::Device;
use crate::journal::aligned::AlignedBuffer;
use crate::journal::ring::{Ring, identify};
use crate::journal::{Commit, Image, Journal, Pending};
use lanefs_format::{BLOCK, BlockKind, Checksummer, JOURNAL_COMMIT, journal_commit as c};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Byte position of the journal.
const AT: u64 = 2 * BLOCK;
/// Blocks that commits change, after the journal.
const CELLS: u64 = 20;

/// Planted bugs, which the tester must find.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    /// A commit is acknowledged before it is durable.
    NoFlushInAppend,
    /// Space is reused before the header that frees it is durable.
    NoFlushInAdvance,
    /// Recovery ignores revocations.
    NoRevocations,
    /// Recovery does not compare a record's checksum with the blocks before it.
    NoContentChecksum,
    /// The header advances before the blocks are in place.
    NoFlushInCheckpoint,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    /// Metadata, with this tag.
    Metadata(u64),
    /// Free since this event.
    Free(usize),
}

/// File data written in place.
struct Data {
    event: usize,
    position: u64,
    bytes: Vec<u8>,
}

struct World {
    sums: Checksummer,
    blocks: u64,
    bug: Bug,
    random: Random,
    tags: u64,
    /// The device when this life began.
    base: Vec<u8>,
    /// The state of each cell after each commit of this life; the first is the initial one.
    states: Vec<Vec<Cell>>,
    data: Vec<Data>,
    /// Number of recoveries that found a commit, and of those that found one that was not acknowledged.
    recovered: u64,
    lucky: u64,
}

impl World {
    fn new(seed: u64, blocks: u64, bug: Bug) -> Self {
        let sums = Checksummer::new(3);
        let base = vec![0; (AT + (blocks + CELLS) * BLOCK) as usize];
        let device = Recorder::new(base);
        Journal::format(&device, &sums, AT, blocks).expect("format");
        World {
            sums,
            blocks,
            bug,
            random: Random(seed * 2 + 1),
            tags: 0,
            base: device.bytes(),
            states: vec![vec![Cell::Free(0); CELLS as usize]],
            data: Vec::new(),
            recovered: 0,
            lucky: 0,
        }
    }

    fn position(&self, cell: usize) -> u64 {
        AT + (self.blocks + cell as u64) * BLOCK
    }

    fn tag(&mut self) -> u64 {
        self.tags += 1;
        self.tags
    }

    fn open(&self, device: &dyn Device) -> Result<(Journal, bool), String> {
        Journal::open(device, &self.sums, AT, self.blocks, device.len()).map_err(|e| format!("open: {e:?}"))
    }

    /// Does one life. Returns the events of the device.
    fn live(&mut self, steps: usize) -> Result<Vec<Event>, String> {
        let device = Recorder::new(self.base.clone());
        let (mut journal, recovered) = self.open(&device)?;
        assert!(!recovered, "it was recovered before");
        // The initial state of a life is durable.
        device.note(Event::Flush);
        let mut pending = Pending::default();
        for _ in 0..steps {
            match self.random.below(20) {
                0..10 => self.commit(&device, &mut journal, &mut pending),
                10..15 => self.write_data(&device),
                15 => device.flush().expect("flush"),
                16 => self.checkpoint(&device, &mut journal, &mut pending, u64::MAX),
                _ => {
                    let some = journal.last().saturating_sub(self.random.below(6));
                    self.checkpoint(&device, &mut journal, &mut pending, some);
                }
            }
            self.check_reads(&device, &pending);
        }
        Ok(device.take())
    }

    fn commit(&mut self, device: &Recorder, journal: &mut Journal, pending: &mut Pending) {
        let last = self.states.last().expect("one at least").clone();
        let size = if self.random.one_in(6) { CELLS } else { 1 + self.random.below(5) };
        let size = size.min(journal.capacity() as u64 - 1);
        let chosen: BTreeSet<usize> = (0..size).map(|_| self.random.below(CELLS) as usize).collect();
        let blocks: Vec<(usize, u64)> = chosen.iter().map(|cell| (*cell, self.tag())).collect();
        let is_metadata = |cell: &usize| matches!(last[*cell], Cell::Metadata(_));
        let mut revoked: Vec<usize> =
            (0..CELLS as usize).filter(|cell| !chosen.contains(cell) && is_metadata(cell)).collect();
        revoked.retain(|_| self.random.one_in(5));
        if !journal.fits(blocks.len(), revoked.len()) {
            let some = journal.last().saturating_sub(self.random.below(3));
            self.checkpoint(device, journal, pending, some);
            if !journal.fits(blocks.len(), revoked.len()) {
                return self.checkpoint(device, journal, pending, u64::MAX);
            }
        }
        let mut after = last;
        blocks.iter().for_each(|(cell, tag)| after[*cell] = Cell::Metadata(*tag));
        revoked.iter().for_each(|cell| after[*cell] = Cell::Free(device.now()));
        device.note(Event::Begun(self.states.len()));

        let mut buffer = AlignedBuffer::zeroed(blocks.len() * BLOCK as usize);
        for ((_, tag), image) in blocks.iter().zip(buffer.chunks_exact_mut(BLOCK as usize)) {
            image.copy_from_slice(&block(*tag));
        }
        let at: Vec<u64> = blocks.iter().map(|(cell, _)| self.position(*cell)).collect();
        let images: Vec<(u64, &[u8])> = at.iter().copied().zip(buffer.chunks_exact(BLOCK as usize)).collect();
        let freed: Vec<u64> = revoked.iter().map(|cell| self.position(*cell)).collect();
        let told = if self.bug == Bug::NoRevocations { &[][..] } else { &freed[..] };
        device.loses_flushes.store(self.bug == Bug::NoFlushInAppend, Ordering::Relaxed);
        let commit = Commit { blocks: &images, summed: &[], revoked: told, totals: None };
        journal.append(device, &self.sums, &commit).expect("it fits");
        device.loses_flushes.store(false, Ordering::Relaxed);
        drop(images);

        device.note(Event::Durable(self.states.len()));
        self.states.push(after);
        let buffer = Arc::new(buffer);
        for (index, position) in at.iter().enumerate() {
            pending.add(journal.last(), *position, Image::of(&buffer, index).expect("whole blocks"));
        }
        freed.iter().for_each(|position| pending.revoke(*position));
    }

    /// Writes file data to a free block, in place.
    fn write_data(&mut self, device: &Recorder) {
        let cell = self.random.below(CELLS) as usize;
        if matches!(self.states.last().expect("one at least")[cell], Cell::Metadata(_)) {
            return;
        }
        let position = self.position(cell);
        let mut bytes = AlignedBuffer::zeroed(BLOCK as usize);
        bytes.copy_from_slice(&block(self.tag()));
        self.data.push(Data { event: device.now(), position, bytes: bytes.to_vec() });
        device.write_slice(position, &bytes).expect("memory");
    }

    /// Writes commits up to `upto` in place.
    fn checkpoint(&mut self, device: &Recorder, journal: &mut Journal, pending: &mut Pending, upto: u64) {
        let upto = upto.min(journal.last());
        let (mut from, mut written) = (0, Vec::new());
        loop {
            let batch = pending.batch(from, upto, 3);
            let Some(last) = batch.last() else { break };
            from = last.position + 1;
            for waiting in &batch {
                device.write_slice(waiting.position, &waiting.image).expect("memory");
                written.push((waiting.position, waiting.sequence));
            }
        }
        if self.bug != Bug::NoFlushInCheckpoint {
            device.flush().expect("flush");
        }
        pending.done(&written);
        device.loses_flushes.store(self.bug == Bug::NoFlushInAdvance, Ordering::Relaxed);
        journal.advance(device, &self.sums, upto).expect("advance");
        device.loses_flushes.store(false, Ordering::Relaxed);
    }

    /// Checks that each metadata block reads as in the last commit, pending or in place.
    fn check_reads(&self, device: &Recorder, pending: &Pending) {
        let bytes = device.bytes();
        for (cell, is) in self.states.last().expect("one at least").iter().enumerate() {
            let (Cell::Metadata(tag), at) = (is, self.position(cell)) else { continue };
            let read = pending.get(at).unwrap_or(&bytes[at as usize..][..BLOCK as usize]);
            assert!(read == block(*tag), "cell {cell} reads wrong");
        }
    }

    /// Compares an image with the volume after the commit that led to `state`, where the power was cut after
    /// `events`. Returns the first difference.
    fn differs(&self, state: usize, events: &[Event], image: &[u8]) -> Option<String> {
        let flushed = flushed(events);
        for (cell, is) in self.states[state].iter().enumerate() {
            let position = self.position(cell);
            let found = &image[position as usize..][..BLOCK as usize];
            match is {
                Cell::Metadata(tag) if *found != block(*tag) => {
                    return Some(format!("cell {cell} is not metadata {tag}"));
                }
                Cell::Metadata(_) => {}
                Cell::Free(since) => {
                    let written: Vec<&Data> = self
                        .data
                        .iter()
                        .filter(|d| d.position == position && d.event >= *since && d.event < events.len())
                        .collect();
                    // Each sector is flushed data, or data written since.
                    let Some(first) = written.iter().rposition(|d| d.event < flushed) else { continue };
                    let good = found.chunks(512).enumerate().all(|(i, sector)| {
                        written[first..].iter().any(|d| d.bytes[i * 512..][..512] == *sector)
                    });
                    if !good {
                        return Some(format!("cell {cell} lost its file data"));
                    }
                }
            }
        }
        None
    }

    /// Cuts the power after `events`, recovers (with more cuts), and judges. Returns the device and the state
    /// that it has.
    fn cut(&mut self, events: &[Event]) -> Result<(Vec<u8>, usize), String> {
        let mut image = crashed(&self.base, events, &mut self.random);
        if self.bug == Bug::NoContentChecksum {
            self.believe_all_records(&mut image);
        }
        let device = Recorder::new(image.clone());
        let (_, recovered) = self.open(&device)?;
        let (mended, recovery) = (device.bytes(), device.take());
        let newest = |wanted: fn(&Event) -> Option<usize>| events.iter().rev().find_map(wanted).unwrap_or(0);
        let durable = newest(|e| if let Event::Durable(state) = e { Some(*state) } else { None });
        let begun = newest(|e| if let Event::Begun(state) = e { Some(*state) } else { None });
        let mut wrong = String::new();
        let state =
            (durable..=begun.max(durable)).find(|state| match self.differs(*state, events, &mended) {
                None => true,
                Some(why) => {
                    wrong.push_str(&format!("; not state {state}: {why}"));
                    false
                }
            });
        let Some(state) = state else { return Err(format!("{durable} durable{wrong}")) };
        self.recovered += u64::from(recovered);
        self.lucky += u64::from(state > durable);
        self.cut_recovery(&image, &mended, &recovery)?;
        Ok((mended, state))
    }

    /// Checks that an interrupted recovery and a second one give the same result.
    fn cut_recovery(&mut self, image: &[u8], mended: &[u8], recovery: &[Event]) -> Result<(), String> {
        let cells = self.position(0) as usize;
        for _ in 0..2 {
            let cut = self.random.below(recovery.len() as u64 + 1) as usize;
            let again = Recorder::new(crashed(image, &recovery[..cut], &mut self.random));
            self.open(&again)?;
            if again.bytes()[cells..] != mended[cells..] {
                return Err(format!(
                    "recovery cut after {cut} of {} events came to something else",
                    recovery.len()
                ));
            }
            let (_, recovered) = self.open(&again)?;
            if recovered {
                return Err("recovered twice".into());
            }
        }
        Ok(())
    }

    /// Makes every record match the blocks before it, as if recovery did not compare.
    fn believe_all_records(&self, image: &mut [u8]) {
        let ring = Ring::new(AT, self.blocks).expect("a journal");
        for slot in 0..ring.len() {
            let at = ring.position(slot);
            let block = |image: &[u8], at: u64| image[at as usize..][..BLOCK as usize].to_vec();
            let mut record = block(image, at);
            if identify(&self.sums, at, &record).is_none_or(|(role, _)| role != JOURNAL_COMMIT) {
                continue;
            }
            let count = c::BLOCKS.read(&record).expect("whole");
            let before = (slot + ring.len() - count)..(slot + ring.len());
            let content =
                before.fold(0, |sum, slot| Checksummer::append(sum, &block(image, ring.position(slot))));
            c::CONTENT.write(&mut record, content);
            self.sums.seal(BlockKind::Journal, at, &mut record, 0);
            image[at as usize..][..BLOCK as usize].copy_from_slice(&record);
        }
    }

    /// Begins the next life with this device in this state.
    fn go_on(&mut self, image: Vec<u8>, state: usize) {
        let mut cells = self.states[state].clone();
        self.data.clear();
        for (cell, is) in cells.iter_mut().enumerate() {
            if matches!(is, Cell::Free(_)) {
                *is = Cell::Free(0);
                let position = self.position(cell);
                let bytes = image[position as usize..][..BLOCK as usize].to_vec();
                self.data.push(Data { event: 0, position, bytes });
            }
        }
        self.states = vec![cells];
        self.base = image;
    }
}

/// Does the lives of one volume, with `cuts` power cuts each.
fn explore(seed: u64, blocks: u64, bug: Bug, lives: u64, cuts: u64) -> Result<World, String> {
    let mut world = World::new(seed, blocks, bug);
    for life in 0..lives {
        let steps = 10 + world.random.below(80) as usize;
        let events = world.live(steps)?;
        let mut kept = None;
        for _ in 0..cuts {
            let cut = 1 + world.random.below(events.len() as u64) as usize;
            let told = |why| format!("seed {seed}, {blocks} blocks, life {life}, cut {cut}: {why}");
            kept = Some(world.cut(&events[..cut]).map_err(told)?);
        }
        let (image, state) = kept.expect("one cut at least");
        world.go_on(image, state);
    }
    Ok(world)
}

const RINGS: [u64; 6] = [7, 17, 18, 25, 41, 65];

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

#[test]
fn after_a_power_cut_all_blocks_are_as_after_a_commit_that_is_no_older_than_the_last_acknowledged() {
    let seed = number("LANEFS_SEED", 1);
    let states = number("LANEFS_CRASH_STATES", 5000);
    let (lives, cuts) = (8, 20);
    let (mut recovered, mut lucky) = (0, 0);
    let rounds = states / (lives * cuts);
    for round in 0..rounds.max(1) {
        let blocks = RINGS[round as usize % RINGS.len()];
        match explore(seed + round, blocks, Bug::None, lives, cuts) {
            Ok(world) => (recovered, lucky) = (recovered + world.recovered, lucky + world.lucky),
            Err(why) => panic!("{why}"),
        }
    }
    // Enough states must be interesting.
    assert!(recovered > states / 4, "only {recovered} states had anything to recover");
    assert!(lucky > states / 200, "only {lucky} states had a whole commit that was not acknowledged");
}

/// Returns the explorations, of a few, that find a bug.
fn seen(bug: Bug) -> BTreeMap<u64, String> {
    let try_one = |seed: u64| explore(seed, RINGS[seed as usize % RINGS.len()], bug, 6, 20).err();
    (1..=12).filter_map(|seed| Some((seed, try_one(seed)?))).collect()
}

#[test]
fn a_commit_that_is_acknowledged_without_a_flush_is_caught() {
    assert!(!seen(Bug::NoFlushInAppend).is_empty());
}

#[test]
fn space_that_is_used_again_before_the_header_is_durable_is_caught() {
    assert!(!seen(Bug::NoFlushInAdvance).is_empty());
}

#[test]
fn a_header_that_goes_ahead_of_the_blocks_in_place_is_caught() {
    assert!(!seen(Bug::NoFlushInCheckpoint).is_empty());
}

#[test]
fn revocations_that_are_not_heeded_are_caught() {
    let seen = seen(Bug::NoRevocations);
    assert!(seen.values().any(|why| why.contains("lost its file data")), "{seen:?}");
}

#[test]
fn a_record_that_is_believed_without_its_checksum_is_caught() {
    assert!(!seen(Bug::NoContentChecksum).is_empty());
}
