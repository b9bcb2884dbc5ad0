//! `fio`: the rate of a device for a program that only reads.

use crate::error::{Error, Result};
use crate::measure::stop::Stop;
use crate::systems::peers::run_command;
use serde_json::Value;
use std::path::Path;

/// A job of direct reads through io_uring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// Bytes of one read.
    pub(super) block_bytes: u64,
    /// Reads in flight.
    pub(super) depth: u32,
    /// Whether the order is random, each block once.
    pub(super) random: bool,
    /// First byte of the range read.
    pub(super) offset: u64,
    /// Length of the range in bytes.
    pub(super) len: u64,
    /// Bytes to read of the range.
    pub(super) bytes: u64,
}

impl Job {
    fn arguments(&self, file: &Path) -> Vec<String> {
        let order = if self.random { "randread" } else { "read" };
        let mut arguments: Vec<String> =
            ["--name=fill", "--direct=1", "--ioengine=io_uring", "--readonly", "--output-format=json"]
                .map(String::from)
                .into();
        arguments.push(format!("--filename={}", file.display()));
        arguments.push(format!("--rw={order}"));
        arguments.push(format!("--bs={}", self.block_bytes));
        arguments.push(format!("--iodepth={}", self.depth));
        arguments.push(format!("--offset={}", self.offset));
        arguments.push(format!("--size={}", self.len));
        arguments.push(format!("--io_size={}", self.bytes));
        arguments
    }

    /// Runs the job; returns the rate in bytes a second.
    pub(super) fn run(&self, file: &Path, stop: &Stop) -> Result<f64> {
        let arguments = self.arguments(file);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = run_command("fio", &arguments, stop)?;
        rate(&output).ok_or_else(|| Error::Command {
            command: format!("fio {}", arguments.join(" ")),
            message: "its output names no rate".into(),
        })
    }
}

/// Finds the rate in `fio`'s JSON output, before which it may write notes.
fn rate(output: &str) -> Option<f64> {
    let json: Value = serde_json::from_str(&output[output.find('{')?..]).ok()?;
    json["jobs"][0]["read"]["bw_bytes"].as_f64().filter(|rate| *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_found_behind_notes() {
        let output = "note: both\n{\"jobs\": [{\"read\": {\"bw_bytes\": 1500000, \"runtime\": 3}}]}\n";
        assert_eq!(rate(output), Some(1.5e6));
        assert_eq!(rate("{\"jobs\": [{\"read\": {\"bw_bytes\": 0}}]}"), None);
        assert_eq!(rate("{\"jobs\": []}"), None);
        assert_eq!(rate("not found"), None);
    }

    #[test]
    fn a_job_reads_only_and_past_the_page_cache() {
        let job =
            Job { block_bytes: 4096, depth: 32, random: true, offset: 8192, len: 1 << 20, bytes: 65536 };
        let arguments = job.arguments(Path::new("image"));
        for expected in
            ["--readonly", "--direct=1", "--rw=randread", "--bs=4096", "--iodepth=32", "--offset=8192"]
        {
            assert!(arguments.iter().any(|argument| argument == expected), "{expected}");
        }
    }
}
