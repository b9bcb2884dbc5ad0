//! The whole benchmark at tiny sizes: every row is present, measured and well formed. No test checks a time.

use lanefs_bench::benches::gpu::{Answers, ColumnArgs, Source, row_names};
use lanefs_bench::error::EXIT_ERROR;
use lanefs_bench::measure::stop::Stop;
use lanefs_bench::session::{CommonArgs, EXIT_DONE};
use lanefs_bench::systems::workload::Sizes;
use lanefs_bench::{Error, GpuArgs, GpuHooks, run_gpu_with};
use serde_json::Value;

const TINY: Sizes = Sizes {
    // Enough files for some to match the pattern of `gpu-find`.
    tree_files: 5_000,
    wide_files: 100,
    wide_lookups: 2_000,
    flat_files: 1_000,
    chain_depth: 500,
    chain_lookups: 4,
    subdirectories: 100,
    subdirectory_lookups: 50,
    listed_files: 1_000,
};

#[test]
fn every_row_is_measured_and_the_device_is_named() {
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("report.json");
    let common = CommonArgs { quick: true, json: Some(json.clone()), runs: Some(2), ..CommonArgs::default() };
    let hooks = GpuHooks { sizes: Some(TINY), stop: Some(Stop::default()) };
    assert_eq!(run_gpu_with(&GpuArgs { common, ..GpuArgs::default() }, &hooks).unwrap(), EXIT_DONE);
    let report: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, row_names());
    assert!(!report["machine"]["gpu"].as_str().unwrap().is_empty());
    for row in rows {
        assert!(row["lanefs"]["median"].as_f64().unwrap() > 0.0, "{row}");
        let is_counted = row["name"].as_str().unwrap().starts_with("gpu-sectors");
        let by_device = row["extra"].get("made_by_device").and_then(Value::as_f64);
        assert!(by_device.is_none_or(|part| (0.0..=1.0).contains(&part)), "{row}");
        assert!(is_counted || row["peers"].get("cpu").is_some(), "{row}");
        assert!(
            !is_counted || row["goals"].as_array().unwrap().iter().all(|goal| goal["reached"] == true),
            "{row}"
        );
    }
}

#[test]
fn columns_are_measured_alone_with_as_many_paths_as_asked_for() {
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("report.json");
    let common = CommonArgs { quick: true, json: Some(json.clone()), runs: Some(1), ..CommonArgs::default() };
    let columns = ColumnArgs {
        files: Some(300),
        paths: Some(1_000),
        columns: vec![Answers::Exists, Answers::Attrs],
        from: vec![Source::Device],
    };
    let hooks = GpuHooks { sizes: Some(TINY), stop: Some(Stop::default()) };
    let args = GpuArgs { common, columns, ..GpuArgs::default() };
    assert_eq!(run_gpu_with(&args, &hooks).unwrap(), EXIT_DONE);
    let report: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["gpu-exists-device", "gpu-attrs-device"]);
    for row in rows {
        let params = ["files", "paths", "from"].map(|param| row["params"][param].clone());
        assert_eq!(params, [Value::from(300), Value::from(1_000), Value::from("device")]);
    }
}

#[test]
fn a_device_that_is_not_there_is_an_error() {
    let args = GpuArgs { device: Some("no such device".parse().unwrap()), ..GpuArgs::default() };
    let hooks = GpuHooks { sizes: Some(TINY), stop: Some(Stop::default()) };
    let refused = run_gpu_with(&args, &hooks).unwrap_err();
    assert!(matches!(refused, Error::Device { .. }) && refused.exit_code() == EXIT_ERROR, "{refused}");
}
