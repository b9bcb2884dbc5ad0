//! Runs of whole benchmarks, and their reports.

use lanefs_bench::Result;
use lanefs_bench::measure::stop::Stop;
use lanefs_bench::session::CommonArgs;
use serde_json::Value;

/// Arguments of a quick run, which leaves signals alone.
pub(crate) fn quick(runs: u32) -> CommonArgs {
    CommonArgs { quick: true, runs: Some(runs), stop: Some(Stop::default()), ..CommonArgs::default() }
}

/// Arguments of a run that is stopped before it begins.
pub(crate) fn stopped() -> CommonArgs {
    let common = quick(1);
    common.stop.iter().for_each(Stop::set);
    common
}

/// Runs a benchmark with a report; returns its exit code and the report.
pub(crate) fn reported(
    mut common: CommonArgs,
    rows: Option<&str>,
    run: impl FnOnce(CommonArgs) -> Result<u8>,
) -> (u8, Value) {
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("report.json");
    common.json = Some(json.clone());
    common.rows = rows.map(Into::into);
    let code = run(common).unwrap();
    (code, serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap())
}

/// Returns the rows of a report.
pub(crate) fn rows(report: &Value) -> &[Value] {
    report["rows"].as_array().unwrap()
}

/// Returns the names of the rows.
pub(crate) fn names(report: &Value) -> Vec<&str> {
    rows(report).iter().map(|row| row["name"].as_str().unwrap()).collect()
}
