//! `mount-build-c*`: a project in C, built by `make` and `gcc`, and built again when nothing has changed.

use super::bench::{MountBench, MountedSystem, PASSTHROUGH};
use super::c_project::{CProject, PROGRAM};
use super::requests::{RequestCounts, described, table};
use super::rows::BUILD;
use crate::error::{Error, Result, check};
use crate::measure::stop::Stop;
use crate::measure::values::{LANEFS, Values};
use crate::systems::peers::{MeasuredCommand, SpaceRequest, run_measured, run_prepared};
use crate::systems::system::Named;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Minimum of ext4's speed.
const GOAL: f64 = 0.8;

/// Processes that `make` runs at once.
const JOBS: usize = 2;

/// Programs that a build needs, and their packages.
const PROGRAMS: [(&str, &str); 3] =
    [("make", "package make"), ("gcc", "package gcc"), ("ar", "package binutils")];

/// Measures both rows.
pub(super) fn measure(bench: &mut MountBench) -> Result<()> {
    for (program, how) in PROGRAMS {
        if !bench.has_program("building C", [program, "--version"], how)? {
            return Ok(());
        }
    }
    let project = CProject::new(bench.settings.sizes.c_units);
    let need = SpaceRequest { inodes: 8 * project.sources() as u64, bytes: 512 << 20 };
    let systems = bench.in_memory(need)?;
    // The passthrough serves no changes of names, by which libraries are made.
    let mut mounted = systems.mounted();
    mounted.retain(|system| system.name() != PASSTHROUGH);
    let mut values = [Values::default(), Values::default()];
    let mut requests: Vec<(&str, RequestCounts)> = Vec::new();
    bench.in_turn("a build", &mounted.iter().collect::<Vec<_>>(), |system, run| {
        let at = system.path().join("project");
        fs::create_dir(&at).map_err(Error::host(at.display().to_string()))?;
        project.write(&at)?;
        if system.name() == LANEFS {
            requests.clear();
        }
        for ((values, row), compiled) in values.iter_mut().zip(BUILD).zip([project.sources(), 0]) {
            let before = count(bench, system)?;
            let done = build(&at, project, compiled, &bench.stop)?;
            let counted = count(bench, system)?.zip(before).map(|(now, before)| now.since(&before));
            requests.extend(counted.map(|counted| (row, counted)));
            if run > 0 {
                values.add(system.name(), done.elapsed.as_secs_f64() * 1e3);
            }
        }
        fs::remove_dir_all(&at).map_err(Error::host(at.display().to_string()))
    })?;
    for (values, name) in values.iter().zip(BUILD) {
        let row = values.row(name, "ms").map(|row| {
            let row = row.param("sources", project.sources()).param("jobs", JOBS).goal_ratio("ext4", GOAL);
            let counted = requests.iter().find(|(row, _)| *row == name);
            counted.map_or(row.clone(), |(_, counted)| described(row, counted))
        });
        bench.row(row);
    }
    requests.retain(|(row, _)| bench.selection.has(row));
    bench.report.tables.push(table("a build", &requests));
    Ok(())
}

/// Counts the requests to LaneFS; `None` for a peer.
fn count(bench: &MountBench, system: &MountedSystem) -> Result<Option<RequestCounts>> {
    match system.name() {
        LANEFS => RequestCounts::of(bench, system.path()).map(Some),
        _ => Ok(None),
    }
}

/// Builds the project in a directory. It must compile so many sources, and make a program that prints the
/// right number.
fn build(at: &Path, project: CProject, compiled: usize, stop: &Stop) -> Result<MeasuredCommand> {
    let mut command = Command::new("make");
    command.arg(format!("-j{JOBS}")).current_dir(at);
    // Settings of the user who measures, and of a `make` that runs the benchmark.
    for variable in
        ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEFILES", "CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH"]
    {
        command.env_remove(variable);
    }
    let done = run_measured(command, stop)?;
    let found = done.output.lines().filter(|line| line.contains(" -c -o ")).count();
    check("make", "compiled sources", found as u64, compiled)?;
    let printed = run_prepared(Command::new(at.join(PROGRAM)), stop)?;
    let is_right = printed.trim() == project.answer().to_string();
    check("the program that was built", "numbers", u64::from(is_right), 1)?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_project_is_built_once_and_its_program_prints_the_number_that_it_should() {
        let (temp, stop) = (tempfile::tempdir().unwrap(), Stop::default());
        let project = CProject::new(40);
        project.write(temp.path()).unwrap();
        build(temp.path(), project, project.sources(), &stop).unwrap();
        build(temp.path(), project, 0, &stop).unwrap();
        // A program of other sources, and sources that were compiled before, are seen.
        for (project, compiled) in [(CProject::new(39), 0), (project, project.sources())] {
            let wrong = build(temp.path(), project, compiled, &stop);
            assert!(matches!(wrong, Err(Error::Wrong { .. })), "{wrong:?}");
        }
        // A header is a reason to compile those that include it: main.c and six units.
        let header = fs::File::options().append(true).open(temp.path().join("include/unit-000.h")).unwrap();
        header.set_modified(SystemTime::now() + Duration::from_secs(60)).unwrap();
        build(temp.path(), project, 7, &stop).unwrap();
    }
}
