//! The whole benchmark at tiny sizes: every row is present, measured and well formed. No test checks a time.

use crate::support::{names, quick, reported, rows, stopped};
use lanefs_bench::benches::concurrency::{ConcurrencyArgs, Sizes, row_names, run_concurrency};
use lanefs_bench::session::{EXIT_DONE, EXIT_STOPPED};
use serde_json::Value;
use std::time::Duration;

const TINY: Sizes = Sizes {
    listed_files: 50,
    tree_files: 200,
    large_bytes: 1 << 20,
    warm_operations: 2_000,
    listings: 20,
    round: Duration::from_micros(20),
    pairs_per_run: 3,
    hot_bytes: 1 << 20,
    cold_bytes: 4 << 20,
    cache_bytes: 2 << 20,
    phase: Duration::from_millis(5),
    fill_bytes: 4 << 20,
    fill_reads: 200,
    memfs_files: &[20, 60],
    memfs_least: Duration::from_micros(100),
    durable_files: 5,
    batch_files: 20,
};

fn run(rows: Option<&str>) -> Value {
    let bench = |common| run_concurrency(&ConcurrencyArgs { common, sizes: Some(TINY) });
    let (code, report) = reported(quick(1), rows, bench);
    assert_eq!(code, EXIT_DONE);
    report
}

#[test]
fn every_row_is_measured_and_the_report_is_whole() {
    let report = run(None);
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(names(&report), row_names(&TINY, cores));
    assert_eq!(report["bench"], "concurrency");
    for row in rows(&report) {
        let (name, lanefs) = (row["name"].as_str().unwrap(), &row["lanefs"]);
        assert!(lanefs["min"].as_f64() <= lanefs["median"].as_f64(), "{row}");
        assert!(lanefs["median"].as_f64() <= lanefs["max"].as_f64(), "{row}");
        assert!(lanefs["median"].as_f64().unwrap() > 0.0, "{row}");
        let has = |peer: &str| row["peers"].get(peer).is_some();
        match name.split('-').next().unwrap() {
            "overhead" => assert!(has("sequential") && row["extra"]["overhead"].as_f64().unwrap() > 0.0),
            "block" => assert!(row["extra"]["processor_ns"].as_f64().unwrap() > 0.0),
            "large" => assert!(row["extra"]["fewest_possible"].as_f64() >= Some(1.0)),
            "hits" => assert!(has("alone") && row["extra"]["misses_per_s"].as_f64().unwrap() > 0.0),
            "data" => assert!(row["better"] == "more" && has("memcpy"), "{row}"),
            "fill" => {
                assert_eq!(row["better"], "more");
                assert!(has("fio") || row["notes"].to_string().contains("fio is left out"), "{row}");
            }
            _ => {
                let own_ext4 = rustix::process::geteuid().is_root() && !has("ext4");
                let told = report["notes"].to_string().contains("ext4 is left out");
                assert!(!own_ext4 || told, "ext4 is missing and no note says why: {row}");
            }
        }
        let goals: Vec<&str> =
            row["goals"].as_array().unwrap().iter().map(|goal| goal["text"].as_str().unwrap()).collect();
        let wanted = name.starts_with("overhead-")
            || name.starts_with("hits-")
            || (name.ends_with("-2t") || name.starts_with("memfs-") && name.ends_with("-16t"));
        assert_eq!(!goals.is_empty(), wanted || has("fio"), "{name}: {goals:?}");
    }
}

#[test]
fn only_the_rows_asked_for_are_measured() {
    let report = run(Some("{overhead-statfs,memfs-read-20-4t,fill-random}"));
    assert_eq!(names(&report), ["overhead-statfs", "fill-random", "memfs-read-20-4t"]);
}

#[test]
fn a_stop_ends_it_at_once_with_its_own_exit_code() {
    let args = ConcurrencyArgs { common: stopped(), sizes: Some(TINY) };
    assert_eq!(run_concurrency(&args).unwrap(), EXIT_STOPPED);
}
