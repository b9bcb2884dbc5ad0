//! Lines that match.

use crate::batch::{self, Candidate, Job, Jobs};
use crate::error::{Error, Result};
use crate::file::FileReader;
use crate::ordered::in_order;
use crate::output::{Content, Form, OutputOptions, Printer};
use crate::query::QueryOptions;
use grep_regex::RegexMatcher;
use grep_searcher::Searcher;
use lanefs::Volume;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use termcolor::{Ansi, Buffer, NoColor, WriteColor};

/// A search for lines.
pub struct Grep {
    query: QueryOptions,
    matcher: RegexMatcher,
    output: OutputOptions,
    threads: usize,
}

/// Counts of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Files that were searched.
    pub files: u64,
    /// Files that are shown: those with a line or, for [`Form::FilesWithout`], those without.
    pub shown: u64,
    /// Files that could not be read.
    pub failed: u64,
}

/// Failure of one file.
type Failed = (Vec<u8>, FileError);

/// Why a file could not be searched.
#[derive(Debug)]
enum FileError {
    Volume(lanefs::Error),
    Io(std::io::Error),
}

/// The results of a job.
enum Searched {
    /// The output of each file, one behind the other.
    Small { bytes: Vec<u8>, ends: Vec<usize>, found: Found, failed: Vec<Failed> },
    /// A file that this thread searches when its turn has come: its output may have any size.
    Large(Candidate),
}

impl Grep {
    /// Prepares a search, on up to `threads` threads.
    ///
    /// # Errors
    /// [`Error::Pattern`].
    pub fn new(query: QueryOptions, output: OutputOptions, threads: usize) -> Result<Self> {
        Ok(Grep { matcher: query.matcher()?, query, output, threads })
    }

    /// Searches in the files that `next` returns, in this order, and writes to `out`. `failed` learns of
    /// files that could not be read; the search goes on. It ends where `stops` returns true.
    ///
    /// # Errors
    /// [`Error::Output`], [`Error::Interrupted`].
    pub fn search(
        &self,
        volume: &Volume,
        next: impl FnMut() -> Option<Candidate>,
        out: &mut dyn Write,
        failed: &mut dyn FnMut(&[u8], &str),
        stops: &(dyn Fn() -> bool + Sync),
    ) -> Result<Found> {
        let mut jobs = Jobs::new(next);
        let mut sums = Found::default();
        let mut separates = false;
        let searched = in_order(
            self.threads,
            || jobs.next().filter(|_| !stops()),
            || {
                let mut worker = Worker::new(self, self.output.buffer());
                move |job| worker.work(volume, job, stops)
            },
            |result| {
                if stops() {
                    return Err(Stop::Error(Error::Interrupted));
                }
                let found = match result {
                    Searched::Small { bytes, ends, found, failed: files } => {
                        self.write(out, &bytes, &ends, &mut separates)?;
                        files.iter().for_each(|(path, error)| failed(path, &error.text()));
                        found
                    }
                    Searched::Large(file) => self.search_large(volume, &file, out, failed, &mut separates)?,
                };
                sums.files += found.files;
                sums.shown += found.shown;
                sums.failed += found.failed;
                match self.output.ends_at_first() && sums.shown > 0 {
                    true => Err(Stop::Enough),
                    false => Ok(()),
                }
            },
        );
        match searched {
            Ok(()) if stops() => Err(Error::Interrupted),
            Ok(()) | Err(Stop::Enough) => Ok(sums),
            Err(Stop::Error(error)) => Err(error),
        }
    }

    /// Writes what some files have to show.
    fn write(&self, out: &mut dyn Write, bytes: &[u8], ends: &[usize], separates: &mut bool) -> Result<()> {
        let Some(separator) = self.output.separator() else { return Ok(out.write_all(bytes)?) };
        let mut from = 0;
        for end in ends {
            if from < *end {
                if *separates {
                    out.write_all(separator)?;
                    out.write_all(b"\n")?;
                }
                *separates = true;
                out.write_all(&bytes[from..*end])?;
            }
            from = *end;
        }
        Ok(())
    }

    fn search_large(
        &self,
        volume: &Volume,
        file: &Candidate,
        out: &mut dyn Write,
        failed: &mut dyn FnMut(&[u8], &str),
        separates: &mut bool,
    ) -> Result<Found> {
        let separator = self.output.separator().filter(|_| *separates);
        let mut late = Late { out, separator, has_written: false, failure: None };
        let content = &mut FileReader::new(volume, file.ino);
        let result = if self.output.colors {
            Worker::new(self, Ansi::new(&mut late)).search(file, Content::Reader(content))
        } else {
            Worker::new(self, NoColor::new(&mut late)).search(file, Content::Reader(content))
        };
        *separates |= late.has_written;
        if let Some(error) = late.failure {
            return Err(Error::Output(error));
        }
        let mut found = Found { files: 1, ..Found::default() };
        match result {
            Ok(is_shown) => found.shown += u64::from(is_shown),
            Err(error) => {
                found.failed += 1;
                failed(&file.path, &FileError::Io(error).text());
            }
        }
        Ok(found)
    }
}

/// Why no more results are taken.
enum Stop {
    Enough,
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Error(error)
    }
}

impl FileError {
    fn text(&self) -> String {
        match self {
            FileError::Volume(error) => error.to_string(),
            FileError::Io(error) => error.to_string(),
        }
    }
}

/// Tools of one thread.
struct Worker<'g, W> {
    grep: &'g Grep,
    searcher: Searcher,
    printer: Printer<W>,
}

impl<'g, W: WriteColor> Worker<'g, W> {
    fn new(grep: &'g Grep, out: W) -> Self {
        let (numbers, before, after) = match &grep.output.form {
            Form::Lines(lines) => (lines.numbers, lines.before, lines.after),
            Form::Json => (true, 0, 0),
            _ => (false, 0, 0),
        };
        let searcher = grep.query.searcher(numbers, before, after);
        Worker { grep, searcher, printer: grep.output.printer(out) }
    }

    /// Searches in a file. Returns whether it is one that is shown.
    fn search(&mut self, file: &Candidate, content: Content<'_>) -> std::io::Result<bool> {
        self.searcher.set_binary_detection(self.grep.query.binary_detection(file.is_named));
        let path = Path::new(OsStr::from_bytes(&file.path));
        let has_match = self.printer.search(&mut self.searcher, &self.grep.matcher, path, content)?;
        Ok(has_match != self.grep.output.shows_without())
    }
}

impl Worker<'_, Buffer> {
    fn work(&mut self, volume: &Volume, job: Job, stops: &dyn Fn() -> bool) -> Searched {
        let files = match job {
            Job::Small(files) => files,
            Job::Large(file) => return Searched::Large(file),
        };
        let (mut found, mut failed, mut ends) = (Found::default(), Vec::new(), Vec::new());
        batch::read(volume, &files, |file, content| {
            if stops() {
                return;
            }
            found.files += 1;
            let searched = match content {
                Ok(bytes) => self.search_bytes(file, bytes).map_err(FileError::Io),
                Err(error) => Err(FileError::Volume(error)),
            };
            match searched {
                Ok(is_shown) => found.shown += u64::from(is_shown),
                Err(error) => {
                    found.failed += 1;
                    failed.push((file.path.clone(), error));
                }
            }
            ends.push(self.printer.get_mut().len());
        });
        let bytes = std::mem::replace(self.printer.get_mut(), self.grep.output.buffer()).into_inner();
        Searched::Small { bytes, ends, found, failed }
    }

    /// Searches in bytes. Those with a NUL go through a reader: what ripgrep does with them depends on its
    /// buffer.
    fn search_bytes(&mut self, file: &Candidate, mut bytes: &[u8]) -> std::io::Result<bool> {
        let content = match memchr::memchr(0, bytes) {
            Some(_) => Content::Reader(&mut bytes),
            None => Content::Slice(bytes),
        };
        self.search(file, content)
    }
}

/// An output that writes the separator before the first byte, and keeps its own failure apart from those of
/// the file.
struct Late<'o> {
    out: &'o mut dyn Write,
    separator: Option<&'static [u8]>,
    has_written: bool,
    failure: Option<std::io::Error>,
}

impl Late<'_> {
    fn keep(&mut self, result: std::io::Result<()>) -> std::io::Result<()> {
        result.map_err(|error| {
            let kind = error.kind();
            self.failure.get_or_insert(error);
            kind.into()
        })
    }
}

impl Write for Late<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        if let Some(separator) = self.separator.take() {
            let written = self.out.write_all(separator).and_then(|()| self.out.write_all(b"\n"));
            self.keep(written)?;
        }
        self.has_written = true;
        let written = self.out.write_all(bytes);
        self.keep(written)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let flushed = self.out.flush();
        self.keep(flushed)
    }
}
