//! `wide-mkdir`, `wide-lookup`: many subdirectories in one directory.

use super::bench::NamespaceBench;
use crate::error::Result;
use crate::measure::values::Values;
use crate::systems::peers::SpaceRequest;
use crate::systems::system::Expect;
use crate::systems::workload::{Strings, sampled, subdirectory_name};
use std::ffi::CStr;

const DIRECTORY: &CStr = c"wide";

/// Goal of the creation against ext4's `mkdirat`.
const GOAL_CREATE: f64 = 5.0;

/// Goal of a lookup against ext4 through system calls: no slower.
const GOAL_LOOKUP: f64 = 1.0;

pub(super) fn measure(bench: &mut NamespaceBench) -> Result<()> {
    let (count, lookups) = (bench.settings.sizes.subdirectories, bench.settings.sizes.subdirectory_lookups);
    let names: Strings = (0..count).map(subdirectory_name).collect();
    let requests = names.pick(&sampled(count, lookups));
    let systems = bench.systems(SpaceRequest { inodes: count as u64 + 10, bytes: count as u64 * 4096 })?;
    let (mut created, mut looked_up) = (Values::default(), Values::default());
    bench.in_turn("wide", &systems.all(), |system, run| {
        system.make_directory(DIRECTORY)?;
        let create = system.make_subdirectories(DIRECTORY, &names, &bench.stop)?;
        system.settle()?;
        let look_up = || system.resolve(Some(DIRECTORY), &requests, 1, Expect::Found, &bench.stop);
        look_up()?;
        let lookup = look_up()?;
        system.remove_subdirectories(DIRECTORY, &names, &bench.stop)?;
        system.remove_directory(DIRECTORY)?;
        system.settle()?;
        if run > 0 {
            created.add_each(system.name(), create, count);
            looked_up.add_each(system.name(), lookup, lookups);
        }
        Ok(())
    })?;
    let row = created.row("wide-mkdir", "ns/directory");
    bench.row(
        row.map(|row| row.param("directories", count).param("name_bytes", 9).goal_ratio("ext4", GOAL_CREATE)),
    );
    let row = looked_up
        .row("wide-lookup", "ns/name")
        .map(|row| row.param("directories", count).param("lookups", lookups).goal_ratio("ext4", GOAL_LOOKUP));
    bench.row(row);
    Ok(())
}
