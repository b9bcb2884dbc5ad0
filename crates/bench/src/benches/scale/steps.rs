//! The workers, and what they have measured.

use super::ScaleSizes;
use super::rows::{RowOf, Step, StepOutcome};
use super::worker::ScaleWorkerArgs;
use crate::error::{Error, Result};
use crate::measure::report::{Summary, Table, short};
use crate::session::Session;
use crate::systems::peers::run_prepared;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// A step that takes longer is not repeated.
const LONG: Duration = Duration::from_secs(10);

/// Sizes and further settings of a run.
pub(super) struct Settings {
    pub(super) sizes: ScaleSizes,
    pub(super) program: PathBuf,
    /// No file of the host holds the volumes.
    pub(super) packed: bool,
}

pub(super) type ScaleBench = Session<Settings>;

/// Values of all runs by row and column.
#[derive(Default)]
pub(super) struct Measured {
    values: BTreeMap<(String, usize), Vec<f64>>,
    long: BTreeSet<(Step, usize)>,
}

impl Measured {
    /// Runs a worker, unless it took long in the same column before. Returns whether it ran.
    pub(super) fn step(&mut self, bench: &ScaleBench, column: usize, args: &ScaleWorkerArgs) -> Result<bool> {
        if self.long.contains(&(args.step, column)) {
            return Ok(false);
        }
        bench.stop.check()?;
        bench.progress.step(&format!("run {}: {:?} in {} bytes", args.run + 1, args.step, args.bytes));
        let mut command = Command::new(&bench.settings.program);
        command.args(args.arguments());
        let start = Instant::now();
        let output = run_prepared(command, &bench.stop)?;
        if start.elapsed() > LONG {
            self.long.insert((args.step, column));
        }
        let outcome: StepOutcome = serde_json::from_str(output.trim()).map_err(|error| Error::Command {
            command: "scale-worker".into(),
            message: format!("no values: {error}"),
        })?;
        for (row, value) in outcome.0 {
            self.values.entry((row, column)).or_default().push(value);
        }
        Ok(true)
    }

    pub(super) fn get(&self, row: &str, column: usize) -> Option<Summary> {
        Summary::of(self.values.get(&(row.to_string(), column))?)
    }

    /// Returns a table for people of some rows: `heading` names the columns. All are compared with the first
    /// that has a value.
    pub(super) fn table(&self, title: String, heading: &[String], rows: &[RowOf]) -> Table {
        let first = ["row".to_string()].into_iter().chain(heading.iter().cloned());
        let mut lines = vec![first.collect::<Vec<_>>()];
        for (name, unit, _) in rows {
            let medians: Vec<Option<f64>> =
                (0..heading.len()).map(|column| self.get(name, column).map(|found| found.median)).collect();
            let Some((first, own)) = medians.iter().enumerate().find_map(|(i, found)| Some((i, (*found)?)))
            else {
                continue;
            };
            let cells = medians.iter().enumerate().map(|(column, median)| match median {
                None => "-".into(),
                Some(median) if column == first || own == 0.0 => shown(*median, unit),
                Some(median) => format!("{} ({}x)", shown(*median, unit), short(median / own)),
            });
            lines.push([(*name).to_string()].into_iter().chain(cells).collect());
        }
        Table { title, lines }
    }
}

/// Writes a value with a unit that people read at a glance.
fn shown(value: f64, unit: &str) -> String {
    let (unit, per) =
        unit.split_once('/').map_or((unit, String::new()), |(unit, per)| (unit, format!("/{per}")));
    let (value, unit) = match unit {
        "ns" if value >= 1e9 => (value / 1e9, "s"),
        "ns" if value >= 1e6 => (value / 1e6, "ms"),
        "ns" if value >= 1e3 => (value / 1e3, "us"),
        "bytes" => (value / f64::from(1 << 20), "MiB"),
        unit => (value, unit),
    };
    format!("{} {unit}{per}", short(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_readable_units() {
        assert_eq!(shown(2.5e9, "ns"), "2.50 s");
        assert_eq!(shown(4_300.0, "ns/file"), "4.30 us/file");
        assert_eq!(shown(f64::from(3 << 20), "bytes"), "3.00 MiB");
        assert_eq!(shown(12.0, "blocks"), "12.0 blocks");
    }

    #[test]
    fn a_table_compares_each_column_with_the_first() {
        let mut measured = Measured::default();
        for (column, value) in [(0, 100.0), (1, 150.0)] {
            measured.values.insert(("a".into(), column), vec![value; 3]);
        }
        let heading = ["1 GiB", "1 TiB", "2 TiB"].map(Into::into);
        let rows = [("a", "ns", Step::Make), ("b", "ns", Step::Make)];
        let table = measured.table("t".into(), &heading, &rows);
        assert_eq!(table.lines[1], ["a", "100 ns", "150 ns (1.50x)", "-"]);
        assert_eq!(table.lines.len(), 2);
    }
}
