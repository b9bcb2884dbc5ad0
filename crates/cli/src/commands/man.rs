//! `lanefs man`.

use crate::failure::{Failure, Outcome};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;

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
                std::fs::create_dir_all(dir)
                    .and_then(|()| clap_mangen::generate_to(program, dir))
                    .map_err(|error| Failure::host(dir, &error))?;
            }
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(program).render(&mut page)?;
                std::io::stdout().write_all(&page)?;
            }
        }
        Ok(())
    }
}
