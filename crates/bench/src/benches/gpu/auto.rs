//! `gpu-auto-1` and its like: one batch of paths by the default engine, beside each engine alone, with the
//! time that a device takes to open. The device is one that is slow to open, whichever it is.

use super::bench::GpuBench;
use crate::error::{Error, Result, check};
use crate::measure::report::Row;
use crate::measure::stop::Stop;
use crate::measure::values::{LANEFS, Values};
use crate::systems::lane::Lane;
use crate::systems::peers::SpaceRequest;
use crate::systems::system::Named;
use crate::systems::workload::{Tree, shuffled};
use lanefs::{Column, Columns, EngineExt, PathSet, ResolveOptions};
use lanefs_gpu::{DeviceKind, EngineChoice, EngineOptions, Engines, Gpu};
use std::ffi::CStr;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Names of the rows, and their paths.
pub(super) const ROWS: [(&str, usize); 5] = [
    ("gpu-auto-1", 1),
    ("gpu-auto-1k", 1_000),
    ("gpu-auto-100k", 100_000),
    ("gpu-auto-1m", 1_000_000),
    ("gpu-auto-10m", 10_000_000),
];

/// Time that the device takes to open, in place of its own.
const OPENING: Duration = Duration::from_millis(800);

/// Most paths for a device that is none: minutes more would say nothing new.
const MOST_SOFTWARE_PATHS: usize = 100_000;

/// Lists the rows, in the order measured.
pub(super) fn row_names() -> Vec<&'static str> {
    ROWS.iter().map(|(name, _)| *name).collect()
}

/// A choice of engine.
struct Chosen(EngineChoice);

impl Named for Chosen {
    fn name(&self) -> &str {
        match self.0 {
            EngineChoice::Auto => LANEFS,
            other => other.name(),
        }
    }
}

/// Measures the rows whose paths are few enough for the size of the run.
pub(super) fn measure(bench: &mut GpuBench) -> Result<()> {
    let tree = Tree::new(bench.settings.sizes.tree_files);
    let mut systems = bench.beside_ext4(SpaceRequest::of(&tree))?;
    systems.hosts.clear();
    bench.make_tree(&tree, &systems)?;
    let most = bench.settings.sizes.tree_files.saturating_mul(10);
    let order = shuffled(tree.files.len());
    for (row, count) in ROWS.into_iter().filter(|(_, count)| *count <= most) {
        if !bench.selection.has(row) {
            continue;
        }
        let requests = tree.files.pick(&order.iter().copied().cycle().take(count).collect::<Vec<_>>());
        let paths: PathSet = requests.iter().map(CStr::to_bytes).collect();
        let values = one_row(bench, row, &systems.lane, &paths)?;
        let better =
            ["cpu", "gpu"].iter().filter_map(|engine| values.median(engine)).fold(f64::MAX, f64::min);
        let to_better = values.median(LANEFS).unwrap_or(0.0) / better;
        bench.note(format!("{row}: auto takes {to_better:.3} of the better engine's time"));
        let made = values.row(row, "ns/path");
        let describe = |made: Row| {
            made.param("files", tree.files.len())
                .param("paths", paths.len())
                .param("opening_ms", OPENING.as_millis() as u64)
                .extra("auto_to_better", to_better)
        };
        bench.row(made.map(describe));
    }
    Ok(())
}

fn one_row(bench: &GpuBench, row: &str, lane: &Lane, paths: &PathSet) -> Result<Values> {
    let gpu = &bench.settings.gpu;
    let has_device = gpu.info().kind != DeviceKind::Software || paths.len() <= MOST_SOFTWARE_PATHS;
    let all = [EngineChoice::Auto, EngineChoice::Cpu, EngineChoice::Gpu].map(Chosen);
    let all: Vec<&Chosen> = all.iter().filter(|chosen| has_device || chosen.0 != EngineChoice::Gpu).collect();
    bench.costs_either_way(row, &all, paths.len(), |chosen| ask(gpu, lane, chosen.0, paths, &bench.stop))
}

/// Resolves all paths by a choice of engine, from its start to its end. The host's caches have the paths and
/// what leads to them before, whichever engine was asked last.
fn ask(gpu: &Gpu, lane: &Lane, engine: EngineChoice, paths: &PathSet, stop: &Stop) -> Result<Duration> {
    let options = EngineOptions { engine, paths: Some(paths.len() as u64), ..EngineOptions::default() };
    let wait = || std::thread::sleep(OPENING);
    lane.volume()
        .resolve_into(
            &ResolveOptions::default(),
            paths.view(),
            &mut Columns::of(&[Column::Ino]).rows(paths.len()),
        )
        .map_err(Error::volume("lookups"))?;
    let (mut columns, mut found, mut first) = (Columns::of(&[Column::Ino]), 0, 0);
    let start = Instant::now();
    if engine == EngineChoice::Gpu {
        wait();
    }
    let engines = Engines::open_on(gpu, lane.volume(), options).map_err(Error::device("the engines"))?;
    let engines = engines.slow_to_open(wait);
    engines.attended(|| -> Result<()> {
        while first < paths.len() {
            stop.check()?;
            let part = paths.view().slice(first..paths.len().min(first + engines.batch()));
            first += part.len();
            let rows = &mut columns.rows(part.len());
            let report = engines.resolve_into(&ResolveOptions::default(), part, rows);
            found += report.map_err(Error::volume("lookups"))?.found;
            black_box(&columns);
        }
        Ok(())
    })?;
    // A device that is still being opened is waited for, as in a program that ends.
    drop(engines);
    let elapsed = start.elapsed();
    check(engine.name(), "lookups", found, paths.len())?;
    Ok(elapsed)
}
