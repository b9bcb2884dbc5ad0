//! The whole benchmark at tiny sizes: every row is present, measured and well formed. No test checks a time.

use lanefs_bench::benches::namespace::{EXIT_DONE, EXIT_STOPPED, ImportRequest, row_names};
use lanefs_bench::measure::stop::Stop;
use lanefs_bench::session::CommonArgs;
use lanefs_bench::systems::workload::Sizes;
use lanefs_bench::{Hooks, NamespaceArgs, run_namespace_with};
use serde_json::Value;
use std::sync::Arc;

const TINY: Sizes = Sizes {
    tree_files: 500,
    wide_files: 100,
    wide_lookups: 2_000,
    flat_files: 1_000,
    chain_depth: 50,
    chain_lookups: 4,
    subdirectories: 100,
    subdirectory_lookups: 50,
    listed_files: 1_000,
};

/// Import in place of the benchmark's own.
fn writes_a_file(request: &ImportRequest<'_>) -> Result<u64, String> {
    assert!(!request.image.exists());
    std::fs::write(request.image, "image").map_err(|e| e.to_string())?;
    Ok(1)
}

#[test]
fn every_row_is_measured_and_the_report_is_whole() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join("file"), "content").unwrap();
    let json = temp.path().join("report.json");
    let args = NamespaceArgs {
        common: CommonArgs { quick: true, json: Some(json.clone()), runs: Some(2), ..CommonArgs::default() },
        tree: Some(tree),
    };
    let hooks =
        Hooks { import: Some(Arc::new(writes_a_file)), sizes: Some(TINY), stop: Some(Stop::default()) };
    assert_eq!(run_namespace_with(&args, &hooks).unwrap(), EXIT_DONE);
    let report: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, row_names(&TINY));
    for row in rows {
        let lanefs = &row["lanefs"];
        assert!(lanefs["min"].as_f64() <= lanefs["median"].as_f64(), "{row}");
        assert!(lanefs["median"].as_f64() <= lanefs["max"].as_f64(), "{row}");
        // So few files fit into the space that a new volume has reserved already.
        let may_be_nothing = row["name"] == "bytes-per-file";
        assert!(may_be_nothing || lanefs["median"].as_f64().unwrap() > 0.0, "{row}");
        let peers: Vec<&String> = row["peers"].as_object().unwrap().keys().collect();
        let ratios: Vec<&String> = row["ratio"].as_object().unwrap().keys().collect();
        assert!(may_be_nothing || peers == ratios, "{row}");
        let own_ext4 = rustix::process::geteuid().is_root() && row["peers"].get("ext4").is_none();
        let told = report["notes"].to_string().contains("ext4 is left out");
        assert!(!own_ext4 || told, "ext4 is missing and no note says why: {row}");
    }
}

#[test]
fn only_the_rows_asked_for_are_measured() {
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("report.json");
    let args = NamespaceArgs {
        common: CommonArgs {
            json: Some(json.clone()),
            rows: Some("{chain-lookup,lookup-wide-10}".into()),
            runs: Some(1),
            ..CommonArgs::default()
        },
        tree: None,
    };
    let hooks = Hooks { sizes: Some(TINY), stop: Some(Stop::default()), import: None };
    assert_eq!(run_namespace_with(&args, &hooks).unwrap(), EXIT_DONE);
    let report: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["lookup-wide-10", "chain-lookup"]);
}

#[test]
fn a_stop_ends_it_at_once_with_its_own_exit_code() {
    let stop = Stop::default();
    stop.set();
    let hooks = Hooks { sizes: Some(TINY), stop: Some(stop), import: None };
    assert_eq!(run_namespace_with(&NamespaceArgs::default(), &hooks).unwrap(), EXIT_STOPPED);
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_anything_is_measured() {
    let common = CommonArgs { json: Some("/no/such/directory/report.json".into()), ..CommonArgs::default() };
    let args = NamespaceArgs { common, tree: None };
    let refused = run_namespace_with(&args, &Hooks { sizes: Some(TINY), ..Hooks::default() }).unwrap_err();
    assert!(refused.to_string().contains("/no/such/directory"), "{refused}");
}
