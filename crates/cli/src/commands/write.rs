//! `lanefs write`.

use crate::common::output_file::OutputFile;
use crate::session::command::Command;
use crate::session::context::Context;
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::input::Input;
use crate::text::bytes;
use clap::Args;
use std::ffi::OsString;
use std::io::Read;

/// Bytes in one write.
const CHUNK_BYTES: usize = 1 << 20;
/// Permissions of a new file.
const NEW_FILE_PERM: u16 = 0o644;

/// Write standard input to a file
///
/// Creates the file, or replaces its content when all of the new one is there: after a failure the old
/// content stays, and a file that the command created is removed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  date | lanefs write v.lane /stamp
  tar c src | lanefs write v.lane /src.tar
  echo more | lanefs write v.lane --append /log")]
pub struct Write {
    /// Append to the content instead of replacing it
    #[arg(short, long)]
    append: bool,
    /// The file
    #[arg(value_name = "PATH")]
    path: OsString,
}

impl Command for Write {
    fn changes(&self) -> bool {
        true
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        let path = bytes::of(&self.path);
        let file = OutputFile::open(context, context.place(path), NEW_FILE_PERM)?;
        let (offset, mut file) = match self.append {
            true => (file.attr.size, file.appending()),
            false => (0, file),
        };
        let outcome = copy_input(context, &mut file, offset);
        if outcome.is_err() {
            file.abandon(context);
        }
        outcome
    }
}

/// Copies standard input into a file.
fn copy_input(context: &Context<'_>, file: &mut OutputFile, mut offset: u64) -> Outcome {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut input = Input::default();
    loop {
        let filled = read_chunk(&mut input, &mut buffer)?;
        let Some(data) = buffer.get(..filled).filter(|data| !data.is_empty()) else {
            return file.finish(context, offset);
        };
        file.write(context, offset, data)?;
        offset += filled as u64;
    }
}

/// Fills the buffer and returns the number of bytes, which is smaller only at the end of the input. A pipe
/// returns less per read; whole chunks let the volume use large blocks.
fn read_chunk(input: &mut Input, buffer: &mut [u8]) -> Result<usize, Failure> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) => return Err(Failure::input(&error)),
        }
    }
    Ok(filled)
}
