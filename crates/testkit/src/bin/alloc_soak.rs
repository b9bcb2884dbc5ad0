//! A soak of the heap: threads allocate, fill, hand over and free objects, whose sizes change from phase to
//! phase, until two objects share a byte or too much memory is resident.
//!
//! `alloc_soak [--seconds N | --phases N] [--turns N] [--seed N] [--mib N] [--plant share|leak]`
//!
//! A phase uses up to so many MiB, and replaces all of its objects several times (turns). A line for each
//! phase shows the resident memory at its end. The default seed comes from the clock. Exit code 0: nothing
//! was found; 1: an error was found and is on standard output; 2: the arguments are wrong.
//!
//! The result does not depend on the speed of the machine: a phase lasts a number of turns, and while too
//! much memory is resident at its end, a number of further turns, so that the heap can give memory back.

use lanefs_alloc::{LARGEST, LaneAlloc, calloc, free, malloc, malloc_aligned, realloc, usable_size};
use lanefs_testkit::seeded::Seeded;
use lanefs_testkit::settings::SoakArguments;
use parking_lot::Mutex;
use std::process::ExitCode;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

const USAGE: &str =
    "usage: alloc_soak [--seconds N | --phases N] [--turns N] [--seed N] [--mib N] [--plant share|leak]";

/// Number of threads: more than a small machine has processors, so that each is preempted at any point.
const THREADS: usize = 4;

/// Turns of a phase, unless the arguments say more.
const TURNS: usize = 3;

/// Most further turns of a phase at whose end too much memory is resident.
const FURTHER_TURNS: usize = 30;

/// Pause before a further turn: the heap waits a tenth of a second or two before it gives memory back, and
/// does so in the calls after it.
const PAUSE: Duration = Duration::from_millis(250);

/// Resident memory may be so many tenths of the peak of bytes in use, plus a fixed amount, which matters for
/// small peaks only.
const TENTHS: usize = 13;
const FIXED: usize = 8 << 20;

/// Most objects, whatever their sizes.
const OBJECTS: usize = 1 << 20;

/// Most bytes in use that a thread has not added to the sum of all threads.
const MAX_UNREPORTED_BYTES: usize = 256 << 10;

/// The sizes of a phase: those that the program requests.
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
    /// One object in eighty is never freed.
    Leak,
}

struct Arguments {
    seconds: u64,
    phases: Option<u64>,
    turns: usize,
    seed: u64,
    mib: u64,
    plant: Option<Plant>,
}

fn arguments() -> Result<Arguments, String> {
    let names = ["--seconds", "--phases", "--turns", "--seed", "--mib", "--plant"];
    let given = SoakArguments::of_process(USAGE, &names)?;
    let plant = match given.get("--plant") {
        None => None,
        Some("share") => Some(Plant::Share),
        Some("leak") => Some(Plant::Leak),
        Some(_) => return Err(USAGE.to_owned()),
    };
    Ok(Arguments {
        seconds: given.seconds()?,
        phases: given.number("--phases")?,
        turns: given.number("--turns")?.map_or(TURNS, |turns| turns as usize),
        seed: given.seed()?,
        mib: given.number("--mib")?.unwrap_or(256),
        plant,
    })
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

    /// Returns the eight bytes at an offset: different from object to object, and from offset to offset.
    fn pattern(&self, at: usize) -> [u8; 8] {
        (u64::from(self.seed) << 32 | at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
    }

    fn fill(at: *mut u8, size: usize, seed: u32) -> Object {
        let object = Object { at: at.expose_provenance(), size: size as u32, seed };
        // SAFETY: the object is as long, and nothing else uses it, which is what this program tests.
        let bytes = unsafe { std::slice::from_raw_parts_mut(at, size) };
        // Word by word: calls for eight bytes each took two thirds of the soak.
        let (words, rest) = bytes.as_chunks_mut();
        for (index, word) in words.iter_mut().enumerate() {
            *word = object.pattern(index * 8);
        }
        rest.copy_from_slice(&object.pattern(size - rest.len())[..rest.len()]);
        object
    }

    /// Fails unless the first `size` bytes are unchanged.
    fn check(&self, size: usize) {
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(self.bytes(), size) };
        let (words, rest) = bytes.as_chunks();
        let wrong = words.iter().enumerate().position(|(index, word)| *word != self.pattern(index * 8));
        let is_rest_wrong = rest != &self.pattern(size - rest.len())[..rest.len()];
        if let Some(index) = wrong.or(is_rest_wrong.then_some(words.len())) {
            let (at, first) = (self.at, index * 8);
            found(&format!("{} bytes at {at:#x}: byte {first} or one after it is another's", self.size));
        }
    }

    fn free(&self) {
        self.check(self.size as usize);
        // SAFETY: it is freed once.
        unsafe { free(self.bytes()) };
    }
}

/// Ends the program with an error.
fn found(what: &str) -> ! {
    println!("{what}");
    std::process::exit(1)
}

/// State that all threads of a phase share.
struct Phase<'p> {
    sizes: Sizes,
    turns: usize,
    /// Most bytes that each thread has in use, and most objects.
    share: usize,
    objects: usize,
    plant: Option<Plant>,
    in_use: &'p AtomicUsize,
    peak: &'p AtomicUsize,
    /// Objects that other threads sent to each thread.
    mailboxes: &'p [Mutex<Vec<Object>>],
    /// The threads meet here twice after their turns. Between, the main thread reads the resident memory and
    /// decides.
    meeting: &'p Barrier,
    is_over: &'p AtomicBool,
}

/// One thread of a phase.
struct Worker<'p> {
    phase: &'p Phase<'p>,
    random: Seeded,
    objects: Vec<Object>,
    bytes: usize,
    /// Bytes that the sum of all threads includes.
    reported: usize,
}

impl Worker<'_> {
    /// Updates the sum of the bytes in use in all threads.
    fn report(&mut self) {
        let change = self.bytes.wrapping_sub(self.reported);
        let others = self.phase.in_use.fetch_add(change, Relaxed);
        self.phase.peak.fetch_max(others.wrapping_add(change), Relaxed);
        self.reported = self.bytes;
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
        if self.bytes.abs_diff(self.reported) >= MAX_UNREPORTED_BYTES {
            self.report();
        }
    }

    fn remove_any(&mut self) -> Option<Object> {
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
                    // SAFETY: the object is so long.
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
        object.check(object.size as usize);
        // SAFETY: the result replaces the object.
        let at = unsafe { realloc(object.bytes(), size) };
        Object { at: at.expose_provenance(), ..object }.check(size.min(object.size as usize));
        self.keep(at, size);
    }

    /// Makes room: frees an object, resizes it, or sends it to another thread.
    fn make_room(&mut self, next: usize) {
        let Some(object) = self.remove_any() else { return };
        match self.random.below(16) {
            0 => {
                // An object in a mailbox is in use.
                self.phase.in_use.fetch_add(object.size as usize, Relaxed);
                let mailbox = &self.phase.mailboxes[self.random.below(THREADS as u64) as usize];
                mailbox.lock().push(object);
            }
            // (A small object must not become much larger to make room for another small one.)
            1 => self.resize(object, next.min(2 * object.size as usize)),
            2 if self.phase.plant == Some(Plant::Leak) && self.random.chance(20) => {}
            6 if self.phase.plant == Some(Plant::Share) => {
                self.adopt(object);
                self.keep(object.bytes(), object.size as usize);
            }
            _ => object.free(),
        }
    }

    /// Replaces all objects so many times.
    fn replace(&mut self, me: usize, turns: usize) {
        let mut made = 0;
        while made < turns * self.phase.share {
            let size = (self.phase.sizes)(&mut self.random);
            while !self.objects.is_empty()
                && (self.bytes + size > self.phase.share || self.objects.len() >= self.phase.objects)
            {
                self.make_room(size);
            }
            self.make(size);
            made += size;
            if self.random.below(200) == 0 {
                self.receive(me);
            }
            if self.random.below(1 << 20) == 0 {
                LaneAlloc.release();
            }
        }
        self.report();
    }

    /// Takes the objects of this thread's mailbox: keeps half of them, and frees the others.
    fn receive(&mut self, me: usize) {
        let mut mailbox = self.phase.mailboxes[me].lock();
        let received = std::mem::take(&mut *mailbox);
        drop(mailbox);
        for object in received {
            self.phase.in_use.fetch_sub(object.size as usize, Relaxed);
            if self.random.chance(50) { self.adopt(object) } else { object.free() }
        }
    }

    fn work(&mut self, me: usize) {
        let mut turns = self.phase.turns;
        while !self.phase.is_over.load(Relaxed) {
            self.replace(me, turns);
            turns = 1;
            self.phase.meeting.wait();
            self.phase.meeting.wait();
            if !self.phase.is_over.load(Relaxed) {
                std::thread::sleep(PAUSE);
            }
        }
        self.phase.in_use.fetch_sub(self.reported, Relaxed);
        self.objects.drain(..).for_each(|object| object.free());
    }
}

/// Returns the bytes of memory that this process has.
fn resident() -> Result<usize, String> {
    let text =
        std::fs::read_to_string("/proc/self/statm").map_err(|error| format!("/proc/self/statm: {error}"))?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    Ok(pages.ok_or("/proc/self/statm has no second number")? * 4096)
}

/// Returns the most bytes that may be resident with this peak of bytes in use.
fn limit(peak: usize) -> usize {
    peak / 10 * TENTHS + FIXED
}

fn soak(arguments: &Arguments) -> Result<(), String> {
    let start = Instant::now();
    let until = Duration::from_secs(arguments.seconds);
    let mut random = Seeded::new(arguments.seed);
    let mailboxes: Vec<Mutex<Vec<Object>>> = (0..THREADS).map(|_| Mutex::default()).collect();
    // The lists of objects have all of their memory now, so what comes later is the heap's.
    let filler = Object { at: 1, size: 1, seed: 1 };
    let mut lists: Vec<Vec<Object>> = (0..THREADS).map(|_| vec![filler; 2 * OBJECTS / THREADS]).collect();
    lists.iter_mut().for_each(Vec::clear);
    let before = resident()?;
    let share = (arguments.mib as usize) << 20;
    let goes_on = |number: u64| match arguments.phases {
        Some(phases) => number < phases,
        None => start.elapsed() < until,
    };
    for number in (0..).take_while(|number| goes_on(*number)) {
        let (name, sizes) = PHASES[number as usize % PHASES.len()];
        let sent = |mailbox: &Mutex<Vec<Object>>| {
            let objects = mailbox.lock();
            objects.iter().map(|object| object.size as usize).sum::<usize>()
        };
        let (in_use, peak) = (AtomicUsize::new(mailboxes.iter().map(sent).sum()), AtomicUsize::new(0));
        let (meeting, is_over) = (Barrier::new(THREADS + 1), AtomicBool::new(false));
        let phase = Phase {
            sizes,
            turns: arguments.turns,
            share: share / THREADS,
            objects: OBJECTS / THREADS,
            plant: arguments.plant,
            in_use: &in_use,
            peak: &peak,
            mailboxes: &mailboxes,
            meeting: &meeting,
            is_over: &is_over,
        };
        let (mut now, mut further) = (0, 0);
        std::thread::scope(|scope| {
            for (me, objects) in lists.iter_mut().enumerate() {
                let random = Seeded::new(random.bits());
                let phase = &phase;
                scope.spawn(move || {
                    let bytes = objects.iter().map(|object| object.size as usize).sum();
                    let objects_then = std::mem::take(objects);
                    let mut worker = Worker { phase, random, objects: objects_then, bytes, reported: 0 };
                    worker.work(me);
                    *objects = worker.objects;
                });
            }
            while !is_over.load(Relaxed) {
                meeting.wait();
                // The memory of all heaps as they are in use.
                now = resident().unwrap_or(usize::MAX).saturating_sub(before);
                if now <= limit(peak.load(Relaxed)) || further == FURTHER_TURNS {
                    is_over.store(true, Relaxed);
                } else {
                    further += 1;
                }
                meeting.wait();
            }
        });
        let peak = peak.into_inner();
        let rest = resident()?.saturating_sub(before);
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        println!(
            "{:6.0} s: {name}: {:.1} MiB in use at most, {:.1} MiB resident at the end ({:.2}), {:.1} MiB afterwards{}",
            start.elapsed().as_secs_f64(),
            mib(peak),
            mib(now),
            now as f64 / peak.max(1) as f64,
            mib(rest),
            if further > 0 { format!(", {further} further turns") } else { String::new() }
        );
        if now > limit(peak) {
            return Err(format!(
                "{name}: more is resident than {}.{} of the bytes in use",
                TENTHS / 10,
                TENTHS % 10
            ));
        }
    }
    mailboxes.iter().for_each(|mailbox| {
        mailbox.lock().drain(..).for_each(|object| object.free());
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
