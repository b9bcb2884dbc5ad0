//! `gpu-chain-lookup`: nested directories, thousands deep.

use super::bench::GpuBench;
use super::lookup_engine::lookup_engines;
use crate::error::Result;
use crate::measure::values::Values;
use crate::systems::peers::SpaceRequest;
use crate::systems::system::Named;
use std::ffi::CStr;

const DIRECTORY: &CStr = c"chain";

pub(super) fn measure(bench: &mut GpuBench) -> Result<()> {
    let (depth, times) = (bench.settings.sizes.chain_depth, bench.settings.sizes.chain_lookups);
    let systems = bench.systems(SpaceRequest { inodes: depth as u64 + 10, bytes: depth as u64 * 4096 })?;
    for system in systems.all() {
        system.make_directory(DIRECTORY)?;
        system.make_chain(DIRECTORY, depth, &bench.stop)?;
        system.settle()?;
    }
    let gpu = bench.settings.gpu.clone();
    let mirrored = systems.mirrored(&gpu)?;
    let all = lookup_engines(&systems, &mirrored);
    let mut values = Values::default();
    bench.in_turn("chain", &all.iter().collect::<Vec<_>>(), |engine, run| {
        let elapsed = engine.resolve_chain(&systems.lane, DIRECTORY, depth, times, &bench.stop)?;
        if run > 0 {
            values.add_each(engine.name(), elapsed, times);
        }
        Ok(())
    })?;
    let row = values.row("gpu-chain-lookup", "ns/lookup").map(|row| {
        let row = row.param("depth", depth).param("lookups", times);
        row.note("ext4 goes down in two system calls, as one takes no path of 4,096 bytes")
    });
    bench.row(row);
    Ok(())
}
