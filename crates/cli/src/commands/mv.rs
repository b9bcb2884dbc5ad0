//! `lanefs mv`.

use crate::session::command::Command;
use crate::session::context::{Context, OWNER};
use crate::terminal::failure::{Failure, Outcome};
use crate::text::bytes;
use clap::Args;
use lanefs::{Code, FileKind, RenameMode, path};
use std::ffi::OsString;

/// Rename or move files and directories
///
/// The last PATH is the new name, or a directory that takes all others.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs mv v.lane /old /new
  lanefs mv v.lane /a.txt /b.txt /texts
  lanefs mv v.lane --exchange /current /next")]
pub struct Mv {
    /// Do not replace existing files
    #[arg(short, long)]
    no_clobber: bool,
    /// Exchange two existing names atomically
    #[arg(long, conflicts_with = "no_clobber")]
    exchange: bool,
    /// Use the last PATH as the new name even if it is a directory
    #[arg(short = 'T', long)]
    no_target_directory: bool,
    /// Sources, then the new name or the directory
    #[arg(value_name = "PATH", required = true, num_args = 2..)]
    paths: Vec<OsString>,
}

impl Command for Mv {
    fn changes(&self) -> bool {
        true
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let Some((target, sources)) = self.paths.split_last() else { return Ok(()) };
        let target = bytes::of(target);
        if (self.exchange || self.no_target_directory) && sources.len() > 1 {
            let advice = "name one source and one target";
            return Err(Failure::usage(target, "more than one source for one name", advice));
        }
        let into = !self.exchange && !self.no_target_directory && context.is_directory(target)?;
        if sources.len() > 1 && !into {
            return Err(Failure::code(target, Code::NotDirectory));
        }
        for source in sources {
            let source = bytes::of(source);
            let new = if into {
                path::join(target, path::file_name(source).unwrap_or_default())
            } else {
                target.to_vec()
            };
            let outcome = self.rename(context, source, &new);
            context.go_on(outcome)?;
        }
        Ok(())
    }
}

impl Mv {
    fn rename(&self, context: &Context<'_>, source: &[u8], new: &[u8]) -> Outcome {
        let mode = match () {
            () if self.exchange => RenameMode::Exchange,
            () if self.no_clobber => RenameMode::NoReplace,
            () => RenameMode::Replace,
        };
        let attr = context.resolve(source, false)?;
        let (from, name) = context.parent(source)?;
        let (to, new_name) = context.parent(new)?;
        if new.ends_with(b"/") && attr.kind != FileKind::Directory {
            return Err(Failure::code(new, Code::NotDirectory));
        }
        context.volume.rename_at(&OWNER, from, name, to, new_name, mode).map_err(|error| match error.code() {
            Code::Invalid if attr.kind == FileKind::Directory => {
                Failure::partial(source, "cannot move into itself", "choose a target outside of it")
            }
            // The target causes these, not the source.
            Code::Exists | Code::NotEmpty | Code::IsDirectory | Code::NotDirectory | Code::NameTooLong => {
                Failure::volume(new, &error)
            }
            _ => Failure::volume(source, &error),
        })
    }
}
