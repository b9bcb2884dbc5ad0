//! What the parts have in common: new systems, runs in turn, rows.

use super::import::Import;
use super::rows::Selection;
use crate::lane::Lane;
use crate::peers::{Host, Medium, Need, Peers};
use crate::progress::Progress;
use crate::report::{Report, Row};
use crate::stop::Stop;
use crate::system::System;
use crate::workload::Sizes;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The whole benchmark.
pub(super) struct Bench {
    pub(super) quick: bool,
    pub(super) sizes: Sizes,
    pub(super) runs: usize,
    pub(super) selection: Selection,
    pub(super) peers: Peers,
    pub(super) import: Option<Import>,
    pub(super) tree: Option<PathBuf>,
    pub(super) stop: Stop,
    pub(super) progress: Progress,
    pub(super) report: Report,
    pub(super) failed: bool,
}

/// New, empty systems: LaneFS and every peer that could be had.
pub(super) struct Systems {
    pub(super) lane: Lane,
    pub(super) hosts: Vec<Host>,
}

impl Systems {
    /// All of them, LaneFS first.
    pub(super) fn all(&self) -> Vec<&dyn System> {
        let hosts = self.hosts.iter().map(|host| host as &dyn System);
        [&self.lane as &dyn System].into_iter().chain(hosts).collect()
    }
}

/// Values of all runs by system.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Values(BTreeMap<String, Vec<f64>>);

impl Values {
    pub(super) fn add(&mut self, system: &str, value: f64) {
        self.0.entry(system.to_string()).or_default().push(value);
    }

    /// Adds the nanoseconds for one of `count` operations that took `elapsed` together.
    pub(super) fn add_each(&mut self, system: &str, elapsed: Duration, count: usize) {
        self.add(system, elapsed.as_secs_f64() * 1e9 / count.max(1) as f64);
    }

    /// The median of a system.
    pub(super) fn median(&self, system: &str) -> Option<f64> {
        crate::report::Summary::of(self.0.get(system)?).map(|summary| summary.median)
    }

    /// The names of all systems.
    pub(super) fn systems(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The row of these values; `None` without one of LaneFS.
    pub(super) fn row(&self, name: &str, unit: &str) -> Option<Row> {
        let mut peers = self.0.clone();
        let lanefs = peers.remove("lanefs")?;
        Row::new(name, unit, &lanefs, &peers)
    }
}

impl Bench {
    /// Runs a part where one of its rows is asked for. Fails only where the benchmark was stopped; another failure is
    /// noted and the benchmark goes on.
    pub(super) fn part(
        &mut self,
        title: &str,
        rows: &[&str],
        measure: impl FnOnce(&mut Bench) -> Result<()>,
    ) -> Result<()> {
        if !rows.iter().any(|row| self.selection.has(row)) {
            return Ok(());
        }
        self.stop.check()?;
        self.progress.heading(&format!("{title} ..."));
        match measure(self) {
            Ok(()) => Ok(()),
            Err(_) if self.stop.is_set() => Err(Error::Stopped),
            Err(error) => {
                self.failed = true;
                self.note(format!("{title} failed: {error}"));
                Ok(())
            }
        }
    }

    /// Adds a note to the report once, however many parts have it.
    pub(super) fn note(&mut self, text: String) {
        if !self.report.notes.contains(&text) {
            self.progress.note(&text);
            self.report.notes.push(text);
        }
    }

    /// New systems with room for `need`.
    pub(super) fn systems(&mut self, need: Need) -> Result<Systems> {
        self.progress.step("making file systems");
        let ready = self.peers.fresh(need, Medium::Memory, &self.stop)?;
        for note in ready.notes {
            self.note(note);
        }
        Ok(Systems { lane: Lane::new(lane_bytes(need))?, hosts: ready.hosts })
    }

    /// `work` once to warm up and then in every run, on each system in turn. It gets the run's number, 0 for the
    /// warm-up.
    pub(super) fn in_turn(
        &self,
        title: &str,
        systems: &[&dyn System],
        mut work: impl FnMut(&dyn System, usize) -> Result<()>,
    ) -> Result<()> {
        for run in 0..=self.runs {
            for system in systems {
                self.stop.check()?;
                let run_name =
                    if run == 0 { "warm-up".to_string() } else { format!("run {run} of {}", self.runs) };
                self.progress.step(&format!("{title}: {run_name}, {}", system.name()));
                work(*system, run)?;
            }
        }
        Ok(())
    }

    /// Adds a row where it is asked for.
    pub(super) fn row(&mut self, row: Option<Row>) {
        if let Some(row) = row.filter(|row| self.selection.has(&row.name)) {
            self.report.rows.push(row);
        }
    }
}

/// Room for `need` in a volume: twice what an inode with its entry may take. Memory is taken only as it fills.
pub(super) fn lane_bytes(need: Need) -> u64 {
    (512 << 20) + need.inodes * 1024 + need.bytes * 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_a_row_with_lanefs_apart() {
        let mut values = Values::default();
        values.add_each("lanefs", Duration::from_micros(1), 10);
        values.add_each("ext4", Duration::from_micros(5), 10);
        let row = values.row("r", "ns/file").unwrap();
        assert_eq!(row.lanefs.median.round(), 100.0);
        assert_eq!(row.ratio["ext4"].round(), 5.0);
        assert_eq!(row.peers.len(), 1);
        assert_eq!(values.systems().count(), 2);
        assert!(Values::default().row("r", "ns").is_none());
    }
}
