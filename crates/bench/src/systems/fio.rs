//! `fio`: the rate of a file for a program that only reads, past the page cache.

use super::peers::run_command;
use crate::error::{Error, Result};
use crate::measure::stop::Stop;
use serde_json::Value;
use std::path::Path;

/// A job of direct reads: through io_uring, or by `pread` where one read is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// Bytes of one read.
    pub(crate) block_bytes: u64,
    /// Reads in flight.
    pub(crate) depth: u32,
    /// Whether the order is random, each block once.
    pub(crate) random: bool,
    /// First byte of the range read.
    pub(crate) offset: u64,
    /// Length of the range in bytes.
    pub(crate) len: u64,
    /// Bytes to read of the range.
    pub(crate) bytes: u64,
}

impl Job {
    fn arguments(&self, file: &Path) -> Vec<String> {
        let order = if self.random { "randread" } else { "read" };
        let mut arguments: Vec<String> =
            ["--name=reads", "--direct=1", "--readonly", "--output-format=json"].map(String::from).into();
        arguments.push(format!("--ioengine={}", if self.depth == 1 { "psync" } else { "io_uring" }));
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
    pub(crate) fn run(&self, file: &Path, stop: &Stop) -> Result<f64> {
        let arguments = self.arguments(file);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = run_command("fio", &arguments, stop)?;
        rate(&output, self.bytes).ok_or_else(|| Error::Command {
            command: format!("fio {}", arguments.join(" ")),
            message: format!("its output names no rate for {} bytes", self.bytes),
        })
    }
}

/// Finds the rate in `fio`'s JSON output, before which it may write notes. It means nothing unless `bytes`
/// were read.
fn rate(output: &str, bytes: u64) -> Option<f64> {
    let json: Value = serde_json::from_str(&output[output.find('{')?..]).ok()?;
    let read = &json["jobs"][0]["read"];
    let is_whole = read["io_bytes"].as_u64() == Some(bytes);
    read["bw_bytes"].as_f64().filter(|rate| is_whole && *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_found_behind_notes() {
        let output = "note: both\n{\"jobs\": [{\"read\": {\"bw_bytes\": 1500000, \"io_bytes\": 4096}}]}\n";
        assert_eq!((rate(output, 4096), rate(output, 8192)), (Some(1.5e6), None));
        assert_eq!(rate("{\"jobs\": [{\"read\": {\"bw_bytes\": 0, \"io_bytes\": 0}}]}", 0), None);
        assert_eq!(rate("{\"jobs\": []}", 0), None);
        assert_eq!(rate("not found", 0), None);
    }

    #[test]
    fn a_job_reads_only_and_past_the_page_cache() {
        let job =
            Job { block_bytes: 4096, depth: 32, random: true, offset: 8192, len: 1 << 20, bytes: 65536 };
        let has = |job: Job, expected: &str| {
            job.arguments(Path::new("image")).iter().any(|argument| argument == expected)
        };
        for expected in
            ["--readonly", "--direct=1", "--rw=randread", "--bs=4096", "--iodepth=32", "--offset=8192"]
        {
            assert!(has(job, expected), "{expected}");
        }
        assert!(has(job, "--ioengine=io_uring") && has(Job { depth: 1, ..job }, "--ioengine=psync"));
    }
}
