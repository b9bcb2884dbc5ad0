//! The paths of a file, one per line.

use crate::terminal::failure::{Failure, check_interrupt};
use crate::terminal::input::Input;
use crate::terminal::{console, exit, interrupt};
use crate::text::bytes;
use lanefs::PathSet;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Paths that are read together at most, and their bytes.
const BATCH_PATHS: usize = 4096;
const BATCH_BYTES: usize = 1 << 20;
/// Most bytes of a line with a path.
const LINE_BYTES: u64 = 4096;

/// A file with paths, `-` for standard input. Empty lines are none.
pub struct PathLines {
    file: OsString,
    input: BufReader<Box<dyn Read + Send>>,
    is_over: bool,
}

impl PathLines {
    /// Opens the file.
    ///
    /// # Errors
    /// The host's.
    pub fn open(file: &OsStr) -> Result<Self, Failure> {
        let path = Path::new(file);
        let input: Box<dyn Read + Send> = match file == "-" {
            true => Box::new(Input::default()),
            false => {
                console::open_file(path, interrupt::raised).map_err(|error| Failure::host(path, &error))?
            }
        };
        Ok(PathLines { file: file.to_owned(), input: BufReader::new(input), is_over: false })
    }

    /// Reads the next paths, a bounded number of them; false where there are none.
    ///
    /// # Errors
    /// The host's; a line that is too long for a path; an interruption.
    pub fn next_batch(&mut self, paths: &mut PathSet) -> Result<bool, Failure> {
        paths.clear();
        let (mut line, mut count_bytes) = (Vec::new(), 0);
        while !self.is_over && paths.len() < BATCH_PATHS && count_bytes < BATCH_BYTES {
            check_interrupt()?;
            line.clear();
            let read = (&mut self.input).take(LINE_BYTES + 1).read_until(b'\n', &mut line);
            self.is_over = read.map_err(|error| Failure::host(Path::new(&self.file), &error))? == 0;
            if line.len() as u64 > LINE_BYTES && line.last() != Some(&b'\n') {
                let what = "has a line that is longer than a path may be";
                let advice = "name a file of paths, or -";
                return Err(Failure::new(exit::HOST, bytes::of(&self.file), what, advice));
            }
            let name = line.strip_suffix(b"\n").unwrap_or(&line);
            if !name.is_empty() {
                paths.push(name);
                count_bytes += name.len();
            }
        }
        Ok(!paths.is_empty())
    }
}
