//! `lanefs export`.

use crate::common::transfer::{self, TransferArgs, TransferTarget};
use crate::session::command::{Command, HostCommand};
use crate::session::context::Context;
use crate::session::expansion;
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::progress::TransferProgress;
use crate::terminal::{console, interrupt};
use crate::text::bytes;
use clap::Args;
use lanefs::FileSystem;
use lanefs_fuse::RemoteVolume;
use lanefs_transfer::{
    ArchiveTarget, Control, DEFAULT_MAX_EXPANSION, ExportOptions, Report, export_archive, export_tree,
    is_archive_name,
};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Export a directory tree of the volume to the host or into a tar archive
///
/// The entries of the directory SRC go into the directory DEST of the host, which is created with its parents
/// if it is missing. A single file goes to the path DEST, or into the directory DEST. A DEST whose name ends
/// in .tar, .tar.gz, .tgz, .tar.zst or .tzst (and is not a directory) is written as an archive, compressed as
/// its name says; DEST - is an archive on standard output. Other programs compress that in other ways.
///
/// Everything that `import` keeps is kept. Owners and devices need root; without it set-id bits of other
/// users' files are dropped. The export never writes through symbolic links of the host, and removes a file
/// that it could not finish. Archives contain no sockets.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lanefs export v.lane /share ./share
  lanefs export v.lane /share share.tar.gz
  lanefs export v.lane /share share.tar.zst
  lanefs export v.lane /share - | xz > share.tar.xz")]
pub struct Export {
    /// Directory or file in the volume
    #[arg(value_name = "SRC")]
    source: OsString,
    /// Path on the host; - is an archive on standard output
    #[arg(value_name = "DEST", required_unless_present = "tar", conflicts_with = "tar")]
    dest: Option<PathBuf>,
    /// Write a tar archive (POSIX pax) to FILE, or to standard output for -
    #[arg(long, value_name = "FILE")]
    tar: Option<PathBuf>,
    /// Replace existing files of the host instead of reporting and keeping them
    #[arg(long)]
    overwrite: bool,
    /// Do not wait until everything is on the host's disk
    #[arg(long)]
    no_sync: bool,
    /// Stop where the data are more than FACTOR times the size of the volume; those of a sound volume are
    /// not even as large as it. Of a publication, stop where they are more than FACTOR times the bytes that
    /// were fetched, and more than 1G. Holes do not count [default: 2; of a publication 100; 0 for no limit]
    #[arg(long, value_name = "FACTOR")]
    max_expansion: Option<u32>,
    #[command(flatten)]
    transfer: TransferArgs,
}

impl Command for Export {
    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        self.execute_on(context)
    }

    fn max_expansion(&self) -> u64 {
        self.max_expansion.map_or(expansion::DEFAULT, u64::from)
    }

    fn on_host(&self) -> Option<&dyn HostCommand> {
        Some(self)
    }
}

impl HostCommand for Export {
    fn execute_beside(&self, context: &mut Context<'_, RemoteVolume>) -> Outcome {
        self.execute_on(context)
    }
}

impl Export {
    fn execute_on(&self, context: &mut Context<'_, impl FileSystem>) -> Outcome {
        let report = self.export(context)?;
        let target =
            if self.archive_path().is_some() { TransferTarget::Archive } else { TransferTarget::Files };
        self.transfer.report("exported", target, &report, context)
    }

    fn export(&self, context: &Context<'_, impl FileSystem>) -> Result<Report, Failure> {
        let volume = context.volume;
        let source = &transfer::volume_path(context, &self.source)[..];
        let progress = TransferProgress::new("exporting");
        let interrupt = interrupt::flag();
        let control = Control { interrupt: &interrupt, progress: &progress };
        let options = ExportOptions {
            overwrite: self.overwrite,
            keep: context.image.files(),
            threads: self.transfer.threads(),
            sync: !self.no_sync,
            max_expansion: self.max_expansion.unwrap_or(DEFAULT_MAX_EXPANSION),
        };
        let outcome = match (self.archive()?, &self.dest) {
            (Some(target), _) => export_archive(volume, source, target, &options, control),
            (None, Some(dest)) => export_tree(volume, source, dest, &options, control),
            (None, None) => {
                return Err(Failure::usage("DEST", "is missing", "name a directory, or use --tar"));
            }
        };
        progress.clear();
        outcome.map_err(|error| transfer::failure(&error))
    }

    /// The archive to write; `None` for a tree.
    fn archive(&self) -> Result<Option<ArchiveTarget<'_>>, Failure> {
        match self.archive_path() {
            Some(path) if path == Path::new("-") => self.archive_to_output().map(Some),
            path => Ok(path.map(ArchiveTarget::File)),
        }
    }

    /// Path of the archive, `-` for standard output; `None` for a tree.
    fn archive_path(&self) -> Option<&Path> {
        let is_archive =
            |dest: &&Path| *dest == Path::new("-") || is_archive_name(bytes::of_path(dest)) && !dest.is_dir();
        self.tar.as_deref().or_else(|| self.dest.as_deref().filter(is_archive))
    }

    fn archive_to_output(&self) -> Result<ArchiveTarget<'_>, Failure> {
        if self.transfer.is_json() {
            let what = "writes to standard output, as the archive does";
            return Err(Failure::usage("--json", what, "leave one out"));
        }
        if console::output_is_terminal() {
            let advice = "redirect it, or name a file (./- for a directory of this name)";
            return Err(Failure::usage("standard output", "an archive cannot go to a terminal", advice));
        }
        Ok(ArchiveTarget::StandardOutput(console::output()))
    }
}
