//! The table under many schedules, beside a directory that moves.
//!
//! A path leads to a directory that is replaced again and again, by transactions of one thread as a volume
//! makes them: the record is locked, changed, and unlocked with a new version. Each directory has the number
//! of the moves before it, so an answer tells when it was true.

use super::planted::PlantedBug;
use super::{DEFAULT_BYTES, DirectoryTable, Known, MoveCause, PathKey};
use lanefs_sync::Explorer;
use lanefs_sync::atomic::{AtomicU64, Ordering::SeqCst};
use shuttle::thread;
use std::sync::Arc;

const SCHEDULES: usize = 2000;
const MOVES: u64 = 3;
const LOOKUPS: usize = 3;
const KEY: PathKey<'static> = PathKey { start: 2, path: b"/many/part" };

struct Tree {
    table: DirectoryTable,
    /// Version of the record below, odd while it is locked.
    version: AtomicU64,
    /// The directory of the path.
    directory: AtomicU64,
    /// Moves that may have happened, and those that have.
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Tree {
    fn new() -> Arc<Tree> {
        let [version, directory, begun, ended] = [0; 4].map(AtomicU64::new);
        Arc::new(Tree { table: DirectoryTable::new(DEFAULT_BYTES), version, directory, begun, ended })
    }

    /// Looks the path up: by the table, else by a walk that teaches the table.
    fn lookup(&self) -> u64 {
        loop {
            let view = self.table.begin();
            if let Some(view) = view
                && let Some(record) = view.prepare(&KEY).and_then(|hash| view.probe(hash))
                && let Some(known) = view.compare(record, &KEY)
            {
                if view.is_valid() {
                    return known.dir;
                }
                continue;
            }
            let version = self.version.load(SeqCst);
            if version % 2 == 1 {
                thread::yield_now();
                continue;
            }
            let dir = self.directory.load(SeqCst);
            if let Some(view) = view {
                view.pass(dir);
                view.end_walks();
            }
            if self.version.load(SeqCst) != version {
                continue;
            }
            if let Some(view) = view {
                view.learn([(KEY, Known { dir, bytes: KEY.path.len() as u32 })].into_iter());
            }
            return dir;
        }
    }

    /// Replaces the directory.
    fn replace(&self) {
        let old = self.begun.fetch_add(1, SeqCst);
        self.version.fetch_add(1, SeqCst);
        self.directory.store(old + 1, SeqCst);
        let moving = self.table.begin_move(&[(MoveCause::Remove, old)]);
        self.version.fetch_add(1, SeqCst);
        drop(moving);
        self.ended.fetch_add(1, SeqCst);
    }
}

/// Each answer was true at some moment of its lookup, and a thread never sees an older one after it.
fn lookups_beside_moves() {
    let tree = Tree::new();
    let readers = [0; 2].map(|_| {
        let tree = tree.clone();
        thread::spawn(move || {
            let mut last = 0;
            for _ in 0..LOOKUPS {
                let earliest = tree.ended.load(SeqCst).max(last);
                last = tree.lookup();
                let latest = tree.begun.load(SeqCst);
                assert!((earliest..=latest).contains(&last), "{last} is not in {earliest}..={latest}");
            }
        })
    });
    for _ in 0..MOVES {
        tree.replace();
    }
    readers.into_iter().for_each(|reader| reader.join().expect("true answers"));
    assert_eq!(tree.lookup(), MOVES);
}

#[test]
fn an_answer_of_the_table_is_true_beside_moves() {
    Explorer::new(1).explore(SCHEDULES, lookups_beside_moves);
}

#[test]
fn canary_an_epoch_that_nobody_checks_is_found() {
    Explorer::new(2).expect_failure(PlantedBug::UncheckedEpoch, SCHEDULES, lookups_beside_moves);
}

#[test]
fn canary_a_walk_that_a_move_cannot_see_is_found() {
    Explorer::new(3).expect_failure(PlantedBug::UnmarkedWalk, SCHEDULES, lookups_beside_moves);
}

#[test]
fn canary_slots_of_old_epochs_are_found() {
    Explorer::new(4).expect_failure(PlantedBug::OldEpochs, SCHEDULES, lookups_beside_moves);
}
