//! `lanefs man`.

use crate::exit::{Failure, Outcome};
use clap::{Args, CommandFactory};
use std::io::Write;
use std::path::PathBuf;

/// Print the manual page, or write all pages into a directory
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs man | man -l -
  lanefs man ~/.local/share/man/man1")]
pub struct Man {
    /// Where lanefs.1 and a page for each command go; made where it does not exist
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    /// Prints or writes the pages.
    ///
    /// # Errors
    /// Where the host fails.
    pub fn run(&self) -> Outcome {
        let command = crate::cli::Cli::command();
        match &self.dir {
            Some(dir) => {
                std::fs::create_dir_all(dir)
                    .and_then(|()| clap_mangen::generate_to(command, dir))
                    .map_err(|error| Failure::host(dir, &error))?;
            }
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(command).render(&mut page)?;
                std::io::stdout().write_all(&page)?;
            }
        }
        Ok(())
    }
}
