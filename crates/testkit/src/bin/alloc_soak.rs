//! The heap without end: threads that take, fill, hand over and free objects whose sizes change from phase to
//! phase, until the time is over, two objects share a byte, or too much memory is resident.
//!
//! `alloc_soak [--seconds N] [--seed N] [--mib N] [--plant share|leak]`; without a seed it is taken from the
//! clock. A phase has up to so many MiB in use, and replaces them a few times; a line each says how much was
//! resident at its end. Exit code 0: nothing was found; 1: what was found is on standard output; 2: the
//! arguments are wrong.

use lanefs_alloc::{LARGEST, LaneAlloc, calloc, free, malloc, malloc_aligned, realloc, usable_size};
use lanefs_testkit::seeded::Seeded;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

const USAGE: &str = "usage: alloc_soak [--seconds N] [--seed N] [--mib N] [--plant share|leak]";

/// Threads: some more than a small machine has processors, so that they are overtaken at any moment.
const THREADS: usize = 4;

/// How often a phase replaces what it has in use.
const TURNS: usize = 3;

/// A phase lasts so long at least: many times what the heap waits before it gives memory back.
const SHORTEST: Duration = Duration::from_secs(2);

/// Resident memory may be so many tenths of the peak of bytes in use, and this much more, which counts with
/// small peaks only.
const TENTHS: usize = 13;
const FIXED: usize = 8 << 20;

/// Objects at most, whatever their sizes.
const OBJECTS: usize = 1 << 20;

/// Bytes by which a thread's part of what is in use may differ from what it told the others.
const UNTOLD: usize = 256 << 10;

/// A size of each phase. Sizes are those that were asked for.
type Sizes = fn(&mut Seeded) -> usize;

const PHASES: &[(&str, Sizes)] = &[
    ("random 16..1039", |random| random.between(16, 1039) as usize),
    ("small 8..135", |random| random.between(8, 135) as usize),
    ("a few kinds of node", |random| *random.pick(&[24, 40, 48, 96, 200, 520])),
    ("small and rarely large", |random| {
        let doublings = random.between(1, 12);
        let most = 16 << random.below(doublings);
        random.between(16, most) as usize
    }),
    ("powers of two and a bit", |random| (1 << random.between(4, 16)) + random.below(24) as usize),
    ("up to the largest class", |random| random.between(1, LARGEST as u64) as usize),
    ("buffers", |random| 4096 * random.between(1, 64) as usize),
    ("large", |random| random.between(LARGEST as u64, 2 << 20) as usize),
    ("anything", |random| random.length(1 << 20).max(1) as usize),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Plant {
    /// An object is in use twice.
    Share,
    /// One object of eighty is never freed.
    Leak,
}

struct Arguments {
    seconds: u64,
    seed: u64,
    mib: u64,
    plant: Option<Plant>,
}

fn arguments() -> Result<Arguments, String> {
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut all = Arguments { seconds: 600, seed: clock.as_nanos() as u64 >> 10, mib: 256, plant: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(USAGE)?;
        let number = || value.parse().map_err(|_| format!("{word} {value}: a whole number was expected"));
        match (word.as_str(), value.as_str()) {
            ("--seconds", _) => all.seconds = number()?,
            ("--seed", _) => all.seed = number()?,
            ("--mib", _) => all.mib = number()?,
            ("--plant", "share") => all.plant = Some(Plant::Share),
            ("--plant", "leak") => all.plant = Some(Plant::Leak),
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(all)
}

/// An object in use, filled with bytes that follow from its seed.
#[derive(Clone, Copy)]
struct Object {
    at: usize,
    size: u32,
    seed: u32,
}

impl Object {
    fn bytes(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.at)
    }

    /// The bytes from `at` on, eight at a time: different from object to object, and from place to place.
    fn pattern(&self, at: usize) -> [u8; 8] {
        (u64::from(self.seed) << 32 | at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
    }

    fn fill(at: *mut u8, size: usize, seed: u32) -> Object {
        let object = Object { at: at.expose_provenance(), size: size as u32, seed };
        // SAFETY: the object is as long, and nobody else has it, which is what is tested.
        let bytes = unsafe { std::slice::from_raw_parts_mut(at, size) };
        for (index, part) in bytes.chunks_mut(8).enumerate() {
            part.copy_from_slice(&object.pattern(index * 8)[..part.len()]);
        }
        object
    }

    /// All of the first `size` bytes are as they were left.
    fn look(&self, size: usize) {
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(self.bytes(), size) };
        for (index, part) in bytes.chunks(8).enumerate() {
            if part != &self.pattern(index * 8)[..part.len()] {
                found(&format!(
                    "{} bytes at {:#x}: byte {} or behind is another's",
                    self.size,
                    self.at,
                    index * 8
                ));
            }
        }
    }

    fn free(&self) {
        self.look(self.size as usize);
        // SAFETY: it is freed once.
        unsafe { free(self.bytes()) };
    }
}

/// Ends the program: something was found.
fn found(what: &str) -> ! {
    println!("{what}");
    std::process::exit(1)
}

/// State that all threads of a phase share.
struct Phase<'p> {
    sizes: Sizes,
    /// Bytes that each thread has in use, and objects.
    share: usize,
    objects: usize,
    plant: Option<Plant>,
    in_use: &'p AtomicUsize,
    peak: &'p AtomicUsize,
    ways: &'p [Mutex<Vec<Object>>],
    end: &'p Barrier,
}

/// One thread of a phase.
struct Worker<'p> {
    phase: &'p Phase<'p>,
    random: Seeded,
    objects: Vec<Object>,
    bytes: usize,
    told: usize,
}

impl Worker<'_> {
    /// Tells the others how many bytes are in use here.
    fn tell(&mut self) {
        let others = self.phase.in_use.fetch_add(self.bytes.wrapping_sub(self.told), Relaxed);
        self.phase.peak.fetch_max(others.wrapping_add(self.bytes.wrapping_sub(self.told)), Relaxed);
        self.told = self.bytes;
    }

    fn keep(&mut self, at: *mut u8, size: usize) {
        if at.is_null() {
            found(&format!("no memory for {size} bytes"));
        }
        let object = Object::fill(at, size, self.random.bits() as u32);
        self.adopt(object);
    }

    fn adopt(&mut self, object: Object) {
        self.objects.push(object);
        self.bytes += object.size as usize;
        if self.bytes.abs_diff(self.told) >= UNTOLD {
            self.tell();
        }
    }

    fn part_with(&mut self) -> Option<Object> {
        let index = self.random.below(self.objects.len() as u64) as usize;
        let object = (index < self.objects.len()).then(|| self.objects.swap_remove(index))?;
        self.bytes -= object.size as usize;
        Some(object)
    }

    fn make(&mut self, size: usize) {
        let at = match self.random.below(16) {
            0 => {
                // (A large alignment of a small object takes as much memory as the alignment.)
                let most = size.next_power_of_two().trailing_zeros().clamp(4, 16);
                let align = 1 << self.random.below(u64::from(most) + 1);
                let at = malloc_aligned(size, align);
                if !(at as usize).is_multiple_of(align) {
                    found(&format!("{at:?} is not aligned to {align}"));
                }
                at
            }
            1 => {
                let at = calloc(size);
                let is_zero = at.is_null() || {
                    // SAFETY: as long as it was asked for.
                    unsafe { std::slice::from_raw_parts(at, size) }.iter().all(|byte| *byte == 0)
                };
                if !is_zero {
                    found(&format!("{size} bytes at {at:?} are not zero"));
                }
                at
            }
            _ => malloc(size),
        };
        // SAFETY: in use, or null.
        if unsafe { usable_size(at) } < size {
            found(&format!("less than {size} bytes at {at:?}"));
        }
        self.keep(at, size);
    }

    fn resize(&mut self, object: Object, size: usize) {
        object.look(object.size as usize);
        // SAFETY: the object is given up for what comes back.
        let at = unsafe { realloc(object.bytes(), size) };
        Object { at: at.expose_provenance(), ..object }.look(size.min(object.size as usize));
        self.keep(at, size);
    }

    /// Makes room: an object goes, one way or another.
    fn lose(&mut self, next: usize) {
        let Some(object) = self.part_with() else { return };
        match self.random.below(16) {
            0 => {
                // In use also on its way.
                self.phase.in_use.fetch_add(object.size as usize, Relaxed);
                let way = &self.phase.ways[self.random.below(THREADS as u64) as usize];
                way.lock().unwrap_or_else(PoisonError::into_inner).push(object);
            }
            // (No larger than that, or much would be made larger to make room for little.)
            1 => self.resize(object, next.min(2 * object.size as usize)),
            2 if self.phase.plant == Some(Plant::Leak) && self.random.chance(20) => {}
            6 if self.phase.plant == Some(Plant::Share) => {
                self.adopt(object);
                self.keep(object.bytes(), object.size as usize);
            }
            _ => object.free(),
        }
    }

    fn work(&mut self, me: usize) {
        let (mut made, begun) = (0, Instant::now());
        while made < TURNS * self.phase.share || begun.elapsed() < SHORTEST {
            let size = (self.phase.sizes)(&mut self.random);
            while !self.objects.is_empty()
                && (self.bytes + size > self.phase.share || self.objects.len() >= self.phase.objects)
            {
                self.lose(size);
            }
            self.make(size);
            made += size;
            if self.random.below(200) == 0 {
                let here =
                    std::mem::take(&mut *self.phase.ways[me].lock().unwrap_or_else(PoisonError::into_inner));
                // Half of what comes is used on.
                for object in here {
                    self.phase.in_use.fetch_sub(object.size as usize, Relaxed);
                    if self.random.chance(50) { self.adopt(object) } else { object.free() }
                }
            }
            if self.random.below(1 << 20) == 0 {
                LaneAlloc.release();
            }
        }
        self.tell();
        // Here the memory is looked at, with all heaps as they are in use.
        self.phase.end.wait();
        self.phase.end.wait();
        self.phase.in_use.fetch_sub(self.told, Relaxed);
        self.objects.drain(..).for_each(|object| object.free());
    }
}

/// Bytes of memory that this process has.
fn resident() -> Result<usize, String> {
    let text =
        std::fs::read_to_string("/proc/self/statm").map_err(|error| format!("/proc/self/statm: {error}"))?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    Ok(pages.ok_or("/proc/self/statm has no second number")? * 4096)
}

fn soak(arguments: &Arguments) -> Result<(), String> {
    let start = Instant::now();
    let until = Duration::from_secs(arguments.seconds);
    let mut random = Seeded::new(arguments.seed);
    let ways: Vec<Mutex<Vec<Object>>> = (0..THREADS).map(|_| Mutex::default()).collect();
    // The lists of objects have all of their memory now, so that what comes later is the heap's.
    let filler = Object { at: 1, size: 1, seed: 1 };
    let mut lists: Vec<Vec<Object>> = (0..THREADS).map(|_| vec![filler; 2 * OBJECTS / THREADS]).collect();
    lists.iter_mut().for_each(Vec::clear);
    let before = resident()?;
    let share = (arguments.mib as usize) << 20;
    let mut number = 0;
    while start.elapsed() < until {
        let (name, sizes) = PHASES[number % PHASES.len()];
        number += 1;
        let under_way = |way: &Mutex<Vec<Object>>| {
            let objects = way.lock().unwrap_or_else(PoisonError::into_inner);
            objects.iter().map(|object| object.size as usize).sum::<usize>()
        };
        let (in_use, peak) = (AtomicUsize::new(ways.iter().map(under_way).sum()), AtomicUsize::new(0));
        let end = Barrier::new(THREADS + 1);
        let phase = Phase {
            sizes,
            share: share / THREADS,
            objects: OBJECTS / THREADS,
            plant: arguments.plant,
            in_use: &in_use,
            peak: &peak,
            ways: &ways,
            end: &end,
        };
        let mut now = 0;
        std::thread::scope(|scope| {
            for (me, objects) in lists.iter_mut().enumerate() {
                let random = Seeded::new(random.bits());
                let phase = &phase;
                scope.spawn(move || {
                    let bytes = objects.iter().map(|object| object.size as usize).sum();
                    let mut worker =
                        Worker { phase, random, objects: std::mem::take(objects), bytes, told: 0 };
                    worker.work(me);
                    *objects = worker.objects;
                });
            }
            end.wait();
            now = resident().unwrap_or(usize::MAX);
            end.wait();
        });
        let (now, peak) = (now.saturating_sub(before), peak.into_inner());
        let rest = resident()?.saturating_sub(before);
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        println!(
            "{:6.0} s: {name}: {:.1} MiB in use at most, {:.1} MiB resident at the end ({:.2}), {:.1} MiB afterwards",
            start.elapsed().as_secs_f64(),
            mib(peak),
            mib(now),
            now as f64 / peak.max(1) as f64,
            mib(rest)
        );
        if now > peak / 10 * TENTHS + FIXED {
            return Err(format!(
                "{name}: more is resident than {}.{} of what was in use",
                TENTHS / 10,
                TENTHS % 10
            ));
        }
    }
    ways.iter().for_each(|way| {
        way.lock().unwrap_or_else(PoisonError::into_inner).drain(..).for_each(|object| object.free());
    });
    lists.iter_mut().for_each(|list| list.drain(..).for_each(|object| object.free()));
    Ok(())
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    eprintln!("seed {}, {THREADS} threads, {} seconds", arguments.seed, arguments.seconds);
    match soak(&arguments) {
        Ok(()) => {
            eprintln!("seed {}: nothing wrong", arguments.seed);
            ExitCode::SUCCESS
        }
        Err(text) => found(&text),
    }
}
