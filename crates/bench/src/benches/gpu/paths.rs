//! `gpu-lookup-host`, `gpu-lookup-resident`: random paths of a large tree, in the host's memory and on the
//! device; and searches of the tree.

use super::bench::{GpuBench, mirrored};
use super::lookup_engine::{check_found, lookup_engines, options};
use super::{column_args, columns};
use crate::error::{Error, Result};
use crate::measure::values::{LANEFS, Values};
use crate::session::Systems;
use crate::systems::peers::SpaceRequest;
use crate::systems::system::{Expect, Named, System};
use crate::systems::workload::Tree;
use lanefs::{Code, PathSet, Resolution, Resolutions};
use lanefs_gpu::Mirrored;
use std::ffi::CStr;
use std::time::Instant;

const FROM_HOST: &str = "gpu-lookup-host";
const RESIDENT: &str = "gpu-lookup-resident";
const FIND: &str = "gpu-find";

/// Lists the rows, in the order measured.
pub(super) fn row_names() -> Vec<&'static str> {
    let columns = column_args::ROWS.iter().map(|row| row.name);
    [FROM_HOST, RESIDENT].into_iter().chain(columns).chain([FIND]).collect()
}

/// Makes the tree, and measures all rows of it.
pub(super) fn measure(bench: &mut GpuBench) -> Result<()> {
    let tree = Tree::new(bench.settings.sizes.tree_files);
    let systems = bench.beside_ext4(SpaceRequest::of(&tree))?;
    bench.make_tree(&tree, &systems)?;
    let gpu = bench.settings.gpu.clone();
    let mirrored = mirrored(&systems.lane, &gpu)?;
    let is_alone = bench.settings.columns.is_alone();
    let has = |bench: &GpuBench, row| !is_alone && bench.selection.has(row);
    if has(bench, FROM_HOST) || has(bench, RESIDENT) {
        with_answers(bench, &systems, &mirrored, &tree)?;
    }
    columns::measure(bench, &systems, &mirrored, &tree)?;
    if has(bench, FIND) {
        super::find::measure(bench, &systems, &mirrored, &tree)?;
    }
    Ok(())
}

/// Measures single answers, with all attributes.
fn with_answers(bench: &mut GpuBench, systems: &Systems, mirrored: &Mirrored<'_>, tree: &Tree) -> Result<()> {
    let (lane, requests) = (&systems.lane, tree.requests());
    let all = lookup_engines(systems, mirrored);
    let paths: PathSet = requests.iter().map(CStr::to_bytes).collect();
    let mut kept = mirrored.keep(&options(lane, None)?, &paths).map_err(Error::device("bringing paths"))?;
    let (mut host, mut on_device, mut cores) = (Values::default(), Values::default(), Values::default());
    let threads = bench.report.machine.cores;
    bench.in_turn("paths", &all.iter().collect::<Vec<_>>(), |engine, run| {
        let elapsed = engine.resolve(lane, None, &requests, &bench.stop)?;
        let (mut there, mut by_all) = (elapsed, None);
        if engine.name() == LANEFS {
            let start = Instant::now();
            kept.resolve();
            there = start.elapsed();
            let mut found = vec![Resolution::failed(Code::NotResident); paths.len()];
            let mut rows = Resolutions { list: &mut found, attributes: true };
            kept.resolve_rows(&mut rows).map_err(Error::volume("lookups"))?;
            check_found(&found, found.len() as u64, paths.len())?;
            by_all = Some(lane.resolve(None, &requests, threads, Expect::Found, &bench.stop)?);
        }
        if run > 0 {
            host.add_each(engine.name(), elapsed, paths.len());
            on_device.add_each(engine.name(), there, paths.len());
            by_all.into_iter().for_each(|elapsed| cores.add_each("cpu", elapsed, paths.len()));
        }
        Ok(())
    })?;
    let cpu = cores.median("cpu").unwrap_or(0.0);
    let rows = [(FROM_HOST, host), (RESIDENT, on_device)].map(|(name, values)| {
        let row = values.row(name, "ns/path")?.param("files", paths.len()).param("depth", "5-7");
        let row = row
            .param("mean_path_bytes", (requests.mean_len() * 10.0).round() / 10.0)
            .param("attributes", true);
        Some(row.param("cache_bytes", mirrored.cache_bytes()).extra("cpu_all_cores_ns", cpu))
    });
    for row in rows {
        bench.row(row);
    }
    Ok(())
}
