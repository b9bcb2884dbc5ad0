//! `lanefs demo`: imports, resolves and exports a real tree, and compares each answer with the host's.

mod expectation;
mod report;
mod resolve;

use crate::common::transfer;
use crate::terminal::console::say;
use crate::terminal::failure::{Failure, Outcome, check_interrupt};
use crate::terminal::progress::TransferProgress;
use crate::terminal::{exit, interrupt};
use crate::text::bytes;
use crate::text::size::{self, human};
use clap::Args;
use expectation::LeftOut;
use lanefs::format::BLOCK;
use lanefs::{CreateOptions, FileKind, Volume};
use lanefs_transfer::{
    CompareOptions, Control, ExportOptions, ImportOptions, Inventory, Item, Problem, Report, compare_trees,
    export_tree, import_tree, take_inventory,
};
use report::{DemoReport, StepRow};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Import, resolve and export a real tree, and compare each answer with the host's
///
/// Creates a volume in a temporary directory, imports the tree, resolves each of its paths and as many absent
/// ones in one batch, compares each answer with the host's lstat, exports the tree, compares it with the
/// original byte for byte, and checks the volume. The exit code is 1 if anything differs.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lanefs demo
  lanefs demo --tree ~/src --keep")]
pub struct Demo {
    /// The tree
    #[arg(long, value_name = "DIR", default_value = "/usr/share")]
    tree: PathBuf,
    /// Size of the volume: 512M, 8G, 1.5T [default: enough for the tree]
    #[arg(long, allow_negative_numbers = true, value_parser = size::parse_size)]
    size: Option<u64>,
    /// Keep the volume and the exported tree, and print their location
    #[arg(long)]
    keep: bool,
}

impl Demo {
    /// Runs the demo and returns the exit code.
    ///
    /// # Errors
    /// A step could not start.
    pub fn execute(&self) -> Result<u8, Failure> {
        let mut builder = tempfile::Builder::new();
        let temp = builder
            .prefix("lanefs-demo-")
            .disable_cleanup(self.keep)
            .tempdir()
            .map_err(|error| Failure::host(&std::env::temp_dir(), &error))?;
        let report = DemoReport::start()?;
        let mut run = DemoRun { tree: &self.tree, size: self.size, report };
        let outcome = run.execute(temp.path());
        if self.keep {
            say(&format!("kept: {}", temp.path().display()));
        }
        match outcome {
            Err(Failure::Interrupted) => {
                say("interrupted");
                Ok(exit::INTERRUPTED)
            }
            Err(failure) => Err(failure),
            Ok(()) => run.report.finish(&self.tree),
        }
    }
}

/// A demo in progress.
struct DemoRun<'a> {
    tree: &'a Path,
    size: Option<u64>,
    report: DemoReport,
}

impl DemoRun<'_> {
    fn execute(&mut self, temp: &Path) -> Outcome {
        let started = Instant::now();
        let inventory = take_inventory(self.tree).map_err(|error| transfer::failure(&error))?;
        let (step, unit, count) = ("host: list the tree", "names", inventory.items.len() as u64);
        self.report.step(StepRow { step, time: started.elapsed(), count, unit, remark: String::new() })?;

        let image = temp.join("demo.lane");
        let volume = self.create(&image, &inventory.items)?;
        let imported = self.import(&volume)?;
        let left_out = self.left_out(&inventory, &imported);
        let items: Vec<Item> =
            inventory.items.into_iter().filter(|item| !left_out.covers(&item.path)).collect();
        resolve::compare_lookups(&mut self.report, &volume, self.tree, &items)?;

        let exported_tree = temp.join("exported");
        let exported = self.export(&volume, &exported_tree)?;
        self.compare(&exported_tree, &left_out, &exported)?;
        self.check(&volume)?;
        volume.close().map_err(|error| Failure::volume(bytes::of_path(&image), &error))
    }

    fn create(&mut self, image: &Path, items: &[Item]) -> Result<Volume, Failure> {
        let size = self.size.unwrap_or_else(|| size_for(items));
        let options = CreateOptions { size, ..CreateOptions::default() };
        let started = Instant::now();
        let volume = Volume::create(image, &options)
            .map_err(|error| Failure::volume(bytes::of_path(image), &error))?;
        let remark = format!("{}B, sparse, in a file", human(size));
        let (step, unit) = ("create a volume", "volume");
        self.report.step(StepRow { step, time: started.elapsed(), count: 1, unit, remark })?;
        Ok(volume)
    }

    fn import(&mut self, volume: &Volume) -> Result<Report, Failure> {
        let progress = TransferProgress::new("importing");
        let control = Control { interrupt: &interrupt::raised, progress: &progress };
        let report = import_tree(volume, self.tree, b"/demo", &ImportOptions::default(), control);
        progress.clear();
        let report = completed(report)?;
        let remark = format!("{}B, {}B/s, synced", human(report.counts.bytes), speed(&report));
        let (step, unit, count) = ("import", "names", report.counts.entries());
        self.report.step(StepRow { step, time: report.elapsed, count, unit, remark })?;
        Ok(report)
    }

    /// Files that could not be read or listed. They are notes, not differences.
    fn left_out(&mut self, inventory: &Inventory, imported: &Report) -> LeftOut {
        let mut left_out = LeftOut::default();
        let notes = &mut self.report.notes;
        let prefix = bytes::of_path(self.tree);
        for problem in &imported.problems {
            notes.push(format!("not imported, or not completely: {problem}"));
            left_out.add(problem.path.strip_prefix(prefix).unwrap_or(&problem.path));
        }
        for problem in &inventory.problems {
            notes.push(format!("not listed: {problem}"));
            left_out.add(&problem.path);
        }
        notes.extend(imported.notes.iter().cloned());
        left_out
    }

    fn export(&mut self, volume: &Volume, target: &Path) -> Result<Report, Failure> {
        let progress = TransferProgress::new("exporting");
        let control = Control { interrupt: &interrupt::raised, progress: &progress };
        let options = ExportOptions { sync: false, ..ExportOptions::default() };
        let report = export_tree(volume, b"/demo", target, &options, control);
        progress.clear();
        let report = completed(report)?;
        let problems = report.problems.iter().map(|problem| format!("export: {problem}"));
        self.report.differences.extend(problems);
        self.report.notes.extend(report.notes.iter().cloned());
        let remark = format!("{}B, {}B/s", human(report.counts.bytes), speed(&report));
        let (step, unit, count) = ("export", "names", report.counts.entries());
        self.report.step(StepRow { step, time: report.elapsed, count, unit, remark })?;
        Ok(report)
    }

    fn compare(&mut self, exported_tree: &Path, left_out: &LeftOut, exported: &Report) -> Outcome {
        let progress = TransferProgress::new("comparing");
        let control = Control { interrupt: &interrupt::raised, progress: &progress };
        let is_root = rustix::process::geteuid().is_root();
        // The export noted attributes that this host or user cannot set.
        let options = CompareOptions {
            owner: is_root,
            xattrs: exported.notes.is_empty(),
            mode_mask: if is_root { 0o7777 } else { 0o1777 },
            ..CompareOptions::default()
        };
        let compared = compare_trees(self.tree, exported_tree, options, control);
        progress.clear();
        let compared = compared.map_err(|error| transfer::failure(&error))?;
        check_interrupt()?;
        let prefix = bytes::of_path(self.tree);
        let counts = |problem: &&Problem| {
            let path = problem.path.strip_prefix(prefix).unwrap_or(&problem.path);
            !left_out.covers(path.strip_prefix(b"/").unwrap_or(path))
        };
        let differences = compared.differences.iter().filter(counts);
        self.report.differences.extend(differences.map(|problem| format!("exported tree: {problem}")));
        let owners = if is_root { "owners, " } else { "" };
        let attributes = if options.xattrs { ", attributes" } else { "" };
        let bytes = human(compared.counts.bytes);
        let remark = format!("{bytes}B byte for byte, modes, {owners}times, links{attributes}");
        let (step, unit, count) = ("compare both trees", "names", compared.counts.entries());
        self.report.step(StepRow { step, time: compared.elapsed, count, unit, remark })
    }

    fn check(&mut self, volume: &Volume) -> Outcome {
        let started = Instant::now();
        let checked = volume.check(false, &|_, _| ());
        let checked = checked.map_err(|error| Failure::volume("the check", &error))?;
        for finding in &checked.findings {
            self.report.differences.push(format!("fsck: {}: {}", finding.invariant, finding.text));
        }
        let remark = format!("{} blocks", checked.blocks);
        let (step, unit, count) = ("fsck", "inodes", checked.inodes);
        self.report.step(StepRow { step, time: started.elapsed(), count, unit, remark })
    }
}

/// Size of a volume with room for all files in whole blocks, inodes and directories, and a reserve.
fn size_for(items: &[Item]) -> u64 {
    const METADATA_PER_ITEM: u64 = 1024;
    const RESERVE: u64 = 256 << 20;
    let content = |item: &Item| match item.kind {
        FileKind::File => item.size.next_multiple_of(BLOCK),
        _ => 0,
    };
    let bytes: u64 = items.iter().map(|item| content(item) + METADATA_PER_ITEM).sum();
    bytes + bytes / 4 + RESERVE
}

fn speed(report: &Report) -> String {
    human(report.bytes_per_second() as u64)
}

/// The report of a transfer that reached its end, even with problems.
fn completed(report: lanefs_transfer::Result<Report>) -> Result<Report, Failure> {
    let report = report.map_err(|error| transfer::failure(&error))?;
    match &report.stopped {
        Some(error) => Err(transfer::failure(error)),
        None if report.interrupted => Err(Failure::Interrupted),
        None => Ok(report),
    }
}
