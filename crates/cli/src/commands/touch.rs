//! `lanefs touch`.

use crate::session::command::Command;
use crate::session::context::{Context, OWNER};
use crate::terminal::failure::{Failure, Outcome};
use crate::text::{bytes, time};
use clap::Args;
use lanefs::{Code, SetAttr, Time};
use std::ffi::OsString;

/// Set times, and create empty files for missing names
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs touch v.lane /a /b
  lanefs touch v.lane -d '2026-05-01 09:30' /a")]
pub struct Touch {
    /// Create no files
    #[arg(short = 'c', long)]
    no_create: bool,
    /// Set the time of the last access only
    #[arg(short = 'a', long)]
    access: bool,
    /// Set the time of the last modification only
    #[arg(short = 'm', long)]
    modification: bool,
    /// Time in UTC: 2026-05-01, '2026-05-01 09:30:15.5' or @SECONDS since 1970 [default: now]
    #[arg(short, long, value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true)]
    date: Option<Time>,
    /// Set the times of a symbolic link itself
    #[arg(long)]
    no_dereference: bool,
    /// Files to touch
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

impl Command for Touch {
    fn changes(&self) -> bool {
        true
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let time = self.date.unwrap_or_else(Time::now);
        let both = self.access == self.modification;
        let set = SetAttr {
            atime: (both || self.access).then_some(time),
            mtime: (both || self.modification).then_some(time),
            ..SetAttr::default()
        };
        for path in &self.paths {
            let outcome = self.touch(context, bytes::of(path), &set);
            context.go_on(outcome)?;
        }
        Ok(())
    }
}

impl Touch {
    fn touch(&self, context: &Context<'_>, path: &[u8], set: &SetAttr) -> Outcome {
        let failure = |e: lanefs::Error| Failure::volume(path, &e);
        let ino = match context.try_resolve(path, !self.no_dereference)? {
            Ok(attr) => attr.ino,
            Err(Code::NotFound | Code::ComponentNotFound) if self.no_create => return Ok(()),
            Err(Code::NotFound) if !path.ends_with(b"/") => {
                let (dir, name) = context.parent(path)?;
                let made = context.volume.create_file(&OWNER, dir, name, 0o644).map_err(failure)?;
                if self.date.is_none() {
                    return Ok(());
                }
                made.ino
            }
            Err(code) => return Err(Failure::code(path, code)),
        };
        context.volume.setattr(&OWNER, ino, set).map(drop).map_err(failure)
    }
}
