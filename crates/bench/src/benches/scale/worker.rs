//! The worker: a process that takes one step and prints its values, so that the most memory that it had is
//! that of the step.

use super::image::Image;
use super::items;
use super::rows::{Step, StepOutcome};
use crate::error::{Error, Result, check};
use crate::measure::report::Summary;
use crate::measure::values::LANEFS;
use lanefs::format::GROUP;
use lanefs::{Access, Caller, Volume};
use std::path::PathBuf;
use std::time::Instant;

/// Openings whose medians count.
const OPENINGS: u64 = 21;

/// Changes that are made durable one by one.
const SYNCS: u64 = 100;

/// Arguments of the hidden command `lanefs-bench scale-worker`.
#[derive(Clone, Debug, clap::Args)]
pub struct ScaleWorkerArgs {
    /// Step to take
    #[arg(long, value_enum)]
    pub(super) step: Step,
    /// Place of the volume
    #[arg(long)]
    pub(super) image: PathBuf,
    /// Keep the volume in a packed device
    #[arg(long)]
    pub(super) packed: bool,
    /// Size of the volume
    #[arg(long)]
    pub(super) bytes: u64,
    /// Number of things that the step makes
    #[arg(long)]
    pub(super) count: u64,
    /// MiB that are written
    #[arg(long, default_value_t = 0)]
    pub(super) written: u64,
    /// Number of the run, for names that are new
    #[arg(long, default_value_t = 0)]
    pub(super) run: u64,
}

impl ScaleWorkerArgs {
    /// Returns the arguments as words of a command line.
    pub(super) fn arguments(&self) -> Vec<std::ffi::OsString> {
        let step = clap::ValueEnum::to_possible_value(&self.step);
        let mut words: Vec<std::ffi::OsString> = vec!["scale-worker".into()];
        words.extend(["--step".into(), step.map(|step| step.get_name().into()).unwrap_or_default()]);
        words.extend(["--image".into(), self.image.clone().into_os_string()]);
        for (name, value) in [
            ("--bytes", self.bytes),
            ("--count", self.count),
            ("--written", self.written),
            ("--run", self.run),
        ] {
            words.extend([name.into(), value.to_string().into()]);
        }
        words.extend(self.packed.then(|| "--packed".into()));
        words
    }

    fn image(&self) -> Image {
        Image { path: self.image.clone(), is_packed: self.packed }
    }
}

/// Takes the step and prints its values as one line of JSON.
///
/// # Errors
/// The volume's and the host's.
pub fn run_scale_worker(args: &ScaleWorkerArgs) -> Result<()> {
    let mut outcome = StepOutcome::default();
    match args.step {
        Step::Make => {
            outcome.time("size-mkfs", 1, || args.image().create(args.bytes).and_then(Volume::close))?;
            outcome.memory("size-mkfs-memory");
        }
        Step::Use => {
            work(args, &mut outcome)?;
            outcome.memory("size-use-memory");
        }
        Step::Leave => leave(args)?,
        Step::Recover => {
            let volume = outcome.time("size-recover", 1, || args.image().open(args.bytes, Access::Write))?;
            volume.close().map_err(Error::volume("closing"))?;
            let each = outcome.0.get("size-recover").map_or(0.0, |ns| ns / args.count.max(1) as f64);
            outcome.set("items-orphans-open", each);
        }
        Step::Check => {
            fsck(args, &mut outcome)?;
            outcome.memory("size-fsck-memory");
        }
        Step::Grow => {
            grow(args, &mut outcome)?;
            outcome.memory("size-grow-memory");
        }
        _ => items::measure(args.step, args.count, &mut outcome)?,
    }
    // Names and numbers: serialisation cannot fail.
    println!("{}", serde_json::to_string(&outcome).unwrap_or_default());
    Ok(())
}

/// Opens the volume a number of times, and makes a file each time, which is the first change. One opening is
/// too short to be measured alone.
fn first_creates(args: &ScaleWorkerArgs, outcome: &mut StepOutcome) -> Result<()> {
    let (mut opens, mut creates) = (Vec::new(), Vec::new());
    for opening in 0..OPENINGS {
        let start = Instant::now();
        let volume = args.image().open(args.bytes, Access::Write).map_err(Error::volume("opening"))?;
        let opened = Instant::now();
        let name = format!("first-{}-{opening}", args.run);
        let made = volume.create_file(&Caller::OWNER, volume.root(), name.as_bytes(), 0o644);
        let created = Instant::now();
        made.and_then(|_| volume.close()).map_err(Error::volume("the first file"))?;
        opens.push((opened - start).as_secs_f64() * 1e9);
        creates.push((created - opened).as_secs_f64() * 1e9);
    }
    for (row, values) in [("size-open", &opens), ("size-first-create", &creates)] {
        outcome.set(row, Summary::of(values).map_or(0.0, |summary| summary.median));
    }
    Ok(())
}

/// Works on an open volume.
fn work(args: &ScaleWorkerArgs, outcome: &mut StepOutcome) -> Result<()> {
    first_creates(args, outcome)?;
    let volume = args.image().open(args.bytes, Access::Write).map_err(Error::volume("opening"))?;
    let (caller, root) = (&Caller::OWNER, volume.root());
    let name = |what: &str| format!("{what}-{}", args.run).into_bytes();
    let dir = volume.mkdir(caller, root, &name("files"), 0o755).map_err(Error::volume("mkdir"))?.ino;
    outcome.time("size-create", args.count, || {
        (0..args.count).try_for_each(|i| {
            volume.create_file(caller, dir, format!("file-{i}").as_bytes(), 0o644).map(drop)
        })
    })?;
    outcome.time("size-statfs", 1000, || (0..1000).try_for_each(|_| volume.statfs().map(drop)))?;
    // A small volume has a small journal, which these creates fill, so it commits some of them on the way.
    outcome.time("size-sync-creates", 1, || volume.sync())?;
    outcome.time("size-sync", SYNCS, || {
        (0..SYNCS).try_for_each(|i| {
            volume.create_file(caller, dir, format!("durable-{i}").as_bytes(), 0o644)?;
            volume.sync()
        })
    })?;
    // Half of the volume at most.
    let written = args.written.min(args.bytes >> 21);
    outcome.time("size-write", written, || {
        write(&volume, "/written", written, |_| ()).and_then(|()| volume.sync())
    })?;
    volume.remove_file("/written").map_err(Error::volume("removing"))?;
    let (filled, mut slowest) = (((2 * GROUP) >> 20).min(args.bytes >> 21), 0.0);
    outcome.time("size-fill", filled, || {
        write(&volume, "/filled", filled, |ns| slowest = f64::max(slowest, ns))
    })?;
    outcome.set("size-fill-slowest", slowest);
    volume.remove_file("/filled").map_err(Error::volume("removing"))?;
    outcome.set("size-fetched", volume.stats().blocks_fetched as f64);
    outcome.time("size-close", 1, || volume.close())
}

/// Writes a file in pieces of 1 MiB; `took` hears the nanoseconds of each.
fn write(volume: &Volume, path: &str, mib: u64, mut took: impl FnMut(f64)) -> lanefs::Result<()> {
    let ino = volume.write_file(path, b"")?.ino;
    let mut piece = vec![0; 1 << 20];
    for number in 0..mib {
        for block in piece.chunks_exact_mut(4096) {
            block[..8].copy_from_slice(&(number + 1).to_le_bytes());
        }
        let start = Instant::now();
        volume.write(&Caller::OWNER, ino, number << 20, &piece)?;
        took(start.elapsed().as_secs_f64() * 1e9);
    }
    Ok(())
}

/// Makes durable changes and files without a name, and keeps the volume from being closed.
fn leave(args: &ScaleWorkerArgs) -> Result<()> {
    let failed = || Error::volume("before the crash");
    let volume = args.image().open(args.bytes, Access::Write).map_err(failed())?;
    for _ in 0..args.count {
        volume.create_unnamed(&Caller::OWNER, volume.root(), 0o644).map_err(failed())?;
    }
    volume.sync().map_err(failed())?;
    // The process ends soon, as by a signal: nothing is written on the way.
    std::mem::forget(volume);
    Ok(())
}

fn fsck(args: &ScaleWorkerArgs, outcome: &mut StepOutcome) -> Result<()> {
    let report = outcome.time("size-fsck", 1, || {
        let volume = args.image().open(args.bytes, Access::Read)?;
        volume.check(false, &|_, _| {})
    })?;
    check(LANEFS, "findings of fsck", report.findings.len() as u64, 0)
}

fn grow(args: &ScaleWorkerArgs, outcome: &mut StepOutcome) -> Result<()> {
    let (image, small) = (args.image(), 1 << 30);
    let failed = || Error::volume("growing");
    image.create(small).and_then(Volume::close).map_err(failed())?;
    let volume = image.open_to_grow(small, args.bytes).map_err(failed())?;
    outcome.time("size-grow", 1, || volume.grow(args.bytes))?;
    volume.close().map_err(failed())
}
