//! `mount-tree-*`: the use of a tree of small files by the programs that people use, one after the other.
//! Nothing is dropped in between, as on a machine in use; the first program finds new directories.

use super::bench::{MountBench, MountedSystem, PASSTHROUGH};
use super::processors::on_one;
use super::requests::{RequestCounts, table};
use super::rows::TREE;
use super::sample_tree::{NEEDLE, SampleTree};
use crate::error::{Error, Result, check};
use crate::measure::values::{LANEFS, Values};
use crate::systems::peers::{SpaceRequest, run_command, run_measured};
use crate::systems::system::Named;
use std::fs;
use std::path::Path;
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
}

const fn tree_command(row: usize, words: &'static [&'static str], lines: Lines) -> TreeCommand {
    TreeCommand { row: TREE[row], before: &[], words, lines }
}

const ARCHIVE: &str = "ARCHIVE";
const STATEMENTS: &str = "STATEMENTS";

const WORKLOADS: [TreeCommand; TREE.len()] = [
    tree_command(0, &["tar", "xf", ARCHIVE], Lines::Ignored),
    tree_command(1, &["find", "tree"], Lines::Entries),
    tree_command(2, &["ls", "-lR", "tree"], Lines::Dashes),
    tree_command(3, &["du", "-s", "tree"], Lines::Ignored),
    tree_command(4, &["grep", "-rl", NEEDLE, "tree"], Lines::Needles),
    tree_command(5, &["cp", "-a", "tree", "copy"], Lines::Ignored),
    tree_command(6, &["diff", "-r", "tree", "copy"], Lines::Ignored),
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
    fn run(&self, bench: &MountBench, at: &Path, source: &SampleTree) -> Result<Duration> {
        let done = run_measured(command(self.words, at, source), &bench.stop)?;
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
    let mut values = <[Values; TREE.len()]>::default();
    let mut requests: Vec<(&str, RequestCounts)> = Vec::new();
    bench.in_turn("a tree", &mounted.iter().collect::<Vec<_>>(), |system, run| {
        let at = system.path().join("people");
        fs::create_dir(&at).map_err(Error::host(at.display().to_string()))?;
        if system.name() == LANEFS {
            requests.clear();
        }
        for (workload, values) in WORKLOADS.iter().zip(&mut values) {
            if missing.contains(&workload.words[0]) {
                continue;
            }
            let (taken, counted) = one(bench, system, workload, &at, &source)?;
            requests.extend(counted.map(|counted| (workload.row, counted)));
            if run > 0 {
                values.add(system.name(), taken.as_secs_f64() * 1e3);
            }
        }
        fs::remove_dir_all(&at).map_err(Error::host(at.display().to_string()))
    })?;
    for (workload, values) in WORKLOADS.iter().zip(&values) {
        let counted = requests.iter().find(|(row, _)| *row == workload.row).map(|(_, counted)| counted);
        let row = values.row(workload.row, "ms").map(|row| {
            let row = row.param("files", files).param("entries", source.entries).param("processors", 1);
            let row = row.goal_ratio("ext4", GOAL);
            let Some(counted) = counted else { return row };
            let row = row.extra("requests", counted.all() as f64);
            let kinds = counted.by_kind();
            kinds
                .into_iter()
                .fold(row, |row, (kind, count)| row.extra(&format!("requests-{kind}"), count as f64))
        });
        bench.row(row);
    }
    requests.retain(|(row, _)| bench.selection.has(row));
    bench.report.tables.push(table(&requests));
    Ok(())
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
    let taken = on_one(system.server(), || workload.run(bench, at, source))?;
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
