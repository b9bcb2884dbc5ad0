//! `lanefs rm`.

use crate::session::command::Command;
use crate::session::context::{Context, OWNER};
use crate::terminal::exit;
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::progress::Progress;
use crate::text::bytes;
use clap::Args;
use lanefs::{Code, FileKind, path};
use std::ffi::OsString;

/// Remove files, and with -r directories with all their entries
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs rm v.lane /tmp/a /tmp/b
  lanefs rm v.lane -r /tmp
  lanefs find v.lane / --name '*.o' --delete")]
pub struct Rm {
    /// Remove directories with all their entries
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// Ignore names that do not exist
    #[arg(short, long)]
    force: bool,
    /// Files to remove
    #[arg(value_name = "PATH", required_unless_present = "force")]
    paths: Vec<OsString>,
}

impl Command for Rm {
    fn changes(&self) -> bool {
        true
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let mut progress = Progress::new("removed");
        for path in &self.paths {
            let outcome = self.remove(context, bytes::of(path), &mut progress);
            context.go_on(outcome)?;
        }
        Ok(())
    }
}

impl Rm {
    fn remove(&self, context: &mut Context<'_>, path: &[u8], progress: &mut Progress) -> Outcome {
        let kind = match context.try_resolve(path, false)? {
            Ok(attr) => attr.kind,
            Err(Code::NotFound | Code::ComponentNotFound) if self.force => return Ok(()),
            Err(code) => return Err(Failure::code(path, code)),
        };
        if path::split_last(path).is_none() && path.starts_with(b"/") {
            return Err(Failure::partial(path, "the root directory cannot be removed", "name its entries"));
        }
        let (dir, name) = context.parent(path)?;
        if kind != FileKind::Directory && path.ends_with(b"/") {
            return Err(Failure::code(path, Code::NotDirectory));
        }
        if kind == FileKind::Directory && !self.recursive {
            return Err(Failure::partial(path, "is a directory", "use -r to remove it with all its entries"));
        }
        let volume = context.volume;
        volume.remove_all_with(&OWNER, dir, name, |below, removed| {
            let outcome = match removed {
                Ok(()) => {
                    progress.tick();
                    Ok(())
                }
                Err(error) if below.is_empty() => Err(Failure::volume(path, &error)),
                Err(error) => Err(Failure::volume(path::join(path, below), &error)),
            };
            match outcome {
                // The entries of a damaged volume may be needed to recover it, so nothing more is removed.
                Err(failure) if failure.exit() == exit::IMAGE => Err(failure),
                outcome => context.go_on(outcome),
            }
        })
    }
}
