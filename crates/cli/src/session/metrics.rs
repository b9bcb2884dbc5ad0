//! Counters of a mounted volume in the text format of Prometheus: writing and parsing.

use super::publication::StoreCounts;
use lanefs::Volume;
use lanefs_fuse::{BUCKETS, Statistics};
use std::collections::BTreeMap;
use std::fmt::Write;

/// All counters, in the format of <https://prometheus.io/docs/instrumenting/exposition_formats/>.
/// `versions` of the volume are served. `store` has the counters of the store of a publication.
pub fn text(volume: &Volume, counters: &Statistics, versions: usize, store: Option<StoreCounts>) -> String {
    let mut out = String::new();
    push_operations(&mut out, counters);
    push_cache(&mut out, volume);
    push_directory_table(&mut out, volume);
    push_space(&mut out, volume);
    push_state(&mut out, volume);
    let help = "Versions that the mount serves: the current one, and older ones in use.";
    one(&mut out, "versions", "gauge", help, versions as u64);
    store.into_iter().for_each(|store| push_store(&mut out, &store));
    out
}

fn push_operations(out: &mut String, counters: &Statistics) {
    let operations = counters.snapshot();
    head(out, "lanefs_errors_total", "counter", "Requests of the kernel that failed.");
    for one in &operations {
        let _ = writeln!(out, "lanefs_errors_total{{operation=\"{}\"}} {}", one.operation.name(), one.errors);
    }
    head(out, "lanefs_operation_seconds", "histogram", "Time to serve requests of the kernel.");
    for one in &operations {
        let (name, count, seconds) = (one.operation.name(), one.count, one.time.as_secs_f64());
        let mut below = 0;
        for (bucket, count) in one.buckets.iter().enumerate() {
            below += count;
            let bound = match bucket {
                last if last + 1 == BUCKETS => "+Inf".to_string(),
                // The first bucket ends at a microsecond, each further one at twice the previous.
                bucket => format!("{}", 1e-6 * (1u64 << bucket) as f64),
            };
            let labels = format!("operation=\"{name}\",le=\"{bound}\"");
            let _ = writeln!(out, "lanefs_operation_seconds_bucket{{{labels}}} {below}");
        }
        let _ = writeln!(out, "lanefs_operation_seconds_sum{{operation=\"{name}\"}} {seconds}");
        let _ = writeln!(out, "lanefs_operation_seconds_count{{operation=\"{name}\"}} {count}");
    }
}

fn push_cache(out: &mut String, volume: &Volume) {
    let stats = volume.stats();
    let (counter, gauge) = ("counter", "gauge");
    for (name, kind, help, value) in [
        ("fetched_blocks_total", counter, "Blocks read from the device.", stats.blocks_fetched),
        (
            "neighbours_fetched_total",
            counter,
            "Blocks of metadata that were read with another one.",
            stats.neighbours_fetched,
        ),
        (
            "neighbours_used_total",
            counter,
            "Blocks that were read with another one and used later.",
            stats.neighbours_used,
        ),
        ("resident_blocks", gauge, "Blocks in memory.", stats.blocks_resident),
        ("allowed_blocks", gauge, "Blocks that may be in memory.", stats.blocks_allowed),
        (
            "verified_blocks_total",
            counter,
            "Blocks of file data that were compared with their checksums.",
            stats.data_verified,
        ),
        ("wrong_blocks", gauge, "Blocks of file data that do not match their checksums.", stats.data_wrong),
        ("commits_total", counter, "Commits of the journal.", stats.commits),
        ("data_bytes_total", counter, "Bytes of file data written to the device.", stats.data_bytes),
        ("journal_bytes_total", counter, "Bytes written to the journal.", stats.journal_bytes),
        (
            "in_place_bytes_total",
            counter,
            "Bytes copied from the journal to their positions.",
            stats.in_place_bytes,
        ),
    ] {
        one(out, name, kind, help, value);
    }
}

fn push_directory_table(out: &mut String, volume: &Volume) {
    let stats = volume.directory_table();
    let (counter, gauge) = ("counter", "gauge");
    for (name, kind, help, value) in [
        ("directory_table_paths", gauge, "Paths of directories that lookups remember.", stats.paths),
        ("directory_table_bytes", gauge, "Memory of the directory-path table.", stats.bytes),
        ("directory_table_allowed_bytes", gauge, "Memory that the table may take.", stats.limit),
        ("directory_table_hits_total", counter, "Lookups whose directory was known.", stats.hits),
        ("directory_table_misses_total", counter, "Lookups that walked.", stats.misses),
    ] {
        one(out, name, kind, help, value);
    }
}

fn push_space(out: &mut String, volume: &Volume) {
    let Ok(space) = volume.statfs() else { return };
    for (name, help, value) in [
        ("size_bytes", "Size of the volume.", space.blocks * space.block_size),
        ("free_bytes", "Free space.", space.free_blocks * space.block_size),
        ("inodes", "Inodes in use.", space.inodes),
    ] {
        one(out, name, "gauge", help, value);
    }
}

/// The state of the volume.
fn push_state(out: &mut String, volume: &Volume) {
    let help = "1 where damage was met since the last check that left none.";
    one(out, "damaged", "gauge", help, u64::from(volume.superblock().errors));
    let help = "Errno of the write to the device that failed, since when changes are refused; 0: none did.";
    let errno = volume.write_failure().map_or(0, |failure| failure.errno());
    one(out, "write_failure_errno", "gauge", help, u64::try_from(errno).unwrap_or_default());
}

/// The store of a publication.
fn push_store(out: &mut String, store: &StoreCounts) {
    let StoreCounts { counts, failures, fails } = *store;
    let (counter, gauge) = ("counter", "gauge");
    for (name, kind, help, value) in [
        ("store_requests_total", counter, "Requests that the store answered.", counts.requests),
        ("store_bytes_total", counter, "Bytes that the store gave.", counts.bytes),
        ("store_cached_pieces_total", counter, "Pieces that came from the local cache.", counts.cached),
        ("store_failures_total", counter, "Reads that failed, because of the store.", failures),
        ("store_fails", gauge, "1 where the last read of the store failed.", u64::from(fails)),
    ] {
        one(out, name, kind, help, value);
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn one(out: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    let name = format!("lanefs_{name}");
    head(out, &name, kind, help);
    let _ = writeln!(out, "{name} {value}");
}

/// The values of such a text, by name with labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values(BTreeMap<String, f64>);

impl Values {
    /// Parses a text; ignores lines that do not fit the format.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pair = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_string(), value.parse().ok()?))
        };
        Values(lines.filter_map(pair).collect())
    }

    /// A value; 0 if it is missing.
    pub fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// The operations: name, count, seconds, errors.
    pub fn operations(&self) -> impl Iterator<Item = (&str, f64, f64, f64)> {
        let counts = self.0.iter().filter_map(|(name, count)| {
            let name = name.strip_prefix("lanefs_operation_seconds_count{operation=\"")?;
            Some((name.strip_suffix("\"}")?, *count))
        });
        counts.map(|(name, count)| {
            let of = |what: &str| self.get(&format!("{what}{{operation=\"{name}\"}}"));
            (name, count, of("lanefs_operation_seconds_sum"), of("lanefs_errors_total"))
        })
    }

    /// The differences from earlier values.
    pub fn since(&self, before: &Values) -> Values {
        Values(self.0.iter().map(|(name, value)| (name.clone(), value - before.get(name))).collect())
    }

    /// The quantile of an operation's time in seconds, rounded up to the end of its bucket. `None` without
    /// requests, or if it lies in the last bucket.
    pub fn quantile(&self, operation: &str, share: f64) -> Option<f64> {
        let start = format!("lanefs_operation_seconds_bucket{{operation=\"{operation}\",le=\"");
        let steps = self.0.iter().filter_map(|(name, count)| {
            let bound = name.strip_prefix(&start)?.strip_suffix("\"}")?;
            Some((bound.parse::<f64>().unwrap_or(f64::INFINITY), *count))
        });
        let mut steps: Vec<(f64, f64)> = steps.collect();
        steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        let all = steps.last().map(|(_, count)| *count).filter(|count| *count > 0.0)?;
        let step = steps.into_iter().find(|(_, count)| *count >= share * all)?;
        step.0.is_finite().then_some(step.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanefs::CreateOptions;

    #[test]
    fn what_is_written_is_understood_again() {
        let volume = Volume::create_memory(&CreateOptions::default()).expect("a volume");
        let store = StoreCounts { failures: 7, fails: true, ..StoreCounts::default() };
        let text = text(&volume, &Statistics::default(), 1, Some(store));
        let values = Values::parse(&text);
        assert!(values.get("lanefs_size_bytes") > values.get("lanefs_free_bytes"));
        assert!(values.operations().count() > 20);
        assert_eq!((values.get("lanefs_store_failures_total"), values.get("lanefs_store_fails")), (7.0, 1.0));
        assert!(values.operations().all(|(_, count, seconds, errors)| count + seconds + errors == 0.0));
        // Each name has its type in the line above its first value.
        for line in text.lines().filter(|line| line.starts_with("# TYPE")) {
            let name = line.split(' ').nth(2).expect("a name");
            assert!(text.contains(&format!("# HELP {name} ")), "{name}");
        }
        assert_eq!(values.quantile("lookup", 0.5), None);
    }

    #[test]
    fn differences_and_quantiles() {
        let at = |fast: u32, slow: u32| {
            let bucket = |le: &str, n: u32| {
                format!("lanefs_operation_seconds_bucket{{operation=\"read\",le=\"{le}\"}} {n}\n")
            };
            let all = fast + slow;
            let text = bucket("0.000001", fast) + &bucket("0.001", all) + &bucket("+Inf", all);
            Values::parse(
                &(text + &format!("lanefs_operation_seconds_count{{operation=\"read\"}} {all}\nnot this\n")),
            )
        };
        let between = at(12, 5).since(&at(2, 1));
        assert_eq!(
            between.operations().map(|(name, count, ..)| (name, count)).collect::<Vec<_>>(),
            [("read", 14.0)]
        );
        assert_eq!(between.quantile("read", 0.5), Some(1e-6));
        assert_eq!(between.quantile("read", 0.99), Some(1e-3));
    }
}
