//! `resolve-random-1t`, `resolve-random-2t`, `resolve-absent-1t`: random paths of a large tree.

use super::bench::NamespaceBench;
use crate::error::Result;
use crate::measure::report::Row;
use crate::measure::values::Values;
use crate::systems::lane::BATCH;
use crate::systems::peers::SpaceRequest;
use crate::systems::system::Expect;
use crate::systems::workload::{FILES_PER_DIRECTORY, Tree};

/// Minimum and best goal of random resolution by one thread against ext4.
const LEAST_TIMES_EXT4: f64 = 5.0;
const GOAL_TIMES_EXT4: f64 = 10.0;

/// Goal of two threads against one.
const GOAL_TWO_THREADS: f64 = 1.9;

pub(super) fn measure(bench: &mut NamespaceBench) -> Result<()> {
    let tree = Tree::new(bench.settings.sizes.tree_files);
    let systems = bench.systems(SpaceRequest::of(&tree))?;
    bench.make_tree(&tree, &systems)?;
    let (found, absent) = (tree.requests(), tree.absent_requests());
    let count = found.len();
    let (mut one, mut two, mut missing, mut single) =
        (Values::default(), Values::default(), Values::default(), Values::default());
    bench.in_turn("resolve", &systems.all(), |system, run| {
        // Two threads are compared with one, so both are measured whichever row is selected.
        let times = [
            (&mut one, system.resolve(None, &found, 1, Expect::Found, &bench.stop)?),
            (&mut two, system.resolve(None, &found, 2, Expect::Found, &bench.stop)?),
            (&mut missing, system.resolve(None, &absent, 1, Expect::Absent, &bench.stop)?),
        ];
        if run > 0 {
            times.into_iter().for_each(|(values, elapsed)| values.add_each(system.name(), elapsed, count));
        }
        Ok(())
    })?;
    bench.progress.step("resolve: one path a call");
    for run in 0..=bench.runs {
        let elapsed = systems.lane.resolve_singly(&found, &bench.stop)?;
        if run > 0 {
            single.add_each("lanefs", elapsed, count);
        }
    }

    let with_params = |row: Row, threads: usize| {
        row.param("files", count)
            .param("directories", tree.directories.len())
            .param("files_per_directory", FILES_PER_DIRECTORY)
            .param("depth", "5-7")
            .param("mean_path_bytes", (found.mean_len() * 10.0).round() / 10.0)
            .param("batch", BATCH)
            .param("threads", threads)
            .param("attributes", true)
            .param("follow", false)
    };
    let row = one.row("resolve-random-1t", "ns/path").map(|row| {
        let row =
            with_params(row, 1).goal_ratio("ext4", LEAST_TIMES_EXT4).goal_ratio("ext4", GOAL_TIMES_EXT4);
        row.extra("lanefs_single_call_ns", single.median("lanefs").unwrap_or(0.0))
    });
    bench.row(row);
    let first = one.median("lanefs").unwrap_or(0.0);
    let row = two.row("resolve-random-2t", "ns/path").map(|mut row| {
        for system in two.systems() {
            let scaling = one.median(system).unwrap_or(0.0) / two.median(system).unwrap_or(f64::INFINITY);
            row = row.extra(&format!("{system}_times_one_thread"), scaling);
        }
        let scaling = first / row.lanefs.median;
        with_params(row, 2)
            .goal(format!("{scaling:.2}x 1t >= {GOAL_TWO_THREADS}"), scaling >= GOAL_TWO_THREADS)
    });
    bench.row(row);
    let row = missing.row("resolve-absent-1t", "ns/path").map(|row| {
        let absent_ratio = row.lanefs.median / first;
        with_params(row, 1).goal(format!("{absent_ratio:.2}x found <= 1"), absent_ratio <= 1.0)
    });
    bench.row(row);
    Ok(())
}
