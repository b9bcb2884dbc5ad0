//! The requests of the kernel to the server of a mount, by kind, as `lanefs top` counts them.

use super::bench::MountBench;
use crate::error::Result;
use crate::measure::report::{Row, Table};
use crate::systems::peers::run_prepared;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Numbers of requests by kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RequestCounts(BTreeMap<String, u64>);

impl RequestCounts {
    /// Returns the requests to a mount of LaneFS so far.
    pub(super) fn of(bench: &MountBench, mount: &Path) -> Result<Self> {
        let mut command = Command::new(&bench.settings.lanefs);
        command.arg("top").arg(mount).arg("--prometheus");
        run_prepared(command, &bench.stop).map(|text| RequestCounts::parse(&text))
    }

    /// Reads the text format of Prometheus.
    fn parse(text: &str) -> Self {
        let counts = text.lines().filter_map(|line| {
            let (kind, count) =
                line.strip_prefix("lanefs_operation_seconds_count{operation=\"")?.split_once("\"} ")?;
            Some((kind.to_string(), count.parse().ok()?))
        });
        RequestCounts(counts.collect())
    }

    /// The requests since an earlier count.
    pub(super) fn since(&self, before: &RequestCounts) -> Self {
        let of = |kind: &str| before.0.get(kind).copied().unwrap_or_default();
        RequestCounts(
            self.0.iter().map(|(kind, count)| (kind.clone(), count.saturating_sub(of(kind)))).collect(),
        )
    }

    /// The kinds that occurred, the most frequent first. Forgets are left out: the kernel sends many in one
    /// request, and nobody waits for them.
    pub(super) fn by_kind(&self) -> Vec<(&str, u64)> {
        let occurred = self.0.iter().filter(|(kind, count)| **count > 0 && *kind != "forget");
        let mut kinds: Vec<_> = occurred.map(|(kind, count)| (kind.as_str(), *count)).collect();
        kinds.sort_by_key(|(kind, count)| (std::cmp::Reverse(*count), *kind));
        kinds
    }

    /// All requests but forgets.
    pub(super) fn all(&self) -> u64 {
        self.by_kind().into_iter().map(|(_, count)| count).sum()
    }
}

/// Adds the requests of a row to it.
pub(super) fn described(row: Row, requests: &RequestCounts) -> Row {
    let row = row.extra("requests", requests.all() as f64);
    let kinds = requests.by_kind().into_iter();
    kinds.fold(row, |row, (kind, count)| row.extra(&format!("requests-{kind}"), count as f64))
}

/// Makes the table of the requests of each row of a part.
pub(super) fn table(part: &str, rows: &[(&str, RequestCounts)]) -> Table {
    let mut lines = vec![vec!["row".into(), "requests".into(), "by kind".into()]];
    lines.extend(rows.iter().map(|(row, requests)| {
        let kinds: Vec<_> =
            requests.by_kind().into_iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        vec![(*row).to_string(), requests.all().to_string(), kinds.join(", ")]
    }));
    Table { title: format!("Requests of the kernel to LaneFS in the last run of {part}"), lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_and_subtracted() {
        let text = "# TYPE lanefs_operation_seconds histogram\n\
                    lanefs_operation_seconds_count{operation=\"lookup\"} 12\n\
                    lanefs_operation_seconds_sum{operation=\"lookup\"} 0.5\n\
                    lanefs_operation_seconds_count{operation=\"forget\"} 9\n\
                    lanefs_operation_seconds_count{operation=\"read\"} 3\n";
        let (before, now) = (RequestCounts::parse(text), RequestCounts::parse(&text.replace("} 12", "} 30")));
        assert_eq!(before.by_kind(), [("lookup", 12), ("read", 3)]);
        let since = now.since(&before);
        assert_eq!((since.by_kind(), since.all()), (vec![("lookup", 18)], 18));
        let row = described(Row::default(), &before);
        assert_eq!((row.extra["requests"], row.extra["requests-read"], row.extra.len()), (15.0, 3.0, 3));
        let table = table("a part", &[("row", before)]);
        assert_eq!(table.lines[1], ["row", "15", "lookup 12, read 3"]);
    }
}
