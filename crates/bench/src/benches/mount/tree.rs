//! `mount-tree-*`: the use of a tree of small files by the programs that people use, one after the other.
//! Nothing is dropped in between, as on a machine in use; the first program finds new directories. SquashFS,
//! which has the tree and its copy from the start, gets the programs that only read.

use super::bench::{MountBench, MountedSystem, PASSTHROUGH};
use super::processors::on_one;
use super::requests::{RequestCounts, described, table};
use super::rows::TREE;
use super::sample_tree::{NEEDLE, SampleTree};
use super::squash::SquashedTree;
use crate::error::{Error, Result, check};
use crate::measure::stop::Stop;
use crate::measure::values::{LANEFS, Values};
use crate::systems::peers::{SpaceRequest, run_command, run_measured};
use crate::systems::system::Named;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Minimum of ext4's speed.
const GOAL: f64 = 0.8;

/// Lines of a program's output that count.
enum Lines {
    /// None are looked at: the exit code says enough.
    Ignored,
    /// One for each file, link and directory.
    Entries,
    /// One for each file, which begins with a dash.
    Dashes,
    /// One for each file with the needle.
    Needles,
    /// One for each file and link.
    Changes,
}

/// A program and its arguments, of which `ARCHIVE` and `STATEMENTS` stand for files of the source.
struct TreeCommand {
    row: &'static str,
    /// A command before it, which is not measured.
    before: &'static [&'static str],
    words: &'static [&'static str],
    lines: Lines,
    /// It reads `tree` and `copy`, and changes nothing.
    only_reads: bool,
}

const fn tree_command(row: usize, words: &'static [&'static str], lines: Lines) -> TreeCommand {
    TreeCommand { row: TREE[row], before: &[], words, lines, only_reads: false }
}

const fn reading(row: usize, words: &'static [&'static str], lines: Lines) -> TreeCommand {
    TreeCommand { only_reads: true, ..tree_command(row, words, lines) }
}

const ARCHIVE: &str = "ARCHIVE";
const STATEMENTS: &str = "STATEMENTS";

const WORKLOADS: [TreeCommand; TREE.len()] = [
    tree_command(0, &["tar", "xf", ARCHIVE], Lines::Ignored),
    reading(1, &["find", "tree"], Lines::Entries),
    reading(2, &["ls", "-lR", "tree"], Lines::Dashes),
    reading(3, &["du", "-s", "tree"], Lines::Ignored),
    reading(4, &["grep", "-rl", NEEDLE, "tree"], Lines::Needles),
    tree_command(5, &["cp", "-a", "tree", "copy"], Lines::Ignored),
    reading(6, &["diff", "-r", "tree", "copy"], Lines::Ignored),
    tree_command(7, &["chmod", "-R", "g-rwx", "tree"], Lines::Ignored),
    TreeCommand {
        before: &["git", "init", "-q", "tree"],
        ..tree_command(8, &["git", "-C", "tree", "add", "-A"], Lines::Ignored)
    },
    tree_command(9, &["git", "-C", "tree", "status", "--porcelain"], Lines::Changes),
    tree_command(10, &["sqlite3", "mix.db", ".read STATEMENTS"], Lines::Ignored),
    tree_command(11, &["rm", "-rf", "copy"], Lines::Ignored),
];

impl TreeCommand {
    /// Runs the program in a directory, and checks its answer.
    fn run(&self, stop: &Stop, at: &Path, source: &SampleTree) -> Result<Duration> {
        let done = run_measured(command(self.words, at, source), stop)?;
        let lines = || done.output.lines();
        let (found, expected) = match self.lines {
            Lines::Ignored => (0, 0),
            Lines::Entries => (lines().count(), source.entries),
            Lines::Dashes => (lines().filter(|line| line.starts_with('-')).count(), source.files),
            Lines::Needles => (lines().count(), source.needles),
            Lines::Changes => (lines().count(), source.files + source.links),
        };
        check(self.row, "lines", found as u64, expected)?;
        Ok(done.elapsed)
    }
}

fn command(words: &[&str], at: &Path, source: &SampleTree) -> Command {
    let (archive, statements) = (source.archive(), source.statements());
    let named = |word: &&str| {
        word.replace(ARCHIVE, &archive.to_string_lossy()).replace(STATEMENTS, &statements.to_string_lossy())
    };
    let mut command = Command::new(words.first().unwrap_or(&"true"));
    command.args(words.iter().skip(1).map(named)).current_dir(at);
    // No settings of the user who measures, and no work that version control does later.
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").env("HOME", at);
    command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "gc.auto").env("GIT_CONFIG_VALUE_0", "0");
    command
}

/// Measures all rows.
pub(super) fn measure(bench: &mut MountBench) -> Result<()> {
    let missing = missing_programs(bench)?;
    let files = bench.settings.sizes.tree_files;
    bench.progress.step("making an archive of a tree");
    let source = SampleTree::make(files, &bench.stop)?;
    // The tree, its copy, and the objects of version control.
    let need = SpaceRequest { inodes: 6 * source.entries as u64, bytes: (512 << 20) + 16 * source.bytes };
    let systems = bench.in_memory(need)?;
    // The passthrough serves neither links nor changes of times and names.
    let mut mounted = systems.mounted();
    mounted.retain(|system| system.name() != PASSTHROUGH);
    let is_read = WORKLOADS.iter().any(|workload| workload.only_reads && bench.selection.has(workload.row));
    let squashed = if is_read { SquashedTree::make(bench, &source)? } else { None };
    mounted.extend(squashed.iter().flat_map(SquashedTree::mounted));
    let mut values = <[Values; TREE.len()]>::default();
    let mut requests: Vec<(&str, RequestCounts)> = Vec::new();
    bench.in_turn("a tree", &mounted.iter().collect::<Vec<_>>(), |system, run| {
        let at = Place::make(system)?;
        if system.name() == LANEFS {
            requests.clear();
        }
        for (workload, values) in WORKLOADS.iter().zip(&mut values) {
            if missing.contains(&workload.words[0]) || system.is_read_only() && !workload.only_reads {
                continue;
            }
            let (taken, counted) = one(bench, system, workload, &at.0, &source)?;
            requests.extend(counted.map(|counted| (workload.row, counted)));
            if run > 0 {
                values.add(system.name(), taken.as_secs_f64() * 1e3);
            }
        }
        at.remove(system)
    })?;
    for (workload, values) in WORKLOADS.iter().zip(&values) {
        let counted = requests.iter().find(|(row, _)| *row == workload.row).map(|(_, counted)| counted);
        let row = values.row(workload.row, "ms").map(|row| {
            let row = row.param("files", files).param("entries", source.entries).param("processors", 1);
            let row = row.goal_ratio("ext4", GOAL);
            counted.map_or(row.clone(), |counted| described(row, counted))
        });
        bench.row(row);
    }
    requests.retain(|(row, _)| bench.selection.has(row));
    bench.report.tables.push(table("a tree", &requests));
    Ok(())
}

/// The directory in which the programs run: a new one, or the root of a system that cannot be changed.
struct Place(PathBuf);

impl Place {
    fn make(system: &MountedSystem) -> Result<Place> {
        if system.is_read_only() {
            return Ok(Place(system.path().into()));
        }
        let at = system.path().join("people");
        fs::create_dir(&at).map_err(Error::host(at.display().to_string()))?;
        Ok(Place(at))
    }

    fn remove(self, system: &MountedSystem) -> Result<()> {
        if system.is_read_only() {
            return Ok(());
        }
        fs::remove_dir_all(&self.0).map_err(Error::host(self.0.display().to_string()))
    }
}

/// Runs a workload on a system; counts the requests to LaneFS.
fn one(
    bench: &MountBench,
    system: &MountedSystem,
    workload: &TreeCommand,
    at: &Path,
    source: &SampleTree,
) -> Result<(Duration, Option<RequestCounts>)> {
    if !workload.before.is_empty() {
        run_measured(command(workload.before, at, source), &bench.stop)?;
    }
    let count = || match system.name() {
        LANEFS => RequestCounts::of(bench, system.path()).map(Some),
        _ => Ok(None),
    };
    let before = count()?;
    let taken = on_one(system.server(), || workload.run(&bench.stop, at, source))?;
    let counted = count()?.zip(before).map(|(now, before)| now.since(&before));
    Ok((taken, counted))
}

/// Returns the programs that are not here, each with a note.
fn missing_programs(bench: &mut MountBench) -> Result<Vec<&'static str>> {
    let mut missing: Vec<&str> = Vec::new();
    for workload in &WORKLOADS {
        let program = workload.words[0];
        if missing.contains(&program) || run_command(program, &["--version"], &bench.stop).is_ok() {
            continue;
        }
        bench.stop.check()?;
        bench.note(format!("{} and other rows of {program} are left out: it is not installed", workload.row));
        missing.push(program);
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_only_read_leave_a_tree_as_it_was() {
        let (temp, stop) = (tempfile::tempdir().unwrap(), Stop::default());
        let source = SampleTree::make(40, &stop).unwrap();
        let sum = |of: &str| {
            // Names, types, owners, times of changes and contents.
            let list = format!(
                "cd {of} && find . -printf '%p %y %m %U %C@\\n' | sort && cat $(find . -type f | sort)"
            );
            run_command("sh", &["-c", &list], &stop).unwrap()
        };
        let at = temp.path().to_string_lossy().into_owned();
        run_command("tar", &["xf", &source.archive().to_string_lossy(), "-C", &at], &stop).unwrap();
        run_command("cp", &["-a", &format!("{at}/tree"), &format!("{at}/copy")], &stop).unwrap();
        let before = sum(&at);
        let reading: Vec<_> = WORKLOADS.iter().filter(|workload| workload.only_reads).collect();
        for workload in &reading {
            workload.run(&stop, temp.path(), &source).unwrap();
            assert_eq!(sum(&at), before, "{}", workload.row);
        }
        let rows: Vec<_> =
            reading.iter().map(|workload| workload.row.trim_start_matches("mount-tree-")).collect();
        assert_eq!(rows, ["find", "ls-lr", "du", "grep-r", "diff-r"]);
    }
}
