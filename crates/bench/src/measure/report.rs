//! Statistics, the object for machines and the table for people.

use super::machine::Machine;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Summary of the runs of one system in one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Summary {
    /// Middle value; the mean of the two middle ones if the number of runs is even.
    pub median: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Number of runs.
    pub runs: usize,
}

impl Summary {
    /// Summarises the values of all runs; `None` without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Summary { median: f64::midpoint(low, high), min, max, runs: sorted.len() })
    }
}

/// A goal that the design sets for a row.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Goal {
    /// The goal in words, e.g. `ext4 >= 10`.
    pub text: String,
    /// Whether this run reached it.
    pub reached: bool,
}

/// Direction in which values of a row are better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// A cost: time or space for one thing.
    #[default]
    Less,
    /// A rate.
    More,
}

/// One row.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Row {
    /// Stable name in kebab-case.
    pub name: String,
    /// Sizes and settings that the values depend on.
    pub params: BTreeMap<String, Value>,
    /// Unit of all values, e.g. `ns/path`.
    pub unit: String,
    /// Whether less or more of it is better. Reports of before rates have none.
    #[serde(default)]
    pub better: Better,
    /// Values of LaneFS.
    pub lanefs: Summary,
    /// Values of the peers, by name.
    pub peers: BTreeMap<String, Summary>,
    /// Median of the peer over that of LaneFS, for a rate the inverse: above 1 if LaneFS is better.
    pub ratio: BTreeMap<String, f64>,
    /// Further medians of LaneFS or of peers, named with their unit; not compared.
    pub extra: BTreeMap<String, f64>,
    /// Goals of this row.
    pub goals: Vec<Goal>,
    /// Remarks about these values.
    pub notes: Vec<String>,
}

impl Row {
    /// Makes a row of costs from the values of all runs; `None` if LaneFS has none.
    pub fn new(name: &str, unit: &str, lanefs: &[f64], peers: &BTreeMap<String, Vec<f64>>) -> Option<Self> {
        let lanefs = Summary::of(lanefs)?;
        let peers: BTreeMap<String, Summary> =
            peers.iter().filter_map(|(name, values)| Some((name.clone(), Summary::of(values)?))).collect();
        let ratio = peers
            .iter()
            .filter(|_| lanefs.median > 0.0)
            .map(|(name, peer)| (name.clone(), peer.median / lanefs.median))
            .collect();
        Some(Row { name: name.into(), unit: unit.into(), lanefs, peers, ratio, ..Row::default() })
    }

    /// Makes a row of rates, of which more is better.
    pub fn rate(name: &str, unit: &str, lanefs: &[f64], peers: &BTreeMap<String, Vec<f64>>) -> Option<Self> {
        let mut row = Row { better: Better::More, ..Row::new(name, unit, lanefs, peers)? };
        row.ratio.retain(|_, ratio| *ratio > 0.0);
        row.ratio.values_mut().for_each(|ratio| *ratio = ratio.recip());
        Some(row)
    }

    /// Adds a setting.
    pub fn param(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.params.insert(name.into(), value.into());
        self
    }

    /// Adds a further value.
    pub fn extra(mut self, name: &str, value: f64) -> Self {
        self.extra.insert(name.into(), value);
        self
    }

    /// Adds a goal.
    pub fn goal(mut self, text: impl Into<String>, reached: bool) -> Self {
        self.goals.push(Goal { text: text.into(), reached });
        self
    }

    /// Adds the goal of a ratio to one peer of at least `least`; adds nothing without that peer.
    pub fn goal_ratio(self, peer: &str, least: f64) -> Self {
        match self.ratio.get(peer) {
            Some(&ratio) => self.goal(format!("{peer} >= {least}"), ratio >= least),
            None => self,
        }
    }

    /// Adds a remark.
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }
}

/// Results of one benchmark.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Report {
    /// Name of the benchmark, e.g. `namespace`.
    pub bench: String,
    /// Commit of the code; ends with `+changes` if files differ from it; empty if unknown.
    pub commit: String,
    /// Machine of the run.
    pub machine: Machine,
    /// Remarks about all rows, e.g. the reason for a missing peer.
    pub notes: Vec<String>,
    /// The rows in the order measured.
    pub rows: Vec<Row>,
    /// Further tables for people, with values of `extra`.
    #[serde(skip)]
    pub tables: Vec<Table>,
}

/// A table for people: a title and lines of cells, the first of them the heading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Title.
    pub title: String,
    /// Heading and rows.
    pub lines: Vec<Vec<String>>,
}

impl Report {
    /// Returns the object for machines: one line of JSON.
    pub fn json(&self) -> String {
        // Every field is a string, number, map or list of those: serialisation cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the table for people.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{} on {}, {} cores, {}\n",
            self.bench, self.machine.processor, self.machine.cores, self.machine.kernel
        );
        text += "median (min..max) of all runs, less is better (of MB/s, Mop/s and kop/s more); x > 1: LaneFS is so many times better\n\n";
        for (i, block) in blocks(&self.rows).into_iter().enumerate() {
            let peers: BTreeSet<&str> = block.iter().flat_map(shown_peers).collect();
            let peers: Vec<&str> = peers.into_iter().collect();
            let mut lines = vec![heading(&peers)];
            lines.extend(block.iter().map(|row| cells(row, &peers)));
            text += if i > 0 { "\n" } else { "" };
            text += &aligned(&lines, 2);
        }
        for table in &self.tables {
            let _ = writeln!(text, "\n{}\n\n{}", table.title, aligned(&table.lines, 0));
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        for row in &self.rows {
            for (name, peer) in row.peers.iter().filter(|(name, _)| name.contains('-')) {
                let ratio = row.ratio.get(name).map_or("-".into(), |ratio| short(*ratio));
                let _ = writeln!(text, "{}: {name} {} {}, {ratio}x", row.name, spread(peer), row.unit);
            }
            for note in &row.notes {
                let _ = writeln!(text, "{}: {note}", row.name);
            }
        }
        text
    }
}

/// Lists the peers that have columns. A variant of a peer (`ext4-mknod`) has only one row: it goes below the
/// table, which keeps to a screen's width.
fn shown_peers(row: &Row) -> impl Iterator<Item = &str> {
    row.peers.keys().map(String::as_str).filter(|name| !name.contains('-'))
}

/// Number of peers from which a column has only medians and ratios: a screen has no room for more.
const MANY_PEERS: usize = 4;

/// Groups rows into tables: a row begins another table if it has no peer in common with those before.
fn blocks(rows: &[Row]) -> Vec<&[Row]> {
    let (mut blocks, mut start, mut peers) = (Vec::new(), 0, BTreeSet::new());
    for (i, row) in rows.iter().enumerate() {
        let own: BTreeSet<&str> = shown_peers(row).collect();
        if !own.is_empty() && !peers.is_empty() && own.is_disjoint(&peers) {
            blocks.push(&rows[start..i]);
            (start, peers) = (i, BTreeSet::new());
        }
        peers.extend(own);
    }
    blocks.push(&rows[start..]);
    blocks
}

fn heading(peers: &[&str]) -> Vec<String> {
    let mut cells = vec!["row".to_string(), "unit".into(), "lanefs".into()];
    for peer in peers {
        cells.push((*peer).into());
        if peers.len() < MANY_PEERS {
            cells.push("x".into());
        }
    }
    cells.push("goal".into());
    cells.push("reached".into());
    cells
}

fn cells(row: &Row, peers: &[&str]) -> Vec<String> {
    let mut cells = vec![row.name.clone(), row.unit.clone(), spread(&row.lanefs)];
    for peer in peers {
        let ratio = row.ratio.get(*peer).map_or("-".into(), |ratio| format!("{}x", short(*ratio)));
        if peers.len() < MANY_PEERS {
            cells.push(row.peers.get(*peer).map_or("-".into(), spread));
            cells.push(ratio);
        } else {
            let median = row.peers.get(*peer).map_or("-".into(), |peer| short(peer.median));
            cells.push(format!("{median} {ratio:>5}"));
        }
    }
    let goals: Vec<&str> = row.goals.iter().map(|goal| goal.text.as_str()).collect();
    let reached: Vec<&str> = row.goals.iter().map(|goal| if goal.reached { "yes" } else { "NO" }).collect();
    for list in [goals, reached] {
        cells.push(if list.is_empty() { "-".into() } else { list.join(", ") });
    }
    cells
}

fn spread(summary: &Summary) -> String {
    if summary.runs == 1 {
        return short(summary.median);
    }
    format!("{} ({}..{})", short(summary.median), short(summary.min), short(summary.max))
}

/// Formats a value with three significant digits and no exponent.
pub(crate) fn short(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// Aligns cells to columns as wide as their widest cell; the first two and the `last` last ones to the left,
/// numbers to the right.
fn aligned(lines: &[Vec<String>], last: usize) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |c: usize| lines.iter().filter_map(|l| l.get(c)).map(|s| s.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let mut row = String::new();
        for (c, cell) in line.iter().enumerate() {
            let width = widths[c];
            let left = c < 2 || c + last >= columns;
            let _ = if left { write!(row, "{cell:<width$}  ") } else { write!(row, "{cell:>width$}  ") };
        }
        text += row.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(values: &[(&str, &[f64])]) -> BTreeMap<String, Vec<f64>> {
        values.iter().map(|(name, values)| ((*name).into(), values.to_vec())).collect()
    }

    #[test]
    fn median_of_odd_even_one_and_none() {
        assert_eq!(Summary::of(&[3.0, 1.0, 2.0]), Some(Summary { median: 2.0, min: 1.0, max: 3.0, runs: 3 }));
        assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        assert_eq!(Summary::of(&[7.0]).unwrap().median, 7.0);
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn ratio_is_above_one_where_lanefs_is_cheaper() {
        let row =
            Row::new("r", "ns", &[2.0], &peers(&[("ext4", &[10.0, 30.0, 20.0]), ("tmpfs", &[1.0])])).unwrap();
        assert_eq!(row.ratio["ext4"], 10.0);
        assert_eq!(row.ratio["tmpfs"], 0.5);
        let row = row.goal_ratio("ext4", 10.0).goal_ratio("tmpfs", 4.0).goal_ratio("absent", 1.0);
        let reached: Vec<bool> = row.goals.iter().map(|g| g.reached).collect();
        assert_eq!(reached, [true, false]);
        let row = Row::rate("r", "MB/s", &[20.0], &peers(&[("fio", &[10.0]), ("none", &[0.0])])).unwrap();
        assert_eq!((row.ratio["fio"], row.ratio.len(), row.better), (2.0, 1, Better::More));
        assert!(Row::new("r", "ns", &[], &peers(&[])).is_none());
        assert!(Row::new("r", "ns", &[0.0], &peers(&[("ext4", &[1.0])])).unwrap().ratio.is_empty());
    }

    #[test]
    fn json_has_the_shape_that_scripts_read() {
        let row = Row::new("create-flat", "ns/file", &[1.0, 3.0], &peers(&[("ext4", &[4.0])])).unwrap();
        let report = Report {
            bench: "namespace".into(),
            rows: vec![row.param("files", 5).extra("absent_ns", 1.5).goal("g", true).note("n")],
            ..Report::default()
        };
        let value: Value = serde_json::from_str(&report.json()).unwrap();
        for key in ["processor", "cores", "memory", "kernel", "gpu"] {
            assert!(value["machine"].get(key).is_some(), "{key}");
        }
        assert_eq!(value["bench"], "namespace");
        assert_eq!(value["commit"], "");
        let row = &value["rows"][0];
        assert_eq!(row["name"], "create-flat");
        assert_eq!(row["params"]["files"], 5);
        assert_eq!(row["better"], "less");
        assert_eq!(row["unit"], "ns/file");
        assert_eq!(row["lanefs"], serde_json::json!({"median": 2.0, "min": 1.0, "max": 3.0, "runs": 2}));
        assert_eq!(row["peers"]["ext4"]["runs"], 1);
        assert_eq!(row["ratio"]["ext4"], 2.0);
        assert!(!report.json().contains('\n'));
    }

    #[test]
    fn rows_with_other_peers_stand_in_another_table() {
        let row = |name: &str, peer: &[&str]| {
            let values = peer.iter().map(|peer| ((*peer).to_string(), vec![1.0])).collect();
            Row::new(name, "ns", &[1.0], &values).unwrap()
        };
        let rows = [
            row("a", &["ext4"]),
            row("b", &[]),
            row("c", &["ext4", "tmpfs"]),
            row("d", &["tmpfs", "ext4-mknod"]),
            row("e", &["fio"]),
            row("f", &["ext4"]),
        ];
        let names = |block: &[Row]| block.iter().map(|row| row.name.as_str()).collect::<String>();
        let found: Vec<String> = blocks(&rows).into_iter().map(names).collect();
        assert_eq!(found, ["abcd", "e", "f"]);
        assert!(!Report::default().table().is_empty());
    }

    #[test]
    fn many_peers_have_narrow_columns() {
        let names = ["glibc", "jemalloc", "mimalloc", "rpmalloc"];
        let values = names.map(|name| (name.to_string(), vec![3.0, 5.0])).into();
        let row = Row::rate("larson", "Mop/s", &[8.0], &values).unwrap();
        let report = Report { rows: vec![row, Row::default()], ..Report::default() };
        let table = report.table();
        assert_eq!(table.matches("4.00 2.00x").count(), 4, "{table}");
        assert!(!table.contains("3.00..5.00") && !table.contains("  x  "), "{table}");
    }

    #[test]
    fn table_lines_up_and_names_every_row_and_note() {
        let mut report = Report { notes: vec!["no tmpfs".into()], ..Report::default() };
        report
            .rows
            .push(Row::new("a", "ns", &[1.0], &peers(&[("ext4", &[1234.5, 2.0])])).unwrap().note("odd"));
        report.rows.push(Row::new("longer", "bytes", &[399.9], &peers(&[])).unwrap().goal("<= 450", true));
        let table = report.table();
        assert!(table.contains("618 (2.00..1234)") || table.contains("618 (2.00..1235)"), "{table}");
        assert!(table.contains("note: no tmpfs") && table.contains("a: odd") && table.contains("<= 450"));
        let mut other = peers(&[("ext4-mknod", &[4.0])]);
        other.insert("ext4".into(), vec![3.0]);
        report.rows.push(Row::new("create-flat", "ns/file", &[2.0], &other).unwrap());
        assert!(report.table().contains("create-flat: ext4-mknod 4.00 ns/file, 2.00x"), "{}", report.table());
        let cells = |cells: [&str; 3]| cells.map(String::from).to_vec();
        let lines = vec![cells(["files", "system", "user s"]), cells(["100", "ext4", "1.5"])];
        report.tables.push(Table { title: "processor time".into(), lines });
        assert!(report.table().contains("processor time\n\nfiles  system  user s\n100    ext4       1.5"));
        assert_eq!(short(0.0), "0");
        assert_eq!(short(12.34), "12.3");
        assert_eq!(short(0.1234), "0.123");
    }
}
