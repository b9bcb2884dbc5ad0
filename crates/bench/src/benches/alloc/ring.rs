//! A ring through which one thread passes blocks to another, in batches, without a lock and without an
//! allocation.

use super::calls::Block;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Blocks of one batch.
pub(super) const BATCH_BLOCKS: usize = 64;
/// Capacity of the ring in batches.
const BATCHES: usize = 32;
/// Polls before a waiting thread yields the core.
const SPINS: u32 = 100;

/// A count on a cache line of its own (on two, because processors fetch them in pairs).
#[derive(Default)]
#[repr(align(128))]
struct Count(AtomicUsize);

/// The ring. Counts of batches only rise, so their difference is the number of batches in it.
pub(super) struct Ring {
    slots: Vec<AtomicPtr<u8>>,
    sent: Count,
    received: Count,
}

/// The end that sends.
pub(super) struct Sender<'r>(&'r Ring);

/// The end that receives.
pub(super) struct Receiver<'r>(&'r Ring);

impl Ring {
    pub(super) fn new() -> Self {
        let slots = (0..BATCH_BLOCKS * BATCHES).map(|_| AtomicPtr::default()).collect();
        Ring { slots, sent: Count::default(), received: Count::default() }
    }

    /// Returns both ends. There is one of each, because they borrow the ring.
    pub(super) fn ends(&mut self) -> (Sender<'_>, Receiver<'_>) {
        (Sender(self), Receiver(self))
    }

    /// Returns the slots of the batch with this number.
    fn batch(&self, number: usize) -> impl Iterator<Item = &AtomicPtr<u8>> {
        self.slots.iter().skip(number % BATCHES * BATCH_BLOCKS).take(BATCH_BLOCKS)
    }
}

impl Sender<'_> {
    /// Sends the blocks as soon as there is room, and leaves the batch empty.
    pub(super) fn send(&mut self, blocks: &mut [Option<Block>; BATCH_BLOCKS]) {
        let number = self.0.sent.0.load(Ordering::Relaxed);
        wait_until(|| number - self.0.received.0.load(Ordering::Acquire) < BATCHES);
        for (slot, block) in self.0.batch(number).zip(blocks) {
            let pointer = block.take().map_or(std::ptr::null_mut(), Block::into_raw);
            slot.store(pointer, Ordering::Relaxed);
        }
        // Release: a thread that sees the count sees the slots, and the bytes of the blocks.
        self.0.sent.0.store(number + 1, Ordering::Release);
    }
}

impl Receiver<'_> {
    /// Receives the next batch as soon as it arrives; `blocks` must be empty.
    pub(super) fn receive(&mut self, blocks: &mut [Option<Block>; BATCH_BLOCKS]) {
        let number = self.0.received.0.load(Ordering::Relaxed);
        wait_until(|| self.0.sent.0.load(Ordering::Acquire) > number);
        for (slot, block) in self.0.batch(number).zip(blocks) {
            // SAFETY: the sender stored a block's pointer here, and this batch is received once: there is one
            // receiver, and it advances the count afterwards.
            *block = unsafe { Block::from_raw(slot.load(Ordering::Relaxed)) };
        }
        // Release: the sender refills these slots only after they have been read.
        self.0.received.0.store(number + 1, Ordering::Release);
    }
}

fn wait_until(mut ready: impl FnMut() -> bool) {
    let mut looks = 0;
    while !ready() {
        looks += 1;
        if looks < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::calls::{Callee, Calls};
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_block_arrives_once_and_in_order() {
        let calls = Calls::of_process(Callee::Real).unwrap();
        let mut ring = Ring::new();
        let (mut sender, mut receiver) = ring.ends();
        const TIMES: usize = 3 * BATCHES;
        let (sent, received) = std::thread::scope(|scope| {
            let sent = scope.spawn(move || {
                let mut sent = Vec::new();
                for _ in 0..TIMES {
                    let blocks: [Block; BATCH_BLOCKS] = std::array::from_fn(|_| calls.get(16));
                    let mut blocks = blocks.map(|block| {
                        let pointer = block.into_raw();
                        sent.push(pointer as usize);
                        // SAFETY: the pointer is that of the block in the line before.
                        unsafe { Block::from_raw(pointer) }
                    });
                    sender.send(&mut blocks);
                    assert!(blocks.iter().all(Option::is_none));
                }
                sent
            });
            let received = scope.spawn(move || {
                let mut received = Vec::new();
                for _ in 0..TIMES {
                    let mut blocks = [const { None }; BATCH_BLOCKS];
                    receiver.receive(&mut blocks);
                    // The blocks are kept, so that no address appears twice.
                    received.extend(blocks.into_iter().flatten().map(|block| block.into_raw() as usize));
                }
                received
            });
            (sent.join().unwrap(), received.join().unwrap())
        });
        assert_eq!(received.len(), TIMES * BATCH_BLOCKS);
        assert_eq!(sent, received);
        assert_eq!(received.iter().collect::<HashSet<_>>().len(), received.len());
    }
}
