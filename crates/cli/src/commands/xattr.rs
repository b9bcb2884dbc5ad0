//! `lanefs xattr`.

use crate::session::command::Command;
use crate::session::context::{Context, OWNER};
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::input::Input;
use crate::text::bytes;
use crate::text::escape::escape_into;
use clap::{Args, Subcommand};
use lanefs::{Code, Error, Ino, XattrMode, is_linux_xattr};
use std::ffi::OsString;
use std::io::{Read, Write};

/// Largest value that is read from standard input, in bytes. The volume may have a lower limit.
const MAX_VALUE_BYTES: u64 = 1 << 24;
/// Longest name of an attribute in bytes, as in Linux.
const MAX_NAME_BYTES: usize = 255;

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
    /// The action.
    #[command(subcommand)]
    action: XattrAction,
}

/// An action on attributes.
#[derive(Debug, Subcommand)]
enum XattrAction {
    /// Print the value of an attribute unchanged
    Get {
        /// Attribute, such as user.origin
        #[arg(value_name = "NAME")]
        name: OsString,
        /// File
        #[arg(value_name = "PATH")]
        path: OsString,
    },
    /// Set an attribute
    Set {
        /// Fail if the attribute exists
        #[arg(long)]
        create: bool,
        /// Fail if the attribute does not exist
        #[arg(long, conflicts_with = "create")]
        replace: bool,
        /// Attribute, such as user.origin
        #[arg(value_name = "NAME")]
        name: OsString,
        /// Value; `-` reads it from standard input
        #[arg(value_name = "VALUE")]
        value: OsString,
        /// Files
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<OsString>,
    },
    /// Print the names of all attributes, one per line (escaped)
    List {
        /// Print values too, after a tab (escaped)
        #[arg(short, long)]
        values: bool,
        /// File
        #[arg(value_name = "PATH")]
        path: OsString,
    },
    /// Remove an attribute
    Rm {
        /// Attribute, such as user.origin
        #[arg(value_name = "NAME")]
        name: OsString,
        /// Files
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<OsString>,
    },
}

impl Command for Xattr {
    fn changes(&self) -> bool {
        matches!(self.action, XattrAction::Set { .. } | XattrAction::Rm { .. })
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let volume = context.volume;
        match &self.action {
            XattrAction::Get { name, path } => {
                let path = bytes::of(path);
                let ino = self.ino(context, path)?;
                let value = volume.getxattr(&OWNER, ino, bytes::of(name));
                Ok(context.out.write_all(&value.map_err(|e| Failure::volume(path, &e))?)?)
            }
            XattrAction::List { values, path } => self.list(context, bytes::of(path), *values),
            XattrAction::Set { create, replace, name, value, paths } => {
                let mode = match (create, replace) {
                    (true, _) => XattrMode::Create,
                    (_, true) => XattrMode::Replace,
                    _ => XattrMode::Set,
                };
                let name = bytes::of(name);
                check_new_name(name)?;
                let value = if value == "-" { read_value()? } else { bytes::of(value).to_vec() };
                self.each(context, name, paths, &|ino| volume.setxattr(&OWNER, ino, name, &value, mode))
            }
            XattrAction::Rm { name, paths } => {
                let name = bytes::of(name);
                self.each(context, name, paths, &|ino| volume.removexattr(&OWNER, ino, name))
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
        name: &[u8],
        paths: &[OsString],
        change: &dyn Fn(Ino) -> lanefs::Result<()>,
    ) -> Outcome {
        for path in paths {
            let path = bytes::of(path);
            let changed =
                self.ino(context, path).and_then(|ino| change(ino).map_err(|e| refused(path, name, &e)));
            context.go_on(changed)?;
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

/// Refuses the name of a new attribute that Linux would refuse. Programs could not read it through a mount,
/// nor could an export keep it. An attribute of an older volume can still be read and removed.
fn check_new_name(name: &[u8]) -> Outcome {
    let (what, advice) = match () {
        () if name.len() > MAX_NAME_BYTES => {
            ("the name is too long", "use at most 255 bytes, user. included")
        }
        () if is_linux_xattr(name) => return Ok(()),
        () => (
            "Linux has no attributes of this name",
            "begin it with user., trusted. or security., as in user.origin",
        ),
    };
    Err(Failure::partial(name, what, advice))
}

/// Describes why an attribute was not changed. The volume's codes say little about an access control list.
fn refused(path: &[u8], name: &[u8], error: &Error) -> Failure {
    if !name.starts_with(b"system.posix_acl_") {
        return Failure::volume(path, error);
    }
    let (what, advice) = match error.code() {
        Code::Invalid => (
            "the value is not an access control list",
            "set one with setfacl(1) through a mount, or copy one",
        ),
        Code::Unsupported => {
            ("the value is not an access control list of version 2, or the file is a symbolic link", "")
        }
        Code::AttributeTooLarge => ("an access control list has 4096 bytes at most", ""),
        Code::AccessDenied => ("only a directory has a default access control list", ""),
        _ => return Failure::volume(path, error),
    };
    Failure::partial(path, what, advice)
}

fn read_value() -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    Input::default().take(MAX_VALUE_BYTES).read_to_end(&mut value).map_err(|error| Failure::input(&error))?;
    Ok(value)
}
