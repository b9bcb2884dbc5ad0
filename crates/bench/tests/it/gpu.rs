//! The whole benchmark at tiny sizes: every row is present, measured and well formed. No test checks a time.

use crate::support::{names, quick, reported, rows};
use lanefs_bench::Error;
use lanefs_bench::benches::gpu::{Answers, ColumnArgs, GpuArgs, Source, row_names, run_gpu};
use lanefs_bench::error::EXIT_ERROR;
use lanefs_bench::session::{CommonArgs, EXIT_DONE};
use lanefs_bench::systems::workload::Sizes;
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

fn run(common: CommonArgs, args: &GpuArgs) -> Value {
    let bench = |common| run_gpu(&GpuArgs { common, sizes: Some(TINY), ..args.clone() });
    let (code, report) = reported(common, None, bench);
    assert_eq!(code, EXIT_DONE);
    report
}

#[test]
fn every_row_is_measured_and_the_device_is_named() {
    let report = run(quick(2), &GpuArgs::default());
    // The tree is too small for the largest batches of the default engine.
    let large = ["gpu-auto-100k", "gpu-auto-1m", "gpu-auto-10m"];
    let measured: Vec<String> =
        row_names().into_iter().filter(|name| !large.contains(&name.as_str())).collect();
    assert_eq!(names(&report), measured);
    assert!(!report["machine"]["gpu"].as_str().unwrap().is_empty());
    for row in rows(&report) {
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
    let columns = ColumnArgs {
        files: Some(300),
        paths: Some(1_000),
        columns: vec![Answers::Exists, Answers::Attrs],
        from: vec![Source::Device],
    };
    let report = run(quick(1), &GpuArgs { columns, ..GpuArgs::default() });
    assert_eq!(names(&report), ["gpu-exists-device", "gpu-attrs-device"]);
    for row in rows(&report) {
        let params = ["files", "paths", "from"].map(|param| row["params"][param].clone());
        assert_eq!(params, [Value::from(300), Value::from(1_000), Value::from("device")]);
    }
}

#[test]
fn a_device_that_is_not_there_is_an_error() {
    let args = GpuArgs { device: Some("no such device".parse().unwrap()), ..GpuArgs::default() };
    let refused = run_gpu(&args).unwrap_err();
    assert!(matches!(refused, Error::Device { .. }) && refused.exit_code() == EXIT_ERROR, "{refused}");
}
