//! `gpu-latency-dispatch`: one path, from the call to its answer.

use super::bench::GpuBench;
use super::lookup_engine::lookup_engines;
use crate::error::Result;
use crate::measure::values::Values;
use crate::systems::peers::SpaceRequest;
use crate::systems::system::Named;
use crate::systems::workload::{Tree, sampled};

/// Files, and single lookups.
const FILES: usize = 10_000;
const LOOKUPS: usize = 1_000;

pub(super) fn measure(bench: &mut GpuBench) -> Result<()> {
    let tree = Tree::new(FILES.min(bench.settings.sizes.tree_files));
    let inodes = (tree.files.len() + tree.directories.len()) as u64;
    let systems = bench.systems(SpaceRequest { inodes, bytes: tree.directories.len() as u64 * 4096 })?;
    for system in systems.all() {
        system.make_tree(&tree, &bench.stop)?;
        system.settle()?;
    }
    let gpu = bench.settings.gpu.clone();
    let mirrored = systems.mirrored(&gpu)?;
    let requests = tree.files.pick(&sampled(tree.files.len(), LOOKUPS));
    let all = lookup_engines(&systems, &mirrored);
    let mut values = Values::default();
    bench.in_turn("latency", &all.iter().collect::<Vec<_>>(), |engine, run| {
        let elapsed = engine.resolve_singly(&systems.lane, &requests, &bench.stop)?;
        if run > 0 {
            values.add_each(engine.name(), elapsed, requests.len());
        }
        Ok(())
    })?;
    let row = values.row("gpu-latency-dispatch", "ns/path");
    bench.row(
        row.map(|row| row.param("files", tree.files.len()).param("lookups", LOOKUPS).param("depth", "5-7")),
    );
    Ok(())
}
