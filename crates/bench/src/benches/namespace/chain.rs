//! `chain-create`, `chain-lookup`: nested directories, thousands deep.

use super::bench::NamespaceBench;
use crate::error::Result;
use crate::measure::values::Values;
use crate::systems::peers::SpaceRequest;
use std::ffi::CStr;

const DIRECTORY: &CStr = c"chain";

/// Goal of the creation against ext4's `mkdirat`.
const GOAL_CREATE: f64 = 5.0;

/// Goal of a lookup against ext4 through system calls: no slower.
const GOAL_LOOKUP: f64 = 1.0;

pub(super) fn measure(bench: &mut NamespaceBench) -> Result<()> {
    let (depth, times) = (bench.settings.sizes.chain_depth, bench.settings.sizes.chain_lookups);
    let systems = bench.systems(SpaceRequest { inodes: depth as u64 + 10, bytes: depth as u64 * 4096 })?;
    let (mut created, mut looked_up) = (Values::default(), Values::default());
    bench.in_turn("chain", &systems.all(), |system, run| {
        system.make_directory(DIRECTORY)?;
        let create = system.make_chain(DIRECTORY, depth, &bench.stop)?;
        system.settle()?;
        system.resolve_chain(DIRECTORY, depth, 1, &bench.stop)?;
        let lookup = system.resolve_chain(DIRECTORY, depth, times, &bench.stop)?;
        system.remove_chain(DIRECTORY, depth, &bench.stop)?;
        system.remove_directory(DIRECTORY)?;
        system.settle()?;
        if run > 0 {
            created.add_each(system.name(), create, depth);
            looked_up.add_each(system.name(), lookup, times);
        }
        Ok(())
    })?;
    let row = created.row("chain-create", "ns/directory");
    bench.row(row.map(|row| row.param("depth", depth).goal_ratio("ext4", GOAL_CREATE)));
    let row = looked_up.row("chain-lookup", "ns/lookup").map(|row| {
        let row = row.param("depth", depth).param("lookups", times).goal_ratio("ext4", GOAL_LOOKUP);
        row.note("the peers go down in two system calls, as one takes no path of 4,096 bytes")
    });
    bench.row(row);
    Ok(())
}
