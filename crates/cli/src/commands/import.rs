//! `lanefs import`.

use crate::common::engine::{EngineArgs, ImportEngines};
use crate::common::transfer::{self, TransferArgs, TransferTarget};
use crate::session::command::{Command, HostCommand};
use crate::session::context::Context;
use crate::session::users::HostNames;
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::interrupt;
use crate::terminal::progress::TransferProgress;
use crate::text::bytes;
use clap::Args;
use lanefs::bulk::{Applied, Change};
use lanefs::{FileSystem, Ino};
use lanefs_fuse::RemoteVolume;
use lanefs_transfer::{
    ArchiveSource, Control, ImportOptions, Maker, Report, import_archive, import_tree, is_archive_name,
};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Import a directory tree or a tar archive of the host into the volume
///
/// The entries of the directory SRC go into the directory DEST, which is created with its parents if it is
/// missing: `lanefs import v.lane /usr/share /share` puts /usr/share/doc at /share/doc. A single file goes to
/// the path DEST, or into the directory DEST. A file whose name ends in .tar, .tar.gz, .tgz, .tar.xz, .txz or
/// the like is unpacked; SRC - is an archive on standard input. Archives are plain or compressed by gzip,
/// zstd, xz, bzip2 or lz4, which their content tells.
///
/// Type, mode, owner, times to the nanosecond, symbolic and hard links, extended attributes, access control
/// lists, holes, fifos, sockets and devices are kept. Files that cannot be read are named at the end, the
/// others are imported, and the exit code is 1. Ctrl-C stops cleanly: every file imported so far is complete.
/// A full volume ends the import at once. If the device fails, or the host's disk is full, the files of the
/// last commit are counted as imported.
///
/// A member of an archive below a symbolic link goes where the link leads with DEST as the root directory.
/// One that would leave DEST is named and left out.
///
/// With --engine gpu a device makes the small files of a tree in batches of thousands; the result is the
/// same. auto means the CPU engine here: a device gains less than opening it costs.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  lanefs import v.lane /usr/share /share
  lanefs import v.lane linux.tar.gz /src
  lanefs import v.lane linux.tar.xz /src
  tar -c src | lanefs import v.lane - /src")]
pub struct Import {
    /// Directory, file or archive of the host; - is an archive on standard input
    #[arg(value_name = "SRC")]
    source: PathBuf,
    /// Path in the volume
    #[arg(value_name = "DEST", default_value = "/")]
    dest: OsString,
    /// Read SRC as a tar archive under any name
    #[arg(long, conflicts_with = "no_tar")]
    tar: bool,
    /// Import SRC as a file even if its name is that of an archive
    #[arg(long)]
    no_tar: bool,
    /// Skip damage of an archive: go on at the next valid header, with exit code 1. Files may be missing, and
    /// those of an archive inside of the damaged file may appear
    #[arg(long)]
    ignore_damage: bool,
    /// Replace existing files of the volume instead of reporting and keeping them
    #[arg(long)]
    overwrite: bool,
    /// Do not enter directories on which another file system is mounted
    #[arg(long, short = 'x')]
    one_file_system: bool,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    transfer: TransferArgs,
}

impl Command for Import {
    fn changes(&self) -> bool {
        true
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let maker = ImportEngines(self.engine.open(context, 1)?);
        // One by one, files count and become durable as they are made.
        let makes_batches = maker.0.chosen().is_some();
        self.execute_on(context, makes_batches.then_some(&maker as &dyn Maker))
    }

    fn on_host(&self) -> Option<&dyn HostCommand> {
        Some(self)
    }
}

impl HostCommand for Import {
    fn execute_beside(&self, context: &mut Context<'_, RemoteVolume>) -> Outcome {
        if self.engine.is_gpu() {
            let advice = "unmount the volume first, or leave --engine out";
            return Err(Failure::usage("--engine gpu", "the volume is mounted", advice));
        }
        let maker = RemoteMaker(context.volume);
        self.execute_on(context, Some(&maker))
    }
}

/// Makes small files through the server of a mount, many in a message.
struct RemoteMaker<'v>(&'v RemoteVolume);

impl Maker for RemoteMaker<'_> {
    fn make(&self, base: Ino, changes: &[Change<'_>]) -> lanefs::Result<Vec<Applied>> {
        self.0.apply(base, changes)
    }

    fn limits(&self) -> (usize, usize) {
        (512, 2 << 20)
    }
}

impl Import {
    fn execute_on(&self, context: &mut Context<'_, impl FileSystem>, maker: Option<&dyn Maker>) -> Outcome {
        let report = self.import(context, maker)?;
        self.transfer.report("imported", TransferTarget::Files, &report, context)
    }

    fn import(
        &self,
        context: &Context<'_, impl FileSystem>,
        maker: Option<&dyn Maker>,
    ) -> Result<Report, Failure> {
        let volume = context.volume;
        let names = HostNames::of_caller();
        let options = ImportOptions {
            overwrite: self.overwrite,
            one_file_system: self.one_file_system,
            threads: self.transfer.threads(),
            skip: context.image.files(),
            maker,
            names: Some(&names),
            ignore_damage: self.ignore_damage,
            ..ImportOptions::default()
        };
        let dest = &transfer::volume_path(context, &self.dest)[..];
        let progress = TransferProgress::new("importing");
        let interrupt = interrupt::flag();
        let control = Control { interrupt: &interrupt, progress: &progress };
        let outcome = match self.archive()? {
            Some(archive) => import_archive(volume, archive, dest, &options, control),
            None => import_tree(volume, &self.source, dest, &options, control),
        };
        progress.clear();
        outcome.map_err(|error| transfer::failure(&error))
    }

    /// The archive to read; `None` for a tree or a single file.
    fn archive(&self) -> Result<Option<ArchiveSource<'_>>, Failure> {
        if !self.no_tar && self.source == Path::new("-") {
            if std::io::stdin().is_terminal() {
                let advice = "redirect it, or name a file (./- for one of this name)";
                return Err(Failure::usage("standard input", "no archive comes from a terminal", advice));
            }
            return Ok(Some(ArchiveSource::StandardInput(Box::new(std::io::stdin()))));
        }
        let is_archive = || is_archive_name(bytes::of_path(&self.source)) && self.source.is_file();
        Ok((self.tar || !self.no_tar && is_archive()).then_some(ArchiveSource::File(&self.source)))
    }
}
