//! `lanefs touch`.

use crate::cli::Run;
use crate::context::{Context, OWNER};
use crate::exit::{Failure, Outcome};
use crate::{bytes, time};
use clap::Args;
use lanefs::{Code, SetAttr, Time};
use std::ffi::OsString;

/// Set times, making empty files where there are none
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs touch v.lane /a /b
  lanefs touch v.lane -d '2026-05-01 09:30' /a")]
pub struct Touch {
    /// Make no files
    #[arg(short = 'c', long)]
    no_create: bool,
    /// The time of access only
    #[arg(short = 'a', long)]
    access: bool,
    /// The time of modification only
    #[arg(short = 'm', long)]
    modification: bool,
    /// This time (UTC) instead of now: 2026-05-01, '2026-05-01 09:30:15.5' or @SECONDS
    #[arg(short, long, value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true)]
    date: Option<Time>,
    /// Set the times of a symbolic link itself
    #[arg(long)]
    no_dereference: bool,
    /// What to touch
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

impl Run for Touch {
    fn changes(&self) -> bool {
        true
    }

    fn run(&self, context: &mut Context<'_>) -> Outcome {
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
