//! `lookup-wide-N`: random names of one directory of N entries.

use super::bench::NamespaceBench;
use super::rows::wide_name;
use crate::error::Result;
use crate::measure::machine::available_memory;
use crate::measure::values::Values;
use crate::systems::lane::{BATCH, Lane, bytes_for};
use crate::systems::peers::SpaceRequest;
use crate::systems::system::{Create, Expect, System};
use crate::systems::workload::{Strings, absent_name, flat_name, flat_names, sampled};
use std::ffi::CString;

/// Largest directory on the peers: a larger one takes them minutes and more memory than most machines have,
/// and ext4 ends near ten million entries.
const PEER_ENTRIES: usize = 1_000_000;

/// Maximum memory of LaneFS for an entry, with the names and requests of the benchmark.
const MEMORY_PER_ENTRY: u64 = 700;

/// Limit of a lookup's cost in the largest directory that fits the last-level cache, over one of one entry.
const GOAL_GROWTH: f64 = 1.4;

/// A directory under measurement.
struct Wide {
    entries: usize,
    name: CString,
    found: Strings,
    absent: Strings,
    /// Whether only LaneFS has it.
    lane_only: bool,
    /// Its space in LaneFS, in bytes.
    lane_bytes: u64,
    found_times: Values,
    absent_times: Values,
}

impl Wide {
    fn new(entries: usize, lookups: usize) -> Self {
        let chosen = sampled(entries, lookups);
        Wide {
            entries,
            name: CString::new(format!("wide-{entries}")).unwrap_or_default(),
            found: chosen.iter().map(|&i| flat_name(i)).collect(),
            absent: chosen.iter().map(|&i| absent_name(i)).collect(),
            lane_only: entries > PEER_ENTRIES,
            lane_bytes: 0,
            found_times: Values::default(),
            absent_times: Values::default(),
        }
    }

    /// Makes the directory; returns its space in bytes, if the system reports it.
    fn fill(&self, system: &dyn System, bench: &NamespaceBench) -> Result<u64> {
        bench.progress.step(&format!("making a directory of {}, {}", self.entries, system.name()));
        let before = system.used_bytes()?.unwrap_or(0);
        system.make_directory(&self.name)?;
        system.create_files(&self.name, &flat_names(self.entries), Create::Node, &bench.stop)?;
        system.settle()?;
        Ok(system.used_bytes()?.unwrap_or(0).saturating_sub(before))
    }
}

pub(super) fn measure(bench: &mut NamespaceBench) -> Result<()> {
    // The others are compared with one entry, so it is always measured.
    let steps: Vec<usize> = bench
        .settings
        .sizes
        .wide_steps()
        .into_iter()
        .filter(|&n| n == 1 || bench.selection.has(&wide_name(n)))
        .collect();
    let (shared, own): (Vec<usize>, Vec<usize>) = steps.iter().partition(|&&n| n <= PEER_ENTRIES);
    let inodes = shared.iter().sum::<usize>() as u64 + 10;
    let systems = bench.systems(SpaceRequest { inodes, bytes: inodes * 100 })?;
    let mut directories: Vec<Wide> =
        shared.iter().map(|&n| Wide::new(n, bench.settings.sizes.wide_lookups)).collect();
    for wide in &mut directories {
        wide.lane_bytes = wide.fill(&systems.lane, bench)?;
        for host in &systems.hosts {
            wide.fill(host, bench)?;
        }
    }
    let mut lanes: Vec<Lane> = Vec::new();
    for entries in own {
        let needed = entries as u64 * MEMORY_PER_ENTRY;
        let available = available_memory();
        if needed > available {
            let (needed, available) = (needed >> 20, available >> 20);
            bench.note(format!(
                "{} is left out: it takes {needed} MiB of memory and {available} MiB are available",
                wide_name(entries)
            ));
            continue;
        }
        let mut wide = Wide::new(entries, bench.settings.sizes.wide_lookups);
        let lane = Lane::new(bytes_for(SpaceRequest { inodes: entries as u64, bytes: 0 }))?;
        wide.lane_bytes = wide.fill(&lane, bench)?;
        directories.push(wide);
        lanes.push(lane);
    }
    look_up(bench, &systems.all(), &lanes, &mut directories)?;
    let base = directories.first().and_then(|wide| wide.found_times.median("lanefs")).unwrap_or(0.0);
    for wide in &directories {
        add_row(bench, wide, base);
    }
    Ok(())
}

/// Measures all sizes in every run, so that a drift hits small and large ones alike.
fn look_up(
    bench: &NamespaceBench,
    all: &[&dyn System],
    lanes: &[Lane],
    directories: &mut [Wide],
) -> Result<()> {
    for run in 0..=bench.runs {
        let mut own = lanes.iter();
        for wide in directories.iter_mut() {
            bench
                .progress
                .step(&format!("lookups in a directory of {}: run {run} of {}", wide.entries, bench.runs));
            let alone = if wide.lane_only { own.next().map(|lane| lane as &dyn System) } else { None };
            let systems = alone.as_slice();
            for system in if wide.lane_only { systems } else { all } {
                let directory = Some(wide.name.as_c_str());
                let found = system.resolve(directory, &wide.found, 1, Expect::Found, &bench.stop)?;
                let absent = system.resolve(directory, &wide.absent, 1, Expect::Absent, &bench.stop)?;
                if run > 0 {
                    wide.found_times.add_each(system.name(), found, wide.found.len());
                    wide.absent_times.add_each(system.name(), absent, wide.absent.len());
                }
            }
        }
    }
    Ok(())
}

fn add_row(bench: &mut NamespaceBench, wide: &Wide, base: f64) {
    let Some(mut row) = wide.found_times.row(&wide_name(wide.entries), "ns/name") else { return };
    let cost = row.lanefs.median;
    let absent = wide.absent_times.median("lanefs").unwrap_or(0.0);
    row = row.param("entries", wide.entries).param("lookups", wide.found.len()).param("batch", BATCH);
    row = row.param("name_bytes", 20).param("volume_bytes", wide.lane_bytes);
    for system in wide.absent_times.systems() {
        row = row.extra(&format!("{system}_absent_ns"), wide.absent_times.median(system).unwrap_or(0.0));
    }
    let growth = if base > 0.0 { cost / base } else { 0.0 };
    row = row.extra("times_one_entry", growth);
    let cache = bench.report.machine.last_level_cache;
    if wide.lane_bytes <= cache && wide.entries > 1 {
        row = row.goal(format!("{growth:.2}x N=1 <= {GOAL_GROWTH}"), growth <= GOAL_GROWTH);
    } else if wide.entries > 1 {
        row = row.note(format!("{growth:.2}x the cost of one entry; it does not fit the last-level cache"));
    }
    let absent_ratio = absent / cost;
    row = row.goal(format!("absent {absent_ratio:.2}x <= 1"), absent_ratio <= 1.0);
    if wide.lane_only {
        row = row.note(format!("peers are measured up to {PEER_ENTRIES} entries"));
    }
    bench.row(Some(row));
}
