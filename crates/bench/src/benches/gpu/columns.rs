//! `gpu-exists-host` and its like: batches of paths whose answers go to columns, by the columns asked for and
//! by the memory that has the paths.

use super::bench::GpuBench;
use super::column_args::{Answers, ColumnRow, Source};
use super::lookup_engine::{LookupEngine, lookup_engines, options};
use crate::error::{Error, Result, check};
use crate::measure::report::Row;
use crate::measure::stop::Stop;
use crate::measure::threads::in_threads;
use crate::measure::values::{LANEFS, Values};
use crate::session::Systems;
use crate::systems::lane::Lane;
use crate::systems::system::{Expect, Named, System};
use crate::systems::workload::{Strings, Tree, shuffled};
use lanefs::{Columns, EngineExt, PathSet, ResolveOptions};
use lanefs_gpu::Mirrored;
use std::ffi::CStr;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Paths of one call of the CPU engine.
const BATCH_PATHS: usize = 16_384;

/// Measures the rows on a tree that all systems have.
pub(super) fn measure(
    bench: &mut GpuBench,
    systems: &Systems,
    mirrored: &Mirrored<'_>,
    tree: &Tree,
) -> Result<()> {
    let args = bench.settings.columns.clone();
    let rows: Vec<&ColumnRow> = args.rows().filter(|row| bench.selection.has(row.name)).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let strings = requests(tree, args.paths.map_or(tree.files.len(), |paths| paths as usize));
    let paths: PathSet = strings.iter().map(CStr::to_bytes).collect();
    let asked = AskedColumns { lane: &systems.lane, paths: &paths, stop: &bench.stop };
    let all = lookup_engines(systems, mirrored);
    let threads = bench.report.machine.cores;
    let mut values = vec![Values::default(); rows.len()];
    let mut cores = vec![Values::default(); rows.len()];
    bench.in_turn("columns", &all.iter().collect::<Vec<_>>(), |engine, run| {
        // The host's file system has one answer to all rows.
        let by_host = match engine {
            LookupEngine::Ext4(host) => Some(host.resolve(None, &strings, 1, Expect::Found, &bench.stop)?),
            _ => None,
        };
        for (i, row) in rows.iter().enumerate() {
            let elapsed = match (engine, by_host) {
                (LookupEngine::Gpu(mirrored), _) => asked.by_device(mirrored, row)?,
                (_, Some(elapsed)) => elapsed,
                _ => asked.by_processor(row.answers, 1)?,
            };
            if run == 0 {
                continue;
            }
            values[i].add_each(engine.name(), elapsed, paths.len());
            if engine.name() == LANEFS {
                cores[i].add_each("cpu", asked.by_processor(row.answers, threads)?, paths.len());
            }
        }
        Ok(())
    })?;
    for ((row, values), cores) in rows.iter().zip(&values).zip(&cores) {
        let describe = |made: Row| {
            let columns: Vec<String> =
                row.answers.columns().iter().map(|column| format!("{column:?}").to_lowercase()).collect();
            made.param("files", tree.files.len())
                .param("paths", paths.len())
                .param("depth", "5-7")
                .param("mean_path_bytes", (strings.mean_len() * 10.0).round() / 10.0)
                .param("columns", columns.join(" "))
                .param("from", format!("{:?}", row.source).to_lowercase())
                .param("cache_bytes", mirrored.cache_bytes())
                .extra("cpu_all_cores_ns", cores.median("cpu").unwrap_or(0.0))
        };
        bench.row(values.row(row.name, "ns/path").map(describe));
    }
    Ok(())
}

/// Returns `count` paths: the files in random order, again and again.
fn requests(tree: &Tree, count: usize) -> Strings {
    let order: Vec<usize> = shuffled(tree.files.len()).into_iter().cycle().take(count).collect();
    tree.files.pick(&order)
}

/// The paths of all rows.
struct AskedColumns<'a> {
    lane: &'a Lane,
    paths: &'a PathSet,
    stop: &'a Stop,
}

impl AskedColumns<'_> {
    fn by_device(&self, mirrored: &Mirrored<'_>, row: &ColumnRow) -> Result<Duration> {
        let mut columns = Columns::of(row.answers.columns());
        // Memory for answers is the caller's, who has it already.
        let mut rows = columns.rows(self.paths.len());
        let options =
            ResolveOptions { attributes: row.answers == Answers::Attrs, ..options(self.lane, None)? };
        let (elapsed, report) = match row.source {
            Source::Host => {
                let start = Instant::now();
                let report = mirrored.resolve_into(&options, self.paths, &mut rows);
                (start.elapsed(), report)
            }
            Source::Device => {
                let kept = mirrored.keep(&options, self.paths);
                let mut kept = kept.map_err(Error::device("bringing paths"))?;
                let start = Instant::now();
                let report = kept.resolve_into(&mut rows);
                (start.elapsed(), report)
            }
        };
        black_box(&columns);
        self.stop.check()?;
        // The device itself must have found every path.
        let report = report.map_err(Error::volume("lookups"))?;
        check("the device", "lookups", report.found, self.paths.len())?;
        check("the device", "lookups without the host", report.by_device, self.paths.len())?;
        Ok(elapsed)
    }

    fn by_processor(&self, answers: Answers, threads: usize) -> Result<Duration> {
        let count = self.paths.len();
        let size = BATCH_PATHS.min(count.div_ceil(threads)).max(1);
        let parts: Vec<_> = (0..count).step_by(size).map(|first| first..count.min(first + size)).collect();
        let options = options(self.lane, None)?;
        let (elapsed, found) = in_threads(&parts, threads, |share| {
            let (mut columns, mut found) = (Columns::of(answers.columns()), 0);
            for part in share {
                self.stop.check()?;
                let paths = self.paths.view().slice(part.clone());
                let resolved =
                    self.lane.volume().resolve_into(&options, paths, &mut columns.rows(paths.len()));
                found += resolved.map_err(Error::volume("lookups"))? as u64;
                black_box(&columns);
            }
            Ok(found)
        })?;
        check(self.lane.name(), "lookups", found, count)?;
        Ok(elapsed)
    }
}
