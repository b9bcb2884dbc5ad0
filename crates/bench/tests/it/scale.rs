//! The whole benchmark of sizes at tiny ones: every row is present and measured. No test checks a time.

use lanefs_bench::benches::scale::{EXIT_DONE, EXIT_STOPPED, ScaleSizes, row_names};
use lanefs_bench::measure::stop::Stop;
use lanefs_bench::session::CommonArgs;
use lanefs_bench::{Error, ScaleArgs, ScaleHooks, run_scale_with};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn hooks(largest: u64) -> ScaleHooks {
    let sizes = ScaleSizes {
        volumes: vec![1 << 30, 3 << 30, largest],
        creates: 50,
        written: 3,
        entries: 200,
        many: 200,
        levels: 50,
        handles: 20,
    };
    let program = Some(PathBuf::from(env!("CARGO_BIN_EXE_lanefs-bench")));
    ScaleHooks { stop: Some(Stop::default()), sizes: Some(sizes), program, packed: false }
}

fn args(json: &Path, rows: Option<&str>) -> ScaleArgs {
    let common = CommonArgs {
        quick: true,
        runs: Some(2),
        json: Some(json.into()),
        rows: rows.map(Into::into),
        ..CommonArgs::default()
    };
    ScaleArgs { common, largest: None }
}

fn report(json: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap()
}

#[test]
fn every_row_is_measured_in_files() {
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("report.json");
    assert_eq!(run_scale_with(&args(&json, None), &hooks(4 << 30)).unwrap(), EXIT_DONE);
    let report = report(&json);
    let rows = report["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, row_names());
    for row in rows {
        let name = row["name"].as_str().unwrap();
        assert!(row["lanefs"]["median"].as_f64().unwrap() > 0.0, "{row}");
        let column = if name.starts_with("size-") { "at_4_GiB" } else { "at_all" };
        assert!(row["extra"][column].as_f64().unwrap() > 0.0, "{row}");
    }
    assert!(!report["notes"].to_string().contains("stores only what is not zero"), "{report}");
}

#[test]
fn volumes_that_no_file_holds_are_in_a_packed_device() {
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("report.json");
    let rows = Some("size-{mkfs,open,create,fill,fetched,recover,fsck,grow}");
    let mut hooks = hooks(4 << 30);
    hooks.sizes.as_mut().unwrap().volumes = vec![1 << 30, 1 << 40];
    hooks.packed = true;
    assert_eq!(run_scale_with(&args(&json, rows), &hooks).unwrap(), EXIT_DONE);
    let report = report(&json);
    assert!(report["notes"].to_string().contains("stores only what is not zero"), "{report}");
    for row in report["rows"].as_array().unwrap() {
        assert!(row["extra"]["at_1_TiB"].as_f64().unwrap() > 0.0, "{row}");
    }
    // Work visits few of the 8,323 groups of a volume of 1 TiB: 256 are read at a time, twice at most.
    let rows = report["rows"].as_array().unwrap();
    let fetched = rows.iter().find(|row| row["name"] == "size-fetched").unwrap();
    assert!(fetched["extra"]["at_1_TiB"].as_f64().unwrap() < 1024.0, "{fetched}");
}

#[test]
fn a_stop_and_peers_end_it() {
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("report.json");
    let hooks = hooks(4 << 30);
    hooks.stop.as_ref().unwrap().set();
    assert_eq!(run_scale_with(&args(&json, None), &hooks).unwrap(), EXIT_STOPPED);
    let mut args = args(&json, None);
    args.common.ext4 = Some("/".into());
    assert!(matches!(run_scale_with(&args, &hooks), Err(Error::Arguments(_))));
}
