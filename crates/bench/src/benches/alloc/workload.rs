//! Workloads on an allocator. Arrays and rings are allocated before the clock starts; the loops allocate from
//! the allocator under measurement only. (The start of a thread takes some blocks of it as well, for Rust and
//! the C library, the same for all allocators.)

use super::calls::{Block, Calls, LARGEST_BYTES};
use super::crew::{Outcome, crew};
use super::ring::{BATCH_BLOCKS, Receiver, Ring, Sender};
use crate::error::Result;
use parking_lot::Mutex;

/// Blocks of one cycle of [`Workload::TinyHot`], and their size in bytes.
const TINY_BLOCKS: usize = 100;
const TINY_BYTES: usize = 64;
/// Slots of each thread of [`Workload::RandomMixed`]: some 4 MiB of blocks.
const MIXED_SLOTS: usize = 8192;
/// Slots of each array of [`Workload::Larson`], and the number of slots that a thread replaces before another
/// one takes over its array.
const LARSON_SLOTS: usize = 1000;
const LARSON_TURN: u64 = 50_000;
/// Concurrent threads of [`Workload::ThreadChurn`], blocks that each allocates, and those of them that other
/// threads free.
const CHURN_LANES: usize = 4;
const CHURN_BLOCKS: usize = 300;
const CHURN_LEFT: usize = 100;

/// The workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Workload {
    /// 100 blocks of 64 bytes, freed in reverse; a step is one such cycle.
    TinyHot,
    /// Random slots, freed and filled again with 16 to 1,039 bytes; a step is one slot.
    RandomMixed,
    /// One thread allocates blocks of 16 to 512 bytes, another one frees them; a step is a block.
    ProducerConsumer,
    /// As random-mixed, 10 to 500 bytes, in arrays that new threads take over; a step is one slot.
    Larson,
    /// Threads that start and end, and leave blocks of 16 to 256 bytes to each other; a step is a thread.
    ThreadChurn,
}

impl Workload {
    pub(super) const ALL: [Workload; 5] = [
        Workload::TinyHot,
        Workload::RandomMixed,
        Workload::ProducerConsumer,
        Workload::Larson,
        Workload::ThreadChurn,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Workload::TinyHot => "tiny-hot",
            Workload::RandomMixed => "random-mixed",
            Workload::ProducerConsumer => "producer-consumer",
            Workload::Larson => "larson",
            Workload::ThreadChurn => "thread-churn",
        }
    }

    /// Runs the workload. `steps` counts for each thread (each pair, each array). [`Workload::ThreadChurn`]
    /// has a fixed number of threads at a time, and `steps` counts all threads.
    pub(super) fn run(self, calls: Calls, threads: usize, steps: u64) -> Result<Outcome> {
        match self {
            Workload::TinyHot => tiny_hot(calls, threads, steps),
            Workload::RandomMixed => random_mixed(calls, threads, steps),
            Workload::ProducerConsumer => producer_consumer(calls, threads.div_ceil(2), steps),
            Workload::Larson => larson(calls, threads, steps),
            Workload::ThreadChurn => thread_churn(calls, steps),
        }
    }
}

/// Marsaglia's xorshift: a few instructions, and no allocation.
struct Random(u64);

impl Random {
    /// Returns a generator with another sequence for each thread.
    fn new(thread: usize) -> Self {
        Random((thread as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[inline(always)]
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Picks one of `0..count` from 32 random bits, by a multiplication without a division.
#[inline(always)]
fn below(bits: u64, count: usize) -> usize {
    ((u64::from(bits as u32) * count as u64) >> 32) as usize
}

/// Picks a size from `LEAST` to `MOST`.
#[inline(always)]
fn size<const LEAST: usize, const MOST: usize>(bits: u64) -> usize {
    const { assert!(0 < LEAST && LEAST <= MOST && MOST <= LARGEST_BYTES) };
    LEAST + below(bits, MOST - LEAST + 1)
}

/// Allocates empty slots for blocks, in memory that is resident already.
fn slots(count: usize) -> Vec<Option<Block>> {
    let mut slots: Vec<Option<Block>> = (0..count).map(|_| None).collect();
    // Written once more: memory that is zero from the start may not be resident yet.
    std::hint::black_box(&mut slots).fill_with(|| None);
    slots
}

fn tiny_hot(calls: Calls, threads: usize, steps: u64) -> Result<Outcome> {
    let cycles = |slots: &mut Vec<Option<Block>>, cycles: u64| {
        for _ in 0..cycles {
            slots.iter_mut().for_each(|slot| *slot = Some(calls.get(TINY_BYTES)));
            slots.iter_mut().rev().filter_map(Option::take).for_each(|block| calls.put(block));
        }
        cycles * 2 * TINY_BLOCKS as u64
    };
    let mut members: Vec<_> = (0..threads).map(|_| slots(TINY_BLOCKS)).collect();
    crew(
        &mut members,
        |slots| {
            cycles(slots, steps / 10);
        },
        |slots| cycles(slots, steps),
    )
}

/// Frees the blocks in random slots and fills the slots again; returns the number of operations.
#[inline(always)]
fn replace<const LEAST: usize, const MOST: usize>(
    calls: Calls,
    slots: &mut [Option<Block>],
    random: &mut Random,
    steps: u64,
) -> u64 {
    let mut operations = steps;
    for _ in 0..steps {
        let bits = random.next();
        let Some(slot) = slots.get_mut(below(bits >> 32, slots.len())) else { continue };
        if let Some(block) = slot.take() {
            calls.put(block);
            operations += 1;
        }
        let mut block = calls.get(size::<LEAST, MOST>(bits));
        block.mark(1);
        *slot = Some(block);
    }
    operations
}

fn random_mixed(calls: Calls, threads: usize, steps: u64) -> Result<Outcome> {
    type Member = (Vec<Option<Block>>, Random);
    let work =
        |(slots, random): &mut Member, steps: u64| replace::<16, LARGEST_BYTES>(calls, slots, random, steps);
    let mut members: Vec<Member> = (0..threads).map(|t| (slots(MIXED_SLOTS), Random::new(t))).collect();
    crew(
        &mut members,
        |member| {
            work(member, steps / 10);
        },
        |member| work(member, steps),
    )
}

/// One thread of a pair.
enum PairSide<'r> {
    Producer(Sender<'r>, Random),
    Consumer(Receiver<'r>),
}

fn producer_consumer(calls: Calls, pairs: usize, steps: u64) -> Result<Outcome> {
    let batches = steps.div_ceil(BATCH_BLOCKS as u64);
    let mut rings: Vec<Ring> = (0..pairs).map(|_| Ring::new()).collect();
    let mut members = Vec::with_capacity(2 * pairs);
    for (pair, ring) in rings.iter_mut().enumerate() {
        let (sender, receiver) = ring.ends();
        members.push(PairSide::Producer(sender, Random::new(pair)));
        members.push(PairSide::Consumer(receiver));
    }
    crew(
        &mut members,
        |_| (),
        |side| {
            let mut blocks = [const { None }; BATCH_BLOCKS];
            for _ in 0..batches {
                match side {
                    PairSide::Producer(sender, random) => {
                        for slot in &mut blocks {
                            let mut block = calls.get(size::<16, 512>(random.next()));
                            block.mark(1);
                            *slot = Some(block);
                        }
                        sender.send(&mut blocks);
                    }
                    PairSide::Consumer(receiver) => {
                        receiver.receive(&mut blocks);
                        blocks.iter_mut().filter_map(Option::take).for_each(|block| calls.put(block));
                    }
                }
            }
            batches * BATCH_BLOCKS as u64
        },
    )
}

fn larson(calls: Calls, arrays: usize, steps: u64) -> Result<Outcome> {
    let mut members: Vec<_> = (0..arrays).map(|a| (slots(LARSON_SLOTS), Random::new(a))).collect();
    crew(
        &mut members,
        |_| (),
        |(slots, random)| {
            let (mut left, mut operations) = (steps, 0);
            while left > 0 {
                let turn = left.min(LARSON_TURN);
                left -= turn;
                operations += alone(|| replace::<10, 500>(calls, slots, random, turn));
            }
            operations
        },
    )
}

fn thread_churn(calls: Calls, threads: u64) -> Result<Outcome> {
    // The threads of a lane free the blocks that those of the previous lane left.
    let left: Vec<_> = (0..CHURN_LANES).map(|_| Mutex::new(slots(CHURN_LEFT))).collect();
    let mut members: Vec<_> = (0..CHURN_LANES).map(|lane| (lane, Random::new(lane))).collect();
    crew(
        &mut members,
        |_| (),
        |(lane, random)| {
            let (from, to) = (&left[*lane], &left[(*lane + 1) % CHURN_LANES]);
            let share = threads.div_ceil(CHURN_LANES as u64);
            (0..share).map(|_| alone(|| visit(calls, random, from, to))).sum()
        },
    )
}

type LeftBlocks = Mutex<Vec<Option<Block>>>;

/// Runs one thread of [`thread_churn`]; returns the number of operations.
fn visit(calls: Calls, random: &mut Random, from: &LeftBlocks, to: &LeftBlocks) -> u64 {
    let mut blocks = [const { None }; CHURN_BLOCKS];
    for slot in &mut blocks {
        let mut block = calls.get(size::<16, 256>(random.next()));
        block.mark(1);
        *slot = Some(block);
    }
    let mut operations = CHURN_BLOCKS as u64;
    // Exchanged under the lock and freed after it. Blocks that the other lane did not fetch come back and are
    // freed here.
    let mut others = [const { None }; CHURN_LEFT];
    exchange(from, &mut others);
    for (_, block) in others.iter_mut().enumerate().filter_map(|(i, slot)| Some((i, slot.take()?))) {
        calls.put(block);
        operations += 1;
    }
    exchange(to, &mut blocks[..CHURN_LEFT]);
    for block in blocks.iter_mut().filter_map(Option::take) {
        calls.put(block);
        operations += 1;
    }
    operations
}

fn exchange(left: &LeftBlocks, blocks: &mut [Option<Block>]) {
    let mut left = left.lock();
    left.iter_mut().zip(blocks).for_each(|(one, other)| std::mem::swap(one, other));
}

/// Does the work in a new thread, and waits for its end.
fn alone<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        scope.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::super::calls::Callee;
    use super::*;

    fn run(workload: Workload, threads: usize, steps: u64) -> Outcome {
        workload.run(Calls::of_process(Callee::Real).unwrap(), threads, steps).unwrap()
    }

    #[test]
    fn every_workload_counts_its_operations() {
        assert_eq!(run(Workload::TinyHot, 2, 10).operations, 2 * 10 * 200);
        assert_eq!(run(Workload::ProducerConsumer, 2, 1000).operations, 2 * 1024);
        // A slot that was empty was not freed.
        for (workload, threads) in [(Workload::RandomMixed, 1), (Workload::Larson, 2)] {
            let operations = run(workload, threads, 120_000).operations;
            assert!(operations <= threads as u64 * 240_000, "{operations}");
            assert!(operations > threads as u64 * (240_000 - MIXED_SLOTS as u64), "{operations}");
        }
        // No thread frees the blocks of the last thread of each lane.
        let churned = run(Workload::ThreadChurn, 4, 40).operations;
        assert!((40 * 2 * 300 - 4 * 100..=40 * 2 * 300).contains(&churned), "{churned}");
    }

    #[test]
    fn random_numbers_reach_all_sizes_and_no_other() {
        let mut random = Random::new(0);
        let sizes: std::collections::BTreeSet<usize> =
            (0..200_000).map(|_| size::<16, LARGEST_BYTES>(random.next())).collect();
        assert_eq!((sizes.first(), sizes.last(), sizes.len()), (Some(&16), Some(&1039), 1024));
        assert_eq!(below(u64::MAX, 1000), 999);
        assert_eq!(below(0, 1000), 0);
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for workload in Workload::ALL {
            let value = clap::ValueEnum::to_possible_value(&workload).unwrap();
            assert_eq!(value.get_name(), workload.name());
        }
    }
}
