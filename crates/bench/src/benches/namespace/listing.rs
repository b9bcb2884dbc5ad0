//! `readdir-stat`: lists a directory and reads the attributes of all entries.

use super::bench::NamespaceBench;
use crate::error::Result;
use crate::systems::peers::SpaceRequest;
use crate::systems::system::Create;
use crate::systems::workload::flat_names;
use std::ffi::CStr;

const DIRECTORY: &CStr = c"listed";

pub(super) fn measure(bench: &mut NamespaceBench) -> Result<()> {
    let count = bench.settings.sizes.listed_files;
    let systems = bench.systems(SpaceRequest { inodes: count as u64, bytes: count as u64 * 100 })?;
    for system in systems.all() {
        bench.progress.step(&format!("making a directory of {count}, {}", system.name()));
        system.make_directory(DIRECTORY)?;
        system.create_files(DIRECTORY, &flat_names(count), Create::Node, &bench.stop)?;
        system.settle()?;
    }
    let listed = bench.costs("readdir-stat", &systems.all(), count, |system| {
        system.list_and_stat(DIRECTORY, count, &bench.stop)
    })?;
    let row = listed.row("readdir-stat", "ns/entry");
    bench.row(row.map(|row| row.param("files", count).param("name_bytes", 20)));
    Ok(())
}
