//! `tiny-hot-*`, `random-mixed-*` and the other workloads: operations a second, and the growth of memory.

use super::bench::AllocBench;
use super::goals::{rate_goal, resident_goal};
use super::rows::Measurement;
use super::worker::WorkerArgs;
use crate::error::Result;
use crate::measure::report::Row;
use crate::measure::values::Values;

/// Measures all allocators in turn, run by run; each run begins with another one.
pub(super) fn measure(bench: &mut AllocBench, what: &Measurement) -> Result<()> {
    let args = WorkerArgs {
        workload: what.workload,
        threads: what.threads as u16,
        steps: bench.settings.sizes.steps(what.workload),
        expect: None,
        empty: false,
    };
    let (mut rates, mut resident) = (Values::default(), Values::default());
    let mut order = bench.settings.allocators.clone();
    for run in 0..=bench.runs {
        for allocator in &order {
            bench.stop.check()?;
            let which = if run == 0 { "warm-up".into() } else { format!("run {run} of {}", bench.runs) };
            bench.progress.step(&format!("{}: {which}, {}", what.rate_row, allocator.name));
            let outcome = bench.settings.run(allocator, args.clone(), &bench.stop)?;
            if run > 0 {
                rates.add(allocator.name, outcome.operations as f64 * 1e3 / outcome.elapsed_ns.max(1) as f64);
                resident.add(allocator.name, outcome.resident_bytes as f64);
            }
        }
        order.rotate_left(1);
    }
    let params = |row: Row| row.param("threads", args.threads).param("steps", args.steps);
    let row = rates.rate_row(&what.rate_row, "Mop/s");
    bench.row(row.map(|row| rate_goal(params(row), what.workload)));
    if let Some(name) = &what.resident_row {
        let row = resident.row(name, "bytes");
        bench.row(row.map(|row| resident_goal(params(row))));
    }
    Ok(())
}
