//! `memfs-*`: many threads create, write, read and delete small files in one directory.

use super::bench::ConcurrencyBench;
use super::files::Files;
use super::rows::{MEMFS_OPERATIONS, memfs_name};
use super::sizes::MEMFS_THREADS;
use super::usage::{Memory, Reading, Usage};
use crate::error::{Result, check};
use crate::measure::report::{Row, Table, short};
use crate::measure::stop::{STRIDE, Stop};
use crate::measure::threads::{share, together};
use crate::measure::values::{LANEFS, Values};
use crate::systems::peers::SpaceRequest;
use crate::systems::system::System;
use crate::systems::workload::{Strings, flat_names};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::time::Duration;

/// Bytes of each file.
const FILE_BYTES: usize = 100;

/// Limits of the change of an operation's time with threads: processor time of 16 against 1, wall clock of 2
/// against 1.
const GOAL_CPU: (usize, f64) = (16, 2.0);
const GOAL_WALL: (usize, f64) = (2, 0.6);

/// Maximum number of files at once, and of open directories at once, of which a process may not have many.
const MOST_FILES: usize = 100_000;
const MOST_DIRECTORIES: usize = 500;

/// Maximum number of cycles of one measurement, each with new directories.
const MOST_CYCLES: usize = 50;

/// Times of one operation on all files.
#[derive(Clone, Copy, Debug, Default)]
struct Phase {
    elapsed: Duration,
    /// Of all threads.
    busy: Duration,
    usage: Usage,
}

/// Times of create, write, read, delete.
#[derive(Clone, Copy, Debug, Default)]
struct Cycle {
    phases: [Phase; 4],
    operations: usize,
    /// Memory with all files present.
    memory: Memory,
}

impl Cycle {
    fn add(&mut self, more: &Cycle) {
        for (phase, more) in self.phases.iter_mut().zip(&more.phases) {
            phase.elapsed += more.elapsed;
            phase.busy += more.busy;
            phase.usage += more.usage;
        }
        self.operations += more.operations;
        self.memory.resident = self.memory.resident.max(more.memory.resident);
        self.memory.kernel = self.memory.kernel.max(more.memory.kernel);
    }

    fn shortest(&self) -> Duration {
        self.phases.iter().map(|phase| phase.elapsed).min().unwrap_or_default()
    }
}

/// Work of a system in these rows. One call covers a whole cycle, so that the operations themselves are
/// called directly.
trait Memfs: System {
    /// Runs one cycle: the names in each of `directories` new directories, divided among threads.
    fn cycle(&self, names: &Strings, directories: usize, threads: usize, stop: &Stop) -> Result<Cycle>;
}

impl<F: Files + System> Memfs for F {
    fn cycle(&self, names: &Strings, directories: usize, threads: usize, stop: &Stop) -> Result<Cycle> {
        let top = self.top()?;
        let dir_names: Vec<CString> =
            (0..directories).map(|i| CString::new(format!("memfs-{i}")).unwrap_or_default()).collect();
        dir_names.iter().try_for_each(|name| self.make_dir(&top, name))?;
        let dirs = dir_names.iter().map(|name| self.open_dir(&top, name)).collect::<Result<_>>()?;
        let work = CycleFiles { files: self, names: names.iter().collect(), dirs, threads, stop };
        let data = [7u8; FILE_BYTES];
        let before = Memory::now();
        let create = work.phase("creating", |dir, name| self.create(dir, name).map(|_| true))?;
        let write =
            work.phase("writing", |dir, name| self.write(&self.open(dir, name)?, 0, &data).map(|()| true))?;
        let after = Memory::now();
        let memory = Memory { resident: after.resident, kernel: after.kernel.saturating_sub(before.kernel) };
        // Off the clock, so that the write-back does not overlap another measurement.
        self.settle()?;
        let read = work.phase("reading", |dir, name| {
            let mut buffer = [0u8; 2 * FILE_BYTES];
            let len = self.read(&self.open(dir, name)?, 0, &mut buffer)?;
            Ok(buffer[..len] == data)
        })?;
        let delete = work.phase("deleting", |dir, name| self.remove(dir, name).map(|()| true))?;
        let operations = work.operations();
        drop(work);
        dir_names.iter().try_for_each(|name| self.remove_dir(&top, name))?;
        self.settle()?;
        Ok(Cycle { phases: [create, write, read, delete], operations, memory })
    }
}

/// The files of one cycle.
struct CycleFiles<'w, F: Files> {
    files: &'w F,
    names: Vec<&'w CStr>,
    dirs: Vec<F::Dir>,
    threads: usize,
    stop: &'w Stop,
}

impl<F: Files> CycleFiles<'_, F> {
    fn operations(&self) -> usize {
        self.names.len() * self.dirs.len()
    }

    /// Applies `operation` to every file; it returns whether the result was right. The threads go through the
    /// directories one after another without waiting for each other, so that a short directory measures no
    /// start.
    fn phase(
        &self,
        what: &'static str,
        operation: impl Fn(&F::Dir, &CStr) -> Result<bool> + Sync,
    ) -> Result<Phase> {
        let reading = Reading::now();
        let done = together(self.threads, |thread| {
            let own = share(&self.names, self.threads, thread);
            let mut good = 0;
            for dir in &self.dirs {
                for part in own.chunks(STRIDE) {
                    self.stop.check()?;
                    for name in part {
                        good += u64::from(operation(dir, name)?);
                    }
                }
            }
            Ok(good)
        })?;
        let usage = Reading::now() - reading;
        check(self.files.name(), what, done.sum, self.operations())?;
        Ok(Phase { elapsed: done.elapsed, busy: done.busy, usage })
    }
}

/// Values of one number of files and threads.
#[derive(Clone, Default)]
struct Cell {
    /// Values by operation: wall clock for one operation, its time as a thread sees it, and processor time.
    wall: [Values; 4],
    thread: [Values; 4],
    user: [Values; 4],
    system: [Values; 4],
    /// Processor seconds of all four operations, memory, and operations of each kind in one run.
    user_seconds: Values,
    system_seconds: Values,
    resident: Values,
    kernel: Values,
    operations: Values,
}

impl Cell {
    fn add(&mut self, name: &str, cycle: &Cycle) {
        let mut usage = Usage::default();
        for (i, phase) in cycle.phases.iter().enumerate() {
            self.wall[i].add_each(name, phase.elapsed, cycle.operations);
            self.thread[i].add_each(name, phase.busy, cycle.operations);
            let each = 1e9 / cycle.operations.max(1) as f64;
            self.user[i].add(name, phase.usage.user * each);
            self.system[i].add(name, phase.usage.system * each);
            usage += phase.usage;
        }
        self.user_seconds.add(name, usage.user);
        self.system_seconds.add(name, usage.system);
        self.resident.add(name, cycle.memory.resident as f64);
        self.kernel.add(name, cycle.memory.kernel as f64);
        self.operations.add(name, cycle.operations as f64);
    }

    /// Returns LaneFS's processor time for one operation.
    fn cpu(&self, operation: usize) -> Option<f64> {
        Some(self.user[operation].median(LANEFS)? + self.system[operation].median(LANEFS)?)
    }
}

pub(super) fn measure(bench: &mut ConcurrencyBench) -> Result<()> {
    let most = bench.settings.sizes.memfs_files.iter().copied().max().unwrap_or(0).max(MOST_FILES);
    // At most one block for each file, and one more for every directory.
    let systems =
        bench.systems(SpaceRequest { inodes: most as u64 + 1_000, bytes: (most as u64 + 1_000) * 4096 })?;
    let hosts = systems.hosts.iter().map(|host| host as &dyn Memfs);
    let all: Vec<&dyn Memfs> = [&systems.lane as &dyn Memfs].into_iter().chain(hosts).collect();
    let mut table = vec![table_heading()];
    for &files in bench.settings.sizes.memfs_files {
        let asked_for = MEMFS_THREADS.iter().any(|&threads| {
            MEMFS_OPERATIONS.iter().any(|op| bench.selection.has(&memfs_name(op, files, threads)))
        });
        if !asked_for {
            continue;
        }
        let cells = measure_files(bench, files, &all)?;
        add_rows(bench, files, &cells);
        table.extend(table_lines(files, &cells));
    }
    if table.len() > 1 {
        let title = "memfs: nanoseconds for one operation by the wall clock / as a thread sees it, processor seconds of \
                     all four together, memory with all files there"
            .into();
        bench.report.tables.push(Table { title, lines: table });
    }
    Ok(())
}

/// Measures all numbers of threads with `files` files; returns a cell for each.
fn measure_files(bench: &ConcurrencyBench, files: usize, all: &[&dyn Memfs]) -> Result<Vec<Cell>> {
    let least = bench.settings.sizes.memfs_least;
    let names = flat_names(files);
    let title = format!("memfs: {files} files");
    let mut cells = vec![Cell::default(); MEMFS_THREADS.len()];
    // Directories of one cycle, by system. The warm-up decides them, so that fast systems have more than slow
    // ones.
    let mut directories: BTreeMap<String, usize> = BTreeMap::new();
    bench.in_turn(&title, all, |system, run| {
        if run == 0 {
            let few = (1_000 / files).max(1);
            system.cycle(&names, few, 1, &bench.stop)?;
            let cycle = system.cycle(&names, few, 1, &bench.stop)?;
            let times = least.as_secs_f64() / cycle.shortest().as_secs_f64().max(1e-6);
            let most = (MOST_FILES / files).clamp(1, MOST_DIRECTORIES);
            let wanted = (few as f64 * times).ceil() as usize;
            directories.insert(system.name().into(), wanted.clamp(1, most));
            return Ok(());
        }
        let directories = directories.get(system.name()).copied().unwrap_or(1);
        for (&threads, cell) in MEMFS_THREADS.iter().zip(&mut cells) {
            bench.progress.step(&format!("{title}: run {run}, {}, {threads} threads", system.name()));
            let mut sum = Cycle::default();
            for _ in 0..MOST_CYCLES {
                sum.add(&system.cycle(&names, directories, threads, &bench.stop)?);
                if sum.shortest() >= least {
                    break;
                }
            }
            cell.add(system.name(), &sum);
        }
        Ok(())
    })?;
    Ok(cells)
}

fn add_rows(bench: &mut ConcurrencyBench, files: usize, cells: &[Cell]) {
    for (cell, &threads) in cells.iter().zip(&MEMFS_THREADS) {
        for (i, operation) in MEMFS_OPERATIONS.into_iter().enumerate() {
            let row = cell.wall[i].row(&memfs_name(operation, files, threads), "ns/op");
            bench.row(row.map(|row| {
                let row = row.param("files", files).param("threads", threads).param("bytes", FILE_BYTES);
                with_goals(with_extras(row, cell, i), cells, threads, i)
            }));
        }
    }
}

fn with_extras(mut row: Row, cell: &Cell, operation: usize) -> Row {
    let kinds = [
        ("thread_ns", &cell.thread[operation]),
        ("user_ns", &cell.user[operation]),
        ("system_ns", &cell.system[operation]),
        ("user_s_all", &cell.user_seconds),
        ("system_s_all", &cell.system_seconds),
        ("resident_bytes", &cell.resident),
        ("kernel_bytes", &cell.kernel),
        ("operations", &cell.operations),
    ];
    for (kind, values) in kinds {
        for (system, median) in values.medians() {
            row = row.extra(&format!("{system}_{kind}"), median);
        }
    }
    row
}

/// Adds goals from the comparison with the cell of one thread, which is the first.
fn with_goals(mut row: Row, cells: &[Cell], threads: usize, operation: usize) -> Row {
    let Some((one, cell)) =
        cells.first().zip(MEMFS_THREADS.iter().position(|&t| t == threads).and_then(|i| cells.get(i)))
    else {
        return row;
    };
    if threads == GOAL_CPU.0
        && let Some((one, many)) = one.cpu(operation).zip(cell.cpu(operation))
        && one > 0.0
    {
        let (times, most) = (many / one, GOAL_CPU.1);
        row = row.extra("cpu_times_one_thread", times);
        row = row.goal(format!("CPU {times:.2}x 1t <= {most}"), times <= most);
    }
    if threads == GOAL_WALL.0
        && let Some((one, many)) = one.wall[operation].median(LANEFS).zip(cell.wall[operation].median(LANEFS))
        && one > 0.0
    {
        let (times, most) = (many / one, GOAL_WALL.1);
        row = row.extra("wall_times_one_thread", times);
        row = row.goal(format!("{times:.2}x 1t <= {most}"), times <= most);
    }
    row
}

fn table_heading() -> Vec<String> {
    let mut cells: Vec<String> = ["files", "system", "threads"].map(Into::into).into();
    cells.extend(MEMFS_OPERATIONS.map(String::from));
    cells.extend(["user s", "system s", "resident MiB", "kernel MiB", "operations of each"].map(Into::into));
    cells
}

/// Makes a line for each number of threads and system, grouped by system.
fn table_lines(files: usize, cells: &[Cell]) -> Vec<Vec<String>> {
    let systems: Vec<&str> = cells.first().map(|cell| cell.wall[0].systems().collect()).unwrap_or_default();
    let (own, peers): (Vec<&str>, Vec<&str>) = systems.into_iter().partition(|name| *name == LANEFS);
    let mut lines = Vec::new();
    for system in own.into_iter().chain(peers) {
        for (cell, threads) in cells.iter().zip(MEMFS_THREADS) {
            let median = |values: &Values| values.median(system).unwrap_or(0.0);
            let mib = |values: &Values| format!("{:.0}", median(values) / f64::from(1 << 20));
            let mut line = vec![files.to_string(), system.to_string(), threads.to_string()];
            line.extend(cell.wall.iter().zip(&cell.thread).map(|(wall, thread)| {
                let (wall, thread) = (median(wall), median(thread));
                if threads == 1 { short(wall) } else { format!("{} / {}", short(wall), short(thread)) }
            }));
            line.extend(
                [&cell.user_seconds, &cell.system_seconds].map(|values| format!("{:.3}", median(values))),
            );
            line.extend([mib(&cell.resident), mib(&cell.kernel), format!("{:.0}", median(&cell.operations))]);
            lines.push(line);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::systems::lane::Lane;
    use crate::systems::system::Named;

    /// Makes cells in which LaneFS takes these times for one operation, by number of threads.
    fn cells(times: [(f64, f64); 5]) -> Vec<Cell> {
        let cell = |(wall_ns, cpu_ns): (f64, f64)| {
            let mut cell = Cell::default();
            let phase = Phase {
                elapsed: Duration::from_nanos(wall_ns as u64 * 1_000),
                busy: Duration::from_nanos(wall_ns as u64 * 1_000),
                usage: Usage { user: cpu_ns / 2.0 * 1e-6, system: cpu_ns / 2.0 * 1e-6 },
            };
            cell.add(LANEFS, &Cycle { phases: [phase; 4], operations: 1_000, memory: Memory::default() });
            cell
        };
        times.map(cell).into()
    }

    fn goals(times: [(f64, f64); 5], threads: usize) -> Vec<bool> {
        let row = Row::new("r", "ns/op", &[1.0], &BTreeMap::new()).unwrap();
        with_goals(row, &cells(times), threads, 0).goals.iter().map(|goal| goal.reached).collect()
    }

    #[test]
    fn goals_compare_with_one_thread() {
        let good = [(100.0, 100.0), (55.0, 110.0), (50.0, 120.0), (50.0, 150.0), (50.0, 199.0)];
        let bad = [(100.0, 100.0), (61.0, 110.0), (50.0, 120.0), (50.0, 150.0), (50.0, 201.0)];
        for (threads, found) in [(1, 0), (2, 1), (4, 0), (16, 1)] {
            assert_eq!(goals(good, threads), vec![true; found]);
            assert_eq!(goals(bad, threads), vec![false; found]);
        }
    }

    #[test]
    fn every_cell_has_its_line() {
        let lines = table_lines(100, &cells([(100.0, 100.0); 5]));
        assert_eq!(lines.len(), 5);
        assert!(lines.iter().all(|line| line.len() == table_heading().len()));
        assert_eq!(lines[1][..4], ["100", "lanefs", "2", "100 / 100"]);
    }

    #[test]
    fn a_cycle_leaves_nothing_and_counts_every_file() {
        let lane = Lane::new(64 << 20).unwrap();
        for threads in [1, 3, 16] {
            let cycle = lane.cycle(&flat_names(10), 3, threads, &Stop::default()).unwrap();
            assert_eq!(cycle.operations, 30);
            assert!(cycle.shortest() > Duration::ZERO && cycle.memory.resident > 0);
        }
        assert_eq!(lane.volume().readdir(lane.caller(), lane.volume().root(), 0, 9).unwrap(), []);
        assert_eq!(lane.name(), LANEFS);
    }

    #[test]
    fn a_file_that_is_not_as_it_must_be_is_no_time() {
        let (lane, names, stop) = (Lane::new(64 << 20).unwrap(), flat_names(10), Stop::default());
        let dirs = vec![lane.top().unwrap()];
        let work = CycleFiles { files: &lane, names: names.iter().collect(), dirs, threads: 2, stop: &stop };
        assert!(work.phase("reading", |_, _| Ok(true)).is_ok());
        let wrong = work.phase("reading", |_, name| Ok(name != names.get(7)));
        assert!(matches!(wrong, Err(Error::Wrong { found: 9, expected: 10, .. })));
    }
}
