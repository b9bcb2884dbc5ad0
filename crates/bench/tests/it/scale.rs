//! The whole benchmark of sizes at tiny ones: every row is present and measured. No test checks a time.

use crate::support::{names, quick, reported, rows, stopped};
use lanefs_bench::Error;
use lanefs_bench::benches::scale::{ScaleArgs, ScaleSizes, row_names, run_scale};
use lanefs_bench::session::{EXIT_DONE, EXIT_STOPPED};
use serde_json::Value;
use std::path::PathBuf;

/// Arguments for volumes of 1 GiB and of other sizes.
fn args(others: &[u64]) -> ScaleArgs {
    let sizes = ScaleSizes {
        volumes: [&[1 << 30], others].concat(),
        creates: 50,
        written: 3,
        entries: 200,
        many: 200,
        levels: 50,
        handles: 20,
    };
    let program = Some(PathBuf::from(env!("CARGO_BIN_EXE_lanefs-bench")));
    ScaleArgs { common: quick(2), sizes: Some(sizes), program, ..ScaleArgs::default() }
}

fn run(args: &ScaleArgs, rows: Option<&str>) -> Value {
    let bench = |common| run_scale(&ScaleArgs { common, ..args.clone() });
    let (code, report) = reported(args.common.clone(), rows, bench);
    assert_eq!(code, EXIT_DONE);
    report
}

#[test]
fn every_row_is_measured_in_files() {
    let report = run(&args(&[3 << 30, 4 << 30]), None);
    assert_eq!(names(&report), row_names());
    for row in rows(&report) {
        let name = row["name"].as_str().unwrap();
        assert!(row["lanefs"]["median"].as_f64().unwrap() > 0.0, "{row}");
        let column = if name.starts_with("size-") { "at_4_GiB" } else { "at_all" };
        assert!(row["extra"][column].as_f64().unwrap() > 0.0, "{row}");
    }
    assert!(!report["notes"].to_string().contains("stores only what is not zero"), "{report}");
}

#[test]
fn volumes_that_no_file_holds_are_in_a_packed_device() {
    let args = ScaleArgs { packed: true, ..args(&[1 << 40]) };
    let report = run(&args, Some("size-{mkfs,open,create,fill,fetched,recover,fsck,grow}"));
    assert!(report["notes"].to_string().contains("stores only what is not zero"), "{report}");
    for row in rows(&report) {
        assert!(row["extra"]["at_1_TiB"].as_f64().unwrap() > 0.0, "{row}");
    }
    // Work visits few of the 8,323 groups of a volume of 1 TiB: 256 are read at a time, twice at most.
    let fetched = rows(&report).iter().find(|row| row["name"] == "size-fetched").unwrap();
    assert!(fetched["extra"]["at_1_TiB"].as_f64().unwrap() < 1024.0, "{fetched}");
}

#[test]
fn a_stop_and_peers_end_it() {
    let mut args = ScaleArgs { common: stopped(), ..args(&[]) };
    assert_eq!(run_scale(&args).unwrap(), EXIT_STOPPED);
    args.common.ext4 = Some("/".into());
    assert!(matches!(run_scale(&args), Err(Error::Arguments(_))));
}
