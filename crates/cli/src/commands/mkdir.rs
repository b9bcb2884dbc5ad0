//! `lanefs mkdir`.

use crate::session::command::Command;
use crate::session::context::{Context, OWNER};
use crate::terminal::failure::{Failure, Outcome};
use crate::text::bytes;
use crate::text::mode::ModeChange;
use clap::Args;
use lanefs::{Code, Error, FileKind, MkdirAll};
use std::ffi::OsString;

/// Permissions of a new directory.
const DEFAULT_PERM: u16 = 0o755;
/// Permissions that a symbolic mode starts from, as in mkdir(1).
const SYMBOLIC_BASE: u16 = 0o777;

/// Create directories
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs mkdir v.lane /photos /music
  lanefs mkdir v.lane -p -m 700 /a/b/c")]
pub struct Mkdir {
    /// Create missing parents too; existing directories are not an error
    #[arg(short, long)]
    parents: bool,
    #[arg(short, long, value_parser = ModeChange::parse,
        help = format!("Permissions of the named directories, as for chmod [default: {DEFAULT_PERM:o}]"))]
    mode: Option<ModeChange>,
    /// Directories to create
    #[arg(value_name = "DIR", required = true)]
    paths: Vec<OsString>,
}

impl Command for Mkdir {
    fn changes(&self) -> bool {
        true
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        for path in &self.paths {
            let path = bytes::of(path);
            let outcome = match self.parents {
                true => self.create_all(context, path),
                false => self.create(context, path),
            };
            context.go_on(outcome)?;
        }
        Ok(())
    }
}

impl Mkdir {
    fn perm(&self) -> u16 {
        self.mode.as_ref().map_or(DEFAULT_PERM, |mode| mode.apply(FileKind::Directory, SYMBOLIC_BASE))
    }

    fn create(&self, context: &Context<'_>, path: &[u8]) -> Outcome {
        let (dir, name) = match context.try_resolve(path, false)? {
            // `.`, `..` and the root have no entry that `parent` could name, but they do exist.
            Ok(_) => return Err(Failure::code(path, Code::Exists)),
            Err(_) => context.parent(path)?,
        };
        let created = context.volume.mkdir(&OWNER, dir, name, self.perm());
        created.map(drop).map_err(|e| Failure::volume(path, &e))
    }

    fn create_all(&self, context: &Context<'_>, path: &[u8]) -> Outcome {
        let options = MkdirAll {
            base: Some(context.cwd_ino),
            perm: self.perm(),
            perm_above: DEFAULT_PERM,
            ..MkdirAll::default()
        };
        context.volume.mkdir_all_with(&options, path).map(drop).map_err(|error| match &error {
            // The error is about a directory on the way.
            Error::At { code, what } => Failure::code(what, *code),
            error => Failure::volume(path, error),
        })
    }
}
