//! Values of all runs of a row, by system.

use super::report::{Row, Summary};
use std::collections::BTreeMap;
use std::time::Duration;

/// Name of LaneFS in reports.
pub(crate) const LANEFS: &str = "lanefs";

type ByName = BTreeMap<String, Vec<f64>>;

/// Values of all runs by system.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Values(ByName);

impl Values {
    pub(crate) fn add(&mut self, system: &str, value: f64) {
        self.0.entry(system.to_string()).or_default().push(value);
    }

    /// Adds the nanoseconds for one of `count` operations that took `elapsed` in all.
    pub(crate) fn add_each(&mut self, system: &str, elapsed: Duration, count: usize) {
        self.add(system, elapsed.as_secs_f64() * 1e9 / count.max(1) as f64);
    }

    /// Returns the median of a system.
    pub(crate) fn median(&self, system: &str) -> Option<f64> {
        Summary::of(self.0.get(system)?).map(|summary| summary.median)
    }

    /// Returns the medians of all systems by name.
    pub(crate) fn medians(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().filter_map(|(name, values)| Some((name.as_str(), Summary::of(values)?.median)))
    }

    /// Returns the names of all systems.
    pub(crate) fn systems(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Makes a row of costs; `None` without a value of LaneFS.
    pub(crate) fn row(&self, name: &str, unit: &str) -> Option<Row> {
        let (lanefs, peers) = self.apart()?;
        Row::new(name, unit, &lanefs, &peers)
    }

    /// Makes a row of rates; `None` without a value of LaneFS.
    pub(crate) fn rate_row(&self, name: &str, unit: &str) -> Option<Row> {
        let (lanefs, peers) = self.apart()?;
        Row::rate(name, unit, &lanefs, &peers)
    }

    fn apart(&self) -> Option<(Vec<f64>, ByName)> {
        let mut peers = self.0.clone();
        Some((peers.remove(LANEFS)?, peers))
    }
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
        assert_eq!(values.rate_row("r", "MB/s").unwrap().ratio["ext4"], 0.2);
        assert_eq!(row.peers.len(), 1);
        assert_eq!(values.systems().count(), 2);
        assert_eq!(values.medians().map(|(_, median)| median.round()).sum::<f64>(), 600.0);
        assert!(Values::default().row("r", "ns").is_none());
    }
}
