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
use lanefs_transfer::{Control, Difference, EXIT_DONE, EXIT_PARTLY, SyncOptions, SyncReport, diff_trees};
use std::io::Write;

/// Begins the message of an error of a directory.
const DOING: &str = "cannot compare";

/// Show the differences of two trees: directories of the host, volumes, publications
///
/// Each of A and B is a directory of the host; or a volume, as IMAGE or IMAGE:/PATH for a directory in it; or
/// the URL of a publication, with :/PATH or without; or a tar archive, which is unpacked in $TMPDIR first. A
/// line for each difference, sorted by path, says how B would become the same as A: it has the form that
/// `lanefs sync --help` explains, and is the line that `sync --dry-run --delete` prints. So `+` marks names
/// that only A has, and `*deleting` those that only B has.
///
/// Reads metadata; with --checksum contents, too. The exit code is 0 if there is no difference, 1 if there
/// are some, and 4 if a tree, or a part of one, is missing or cannot be read; what could be compared is
/// listed.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lanefs diff /usr/share v.lane:/share
  lanefs diff v.lane copy.lane --checksum
  lanefs diff share.tar.xz v.lane:/share
  lanefs diff v.lane file:///srv/photos#2026-10")]
pub struct Diff {
    /// Directory of the host, IMAGE[:/PATH], URL[:/PATH] or a tar archive (`-` for one on standard input)
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

/// Exit code of a comparison that found differences, and of nothing else.
const DIFFERENT: u8 = 1;

/// The exit code of a comparison. A part that was not compared may hide a difference.
fn exit_code(report: &SyncReport) -> u8 {
    match report.report.exit_code() {
        EXIT_DONE if report.counts.differences() > 0 => DIFFERENT,
        EXIT_DONE => exit::OK,
        EXIT_PARTLY => exit::HOST,
        code => code,
    }
}

impl Diff {
    /// Compares the trees, and returns the exit code.
    ///
    /// # Errors
    /// A tree cannot be opened, or standard output not written. No error has the exit code of a difference,
    /// which is 1.
    pub fn execute(&self) -> Result<u8, Failure> {
        let mut code = exit::HOST;
        match self.run(&mut code) {
            // The reader of the list has seen enough of it.
            Ok(()) | Err(Failure::BrokenPipe) => Ok(code),
            Err(Failure::Message { exit: DIFFERENT, text, ends }) => {
                Err(Failure::Message { exit: exit::HOST, text, ends })
            }
            Err(failure) => Err(failure),
        }
    }

    /// Compares the trees, and prints the differences. Sets the exit code as soon as it is known.
    fn run(&self, code: &mut u8) -> Outcome {
        let (mut from, mut to) = match self.from.is_archive() {
            // The volume comes first: a wait for it can be ended at once, and unpacking cannot.
            true => {
                let to = self.to.open(DOING)?;
                (self.from.open(DOING)?, to)
            }
            false => (self.from.open(DOING)?, self.to.open(DOING)?),
        };
        interrupt::wait_for_commands();
        let collected = Collected::default();
        let problems = [from.problems(), to.problems()].concat();
        let notes = [from.notes(), to.notes()].concat();
        let mut report = self.compare(&from, &to, &|difference| collected.push(difference))?;
        report.report.problems.splice(0..0, problems);
        report.report.notes.splice(0..0, notes);
        *code = exit_code(&report);
        let mut out = std::io::BufWriter::new(console::output());
        collected.print(&mut out, self.transfer.is_json())?;
        self.report(&mut out, &report)?;
        Ok(out.flush()?)
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
        self.transfer.tell("compared", TransferTarget::Compared, &report.report);
        match self.transfer.is_json() {
            true => writeln!(out, "{}", json::text(&differences::as_json(report)))?,
            false => say(&differences::in_words(report, true)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanefs_transfer::{Problem, Report, SyncCounts};

    #[test]
    fn only_differences_have_their_exit_code() {
        let code = |added: u64, report: Report| {
            exit_code(&SyncReport {
                report,
                counts: SyncCounts { added, ..SyncCounts::default() },
                ..SyncReport::default()
            })
        };
        let failed = || vec![Problem { path: b"a".to_vec(), what: "cannot be read".into() }];
        for added in [0, 1] {
            let problems = failed();
            assert_eq!(code(added, Report { problems, ..Report::default() }), exit::HOST);
            let problems = failed();
            assert_eq!(code(added, Report { problems, damaged: true, ..Report::default() }), exit::IMAGE);
            assert_eq!(code(added, Report { interrupted: true, ..Report::default() }), exit::INTERRUPTED);
        }
        assert_eq!((code(0, Report::default()), code(1, Report::default())), (exit::OK, DIFFERENT));
    }
}
