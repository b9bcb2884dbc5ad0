//! The whole benchmark at tiny sizes: every row is present, measured and well formed. No test checks a time.

use lanefs_bench::benches::concurrency::{Sizes, row_names};
use lanefs_bench::measure::stop::Stop;
use lanefs_bench::session::{CommonArgs, EXIT_DONE, EXIT_STOPPED};
use lanefs_bench::{ConcurrencyArgs, ConcurrencyHooks, run_concurrency_with};
use serde_json::Value;
use std::path::Path;
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

fn run(json: &Path, rows: Option<&str>) -> Value {
    let common = CommonArgs {
        quick: true,
        json: Some(json.into()),
        rows: rows.map(Into::into),
        runs: Some(1),
        ..CommonArgs::default()
    };
    let hooks = ConcurrencyHooks { sizes: Some(TINY), stop: Some(Stop::default()) };
    assert_eq!(run_concurrency_with(&ConcurrencyArgs { common }, &hooks).unwrap(), EXIT_DONE);
    serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap()
}

fn names(report: &Value) -> Vec<&str> {
    report["rows"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect()
}

#[test]
fn every_row_is_measured_and_the_report_is_whole() {
    let temp = tempfile::tempdir().unwrap();
    let report = run(&temp.path().join("report.json"), None);
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(names(&report), row_names(&TINY, cores));
    assert_eq!(report["bench"], "concurrency");
    for row in report["rows"].as_array().unwrap() {
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
    let temp = tempfile::tempdir().unwrap();
    let report =
        run(&temp.path().join("report.json"), Some("{overhead-statfs,memfs-read-20-4t,fill-random}"));
    assert_eq!(names(&report), ["overhead-statfs", "fill-random", "memfs-read-20-4t"]);
}

#[test]
fn a_stop_ends_it_at_once_with_its_own_exit_code() {
    let stop = Stop::default();
    stop.set();
    let hooks = ConcurrencyHooks { sizes: Some(TINY), stop: Some(stop) };
    assert_eq!(run_concurrency_with(&ConcurrencyArgs::default(), &hooks).unwrap(), EXIT_STOPPED);
}
