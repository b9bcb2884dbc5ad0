//! `lanefs chattr`.

use crate::session::command::Command;
use crate::session::context::{Context, OWNER};
use crate::terminal::failure::{Failure, Outcome};
use crate::text::bytes;
use clap::Args;
use std::ffi::OsString;

/// Switch checksums of file data off (+C) or on (-C)
///
/// The data of a file without checksums are overwritten in place, which suits data bases with checksums of
/// their own. A file can be switched while it is empty; a new file is as its directory.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs chattr v.lane +C /db
  lanefs chattr v.lane -C /db

In a mounted volume chattr(1) does the same.")]
pub struct Chattr {
    /// +C: no checksums, -C: checksums
    #[arg(value_name = "+C|-C", value_parser = ["+C", "-C"], allow_hyphen_values = true)]
    change: String,
    /// Files and directories to change
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

impl Command for Chattr {
    fn changes(&self) -> bool {
        true
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        for path in &self.paths {
            let outcome = self.change_one(context, bytes::of(path));
            context.go_on(outcome)?;
        }
        Ok(())
    }
}

impl Chattr {
    fn change_one(&self, context: &Context<'_>, path: &[u8]) -> Outcome {
        let attr = context.resolve(path, true)?;
        let has_data = context.volume.extents(attr.ino).is_ok_and(|extents| !extents.is_empty());
        if has_data {
            let advice = "copy it to a new file in a directory with the attribute";
            return Err(Failure::partial(path, "has data already", advice));
        }
        context
            .volume
            .set_data_checksums(&OWNER, attr.ino, self.change == "-C")
            .map_err(|error| Failure::volume(path, &error))
    }
}
