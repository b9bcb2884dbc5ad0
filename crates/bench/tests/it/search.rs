//! The whole benchmark of searches at tiny sizes: every row is present and measured. No test checks a time.

use crate::support::{names, quick, reported, rows, stopped};
use lanefs_bench::Result;
use lanefs_bench::benches::search::{SearchArgs, row_names, run_search};
use lanefs_bench::session::{CommonArgs, EXIT_DONE, EXIT_STOPPED};
use serde_json::Value;

fn run(common: CommonArgs) -> Result<u8> {
    run_search(&SearchArgs { common, files: Some(200), names: Some(500) })
}

#[test]
fn every_row_is_measured_and_each_missing_peer_is_named() {
    let (code, report) = reported(quick(2), None, run);
    assert_eq!(code, EXIT_DONE);
    assert_eq!(names(&report), row_names());
    let notes = report["notes"].to_string();
    for row in rows(&report) {
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
    assert!(rows(&report)[0]["params"]["files_with_a_line"].as_u64().unwrap() > 0);
}

#[test]
fn a_stop_ends_it() {
    assert_eq!(run(stopped()).unwrap(), EXIT_STOPPED);
}
