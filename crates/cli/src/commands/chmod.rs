//! `lanefs chmod`, and what it shares with `chown`: a change to files, or to all below them.

use crate::bytes;
use crate::cli::Run;
use crate::context::{Context, OWNER};
use crate::exit::{Failure, Outcome};
use crate::mode::ModeChange;
use crate::progress::Progress;
use crate::walk::{Visit, Walk, WalkOptions};
use clap::Args;
use lanefs::{Attr, FileKind, SetAttr};
use std::ffi::OsString;

/// Change permissions
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs chmod v.lane 644 /a /b
  lanefs chmod v.lane -R u+rwX,go-w /dir

Without u, g, o or a before the sign all three are meant. Symbolic links keep their permissions;
with -R those below are not followed.")]
pub struct Chmod {
    /// Change all below directories too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// The permissions: octal, or like u+rw,go-x
    #[arg(value_name = "MODE", value_parser = ModeChange::parse, allow_hyphen_values = true)]
    mode: ModeChange,
    /// What to change
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

impl Run for Chmod {
    fn changes(&self) -> bool {
        true
    }

    fn run(&self, context: &mut Context<'_>) -> Outcome {
        apply(context, &self.paths, self.recursive, true, &|attr| {
            let perm = self.mode.apply(attr.kind, attr.perm);
            (attr.kind != FileKind::Symlink).then(|| SetAttr { perm: Some(perm), ..SetAttr::default() })
        })
    }
}

/// Changes the attributes of `paths`, or of all below them, to what `change` makes of the old ones; `None` leaves
/// them. `follow` is about links among `paths`; those below are not followed.
///
/// # Errors
/// What ends the whole command; what fails for one file is reported.
pub fn apply(
    context: &mut Context<'_>,
    paths: &[OsString],
    recursive: bool,
    follow: bool,
    change: &dyn Fn(&Attr) -> Option<SetAttr>,
) -> Outcome {
    let mut progress = Progress::new("changed");
    for path in paths {
        let path = bytes::of(path);
        let start = match context.resolve(path, follow) {
            Ok(attr) => attr,
            Err(failure) => {
                context.go_on(Err(failure))?;
                continue;
            }
        };
        let options =
            WalkOptions { max_depth: if recursive { None } else { Some(0) }, ..WalkOptions::default() };
        let mut walk = Walk::new(context.volume, path, start.ino, start.kind, options);
        while let Some(step) = walk.next() {
            crate::interrupt::check()?;
            let outcome = step.and_then(|step| {
                if step.visit == Visit::Leave {
                    return Ok(());
                }
                progress.tick();
                let attr = context.attr(walk.path(), step.ino)?;
                match change(&attr) {
                    Some(set) => context
                        .volume
                        .setattr(&OWNER, attr.ino, &set)
                        .map(drop)
                        .map_err(|e| Failure::volume(walk.path(), &e)),
                    None => Ok(()),
                }
            });
            context.go_on(outcome)?;
        }
    }
    Ok(())
}
