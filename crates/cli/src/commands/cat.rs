//! `lanefs cat`.

use crate::bytes;
use crate::command::Command;
use crate::context::{Context, OWNER};
use crate::failure::{Failure, Outcome, check_interrupt};
use clap::Args;
use lanefs::{Code, FileKind};
use std::ffi::OsString;
use std::io::Write;

/// Bytes in one read.
const CHUNK: usize = 1 << 20;

/// Print files to standard output
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs cat v.lane /etc/hosts
  lanefs cat v.lane part1 part2 > whole")]
pub struct Cat {
    /// Files to print
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

impl Command for Cat {
    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let mut buffer = vec![0; CHUNK];
        for path in &self.paths {
            let outcome = print(context, bytes::of(path), &mut buffer);
            context.go_on(outcome)?;
        }
        Ok(())
    }
}

fn print(context: &mut Context<'_>, path: &[u8], buffer: &mut [u8]) -> Outcome {
    let attr = context.resolve(path, true)?;
    match attr.kind {
        FileKind::File => {}
        FileKind::Directory => return Err(Failure::code(path, Code::IsDirectory)),
        kind => {
            let what = format!("is a {} and has no content", kind.word());
            return Err(Failure::partial(path, &what, "name a regular file"));
        }
    }
    let mut offset = 0;
    loop {
        check_interrupt()?;
        let count =
            context.volume.read(&OWNER, attr.ino, offset, buffer).map_err(|e| Failure::volume(path, &e))?;
        let Some(data) = buffer.get(..count).filter(|data| !data.is_empty()) else { return Ok(()) };
        context.out.write_all(data)?;
        offset += count as u64;
    }
}
