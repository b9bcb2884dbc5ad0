//! The table by itself: keys, epochs, growth, and threads.

use super::*;

fn key(path: &str) -> PathKey<'_> {
    PathKey { start: 2, path: path.as_bytes() }
}

fn find(table: &DirectoryTable, key: &PathKey<'_>) -> Option<Known> {
    let view = table.begin()?;
    view.compare(view.probe(view.prepare(key)?)?, key).filter(|_| view.is_valid())
}

fn learn(table: &DirectoryTable, key: PathKey<'_>, dir: u64, bytes: u32) {
    // The first call makes the first level, another one a larger level.
    for _ in 0..3 {
        let view = table.begin().expect("no directory moves");
        view.learn([(key, Known { dir, bytes })].into_iter());
        if find(table, &key).is_some() {
            return;
        }
    }
}

#[test]
fn a_path_is_found_by_its_whole_text_and_its_start() {
    let table = DirectoryTable::new(DEFAULT_BYTES);
    let long = "/data/a-long-name-of-a-directory/another-name-of-some-length/x";
    for (dir, path) in ["/a", "/12345678", "a/b", "/", long].into_iter().enumerate() {
        assert_eq!(find(&table, &key(path)), None);
        learn(&table, key(path), dir as u64, path.len() as u32);
        assert_eq!(find(&table, &key(path)), Some(Known { dir: dir as u64, bytes: path.len() as u32 }));
    }
    assert_eq!(find(&table, &key("/b")), None);
    assert_eq!(find(&table, &key(&long[..long.len() - 1])), None);
    assert_eq!(find(&table, &PathKey { start: 3, path: b"/a" }), None);
    learn(&table, key("/a"), 77, 1);
    assert_eq!(table.stats().paths, 5, "a path has one entry");
}

#[test]
fn a_record_is_compared_and_not_believed_for_its_hash() {
    let table = DirectoryTable::new(DEFAULT_BYTES);
    learn(&table, key("/data/one"), 7, 9);
    let view = table.begin().expect("a view");
    let record = view.probe(view.hash(&key("/data/one"))).expect("a record");
    for other in ["/data/two", "/data/on", "/data/one1", "/data/onf", ""] {
        assert_eq!(view.compare(record, &key(other)), None, "{other}");
    }
    assert_eq!(view.compare(u32::MAX, &key("/data/one")), None);
    let last = (FIRST * WORDS) as u32 - 1;
    assert_eq!(view.compare(last, &key("/data/one")), None);
}

#[test]
fn a_move_ends_what_was_known_and_what_is_being_learned() {
    let table = DirectoryTable::new(DEFAULT_BYTES);
    learn(&table, key("/a"), 7, 2);
    let view = table.begin().expect("a view");
    let moving = table.moves.begin(MoveCause::Remove);
    assert!(table.begin().is_none() && !view.is_valid());
    drop(moving);
    view.learn([(key("/b"), Known { dir: 8, bytes: 2 })].into_iter());
    assert_eq!((find(&table, &key("/a")), find(&table, &key("/b"))), (None, None));
    learn(&table, key("/a"), 9, 2);
    assert_eq!(find(&table, &key("/a")), Some(Known { dir: 9, bytes: 2 }));
}

#[test]
fn a_move_of_a_directory_that_no_path_passes_ends_nothing() {
    let table = DirectoryTable::new(DEFAULT_BYTES);
    assert!(table.begin_move(&[(MoveCause::Remove, 7)]).is_none(), "no path is known");
    table.begin().expect("a view").pass(7);
    learn(&table, key("/a"), 7, 2);
    assert!(table.begin_move(&[]).is_none() && table.begin_move(&[(MoveCause::Remove, 8)]).is_none());
    assert!(find(&table, &key("/a")).is_some());
    drop(table.begin_move(&[(MoveCause::Remove, 8), (MoveCause::Replace, 7)]).expect("a move"));
    assert!(find(&table, &key("/a")).is_none());
    assert!(table.begin_move(&[(MoveCause::Remove, 7)]).is_none(), "nothing is known any more");
}

#[test]
fn a_table_whose_epochs_end_early_waits_before_it_learns() {
    let table = DirectoryTable::new(DEFAULT_BYTES);
    let paths: Vec<String> = (0..2 * FEW_PATHS).map(|i| format!("/data/directory-{i}")).collect();
    let learn_all = || paths.iter().for_each(|path| learn(&table, key(path), 7, 2));
    let patience = || table.fill.lock().patience;
    learn_all();
    let mut rounds = 0;
    while patience() < LEAST_PATIENCE * 4 {
        drop(table.moves.begin(MoveCause::Remove));
        learn(&table, key(&paths[0]), 7, 2);
        table.count(0, patience());
        learn_all();
        rounds += 1;
        assert!(rounds < 20, "no patience is learned");
    }
    drop(table.moves.begin(MoveCause::Remove));
    learn_all();
    assert_eq!(find(&table, &key(&paths[0])), None, "it waits");
    table.count(0, 2 * patience());
    learn_all();
    assert!(find(&table, &key(&paths[0])).is_some(), "an epoch that lasts pays");
    let before = patience();
    table.count(4 * FEW_PATHS, 0);
    drop(table.moves.begin(MoveCause::Remove));
    learn_all();
    assert!(patience() < before, "patience is lost again");
}

#[test]
fn a_full_table_grows_to_its_limit_and_then_begins_anew() {
    let limit = Level::bytes(1);
    let table = DirectoryTable::new(limit);
    let paths: Vec<String> = (0..12_000).map(|i| format!("/data/directory-{i}")).collect();
    let mut most = 0;
    for (i, path) in paths.iter().enumerate() {
        learn(&table, key(path), i as u64, path.len() as u32);
        let known = find(&table, &key(path));
        assert!(known.is_none_or(|known| known.dir == i as u64));
        most = most.max(table.stats().paths);
    }
    let stats = table.stats();
    assert_eq!((stats.bytes, stats.limit), (limit, limit));
    assert!(most > 7_000 && most <= (FIRST * 4 * SLOTS / 2) as u64, "{most} paths");
    let kept = |paths: &[String]| paths.iter().filter(|path| find(&table, &key(path)).is_some()).count();
    assert!(kept(&paths[..9_000]) > 5_000, "a full table keeps what it has");
    for i in 0..50_000 {
        let path = &paths[7_000 + i % 5_000];
        learn(&table, key(path), 1, path.len() as u32);
    }
    assert!(kept(&paths[7_000..]) > 4_000, "a worn table begins again");
}

#[test]
fn a_table_without_memory_is_none() {
    assert!(DirectoryTable::new(0).begin().is_none());
    assert!(DirectoryTable::new(Level::bytes(0) - 1).begin().is_none());
    assert_eq!(DirectoryTable::new(0).stats(), DirectoryTableStats::default());
}

#[test]
fn threads_find_what_is_true_while_others_learn_and_move() {
    let table = DirectoryTable::new(Level::bytes(0));
    let truth = AtomicU64::new(0);
    let paths: Vec<String> = (0..50).map(|i| format!("/data/directory-{i}")).collect();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (table, truth, paths) = (&table, &truth, &paths);
            scope.spawn(move || {
                for i in 0..if cfg!(miri) { 100 } else { 20_000 } {
                    let key = key(&paths[(i * (thread + 1)) % paths.len()]);
                    let Some(view) = table.begin() else { continue };
                    let record = view.prepare(&key).and_then(|hash| view.probe(hash));
                    let known = record.and_then(|record| view.compare(record, &key));
                    let now = truth.load(Ordering::SeqCst);
                    // A valid attempt has not overlapped a move, so the truth was this all the time.
                    if !view.is_valid() {
                        continue;
                    }
                    match known {
                        Some(known) => assert_eq!(known.dir, now),
                        None => view.learn([(key, Known { dir: now, bytes: 1 })].into_iter()),
                    }
                }
            });
        }
        for i in 1..if cfg!(miri) { 20 } else { 2_000 } {
            let moving = table.moves.begin(MoveCause::Remove);
            truth.store(i, Ordering::SeqCst);
            drop(moving);
            std::thread::yield_now();
        }
    });
}
