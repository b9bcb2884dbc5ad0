//! The whole benchmark at tiny sizes: every row is present, measured and well formed. No test checks a time.

use crate::support::{names, quick, reported, rows, stopped};
use lanefs_bench::Result;
use lanefs_bench::benches::namespace::{NamespaceArgs, row_names, run_namespace};
use lanefs_bench::session::{CommonArgs, EXIT_DONE, EXIT_STOPPED};
use lanefs_bench::systems::workload::Sizes;
use std::path::PathBuf;

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

fn run(common: CommonArgs, tree: Option<PathBuf>) -> Result<u8> {
    run_namespace(&NamespaceArgs { common, tree, sizes: Some(TINY) })
}

#[test]
fn every_row_is_measured_and_the_report_is_whole() {
    let temp = tempfile::tempdir().unwrap();
    let tree = temp.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join("file"), "content").unwrap();
    let (code, report) = reported(quick(2), None, |common| run(common, Some(tree)));
    assert_eq!(code, EXIT_DONE);
    assert_eq!(names(&report), row_names(&TINY));
    for row in rows(&report) {
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
    let rows = Some("{chain-lookup,lookup-wide-10}");
    let (code, report) = reported(quick(1), rows, |common| run(common, None));
    assert_eq!(code, EXIT_DONE);
    assert_eq!(names(&report), ["lookup-wide-10", "chain-lookup"]);
}

#[test]
fn a_stop_ends_it_at_once_with_its_own_exit_code() {
    assert_eq!(run(stopped(), None).unwrap(), EXIT_STOPPED);
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_anything_is_measured() {
    let json = Some("/no/such/directory/report.json".into());
    let refused = run(CommonArgs { json, ..quick(1) }, None).unwrap_err();
    assert!(refused.to_string().contains("/no/such/directory"), "{refused}");
}
