//! `lanefs xattr`.

use crate::bytes;
use crate::cli::Run;
use crate::context::{Context, OWNER};
use crate::escape::escape_into;
use crate::exit::{Failure, Outcome};
use crate::input::Input;
use clap::{Args, Subcommand};
use lanefs::{Ino, XattrMode};
use std::ffi::OsString;
use std::io::{Read, Write};

/// Largest value read from standard input, in bytes; the volume may refuse less.
const MAX_VALUE: u64 = 1 << 24;

/// Read and change extended attributes
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs xattr v.lane set user.origin camera /photo.jpg
  lanefs xattr v.lane get user.origin /photo.jpg
  lanefs xattr v.lane list /photo.jpg
  lanefs xattr v.lane rm user.origin /photo.jpg")]
pub struct Xattr {
    /// Work on a symbolic link itself
    #[arg(long, global = true)]
    no_dereference: bool,
    /// What to do
    #[command(subcommand)]
    action: Action,
}

/// What is done with attributes.
#[derive(Debug, Subcommand)]
enum Action {
    /// Print the value of an attribute, its very bytes
    Get {
        /// The attribute, such as user.origin
        #[arg(value_name = "NAME")]
        name: OsString,
        /// The file
        #[arg(value_name = "PATH")]
        path: OsString,
    },
    /// Set an attribute
    Set {
        /// Fail where the attribute exists
        #[arg(long)]
        create: bool,
        /// Fail where the attribute does not exist
        #[arg(long, conflicts_with = "create")]
        replace: bool,
        /// The attribute, such as user.origin
        #[arg(value_name = "NAME")]
        name: OsString,
        /// The value; `-` reads it from standard input
        #[arg(value_name = "VALUE")]
        value: OsString,
        /// The files
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<OsString>,
    },
    /// Print the names of all attributes, one a line (escaped)
    List {
        /// Values too, behind a tab (escaped)
        #[arg(short, long)]
        values: bool,
        /// The file
        #[arg(value_name = "PATH")]
        path: OsString,
    },
    /// Remove an attribute
    Rm {
        /// The attribute
        #[arg(value_name = "NAME")]
        name: OsString,
        /// The files
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<OsString>,
    },
}

impl Run for Xattr {
    fn changes(&self) -> bool {
        matches!(self.action, Action::Set { .. } | Action::Rm { .. })
    }

    fn run(&self, context: &mut Context<'_>) -> Outcome {
        let volume = context.volume;
        match &self.action {
            Action::Get { name, path } => {
                let path = bytes::of(path);
                let ino = self.ino(context, path)?;
                let value =
                    volume.getxattr(&OWNER, ino, bytes::of(name)).map_err(|e| Failure::volume(path, &e))?;
                Ok(context.out.write_all(&value)?)
            }
            Action::List { values, path } => self.list(context, bytes::of(path), *values),
            Action::Set { create, replace, name, value, paths } => {
                let mode = match (create, replace) {
                    (true, _) => XattrMode::Create,
                    (_, true) => XattrMode::Replace,
                    _ => XattrMode::Set,
                };
                let value = if value == "-" { from_input()? } else { bytes::of(value).to_vec() };
                self.each(context, paths, &|ino| volume.setxattr(&OWNER, ino, bytes::of(name), &value, mode))
            }
            Action::Rm { name, paths } => {
                self.each(context, paths, &|ino| volume.removexattr(&OWNER, ino, bytes::of(name)))
            }
        }
    }
}

impl Xattr {
    fn ino(&self, context: &Context<'_>, path: &[u8]) -> Result<Ino, Failure> {
        Ok(context.resolve(path, !self.no_dereference)?.ino)
    }

    fn each(
        &self,
        context: &mut Context<'_>,
        paths: &[OsString],
        change: &dyn Fn(Ino) -> lanefs::Result<()>,
    ) -> Outcome {
        for path in paths {
            let path = bytes::of(path);
            let outcome =
                self.ino(context, path).and_then(|ino| change(ino).map_err(|e| Failure::volume(path, &e)));
            context.go_on(outcome)?;
        }
        Ok(())
    }

    fn list(&self, context: &mut Context<'_>, path: &[u8], values: bool) -> Outcome {
        let ino = self.ino(context, path)?;
        let mut names = context.volume.listxattr(ino).map_err(|e| Failure::volume(path, &e))?;
        names.sort_unstable();
        for name in names {
            let mut line = Vec::new();
            escape_into(&mut line, &name);
            if values {
                let value =
                    context.volume.getxattr(&OWNER, ino, &name).map_err(|e| Failure::volume(path, &e))?;
                line.push(b'\t');
                escape_into(&mut line, &value);
            }
            line.push(b'\n');
            context.out.write_all(&line)?;
        }
        Ok(())
    }
}

fn from_input() -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    Input::default()
        .take(MAX_VALUE)
        .read_to_end(&mut value)
        .map_err(|error| super::write::input_failure(&error))?;
    Ok(value)
}
