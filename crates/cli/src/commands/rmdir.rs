//! `lanefs rmdir`.

use crate::session::command::Command;
use crate::session::context::{Context, OWNER};
use crate::terminal::failure::{Failure, Outcome};
use crate::text::bytes;
use clap::Args;
use std::ffi::OsString;

/// Remove empty directories
#[derive(Debug, Args)]
#[command(after_help = "Example:
  lanefs rmdir v.lane /old /older")]
pub struct Rmdir {
    /// Directories to remove
    #[arg(value_name = "DIR", required = true)]
    paths: Vec<OsString>,
}

impl Command for Rmdir {
    fn changes(&self) -> bool {
        true
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        for path in &self.paths {
            let path = bytes::of(path);
            let outcome = context.parent(path).and_then(|(dir, name)| {
                context.volume.rmdir(&OWNER, dir, name).map_err(|e| Failure::volume(path, &e))
            });
            context.go_on(outcome)?;
        }
        Ok(())
    }
}
