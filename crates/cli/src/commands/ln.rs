//! `lanefs ln`.

use crate::session::command::Command;
use crate::session::context::{Context, OWNER};
use crate::terminal::failure::{Failure, Outcome};
use crate::text::bytes;
use clap::Args;
use lanefs::{Code, FileKind, path};
use std::ffi::OsString;

/// Create hard links or symbolic links to files
///
/// Of two PATHs the second is the new name, or a directory that takes it; of more PATHs the last is the
/// directory. With -s the target may be any text; a relative one starts at the directory of the link.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs ln v.lane /a /b               /b is another name of /a
  lanefs ln v.lane -s ../lib /usr/lib  a symbolic link
  lanefs ln v.lane /x /y /dir          /dir/x and /dir/y")]
pub struct Ln {
    /// Create symbolic links
    #[arg(short, long)]
    symbolic: bool,
    /// Remove an existing file with the new name
    #[arg(short, long)]
    force: bool,
    /// Use the last PATH as the new name even if it is a directory
    #[arg(short = 'T', long)]
    no_target_directory: bool,
    /// Targets, then the new name or the directory
    #[arg(value_name = "PATH", required = true, num_args = 2..)]
    paths: Vec<OsString>,
}

impl Command for Ln {
    fn changes(&self) -> bool {
        true
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let Some((last, targets)) = self.paths.split_last() else { return Ok(()) };
        let last = bytes::of(last);
        let into = !self.no_target_directory && context.is_directory(last)?;
        if targets.len() > 1 && !into {
            return Err(Failure::code(last, Code::NotDirectory));
        }
        for target in targets {
            let target = bytes::of(target);
            let new = if into {
                path::join(last, path::file_name(target).unwrap_or_default())
            } else {
                last.to_vec()
            };
            let outcome = self.link(context, target, &new);
            context.go_on(outcome)?;
        }
        Ok(())
    }
}

impl Ln {
    fn link(&self, context: &Context<'_>, target: &[u8], new: &[u8]) -> Outcome {
        let failure = |e: lanefs::Error| Failure::volume(new, &e);
        // Check everything before the existing file is removed.
        let source = if self.symbolic { None } else { Some(context.resolve(target, false)?) };
        if source.is_some_and(|attr| attr.kind == FileKind::Directory) {
            let advice = "only symbolic links (-s) lead to directories";
            return Err(Failure::partial(target, "is a directory", advice));
        }
        let (dir, name) = context.parent(new)?;
        if self.force
            && let Ok(old) = context.try_resolve(new, false)?
            && old.kind != FileKind::Directory
        {
            if source.is_some_and(|attr| attr.ino == old.ino) {
                return Ok(());
            }
            context.volume.unlink(&OWNER, dir, name).map_err(failure)?;
        }
        match source {
            Some(attr) => context.volume.link(&OWNER, attr.ino, dir, name).map(drop).map_err(failure),
            None => context.volume.symlink_at(&OWNER, dir, name, target).map(drop).map_err(failure),
        }
    }
}
