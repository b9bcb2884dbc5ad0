//! `*-instructions`: the cost of one operation, counted by callgrind, which other load does not disturb.
//!
//! Each allocator does a workload twice, the second time with ten times the steps. The difference excludes
//! the start of the program and the warm-up. The same difference with two functions that do nothing is the
//! loop itself, with a call and a return; it is subtracted.

use super::allocators::Allocator;
use super::bench::{AllocBench, Settings};
use super::goals::instructions_goal;
use super::rows::{COUNTED, instructions_name};
use super::worker::{WorkerArgs, parse};
use super::workload::Workload;
use crate::error::{Error, Result};
use crate::measure::report::Row;
use crate::measure::stop::Stop;
use crate::measure::values::{LANEFS, Values};
use crate::systems::peers::run_command;
use std::process::Command;

/// Counts of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InstructionCount {
    instructions: u64,
    operations: u64,
}

pub(super) fn measure(bench: &mut AllocBench) -> Result<()> {
    if let Err(error) = run_command("valgrind", &["--version"], &bench.stop) {
        bench.stop.check()?;
        bench.note(format!("{error}: no row of instructions. On Debian: apt-get install valgrind"));
        return Ok(());
    }
    let empty = Allocator { name: "no allocator", library: None };
    for (workload, steps) in COUNTED.into_iter().zip(bench.settings.sizes.counted) {
        let name = instructions_name(workload);
        if !bench.selection.has(&name) {
            continue;
        }
        let each = |allocator: &Allocator, is_empty: bool| {
            bench.progress.step(&format!("{name}: {}", allocator.name));
            let short = bench.settings.count(allocator, workload, steps / 10, is_empty, &bench.stop)?;
            let long = bench.settings.count(allocator, workload, steps, is_empty, &bench.stop)?;
            per_operation(short, long).ok_or_else(|| {
                let name = allocator.name;
                Error::Library(format!(
                    "{name} under valgrind: {long:?} in the long run and {short:?} in the short one"
                ))
            })
        };
        let own = each(&empty, true)?;
        let (mut values, mut left_out) = (Values::default(), Vec::new());
        for allocator in &bench.settings.allocators {
            match each(allocator, false) {
                Ok(count) => values.add(allocator.name, count - own),
                // Some peers do not start under valgrind, which offers less address space.
                Err(Error::Command { message, .. }) if allocator.name != LANEFS && !bench.stop.is_set() => {
                    left_out.push(format!(
                        "{} is left out, under valgrind it ends with: {message}",
                        allocator.name
                    ));
                }
                Err(error) => return Err(error),
            }
        }
        let row = values.row(&name, "instr/op").map(|row| {
            let row = row.param("steps", steps).extra("loop_instructions", own);
            left_out.into_iter().fold(instructions_goal(row, workload), Row::note)
        });
        bench.row(row);
    }
    Ok(())
}

impl Settings {
    fn count(
        &self,
        allocator: &Allocator,
        workload: Workload,
        steps: u64,
        empty: bool,
        stop: &Stop,
    ) -> Result<InstructionCount> {
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--log-fd=1"]).arg(&self.program);
        let args = WorkerArgs { workload, threads: 1, steps, expect: None, empty };
        let output = self.output(command, allocator, args, stop)?;
        counted(&output).ok_or_else(|| {
            Error::Library(format!(
                "the worker of {} under valgrind printed no outcome: {output}",
                allocator.name
            ))
        })
    }
}

/// Reads instructions and operations from the output of a worker under callgrind.
fn counted(output: &str) -> Option<InstructionCount> {
    let collected = output.lines().find_map(|line| line.split_once("Collected : "))?.1;
    Some(InstructionCount {
        instructions: collected.trim().parse().ok()?,
        operations: parse(output)?.operations,
    })
}

/// Instructions for one of the operations that only the long run did. The start of a process takes some ten
/// thousand more or fewer each time, so for almost no work this may be below zero.
fn per_operation(short: InstructionCount, long: InstructionCount) -> Option<f64> {
    let operations = long.operations.checked_sub(short.operations).filter(|&count| count > 0)?;
    Some((long.instructions as f64 - short.instructions as f64) / operations as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_and_operations_are_read() {
        let output = "==7== Callgrind\n{\"operations\":200,\"elapsed_ns\":9,\"resident_bytes\":0}\n\
                      ==7== Events    : Ir\n==7== Collected : 12345\n==7== \n";
        assert_eq!(counted(output), Some(InstructionCount { instructions: 12345, operations: 200 }));
        assert_eq!(counted("==7== Collected : 12345\n"), None);
        assert_eq!(counted("{\"operations\":200,\"elapsed_ns\":9,\"resident_bytes\":0}\n"), None);
    }

    #[test]
    fn start_and_warm_up_fall_out_of_the_difference() {
        let run = |instructions, operations| InstructionCount { instructions, operations };
        assert_eq!(per_operation(run(1_000_100, 10), run(1_002_000, 200)), Some(10.0));
        assert_eq!(per_operation(run(5, 10), run(6, 10)), None);
        assert_eq!(per_operation(run(6, 10), run(5, 20)), Some(-0.1));
    }
}
