//! `lanefs mv`.

use crate::bytes;
use crate::cli::Run;
use crate::context::{Context, OWNER, join, split};
use crate::exit::{self, Failure, Outcome};
use clap::Args;
use lanefs::{Code, FileKind, RenameMode};
use std::ffi::OsString;

/// Rename or move files and directories
///
/// The last PATH is the new name, or a directory that takes what comes before it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs mv v.lane /old /new
  lanefs mv v.lane /a.txt /b.txt /texts
  lanefs mv v.lane --exchange /current /next")]
pub struct Mv {
    /// Do not replace what exists
    #[arg(short, long)]
    no_clobber: bool,
    /// Let two existing names change places, in one step
    #[arg(long, conflicts_with = "no_clobber")]
    exchange: bool,
    /// Take the last PATH as the new name even where it is a directory
    #[arg(short = 'T', long)]
    no_target_directory: bool,
    /// Sources, then the new name or the directory
    #[arg(value_name = "PATH", required = true, num_args = 2..)]
    paths: Vec<OsString>,
}

impl Run for Mv {
    fn changes(&self) -> bool {
        true
    }

    fn run(&self, context: &mut Context<'_>) -> Outcome {
        let Some((target, sources)) = self.paths.split_last() else { return Ok(()) };
        let target = bytes::of(target);
        if (self.exchange || self.no_target_directory) && sources.len() > 1 {
            return Err(Failure::usage(
                target,
                "more than one source for one name",
                "name one source and one target",
            ));
        }
        let into = !self.exchange && !self.no_target_directory && is_directory(context, target)?;
        if sources.len() > 1 && !into {
            return Err(Failure::code(target, Code::NotDirectory));
        }
        for source in sources {
            let source = bytes::of(source);
            let new = if into { join(target, split(source).1) } else { target.to_vec() };
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
        context.volume.rename(&OWNER, from, name, to, new_name, mode).map_err(|error| match error.code() {
            Code::Invalid if attr.kind == FileKind::Directory => {
                Failure::new(exit::PARTIAL, source, "cannot go into itself", "choose a target outside of it")
            }
            // These are about what is in the way, not about what is moved.
            Code::Exists | Code::NotEmpty | Code::IsDirectory | Code::NotDirectory | Code::NameTooLong => {
                Failure::volume(new, &error)
            }
            _ => Failure::volume(source, &error),
        })
    }
}

/// True where `path` leads to a directory.
///
/// # Errors
/// Where the volume could not answer.
pub fn is_directory(context: &Context<'_>, path: &[u8]) -> Result<bool, Failure> {
    Ok(context.try_resolve(path, true)?.is_ok_and(|attr| attr.kind == FileKind::Directory))
}
