//! Processes that use files of a mount, for messages.

use super::table::lies_in;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Most processes that a message names.
const MAX_NAMED: usize = 5;

/// Most characters of a command line in a message.
const MAX_COMMAND_CHARS: usize = 100;

/// A list of processes for messages. Processes of other users may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processes(Vec<(u32, String)>);

impl Processes {
    /// True for an empty list.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn of(mut numbers: Vec<u32>) -> Self {
        numbers.sort_unstable();
        numbers.dedup();
        Processes(numbers.into_iter().map(|number| (number, command(number))).collect())
    }
}

impl fmt::Display for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("a process that cannot be seen from here");
        }
        for (index, (number, command)) in self.0.iter().take(MAX_NAMED).enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}process {number} ({command})")?;
        }
        match self.0.len().saturating_sub(MAX_NAMED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Returns the beginning of a process's command line.
fn command(number: u32) -> String {
    let line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " ");
    match text.is_empty() {
        true => fs::read_to_string(format!("/proc/{number}/comm")).unwrap_or_default().trim().to_owned(),
        false => text.chars().take(MAX_COMMAND_CHARS).filter(|c| !c.is_control()).collect(),
    }
}

/// Returns the processes with open files or a working directory in a mounted directory.
pub fn inside(dir: &Path) -> Processes {
    let Ok(processes) = fs::read_dir("/proc") else { return Processes::default() };
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let leads_there = |link: PathBuf| fs::read_link(link).is_ok_and(|target| lies_in(&target, dir));
    let uses = |number: &u32| {
        let process = PathBuf::from(format!("/proc/{number}"));
        let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten().map(|entry| entry.path());
        ["cwd", "root", "exe"].iter().map(|name| process.join(name)).chain(open).any(leads_there)
    };
    Processes::of(numbers.filter(uses).collect())
}
