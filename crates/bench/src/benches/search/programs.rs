//! The programs that are peers.

use super::SearchSizes;
use crate::error::Result;
use crate::measure::stop::Stop;
use crate::session::Session;
use crate::systems::peers::run_prepared;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A program of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchProgram {
    Ripgrep,
    Fclones,
    Fzf,
}

impl SearchProgram {
    pub(super) fn name(self) -> &'static str {
        match self {
            SearchProgram::Ripgrep => "rg",
            SearchProgram::Fclones => "fclones",
            SearchProgram::Fzf => "fzf",
        }
    }

    /// As [`Session::has_program`].
    pub(super) fn is_there(self, bench: &mut Session<SearchSizes>) -> Result<bool> {
        let how = match self {
            SearchProgram::Ripgrep => "package ripgrep",
            SearchProgram::Fclones => "`cargo install fclones`",
            SearchProgram::Fzf => "package fzf",
        };
        bench.has_program(self.name(), [self.name(), "--version"], how)
    }
}

/// Counts the matching lines of each file below a directory with ripgrep; returns the number of files that
/// have one. It searches in the same files as LaneFS (`-uu`), and its threads are its own choice.
pub(super) fn ripgrep(dir: &Path, pattern: &str, stop: &Stop) -> Result<(Duration, u64)> {
    let mut command = Command::new(SearchProgram::Ripgrep.name());
    command.args(["--no-config", "-uu", "--count", "--color=never", "-e", pattern, "./"]).current_dir(dir);
    timed(command, stop, |output| output.lines().count() as u64)
}

/// Finds equal files below a directory with fclones; returns the number of groups.
pub(super) fn fclones(dir: &Path, stop: &Stop) -> Result<(Duration, u64)> {
    let mut command = Command::new(SearchProgram::Fclones.name());
    command.args(["group", "--hidden", "--no-ignore", "."]).current_dir(dir);
    // A line for each group, with its files indented below it, after comments.
    let is_group = |line: &&str| !line.starts_with(['#', ' ']) && !line.is_empty();
    timed(command, stop, |output| output.lines().filter(is_group).count() as u64)
}

/// Lists the best 100 paths of a list for a query with fzf; returns their number.
pub(super) fn fzf(list: &Path, query: &str, stop: &Stop) -> Result<(Duration, u64)> {
    timed(filter(list, query, "head -n 100"), stop, |output| output.lines().count() as u64)
}

/// Counts the paths of a list that match a query with fzf.
pub(super) fn fzf_matches(list: &Path, query: &str, stop: &Stop) -> Result<u64> {
    let (_, count) = timed(filter(list, query, "wc -l"), stop, |output| output.trim().parse().unwrap_or(0))?;
    Ok(count)
}

fn filter(list: &Path, query: &str, then: &str) -> Command {
    let mut command = Command::new("sh");
    let script = format!("fzf --filter \"$1\" < \"$2\" | {then}");
    command.args(["-c", &script, "sh", query]).arg(list).env_remove("FZF_DEFAULT_OPTS");
    command
}

fn timed(command: Command, stop: &Stop, count: impl Fn(&str) -> u64) -> Result<(Duration, u64)> {
    let start = Instant::now();
    let output = run_prepared(command, stop)?;
    Ok((start.elapsed(), count(&output)))
}
