//! The whole benchmark of searches at tiny sizes: every row is present and measured. No test checks a time.

use lanefs_bench::benches::search::{EXIT_DONE, EXIT_STOPPED, row_names};
use lanefs_bench::measure::stop::Stop;
use lanefs_bench::session::CommonArgs;
use lanefs_bench::{SearchArgs, SearchHooks, run_search_with};
use serde_json::Value;

fn args() -> SearchArgs {
    let common = CommonArgs { quick: true, runs: Some(2), ..CommonArgs::default() };
    SearchArgs { common, files: Some(200), names: Some(500) }
}

#[test]
fn every_row_is_measured_and_each_missing_peer_is_named() {
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("report.json");
    let mut args = args();
    args.common.json = Some(json.clone());
    let hooks = SearchHooks { stop: Some(Stop::default()) };
    assert_eq!(run_search_with(&args, &hooks).unwrap(), EXIT_DONE);
    let report: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, row_names());
    let notes = report["notes"].to_string();
    for row in rows {
        let name = row["name"].as_str().unwrap();
        assert!(row["lanefs"]["median"].as_f64().unwrap() > 0.0, "{row}");
        let peers: &[&str] = match name {
            "dups-warm" => &["fclones"],
            "fuzzy-keys" => &["fzf", "nucleo"],
            _ => &["rg"],
        };
        for peer in peers {
            let is_measured = row["ratio"].get(peer).and_then(Value::as_f64).is_some_and(|ratio| ratio > 0.0);
            let is_named = notes.contains(&format!("{peer} is left out"));
            assert!(is_measured != is_named || name.ends_with("-cold"), "{peer}: {row} {notes}");
        }
    }
    assert!(rows[0]["params"]["files_with_a_line"].as_u64().unwrap() > 0);
}

#[test]
fn a_stop_ends_it() {
    let stop = Stop::default();
    stop.set();
    let hooks = SearchHooks { stop: Some(stop) };
    assert_eq!(run_search_with(&args(), &hooks).unwrap(), EXIT_STOPPED);
}
