//! Parts of a pass in several threads.

use crate::attempt::Core;
use crate::check::outcome::findings::Findings;
use crate::check::outcome::journal_state::JournalState;
use crate::check::pass::{Pass, Tables};
use crate::mounted::shared::Shared;
use crate::vocabulary::error::Outcome;
use lanefs_format::superblock::Superblock;
use lanefs_store::{Fault, Reader};
use lanefs_sync::lock::{Mutex, RwLock};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Most threads of a check.
const MOST_THREADS: usize = 64;

/// The state of a pass that its threads share.
#[derive(Clone)]
struct Seed<'v> {
    shared: &'v Shared,
    superblock: Superblock,
    journal: JournalState,
    tables: Tables,
    suspects: BTreeSet<u64>,
}

/// The result of one batch.
struct Done<T> {
    number: usize,
    value: T,
    findings: Findings,
    suspects: BTreeSet<u64>,
}

/// The threads' common state.
struct Crew<T> {
    next: AtomicUsize,
    stopped: AtomicBool,
    done: Mutex<Vec<Done<T>>>,
    fault: Mutex<Option<Fault>>,
    /// Threads that look at blocks have it for reading; blocks are evicted by one that has it for writing.
    room: RwLock<()>,
}

impl<'v> Pass<'v, '_> {
    /// Does `work` for 0 to `count`, in batches of `batch`. A pass that only checks does so in several
    /// threads. Returns the results, and adds the findings, in order of the batches.
    pub(in crate::check) fn in_batches<T: Send>(
        &mut self,
        count: usize,
        batch: usize,
        work: impl Fn(&mut Pass<'_, '_>, Range<usize>) -> Outcome<T> + Sync,
    ) -> Outcome<Vec<T>> {
        let ranges = count.div_ceil(batch.max(1));
        let range = |number: usize| number * batch..((number + 1) * batch).min(count);
        let threads = self.threads.min(ranges).min(MOST_THREADS);
        if self.mends() || threads < 2 {
            let mut values = Vec::with_capacity(ranges);
            for number in 0..ranges {
                values.push(work(self, range(number))?);
                self.commit_when_full()?;
                self.core.store.make_room_exclusively();
            }
            return Ok(values);
        }
        let crew = Crew {
            next: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            done: Mutex::default(),
            fault: Mutex::default(),
            room: RwLock::new(()),
        };
        let seed = Seed {
            shared: self.shared,
            superblock: self.superblock.clone(),
            journal: self.journal,
            tables: self.tables(),
            suspects: self.suspects.clone(),
        };
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| seed.run(&crew, ranges, |pass, number| work(pass, range(number))));
            }
        });
        if let Some(fault) = crew.fault.into_inner() {
            return Err(fault);
        }
        let mut done = crew.done.into_inner();
        done.sort_unstable_by_key(|done| done.number);
        let mut values = Vec::with_capacity(done.len());
        for mut one in done {
            self.findings.append(one.findings);
            self.suspects.append(&mut one.suspects);
            values.push(one.value);
        }
        Ok(values)
    }
}

impl Seed<'_> {
    /// The work of one thread.
    fn run<T>(&self, crew: &Crew<T>, count: usize, work: impl Fn(&mut Pass<'_, '_>, usize) -> Outcome<T>) {
        let store = &self.shared.state.store;
        while !crew.stopped.load(Ordering::Relaxed) {
            let number = crew.next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            let looking = crew.room.read();
            let core = Core::new(&self.shared.state, Reader::exclusive(store, None));
            let (superblock, tables) = (self.superblock.clone(), self.tables.clone());
            let mut pass = Pass::new(&core, self.shared, None, superblock, tables);
            pass.journal = self.journal;
            pass.suspects.clone_from(&self.suspects);
            match work(&mut pass, number) {
                Ok(value) => {
                    let (findings, suspects) = (pass.findings, pass.suspects);
                    crew.done.lock().push(Done { number, value, findings, suspects });
                }
                Err(fault) => {
                    crew.fault.lock().get_or_insert(fault);
                    crew.stopped.store(true, Ordering::Relaxed);
                }
            }
            drop(looking);
            if store.is_over_budget() {
                let _alone = crew.room.write();
                store.make_room_exclusively();
            }
        }
    }
}
