//! `lanefs diff`.

use crate::common::differences::{self, Collected, ComparisonArgs};
use crate::common::transfer::{self, TransferArgs, TransferTarget};
use crate::common::tree_arg::{OpenTree, TreeArg, TreeParser};
use crate::terminal::console::say;
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::progress::TransferProgress;
use crate::terminal::{console, exit, interrupt};
use crate::text::json;
use clap::Args;
use lanefs_transfer::{Control, Difference, SyncOptions, SyncReport, diff_trees};
use std::io::Write;

/// Show the differences of two trees: directories of the host, volumes, publications
///
/// Each of A and B is a directory of the host; or a volume, as IMAGE or IMAGE:/PATH for a directory in it; or
/// the URL of a publication, with :/PATH or without. A line for each difference, sorted by path, says how B
/// would become the same as A: it has the form that `lanefs sync --help` explains, and is the line that `sync
/// --dry-run --delete` prints. So `+` marks names that only A has, and `*deleting` those that only B has.
///
/// Reads metadata; with --checksum contents, too. The exit code is 0 if there is no difference, and 1 if
/// there are some or a part could not be compared.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lanefs diff /usr/share v.lane:/share
  lanefs diff v.lane copy.lane --checksum
  lanefs diff v.lane file:///srv/photos#2026-10")]
pub struct Diff {
    /// Directory of the host, IMAGE[:/PATH] or URL[:/PATH]
    #[arg(value_name = "A", value_parser = TreeParser)]
    from: TreeArg,
    /// The same of the tree that is compared with it
    #[arg(value_name = "B", value_parser = TreeParser)]
    to: TreeArg,
    #[command(flatten)]
    comparison: ComparisonArgs,
    #[command(flatten)]
    transfer: TransferArgs,
}

impl Diff {
    /// Compares the trees, and returns the exit code.
    ///
    /// # Errors
    /// A tree cannot be opened, or standard output not written.
    pub fn execute(&self) -> Result<u8, Failure> {
        let (from, to) = (self.from.open()?, self.to.open()?);
        interrupt::wait_for_commands();
        let collected = Collected::default();
        let report = self.compare(&from, &to, &|difference| collected.push(difference))?;
        let mut out = std::io::BufWriter::new(console::output());
        collected.print(&mut out, self.transfer.is_json())?;
        self.report(&mut out, &report)?;
        out.flush()?;
        let differs = report.counts.differences() > 0;
        Ok(report.report.exit_code().max(if differs { exit::PARTIAL } else { exit::OK }))
    }

    fn compare(
        &self,
        from: &OpenTree<'_>,
        to: &OpenTree<'_>,
        receiver: &(dyn Fn(&Difference) + Sync),
    ) -> Result<SyncReport, Failure> {
        let options = SyncOptions { in_order: true, ..self.comparison.options(&self.transfer, Vec::new())? };
        let progress = TransferProgress::new("comparing");
        let interrupt = interrupt::flag();
        let control = Control { interrupt: &interrupt, progress: &progress };
        let outcome = diff_trees(from.side(), to.side(), &options, receiver, control);
        progress.clear();
        outcome.map_err(|error| transfer::failure(&error))
    }

    fn report(&self, out: &mut dyn Write, report: &SyncReport) -> Outcome {
        self.transfer.tell("compared", TransferTarget::Followed, &report.report);
        match self.transfer.is_json() {
            true => writeln!(out, "{}", json::text(&differences::as_json(report)))?,
            false => say(&differences::in_words(&report.counts)),
        }
        Ok(())
    }
}
