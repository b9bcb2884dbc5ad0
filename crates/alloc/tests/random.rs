//! Random allocations of several threads. Each object is filled with bytes of its own, which are compared
//! before it is freed: so the test finds memory that two objects share, or that is part of a header.

use lanefs_alloc::{LARGEST, LaneAlloc, calloc, free, malloc, malloc_aligned, realloc, usable_size};
use std::sync::mpsc::{Receiver, Sender, channel};

#[global_allocator]
static HEAP: LaneAlloc = LaneAlloc;

/// An object, filled with bytes that follow from `seed`.
struct Object {
    at: *mut u8,
    size: usize,
    seed: u8,
}

// SAFETY: the object belongs to the thread that has this.
unsafe impl Send for Object {}

impl Object {
    fn fill(at: *mut u8, size: usize, seed: u8) -> Object {
        assert!(!at.is_null(), "no memory for {size} bytes");
        // SAFETY: the object is as long.
        unsafe {
            assert!(usable_size(at) >= size);
            for i in 0..size {
                at.add(i).write(seed.wrapping_add(i as u8));
            }
        }
        Object { at, size, seed }
    }

    fn check(&self, up_to: usize) {
        for i in 0..self.size.min(up_to) {
            // SAFETY: inside the object.
            let byte = unsafe { self.at.add(i).read() };
            assert_eq!(byte, self.seed.wrapping_add(i as u8), "byte {i} of {} at {:?}", self.size, self.at);
        }
    }

    fn free(self) {
        self.check(usize::MAX);
        // SAFETY: it is freed once.
        unsafe { free(self.at) };
    }
}

/// xorshift64*, Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled" (2016).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
    }

    fn size(&mut self) -> usize {
        match self.below(100) {
            // Miri writes and compares some ten thousand bytes a second.
            0..99 if cfg!(miri) => self.below(100),
            _ if cfg!(miri) => self.below(LARGEST + 100),
            0..70 => self.below(600),
            70..95 => self.below(LARGEST + 100),
            95..99 => self.below(1 << 20),
            _ => self.below(80) << 20,
        }
    }
}

fn make(random: &mut Random) -> Object {
    let (size, seed) = (random.size(), random.below(256) as u8);
    match random.below(10) {
        0 => {
            let align = 1 << random.below(20);
            let at = malloc_aligned(size, align);
            assert!((at as usize).is_multiple_of(align), "{at:?} is not aligned to {align}, {size}");
            // Large objects are compared in part, so that the test takes many.
            Object::fill(at, size.min(100_000), seed)
        }
        1 => {
            let at = calloc(size);
            // SAFETY: the object is as long.
            assert!((0..size).step_by(61).all(|i| unsafe { at.add(i).read() } == 0), "not zero");
            Object::fill(at, size.min(100_000), seed)
        }
        _ => {
            let at = malloc(size);
            assert!((at as usize).is_multiple_of(if size > 8 { 16 } else { 8 }));
            Object::fill(at, size.min(100_000), seed)
        }
    }
}

fn resize(object: Object, random: &mut Random) -> Object {
    let size = random.size().min(200_000);
    // SAFETY: the result replaces the object.
    let at = unsafe { realloc(object.at, size) };
    let moved = Object { at, size: object.size.min(size), seed: object.seed };
    moved.check(usize::MAX);
    Object::fill(at, size, object.seed)
}

fn work(seed: u64, steps: usize, others: &[Sender<Object>], mine: Option<Receiver<Object>>) {
    let mut random = Random(seed | 1);
    let mut live: Vec<Object> = Vec::new();
    for _ in 0..steps {
        match random.below(10) {
            0..5 => live.push(make(&mut random)),
            5..7 if !live.is_empty() => {
                let index = random.below(live.len());
                let object = live.swap_remove(index);
                match others.get(random.below(2 * others.len() + 1)) {
                    Some(other) => drop(other.send(object)),
                    None => object.free(),
                }
            }
            7 if !live.is_empty() => {
                let index = random.below(live.len());
                let object = live.swap_remove(index);
                live.push(resize(object, &mut random));
            }
            8 if live.len() > 500 => live.drain(..400).for_each(Object::free),
            _ => {}
        }
        if let Some(mine) = &mine {
            mine.try_iter().for_each(Object::free);
        }
    }
    live.into_iter().for_each(Object::free);
}

/// Steps of a thread: fewer under Miri, which is about a thousand times slower.
fn steps(ordinary: usize) -> usize {
    if cfg!(miri) { ordinary / 200 } else { ordinary }
}

#[test]
fn no_two_objects_share_a_byte() {
    work(1, steps(60_000), &[], None);
}

#[test]
fn objects_that_other_threads_free_reach_their_heaps() {
    for round in 0..if cfg!(miri) { 1 } else { 4u64 } {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..4).map(|_| channel()).unzip();
        let threads: Vec<_> = receivers
            .into_iter()
            .enumerate()
            .map(|(i, mine)| {
                let others = senders.clone();
                let seed = round * 256 + i as u64 + 2;
                std::thread::spawn(move || work(seed, steps(15_000), &others, Some(mine)))
            })
            .collect();
        drop(senders);
        threads.into_iter().for_each(|thread| thread.join().expect("the objects of a thread are unchanged"));
        HEAP.release();
    }
}
