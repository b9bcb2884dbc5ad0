//! `lanefs truncate`.

use crate::session::command::Command;
use crate::session::context::{Context, OWNER};
use crate::terminal::failure::{Failure, Outcome};
use crate::text::bytes;
use crate::text::size::parse_size;
use clap::Args;
use lanefs::{Code, FileKind, SetAttr};
use std::ffi::OsString;

/// Truncate files, or extend them with a hole
///
/// A file that does not exist is created.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs truncate v.lane -s 0 /log
  lanefs truncate v.lane -s 10G /sparse")]
pub struct Truncate {
    /// New size: 0, 4096, 512M, 1.5T
    #[arg(short, long, allow_negative_numbers = true, value_parser = parse_size)]
    size: u64,
    /// Create no files
    #[arg(short = 'c', long)]
    no_create: bool,
    /// Files to resize
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

impl Command for Truncate {
    fn changes(&self) -> bool {
        true
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        for path in &self.paths {
            let outcome = self.resize(context, bytes::of(path));
            context.go_on(outcome)?;
        }
        Ok(())
    }
}

impl Truncate {
    fn resize(&self, context: &Context<'_>, path: &[u8]) -> Outcome {
        let failure = |e: lanefs::Error| Failure::volume(path, &e);
        let attr = match context.try_resolve(path, true)? {
            Ok(attr) => attr,
            Err(Code::NotFound) if self.no_create => return Ok(()),
            Err(Code::NotFound) => {
                let (dir, name) = context.parent(path)?;
                context.volume.create_file(&OWNER, dir, name, 0o644).map_err(failure)?
            }
            Err(code) => return Err(Failure::code(path, code)),
        };
        match attr.kind {
            FileKind::File => {}
            FileKind::Directory => return Err(Failure::code(path, Code::IsDirectory)),
            _ => return Err(Failure::code(path, Code::Invalid)),
        }
        let set = SetAttr { size: Some(self.size), ..SetAttr::default() };
        context.volume.setattr(&OWNER, attr.ino, &set).map(drop).map_err(failure)
    }
}
