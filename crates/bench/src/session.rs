//! A benchmark under way, from the arguments to the report: code that all benchmarks share.
//!
//! Rows that need the same files form a *part*. A note reports a part that fails, and the others continue; a
//! stop ends them all.

use crate::error::{Error, Result};
use crate::measure::machine::{self, Machine};
use crate::measure::progress::Progress;
use crate::measure::report::{Report, Row};
use crate::measure::selection::Selection;
use crate::measure::stop::Stop;
use crate::measure::values::Values;
use crate::systems::lane::{Lane, bytes_for};
use crate::systems::peers::{Host, Medium, Peers, SpaceRequest, run_command};
use crate::systems::system::{Named, System};
use crate::systems::workload::Tree;

pub use crate::error::EXIT_STOPPED;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Exit code if every row was measured, whether or not it reached its goal.
pub const EXIT_DONE: u8 = 0;
/// Exit code if a part failed.
pub const EXIT_FAILED: u8 = 1;

/// Load (processes that use or wait for a core, averaged over a minute) that disturbs a run.
const BUSY: f64 = 0.5;

/// Runs of each row.
const RUNS: usize = 5;
/// The same with `--quick`.
const QUICK_RUNS: usize = 3;

/// Arguments of every benchmark.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CommonArgs {
    /// Smaller sizes and three runs: some minutes at most
    #[arg(long)]
    pub quick: bool,
    /// Write the results as one JSON object to FILE as well
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Measure only rows whose name matches, e.g. 'lookup-wide-*' or '{create,unlink}-flat'
    #[arg(long, value_name = "GLOB")]
    pub rows: Option<String>,
    /// Runs of each row; the median counts [default: 5, with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: Option<u32>,
    /// Compare with a directory on ext4, in place of an image of its own (which needs root)
    #[arg(long, value_name = "DIR")]
    pub ext4: Option<PathBuf>,
    /// Compare with a directory on tmpfs, in place of a mount of its own (which needs root)
    #[arg(long, value_name = "DIR")]
    pub tmpfs: Option<PathBuf>,
    /// Stop flag of the caller; `None`: signals set one.
    #[arg(skip)]
    pub stop: Option<Stop>,
}

/// LaneFS in memory, and all available peers.
pub(crate) struct Systems {
    pub(crate) lane: Lane,
    pub(crate) hosts: Vec<Host>,
}

impl Systems {
    /// Lists all, LaneFS first.
    pub(crate) fn all(&self) -> Vec<&dyn System> {
        let hosts = self.hosts.iter().map(|host| host as &dyn System);
        [&self.lane as &dyn System].into_iter().chain(hosts).collect()
    }
}

/// A benchmark under way; `S` has its sizes and further arguments.
pub(crate) struct Session<S> {
    pub(crate) settings: S,
    pub(crate) runs: usize,
    pub(crate) selection: Selection,
    pub(crate) peers: Peers,
    pub(crate) stop: Stop,
    pub(crate) progress: Progress,
    pub(crate) report: Report,
    json: Option<(PathBuf, File)>,
    failed: bool,
}

impl<S> Session<S> {
    /// Begins the benchmark `name`, whose rows are `rows`.
    ///
    /// # Errors
    /// [`Error::Arguments`], and a report or a directory that cannot be opened.
    pub(crate) fn start(name: &str, args: &CommonArgs, rows: &[String], settings: S) -> Result<Self> {
        let selection = Selection::new(args.rows.as_deref(), rows)?;
        let peers = Peers { ext4: args.ext4.clone(), tmpfs: args.tmpfs.clone() };
        peers.check()?;
        // Opened first: a name that cannot be written must not fail after a quarter of an hour.
        let json = args.json.as_ref().map(|path| {
            let file = File::create(path).map_err(Error::host(path.display().to_string()));
            file.map(|file| (path.clone(), file))
        });
        let mut session = Session {
            settings,
            runs: args.runs.map_or(if args.quick { QUICK_RUNS } else { RUNS }, |runs| runs as usize),
            selection,
            peers,
            stop: args.stop.clone().unwrap_or_else(Stop::on_signal),
            progress: Progress::new(),
            report: Report {
                bench: name.into(),
                commit: machine::commit(),
                machine: Machine::detect(),
                ..Report::default()
            },
            json: json.transpose()?,
            failed: false,
        };
        if let Some(load) = machine::load().filter(|&load| load >= BUSY) {
            session.note(format!(
                "the machine was busy at the start (load {load:.1}): its values scatter, rows of several threads \
                 suffer most"
            ));
        }
        Ok(session)
    }

    /// Measures all parts (`measure` fails only if the user stopped it), prints the table, writes the object
    /// if requested, and returns the exit code ([`EXIT_DONE`], [`EXIT_FAILED`], [`EXIT_STOPPED`]).
    ///
    /// # Errors
    /// A report that cannot be written.
    pub(crate) fn finish(mut self, measure: impl FnOnce(&mut Self) -> Result<()>) -> Result<u8> {
        let stopped = measure(&mut self).is_err();
        self.progress.finish();
        let mut out = std::io::stdout().lock();
        // A reader that closed the pipe (`| head`) is not a failure of the benchmark.
        let _ = out.write_all(self.report.table().as_bytes());
        if stopped {
            self.progress.note("stopped; the rows above are complete, the others were not measured");
            return Ok(EXIT_STOPPED);
        }
        if let Some((path, mut file)) = self.json {
            let text = self.report.json() + "\n";
            file.write_all(text.as_bytes()).map_err(Error::host(path.display().to_string()))?;
        }
        Ok(if self.failed { EXIT_FAILED } else { EXIT_DONE })
    }

    /// Runs a part if one of its rows is selected. Fails only if the user stopped the benchmark; a note
    /// reports another failure, and the benchmark continues.
    pub(crate) fn part<R: AsRef<str>>(
        &mut self,
        title: &str,
        rows: &[R],
        measure: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        if !rows.iter().any(|row| self.selection.has(row.as_ref())) {
            return Ok(());
        }
        self.stop.check()?;
        self.progress.note(&format!("{title} ..."));
        match measure(self) {
            Ok(()) => Ok(()),
            Err(_) if self.stop.is_set() => Err(Error::Stopped),
            Err(error) => {
                self.failed = true;
                self.note(format!("{title} failed: {error}"));
                Ok(())
            }
        }
    }

    /// Adds a note to the report, once for all parts that have it.
    pub(crate) fn note(&mut self, text: String) {
        if !self.report.notes.contains(&text) {
            self.progress.note(&text);
            self.report.notes.push(text);
        }
    }

    /// Makes empty peers with room for `need`; a note reports each missing one.
    pub(crate) fn hosts(&mut self, need: SpaceRequest, medium: Medium) -> Result<Vec<Host>> {
        self.progress.step("making file systems");
        let ready = self.peers.fresh(need, medium, &self.stop)?;
        for note in ready.notes {
            self.note(note);
        }
        Ok(ready.hosts)
    }

    /// Makes new, empty systems in memory with room for `need`.
    pub(crate) fn systems(&mut self, need: SpaceRequest) -> Result<Systems> {
        let hosts = self.hosts(need, Medium::Memory)?;
        Ok(Systems { lane: Lane::new(bytes_for(need))?, hosts })
    }

    /// Makes a tree on all systems.
    pub(crate) fn make_tree(&self, tree: &Tree, systems: &Systems) -> Result<()> {
        for system in systems.all() {
            self.progress.step(&format!("making {} files, {}", tree.files.len(), system.name()));
            system.make_tree(tree, &self.stop)?;
            system.settle()?;
        }
        Ok(())
    }

    /// Returns whether a program starts: `version` asks for its version. A note reports a missing one, with
    /// the way to install it. Fails only if the user stopped the benchmark.
    pub(crate) fn has_program(&mut self, name: &str, version: [&str; 2], how: &str) -> Result<bool> {
        let started = run_command(version[0], &version[1..], &self.stop);
        Ok(self.or_note(name, started, how)?.is_some())
    }

    /// Returns a peer, a program or rows that could be had. A note reports a missing one with the reason, and
    /// with the way to have it. Fails only if the user stopped the benchmark.
    pub(crate) fn or_note<T>(&mut self, name: &str, made: Result<T>, how: &str) -> Result<Option<T>> {
        match made {
            Ok(made) => Ok(Some(made)),
            Err(Error::Stopped) => Err(Error::Stopped),
            Err(error) => {
                self.note(format!("{name} is left out: {error} ({how})"));
                Ok(None)
            }
        }
    }

    /// Calls `work` on each system in turn, once to warm up and then in every run, with the number of the
    /// run, 0 for the warm-up.
    pub(crate) fn in_turn<T: Named + ?Sized>(
        &self,
        title: &str,
        systems: &[&T],
        work: impl FnMut(&T, usize) -> Result<()>,
    ) -> Result<()> {
        self.in_rounds(title, 1, systems, work)
    }

    /// As [`in_turn`](Self::in_turn), with `rounds` short rounds for each run.
    pub(crate) fn in_rounds<T: Named + ?Sized>(
        &self,
        title: &str,
        rounds: usize,
        systems: &[&T],
        work: impl FnMut(&T, usize) -> Result<()>,
    ) -> Result<()> {
        self.in_orders(title, self.runs * rounds, |_| systems.to_vec(), work)
    }

    /// As [`in_turn`](Self::in_turn) for so many rounds, each in an order of its own.
    fn in_orders<'t, T: Named + ?Sized + 't>(
        &self,
        title: &str,
        rounds: usize,
        order: impl Fn(usize) -> Vec<&'t T>,
        mut work: impl FnMut(&T, usize) -> Result<()>,
    ) -> Result<()> {
        for round in 0..=rounds {
            for system in order(round) {
                self.stop.check()?;
                let name = if round == 0 { "warm-up".into() } else { format!("run {round} of {rounds}") };
                self.progress.step(&format!("{title}: {name}, {}", system.name()));
                work(system, round)?;
            }
        }
        Ok(())
    }

    /// As [`in_turn`](Self::in_turn), where `work` returns the time of `count` operations; returns the costs of
    /// one.
    pub(crate) fn costs<T: Named + ?Sized>(
        &self,
        title: &str,
        systems: &[&T],
        count: usize,
        work: impl FnMut(&T) -> Result<Duration>,
    ) -> Result<Values> {
        self.costs_in(title, |_| systems.to_vec(), count, work)
    }

    /// As [`costs`](Self::costs), where it matters which system was asked before: one that slept leaves a
    /// processor that is slow at first. Of three systems each follows each other one equally often.
    pub(crate) fn costs_either_way<T: Named + ?Sized>(
        &self,
        title: &str,
        systems: &[&T],
        count: usize,
        work: impl FnMut(&T) -> Result<Duration>,
    ) -> Result<Values> {
        self.costs_in(title, |run| either_way(systems, run), count, work)
    }

    fn costs_in<'t, T: Named + ?Sized + 't>(
        &self,
        title: &str,
        order: impl Fn(usize) -> Vec<&'t T>,
        count: usize,
        mut work: impl FnMut(&T) -> Result<Duration>,
    ) -> Result<Values> {
        let mut values = Values::default();
        self.in_orders(title, self.runs, order, |system, run| {
            let elapsed = work(system)?;
            if run > 0 {
                values.add_each(system.name(), elapsed, count);
            }
            Ok(())
        })?;
        Ok(values)
    }

    /// Adds a row if it is selected.
    pub(crate) fn row(&mut self, row: Option<Row>) {
        if let Some(row) = row.filter(|row| self.selection.has(&row.name)) {
            self.report.rows.push(row);
        }
    }
}

/// Returns the systems in the order of a run: those after the first one go backwards in every second run.
fn either_way<T: Copy>(systems: &[T], run: usize) -> Vec<T> {
    let mut order = systems.to_vec();
    if let (1, Some(rest)) = (run % 2, order.get_mut(1..)) {
        rest.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_three_systems_each_follows_each_other_one_equally_often() {
        let asked: Vec<char> = (0..=6).flat_map(|run| either_way(&['a', 'c', 'g'], run)).collect();
        assert!(asked.chunks(3).all(|run| ['a', 'c', 'g'].iter().all(|system| run.contains(system))));
        // From the last one of the warm-up on.
        for pair in ["ac", "ag", "ca", "cg", "ga", "gc"] {
            let count = asked[2..].windows(2).filter(|two| two.iter().copied().eq(pair.chars())).count();
            assert_eq!(count, 3, "{pair}: {asked:?}");
        }
        assert!(either_way::<char>(&[], 1).is_empty());
    }

    #[test]
    fn a_missing_peer_is_named_with_the_reason_and_the_remedy_and_a_stop_ends_all() {
        let args = CommonArgs { stop: Some(Stop::default()), ..CommonArgs::default() };
        let mut session = Session::start("name", &args, &["row".into()], ()).expect("a session");
        assert_eq!(session.or_note("a peer", Ok(7), "package peer").expect("no stop"), Some(7));
        let known = session.report.notes.len();
        let missing = || Err::<u8, _>(Error::Program("no such program".into()));
        for _ in 0..2 {
            assert_eq!(session.or_note("a peer", missing(), "package peer").expect("no stop"), None);
        }
        assert_eq!(session.report.notes[known..], ["a peer is left out: no such program (package peer)"]);
        assert!(!session.has_program("it", ["lanefs-no-such-command", "-V"], "package it").expect("no stop"));
        assert!(
            session.report.notes[known + 1].starts_with("it is left out: `lanefs-no-such-command` failed")
        );
        let stopped = session.or_note::<u8>("a peer", Err(Error::Stopped), "package peer");
        assert!(matches!(stopped, Err(Error::Stopped)) && session.report.notes.len() == known + 2);
    }
}
