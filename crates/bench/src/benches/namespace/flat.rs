//! `create-flat`, `unlink-flat`, `bytes-per-file`: empty files in one directory, by one thread.

use super::bench::NamespaceBench;
use crate::error::Result;
use crate::measure::report::Row;
use crate::measure::values::Values;
use crate::systems::peers::SpaceRequest;
use crate::systems::system::{Create, Named, System};
use crate::systems::workload::{Strings, flat_names, shuffled};
use std::ffi::CStr;
use std::time::Duration;

const DIRECTORY: &CStr = c"flat";

/// Goals of creating and unlinking.
const GOAL_TIMES_EXT4: f64 = 10.0;
const GOAL_TIMES_TMPFS: f64 = 4.0;

/// Maximum space of an empty file with a 20-byte name, in bytes.
const GOAL_BYTES: f64 = 450.0;

/// Runs of the peers' `mknodat`. It only shows the cost of `open` and `close`, so two are enough.
const NODE_RUNS: usize = 2;

pub(super) fn measure(bench: &mut NamespaceBench) -> Result<()> {
    let count = bench.settings.sizes.flat_files;
    let names = flat_names(count);
    let order = names.pick(&shuffled(count));
    let systems = bench.systems(SpaceRequest { inodes: count as u64, bytes: count as u64 * 100 })?;
    let (mut created, mut unlinked, mut bytes) = (Values::default(), Values::default(), Values::default());
    let timed = bench.selection.has("create-flat") || bench.selection.has("unlink-flat");
    for system in systems.all() {
        // The warm-up runs on new file systems, so it measures the space as well.
        bench.progress.step(&format!("flat: warm-up, {}", system.name()));
        let round = one_round(system, &names, &order, Create::Open, bench)?;
        if let Some(used) = round.used_bytes {
            bytes.add(system.name(), used as f64 / count as f64);
        }
    }
    let runs = if timed { bench.runs } else { 0 };
    for run in 1..=runs {
        for system in systems.all() {
            bench.progress.step(&format!("flat: run {run} of {runs}, {}", system.name()));
            let round = one_round(system, &names, &order, Create::Open, bench)?;
            created.add_each(system.name(), round.create, count);
            unlinked.add_each(system.name(), round.unlink, count);
        }
        if run <= NODE_RUNS && bench.selection.has("create-flat") {
            for host in &systems.hosts {
                bench.progress.step(&format!("flat: run {run} of {NODE_RUNS}, {} by mknodat", host.name()));
                let round = one_round(host, &names, &order, Create::Node, bench)?;
                created.add_each(&format!("{}-mknod", host.name()), round.create, count);
            }
        }
    }
    let with_params = |row: Row| row.param("files", count).param("name_bytes", 20).param("threads", 1);
    let with_goals =
        |row: Row| with_params(row).goal_ratio("ext4", GOAL_TIMES_EXT4).goal_ratio("tmpfs", GOAL_TIMES_TMPFS);
    bench.row(created.row("create-flat", "ns/file").map(with_goals));
    bench.row(unlinked.row("unlink-flat", "ns/file").map(with_goals));
    let row = bytes.row("bytes-per-file", "bytes/file").map(|row| {
        let reached = row.lanefs.median <= GOAL_BYTES;
        let row = with_params(row).param("inode_bytes", 256).goal(format!("<= {GOAL_BYTES}"), reached);
        row.note("tmpfs does not count its inodes, so it has no number")
    });
    bench.row(row);
    Ok(())
}

struct FlatRound {
    create: Duration,
    unlink: Duration,
    /// Space of the files and their directory.
    used_bytes: Option<u64>,
}

/// Creates all files, unlinks them in random order, and removes the directory.
fn one_round(
    system: &dyn System,
    names: &Strings,
    order: &Strings,
    how: Create,
    bench: &NamespaceBench,
) -> Result<FlatRound> {
    system.make_directory(DIRECTORY)?;
    let before = system.used_bytes()?;
    let create = system.create_files(DIRECTORY, names, how, &bench.stop)?;
    system.settle()?;
    let after = system.used_bytes()?;
    let unlink = system.unlink_files(DIRECTORY, order, &bench.stop)?;
    system.remove_directory(DIRECTORY)?;
    system.settle()?;
    let used_bytes = before.zip(after).map(|(before, after)| after.saturating_sub(before));
    Ok(FlatRound { create, unlink, used_bytes })
}
