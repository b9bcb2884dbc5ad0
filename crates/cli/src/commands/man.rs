//! `lanefs man`.

use crate::terminal::console;
use crate::terminal::failure::{Failure, Outcome};
use clap::Args;
use lanefs_transfer::by_descriptor::{FilePlace, make_dirs};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Print the manual page, or write all pages into a directory
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs man | man -l -
  lanefs man ~/.local/share/man/man1")]
pub struct Man {
    /// Directory for lanefs.1 and a page for each command; created if it is missing
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    /// Prints or writes the pages of `program`.
    ///
    /// # Errors
    /// The host fails.
    pub fn execute(&self, program: clap::Command) -> Outcome {
        match &self.dir {
            Some(dir) => {
                let failed = |errno: Errno| Failure::host(dir, &errno.into());
                let into = make_dirs(dir).map_err(failed)?;
                let mut program = program.disable_help_subcommand(true);
                program.build();
                write_pages(&program, dir, &into)?;
            }
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(program).render(&mut page)?;
                console::output().write_all(&page)?;
            }
        }
        Ok(())
    }
}

/// Writes the page of a command and those of all commands below it. A file or link that has the name of a
/// page is replaced: nothing is written through it.
fn write_pages(command: &clap::Command, dir: &Path, into: &OwnedFd) -> Outcome {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below, dir, into)?;
    }
    let page = clap_mangen::Man::new(command.clone());
    let name = page.get_filename();
    let mut text = Vec::new();
    page.render(&mut text)?;
    let write = || -> std::io::Result<()> {
        let new = FilePlace::in_dir(into.try_clone()?, name.as_bytes()).create(0o666)?;
        File::from(new.file().try_clone()?).write_all(&text)?;
        Ok(new.finish(true)?)
    };
    write().map_err(|error| Failure::host(&dir.join(&name), &error))
}
