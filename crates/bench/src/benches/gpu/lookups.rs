//! `gpu-latency-dispatch`, `gpu-chain-lookup`, `gpu-wide-lookup`: one path a call, and lookups in deep and in
//! wide directories.

use super::bench::{GpuBench, mirrored};
use super::lookup_engine::{LookupEngine, lookup_engines};
use crate::error::Result;
use crate::measure::values::Values;
use crate::session::Systems;
use crate::systems::peers::SpaceRequest;
use crate::systems::workload::{Strings, Tree, sampled, subdirectory_name};
use std::ffi::CStr;
use std::time::Duration;

/// Files of the tree, and single lookups.
const FILES: usize = 10_000;
const LOOKUPS: usize = 1_000;

const CHAIN: &CStr = c"chain";
const WIDE: &CStr = c"wide";

/// Has each engine make `count` lookups.
fn measure(
    bench: &GpuBench,
    title: &str,
    systems: &Systems,
    count: usize,
    ask: impl Fn(&LookupEngine<'_, '_>) -> Result<Duration>,
) -> Result<Values> {
    let mirrored = mirrored(&systems.lane, &bench.settings.gpu)?;
    let all = lookup_engines(systems, &mirrored);
    bench.costs(title, &all.iter().collect::<Vec<_>>(), count, ask)
}

/// Measures one path, from the call to its answer.
pub(super) fn latency(bench: &mut GpuBench) -> Result<()> {
    let tree = Tree::new(FILES.min(bench.settings.sizes.tree_files));
    let systems = bench.beside_ext4(SpaceRequest::of(&tree))?;
    bench.make_tree(&tree, &systems)?;
    let requests = tree.files.pick(&sampled(tree.files.len(), LOOKUPS));
    let values = measure(bench, "latency", &systems, requests.len(), |engine| {
        engine.resolve_singly(&systems.lane, &requests, &bench.stop)
    })?;
    let row = values.row("gpu-latency-dispatch", "ns/path");
    bench.row(
        row.map(|row| row.param("files", tree.files.len()).param("lookups", LOOKUPS).param("depth", "5-7")),
    );
    Ok(())
}

/// Measures nested directories, thousands deep.
pub(super) fn chain(bench: &mut GpuBench) -> Result<()> {
    let (depth, times) = (bench.settings.sizes.chain_depth, bench.settings.sizes.chain_lookups);
    let need = SpaceRequest { inodes: depth as u64 + 10, bytes: depth as u64 * 4096 };
    let systems = bench.beside_ext4(need)?;
    for system in systems.all() {
        system.make_directory(CHAIN)?;
        system.make_chain(CHAIN, depth, &bench.stop)?;
        system.settle()?;
    }
    let values = measure(bench, "chain", &systems, times, |engine| {
        engine.resolve_chain(&systems.lane, CHAIN, depth, times, &bench.stop)
    })?;
    let row = values.row("gpu-chain-lookup", "ns/lookup").map(|row| {
        let row = row.param("depth", depth).param("lookups", times);
        row.note("ext4 goes down in two system calls, as one takes no path of 4,096 bytes")
    });
    bench.row(row);
    Ok(())
}

/// Measures many subdirectories in one directory.
pub(super) fn wide(bench: &mut GpuBench) -> Result<()> {
    let count = bench.settings.sizes.subdirectories;
    let names: Strings = (0..count).map(subdirectory_name).collect();
    let requests = names.pick(&sampled(count, count));
    let need = SpaceRequest { inodes: count as u64 + 10, bytes: count as u64 * 4096 };
    let systems = bench.beside_ext4(need)?;
    for system in systems.all() {
        system.make_directory(WIDE)?;
        system.make_subdirectories(WIDE, &names, &bench.stop)?;
        system.settle()?;
    }
    let values = measure(bench, "wide", &systems, requests.len(), |engine| {
        engine.resolve(&systems.lane, Some(WIDE), &requests, &bench.stop)
    })?;
    let row = values.row("gpu-wide-lookup", "ns/name");
    bench.row(row.map(|row| row.param("directories", count).param("lookups", requests.len())));
    Ok(())
}
