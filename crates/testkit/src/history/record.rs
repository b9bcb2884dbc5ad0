//! Records random calls by several threads.

use super::call::{Call, Event, NAMES, Reply};
use super::gate::Gate;
use super::target::Target;
use crate::seeded::Seeded;
use lanefs::{FileKind, RenameMode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The size and mix of a history.
#[derive(Clone, Copy, Debug)]
pub struct HistoryShape {
    /// Threads, at most 16.
    pub threads: usize,
    /// Number of times that the threads wait for each other.
    pub rounds: usize,
    /// Calls that each thread makes between two waits.
    pub calls: usize,
    /// Calls that one thread makes before the others start.
    pub before: usize,
    /// Number of [`NAMES`] in use.
    pub names: usize,
    /// True where the base directory holds only the history's names, so that it can be listed.
    pub list_base: bool,
    /// Percentage of calls that are a sync.
    pub syncs: u64,
}

impl HistoryShape {
    /// Returns the number of events of the history, which must be 64 at most.
    pub fn events(&self) -> usize {
        self.before + self.threads * self.rounds * self.calls
    }
}

/// Lengths of content: in the inode, just outside, a whole block.
const LENGTHS: [u16; 6] = [1, 24, 130, 200, 1000, 4096];

/// Executes a history in the empty directory `base` and returns its events. The calls follow from the seed,
/// except the inodes that they name; their interleaving does not.
pub fn record(target: &dyn Target, base: u64, seed: u64, shape: &HistoryShape) -> Vec<Event> {
    let clock = AtomicU64::new(0);
    let known = KnownInodes::new(base);
    let gate = Gate::new(shape.threads);
    let worker = |thread: usize| Worker {
        thread,
        target,
        clock: &clock,
        known: &known,
        shape,
        random: Seeded::new(seed ^ (thread as u64 + 1) << 56),
        events: Vec::new(),
    };
    let mut first = worker(shape.threads);
    (0..shape.before).for_each(|_| first.step());
    let mut events = first.events;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..shape.threads)
            .map(|thread| {
                let (mut worker, gate) = (worker(thread), &gate);
                scope.spawn(move || {
                    let _keeper = gate.keeper();
                    for _ in 0..shape.rounds {
                        gate.pass();
                        for _ in 0..shape.calls {
                            worker.dawdle();
                            worker.step();
                        }
                    }
                    worker.events
                })
            })
            .collect();
        for thread in threads {
            match thread.join() {
                Ok(more) => events.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    events
}

/// Inodes that the threads know. They may be freed, or reused.
struct KnownInodes {
    base: u64,
    directories: [AtomicU64; 2],
    files: [AtomicU64; 4],
}

impl KnownInodes {
    fn new(base: u64) -> Self {
        let slot = |_| AtomicU64::new(base);
        KnownInodes { base, directories: [0; 2].map(slot), files: [0; 4].map(slot) }
    }

    fn learn(&self, random: &mut Seeded, ino: u64, kind: FileKind) {
        let slots = if kind == FileKind::Directory { &self.directories[..] } else { &self.files[..] };
        random.pick(slots).store(ino, Ordering::Relaxed);
    }

    fn directory(&self, random: &mut Seeded) -> u64 {
        if random.chance(55) { self.base } else { random.pick(&self.directories).load(Ordering::Relaxed) }
    }

    fn any(&self, random: &mut Seeded) -> u64 {
        if random.chance(10) {
            self.directory(random)
        } else {
            random.pick(&self.files).load(Ordering::Relaxed)
        }
    }
}

struct Worker<'r> {
    thread: usize,
    target: &'r dyn Target,
    clock: &'r AtomicU64,
    known: &'r KnownInodes,
    shape: &'r HistoryShape,
    random: Seeded,
    events: Vec<Event>,
}

impl Worker<'_> {
    fn step(&mut self) {
        let call = self.choose();
        let began = self.clock.fetch_add(1, Ordering::SeqCst);
        let reply = self.target.call(&call);
        let ended = self.clock.fetch_add(1, Ordering::SeqCst);
        match &reply {
            Reply::Found(ino, kind) => self.known.learn(&mut self.random, *ino, *kind),
            Reply::Attributes(facts) => self.known.learn(&mut self.random, facts.ino, facts.kind),
            _ => {}
        }
        self.events.push(Event { thread: self.thread, began, ended, call, reply });
    }

    /// Waits briefly, so that calls meet in ever different ways, on few cores too: a thread that wakes from
    /// sleep takes the core from another one in the middle of its call.
    fn dawdle(&mut self) {
        match self.random.below(8) {
            0..4 => {}
            4..6 => (0..self.random.below(80)).for_each(|_| std::hint::spin_loop()),
            6 => std::thread::yield_now(),
            _ => std::thread::sleep(Duration::from_nanos(1 + self.random.below(20_000))),
        }
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.random.below(self.shape.names.min(NAMES.len()) as u64) as usize]
    }

    fn choose(&mut self) -> Call {
        if self.random.chance(self.shape.syncs) {
            return Call::Sync;
        }
        let (dir, name) = (self.known.directory(&mut self.random), self.name());
        match self.random.below(100) {
            0..16 => Call::Lookup { dir, name },
            16..24 => Call::Getattr { ino: self.known.any(&mut self.random) },
            24..31 => Call::Create { dir, name },
            31..36 => {
                let (fill, len) = (1 + self.random.below(250) as u8, *self.random.pick(&LENGTHS));
                Call::CreateWhole { dir, name, fill, len, perm: self.perm() }
            }
            36..44 => Call::Mkdir { dir, name },
            44..50 => Call::Link { ino: self.known.any(&mut self.random), dir, name },
            50..58 => Call::Unlink { dir, name },
            58..63 => Call::Rmdir { dir, name },
            63..80 => self.rename(dir, name),
            80..85 if dir != self.known.base || self.shape.list_base => Call::List { dir },
            80..90 => {
                let (fill, len) = (1 + self.random.below(250) as u8, *self.random.pick(&LENGTHS));
                Call::Write { ino: self.known.any(&mut self.random), fill, len }
            }
            90..95 => Call::Read { ino: self.known.any(&mut self.random) },
            95..98 => {
                let size = self.random.below(2) as u16 * *self.random.pick(&LENGTHS);
                Call::Resize { ino: self.known.any(&mut self.random), size }
            }
            _ => {
                let perm = self.perm();
                Call::Chmod { ino: self.known.any(&mut self.random), perm }
            }
        }
    }

    fn perm(&mut self) -> u16 {
        0o600 | self.random.below(64) as u16
    }

    fn rename(&mut self, dir: u64, name: &'static str) -> Call {
        let to = if self.random.chance(50) { dir } else { self.known.directory(&mut self.random) };
        let mode = *self.random.pick(&RenameMode::ALL);
        Call::Rename { dir, name, to, new: self.name(), mode }
    }
}
