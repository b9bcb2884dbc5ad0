//! Counters of a mounted volume, in the text format of Prometheus, and back.

use lanefs::Volume;
use lanefs_fuse::{BUCKETS, Statistics};
use std::collections::BTreeMap;
use std::fmt::Write;

/// All counters, as <https://prometheus.io/docs/instrumenting/exposition_formats/> has them.
pub fn text(volume: &Volume, counters: &Statistics) -> String {
    let mut out = String::new();
    let operations = counters.snapshot();
    head(&mut out, "lanefs_errors_total", "counter", "Requests of the kernel that were refused.");
    for one in &operations {
        let _ = writeln!(out, "lanefs_errors_total{{operation=\"{}\"}} {}", one.operation.name(), one.errors);
    }
    head(&mut out, "lanefs_operation_seconds", "histogram", "Time that requests of the kernel took.");
    for one in &operations {
        let name = one.operation.name();
        let mut below = 0;
        for (step, count) in one.buckets.iter().enumerate() {
            below += count;
            let bound = match step {
                last if last + 1 == BUCKETS => "+Inf".to_string(),
                // The first step ends at a microsecond, each further one at twice the last.
                step => format!("{}", 1e-6 * (1u64 << step) as f64),
            };
            let _ = writeln!(
                out,
                "lanefs_operation_seconds_bucket{{operation=\"{name}\",le=\"{bound}\"}} {below}"
            );
        }
        let _ =
            writeln!(out, "lanefs_operation_seconds_sum{{operation=\"{name}\"}} {}", one.time.as_secs_f64());
        let _ = writeln!(out, "lanefs_operation_seconds_count{{operation=\"{name}\"}} {}", one.count);
    }
    let stats = volume.stats();
    for (name, kind, what, value) in [
        (
            "fetched_blocks_total",
            "counter",
            "Blocks of 4 KiB read from the device: cache misses.",
            stats.blocks_fetched,
        ),
        ("resident_blocks", "gauge", "Blocks of 4 KiB in memory.", stats.blocks_resident),
        ("allowed_blocks", "gauge", "Blocks of 4 KiB that may be in memory.", stats.blocks_allowed),
        ("commits_total", "counter", "Commits of the journal.", stats.commits),
        ("data_bytes_total", "counter", "Bytes of file data written to the device.", stats.data_bytes),
        ("journal_bytes_total", "counter", "Bytes written to the journal.", stats.journal_bytes),
        (
            "in_place_bytes_total",
            "counter",
            "Bytes that went from the journal to their places.",
            stats.in_place_bytes,
        ),
    ] {
        one(&mut out, name, kind, what, value);
    }
    if let Ok(space) = volume.statfs() {
        for (name, what, value) in [
            ("size_bytes", "Size of the volume.", space.blocks * space.block_size),
            ("free_bytes", "Free space.", space.free_blocks * space.block_size),
            ("inodes", "Inodes in use.", space.inodes),
        ] {
            one(&mut out, name, "gauge", what, value);
        }
    }
    out
}

fn head(out: &mut String, name: &str, kind: &str, what: &str) {
    let _ = writeln!(out, "# HELP {name} {what}\n# TYPE {name} {kind}");
}

fn one(out: &mut String, name: &str, kind: &str, what: &str, value: u64) {
    let name = format!("lanefs_{name}");
    head(out, &name, kind, what);
    let _ = writeln!(out, "{name} {value}");
}

/// The values of such a text, by name and labels as they stand there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values(BTreeMap<String, f64>);

impl Values {
    /// Reads a text; lines that are none of it are left out.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pair = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_string(), value.parse().ok()?))
        };
        Values(lines.filter_map(pair).collect())
    }

    /// A value; 0 where it is missing.
    pub fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// The operations, with how many there were, what they took in seconds, and how many failed.
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

    /// What was counted since an earlier moment.
    pub fn since(&self, before: &Values) -> Values {
        Values(self.0.iter().map(|(name, value)| (name.clone(), value - before.get(name))).collect())
    }

    /// The time in seconds below which this share of an operation's requests stayed, to a factor of two; `None` without any, or
    /// where the histogram ends below.
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
        let text = text(&volume, &Statistics::default());
        let values = Values::parse(&text);
        assert!(values.get("lanefs_size_bytes") > values.get("lanefs_free_bytes"));
        assert!(values.operations().count() > 20);
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
