//! `gpu-wide-lookup`: many subdirectories in one directory.

use super::bench::GpuBench;
use super::lookup_engine::lookup_engines;
use crate::error::Result;
use crate::measure::values::Values;
use crate::systems::peers::SpaceRequest;
use crate::systems::system::Named;
use crate::systems::workload::{Strings, sampled, subdirectory_name};
use std::ffi::CStr;

const DIRECTORY: &CStr = c"wide";

pub(super) fn measure(bench: &mut GpuBench) -> Result<()> {
    let count = bench.settings.sizes.subdirectories;
    let names: Strings = (0..count).map(subdirectory_name).collect();
    let requests = names.pick(&sampled(count, count));
    let systems = bench.systems(SpaceRequest { inodes: count as u64 + 10, bytes: count as u64 * 4096 })?;
    for system in systems.all() {
        system.make_directory(DIRECTORY)?;
        system.make_subdirectories(DIRECTORY, &names, &bench.stop)?;
        system.settle()?;
    }
    let gpu = bench.settings.gpu.clone();
    let mirrored = systems.mirrored(&gpu)?;
    let all = lookup_engines(&systems, &mirrored);
    let mut values = Values::default();
    bench.in_turn("wide", &all.iter().collect::<Vec<_>>(), |engine, run| {
        let elapsed = engine.resolve(&systems.lane, Some(DIRECTORY), &requests, &bench.stop)?;
        if run > 0 {
            values.add_each(engine.name(), elapsed, requests.len());
        }
        Ok(())
    })?;
    let row = values.row("gpu-wide-lookup", "ns/name");
    bench.row(row.map(|row| row.param("directories", count).param("lookups", requests.len())));
    Ok(())
}
