//! The rows of publishers: a tree, and the tree again after some of its files have changed.

use super::PublishSettings;
use super::programs::{self, Program};
use super::rows::{AGAIN, GOAL_AGAIN_BYTES, GOAL_AGAIN_TIME, GOAL_SIZE, PUBLISH, SIZE};
use super::server::{Server, store};
use super::tree::SourceTree;
use crate::error::{Error, Result};
use crate::measure::report::Row;
use crate::measure::stop::Stop;
use crate::measure::values::{LANEFS, Values};
use crate::session::Session;
use crate::systems::system::Named;
use lanefs_publish::{DEFAULT_LEVEL, PublishOptions, publish};
use std::time::{Duration, Instant};

/// A system under measurement. Each has a folder of its name.
#[derive(Clone, Copy)]
enum Writer {
    Lane,
    Program(Program),
}

impl Named for Writer {
    fn name(&self) -> &str {
        match self {
            Writer::Lane => LANEFS,
            Writer::Program(program) => program.name(),
        }
    }
}

impl Writer {
    /// Makes the folder again.
    fn prepare(self, server: &Server, tree: &SourceTree, stop: &Stop) -> Result<()> {
        server.remove(self.name());
        match self {
            Writer::Program(Program::Restic) => {
                let cache = tree.restic_cache();
                programs::restic_init(server.address(), self.name(), &cache, stop)
            }
            _ => Ok(()),
        }
    }

    /// Stores the tree.
    fn write(self, server: &Server, tree: &SourceTree, stop: &Stop) -> Result<Duration> {
        let start = Instant::now();
        match self {
            Writer::Lane => publish_tree(server, tree, stop)?,
            Writer::Program(Program::Restic) => {
                let cache = tree.restic_cache();
                programs::restic_backup(server.address(), self.name(), (&tree.dir, &cache), stop)?;
            }
            Writer::Program(_) => {
                programs::tar(server.address(), self.name(), &tree.dir, DEFAULT_LEVEL, stop)?;
            }
        }
        Ok(start.elapsed())
    }
}

/// As `lanefs publish`.
fn publish_tree(server: &Server, tree: &SourceTree, stop: &Stop) -> Result<()> {
    let (volume, options) = (tree.open()?, PublishOptions::default());
    let published =
        publish(&volume, store(server.address(), LANEFS)?, "latest", &options, &|_, _| !stop.is_set());
    stop.check()?;
    published.map(drop).map_err(Error::publication("publishing"))
}

/// Values of all rounds.
#[derive(Default)]
struct MeasuredWrite {
    first: Values,
    again: Values,
    /// Shares of the bytes and of the time of the first publication that the second one took.
    bytes_again: Values,
    time_again: Values,
    sizes: Values,
    /// Share of the files' bytes that changed.
    changed: Values,
}

/// Measures the selected rows; the folder of LaneFS then has the last publication.
pub(super) fn measure(
    bench: &mut Session<PublishSettings>,
    server: &Server,
    tree: &SourceTree,
    rounds: usize,
) -> Result<()> {
    let mut writers = vec![Writer::Lane];
    if bench.selection.has(PUBLISH) || bench.selection.has(AGAIN) {
        for program in [Program::Restic, Program::Tar] {
            writers.extend(program.is_there(bench)?.then_some(Writer::Program(program)));
        }
    }
    let mut measured = MeasuredWrite::default();
    for round in 1..=rounds {
        measure_round(bench, server, tree, &mut writers, (round, rounds), &mut measured)?;
    }
    if bench.selection.has(SIZE) && Program::Squashfs.is_there(bench)? {
        bench.progress.step(Program::Squashfs.name());
        let image = tree.image.with_extension("sqfs");
        let bytes = programs::squashfs(&tree.dir, &image, &bench.stop)?;
        measured.sizes.add(Program::Squashfs.name(), bytes as f64 / 1e6);
    }
    add_rows(bench, tree, &measured);
    Ok(())
}

fn measure_round(
    bench: &mut Session<PublishSettings>,
    server: &Server,
    tree: &SourceTree,
    writers: &mut Vec<Writer>,
    (round, rounds): (usize, usize),
    measured: &mut MeasuredWrite,
) -> Result<()> {
    let mut first = Vec::new();
    for writer in std::mem::take(writers) {
        bench.progress.step(&format!("{PUBLISH}: run {round} of {rounds}, {}", writer.name()));
        let written = writer.prepare(server, tree, &bench.stop);
        let Some(elapsed) =
            or_left_out(bench, writer, written.and_then(|()| writer.write(server, tree, &bench.stop)))?
        else {
            continue;
        };
        let bytes = server.stored(writer.name(), &bench.stop)?;
        measured.first.add(writer.name(), elapsed.as_secs_f64());
        measured.sizes.add(writer.name(), bytes as f64 / 1e6);
        writers.push(writer);
        first.push((writer, elapsed, bytes));
    }
    if !bench.selection.has(AGAIN) {
        return Ok(());
    }
    let changed = tree.change(round, &bench.stop)?;
    measured.changed.add(LANEFS, changed as f64 / tree.bytes() as f64);
    for (writer, elapsed, bytes) in first {
        bench.progress.step(&format!("{AGAIN}: run {round} of {rounds}, {}", writer.name()));
        // A stream has all bytes again.
        let kept = if matches!(writer, Writer::Program(Program::Tar)) { 0 } else { bytes };
        let again = writer.write(server, tree, &bench.stop);
        let Some(again) = or_left_out(bench, writer, again)? else { continue };
        let more = server.stored(writer.name(), &bench.stop)?.saturating_sub(kept);
        measured.again.add(writer.name(), again.as_secs_f64());
        measured.bytes_again.add(writer.name(), more as f64 / bytes.max(1) as f64);
        measured.time_again.add(writer.name(), again.as_secs_f64() / elapsed.as_secs_f64());
    }
    Ok(())
}

/// The time of a writer. A peer that fails is left out, which a note tells.
fn or_left_out(
    bench: &mut Session<PublishSettings>,
    writer: Writer,
    written: Result<Duration>,
) -> Result<Option<Duration>> {
    match (writer, written) {
        (_, Ok(elapsed)) => Ok(Some(elapsed)),
        (Writer::Program(program), Err(error)) if !bench.stop.is_set() => {
            bench.note(format!("{} is left out: {error}", program.name()));
            Ok(None)
        }
        (_, Err(error)) => Err(error),
    }
}

fn add_rows(bench: &mut Session<PublishSettings>, tree: &SourceTree, measured: &MeasuredWrite) {
    let described = |row: Row| {
        row.param("names", tree.names).param("bytes", tree.bytes()).param("zstd_level", DEFAULT_LEVEL)
    };
    let row = measured.first.row(PUBLISH, "s").map(|row| {
        described(row).goal_ratio(Program::Restic.name(), 1.0).goal_ratio(Program::Tar.name(), 1.0)
    });
    bench.row(row);
    let least = (1000.0 / GOAL_SIZE).round() / 1000.0;
    let row = measured.sizes.row(SIZE, "MB");
    bench.row(row.map(|row| described(row).goal_ratio(Program::Squashfs.name(), least)));
    let row = measured.again.row(AGAIN, "s").map(|mut row| {
        for (system, share) in measured.bytes_again.medians() {
            row = row.extra(&format!("{system}_share_of_bytes"), share);
        }
        for (system, share) in measured.time_again.medians() {
            row = row.extra(&format!("{system}_share_of_time"), share);
        }
        let share = |values: &Values| values.median(LANEFS).unwrap_or(f64::INFINITY);
        described(row)
            .extra("changed_share_of_bytes", share(&measured.changed))
            .goal(
                format!("bytes <= {GOAL_AGAIN_BYTES} of all"),
                share(&measured.bytes_again) <= GOAL_AGAIN_BYTES,
            )
            .goal(
                format!("time <= {GOAL_AGAIN_TIME} of the first"),
                share(&measured.time_again) <= GOAL_AGAIN_TIME,
            )
    });
    bench.row(row);
}
