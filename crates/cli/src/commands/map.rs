//! `lanefs map`.

mod group_map;
mod groups;
mod label;
mod picture;
mod squarify;
mod svg;
mod tree;
mod treemap;

use crate::session::command::Command;
use crate::session::context::Context;
use crate::session::new_file::NewFile;
use crate::terminal::console;
use crate::terminal::failure::{Outcome, check_interrupt};
use crate::text::bytes;
use clap::Args;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use tree::Directory;

/// Levels of directories at most.
const MAX_DEPTH: i64 = 16;

/// Draw a picture of the volume: where its space is
///
/// Draws the directories below PATH as rectangles, whose areas are the space that they take, as `du` counts
/// it, and below them each block group of the volume with its metadata, file data and free space, and the
/// number of extents of that. A browser shows path and size of the directory under the pointer.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs map v.lane --svg v.svg
  lanefs map /mnt /home --depth 2 --svg home.svg
  lanefs map v.lane --svg - | rsvg-convert > v.png")]
pub struct Map {
    /// The directory to start at [default: the root directory; in a shell the working directory]
    #[arg(value_name = "PATH")]
    path: Option<OsString>,
    /// File of the host for the picture; - for standard output
    #[arg(long, value_name = "FILE")]
    svg: PathBuf,
    /// Levels of directories that are shown
    #[arg(short = 'd', long, value_name = "DEPTH", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=MAX_DEPTH))]
    depth: u8,
}

impl Command for Map {
    fn new_file(&self) -> Option<&Path> {
        (self.svg != Path::new("-")).then_some(&*self.svg)
    }

    fn execute(&self, context: &mut Context<'_>) -> Outcome {
        // The client of a mount has made the file, and writes the output to it.
        let file = match self.new_file() {
            Some(path) if console::client().is_none() => Some(NewFile::create(path, context.image)?),
            _ => None,
        };
        let path = self.path.as_ref().map_or_else(|| context.cwd.clone(), |path| bytes::of(path).to_vec());
        let root = Directory::measure(context, &path, usize::from(self.depth))?;
        let cells = groups::read(context)?;
        let picture = picture::draw(&context.image.name(), &root, &cells);
        check_interrupt()?;
        match file {
            Some(file) => file.write(picture.as_bytes()),
            None => Ok(context.out.write_all(picture.as_bytes())?),
        }
    }
}
