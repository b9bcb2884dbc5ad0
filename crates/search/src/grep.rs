//! Lines that match.

use crate::batch::{self, Candidate, Job, Jobs};
use crate::error::{Error, FileError, Result};
use crate::file::FileReader;
use crate::ordered::in_order;
use crate::output::{Content, Form, OutputOptions, Printer};
use crate::paint::{Bounded, Paint};
use crate::prefilter::{self, Prefilter, Text};
use crate::query::QueryOptions;
use grep_regex::RegexMatcher;
use grep_searcher::Searcher;
use lanefs::{Ino, Volume};
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// A search for lines.
pub struct Grep {
    query: QueryOptions,
    matcher: RegexMatcher,
    output: OutputOptions,
    threads: usize,
    prefilter: Option<Arc<dyn Prefilter>>,
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

/// Most bytes of output that a job may have before its turn has come.
const MAX_OUTPUT_BYTES: usize = 8 << 20;

/// The results of a job.
#[derive(Default)]
struct Searched {
    /// The output of its files, one after the other.
    bytes: Vec<u8>,
    /// Where that of each file ends.
    ends: Vec<usize>,
    found: Found,
    failed: Vec<Failed>,
    /// Files that the collecting thread searches when their turn has come: their output may have any size.
    late: Vec<Candidate>,
}

impl Grep {
    /// Prepares a search, on up to `threads` threads.
    ///
    /// # Errors
    /// [`Error::Pattern`].
    pub fn new(query: QueryOptions, output: OutputOptions, threads: usize) -> Result<Self> {
        Ok(Grep { matcher: query.matcher()?, query, output, threads, prefilter: None })
    }

    /// Has another engine look for the sequences of the query first
    /// ([`QueryOptions::required`]). The results are the same.
    #[must_use]
    pub fn with_prefilter(mut self, prefilter: Arc<dyn Prefilter>) -> Self {
        // Where files without a line that matches are shown, they must be searched too.
        let needs_all = self.query.inverts || self.output.shows_without();
        self.prefilter = Some(prefilter).filter(|_| !needs_all);
        self
    }

    /// Searches in the files that `next` returns, in this order, and writes to `out`. `failed` learns of
    /// files that could not be searched; where it returns false the search ends. It also ends where `stops`
    /// returns true.
    ///
    /// # Errors
    /// [`Error::Output`], [`Error::Interrupted`], [`Error::Ended`].
    pub fn search(
        &self,
        volume: &Volume,
        next: impl FnMut() -> Option<Candidate>,
        out: &mut dyn Write,
        failed: &mut dyn FnMut(&[u8], FileError) -> bool,
        stops: &(dyn Fn() -> bool + Sync),
    ) -> Result<Found> {
        let mut jobs = Jobs::new(next);
        let mut sums = Found::default();
        let mut separates = false;
        let searched = in_order(
            self.threads,
            || jobs.next().filter(|_| !stops()),
            || {
                let mut worker = Worker::new(self, Bounded::new(MAX_OUTPUT_BYTES));
                move |job| worker.work(volume, job, stops)
            },
            |searched: Searched| {
                if stops() {
                    return Err(Stop::Error(Error::Interrupted));
                }
                self.write(out, &searched.bytes, &searched.ends, &mut separates)?;
                let mut fail = |path: &[u8], error| match failed(path, error) {
                    true => Ok(()),
                    false => Err(Stop::Error(Error::Ended)),
                };
                for (path, error) in searched.failed {
                    fail(&path, error)?;
                }
                sums.add(searched.found);
                for file in searched.late {
                    sums.add(self.search_late(volume, &file, out, &mut fail, stops, &mut separates)?);
                }
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

    /// Searches in a file piece by piece, and writes its output at once.
    fn search_late(
        &self,
        volume: &Volume,
        file: &Candidate,
        out: &mut dyn Write,
        fail: Fail<'_>,
        stops: &dyn Fn() -> bool,
        separates: &mut bool,
    ) -> std::result::Result<Found, Stop> {
        let separator = self.output.separator().filter(|_| *separates);
        let mut late = Late { out, separator, has_written: false, failure: None };
        let content = &mut FileReader::new(volume, file.ino, stops);
        let result = Worker::new(self, &mut late).search(file, Content::Reader(content));
        *separates |= late.has_written;
        if let Some(error) = late.failure {
            return Err(Stop::Error(Error::Output(error)));
        }
        let mut found = Found { files: 1, ..Found::default() };
        match result {
            Ok(is_shown) => found.shown += u64::from(is_shown),
            Err(_) if stops() => return Err(Stop::Error(Error::Interrupted)),
            Err(error) => {
                found.failed += 1;
                fail(&file.path, FileError::of(error))?;
            }
        }
        Ok(found)
    }
}

impl Found {
    fn add(&mut self, other: Found) {
        self.files += other.files;
        self.shown += other.shown;
        self.failed += other.failed;
    }
}

/// Tells the caller of the failure of a file, and ends the search where the caller wants that.
type Fail<'f> = &'f mut dyn FnMut(&[u8], FileError) -> std::result::Result<(), Stop>;

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

/// Tools of one thread.
struct Worker<'g, W> {
    grep: &'g Grep,
    searcher: Searcher,
    printer: Printer<Paint<W>>,
}

impl<'g, W: Write> Worker<'g, W> {
    fn new(grep: &'g Grep, out: W) -> Self {
        let (numbers, before, after) = match &grep.output.form {
            Form::Lines(lines) => (lines.numbers, lines.before, lines.after),
            Form::Json => (true, 0, 0),
            _ => (false, 0, 0),
        };
        let searcher = grep.query.searcher(numbers, before, after);
        let out = Paint { out, is_colored: grep.output.colors };
        Worker { grep, searcher, printer: grep.output.printer(out) }
    }

    /// Searches in a file. Returns whether it is one that is shown.
    fn search(&mut self, file: &Candidate, content: Content<'_>) -> std::io::Result<bool> {
        self.searcher.set_binary_detection(self.grep.query.binary_detection(file.is_named));
        let path = Path::new(OsStr::from_bytes(file.shown.as_ref().unwrap_or(&file.path)));
        let has_match = self.printer.search(&mut self.searcher, &self.grep.matcher, path, content)?;
        Ok(has_match != self.grep.output.shows_without())
    }
}

impl Worker<'_, Bounded> {
    fn work(&mut self, volume: &Volume, job: Job, stops: &dyn Fn() -> bool) -> Searched {
        let mut searched = Searched::default();
        let mut files = match job {
            Job::Small(files) => files,
            Job::Large(file) => {
                match self.grep.prefilter.as_deref() {
                    Some(other) if !prefilter::may_match_large(other, volume, &file, stops) => {
                        searched.found.files += 1;
                    }
                    _ => searched.late.push(file),
                }
                return searched;
            }
        };
        let mut known = self.known(&files).into_iter();
        let whole = files.len();
        // Nothing is to be shown of files in which no line matches.
        files.retain(|_| known.next() != Some(Some(false)));
        searched.found.files += (whole - files.len()) as u64;
        batch::read(volume, &files, stops, |files, contents| {
            let may_match = self.may_match(files, &contents);
            for ((file, content), may_match) in files.iter().zip(contents).zip(may_match) {
                if stops() {
                    return;
                }
                self.search_small(file, content, may_match, &mut searched);
            }
        });
        searched.bytes = std::mem::take(&mut self.printer.get_mut().out.bytes);
        searched
    }

    /// Tells for each file whether a line may match, if the other engine knows.
    fn known(&self, files: &[Candidate]) -> Vec<Option<bool>> {
        let Some(prefilter) = &self.grep.prefilter else { return vec![None; files.len()] };
        prefilter.known(&files.iter().map(|file| file.ino).collect::<Vec<Ino>>())
    }

    /// Tells for each file whether a line may match.
    fn may_match(
        &self,
        files: &[Candidate],
        contents: &[std::result::Result<&[u8], lanefs::Error>],
    ) -> Vec<bool> {
        let Some(prefilter) = &self.grep.prefilter else { return vec![true; contents.len()] };
        let mut found = self.known(files);
        let unknown = found.iter().zip(files).zip(contents).filter(|((found, _), _)| found.is_none());
        let texts = unknown.map(|((_, file), content)| match content {
            Ok(bytes) => Text { bytes, file: Some(file.ino) },
            // It fails as it would without the other engine.
            Err(_) => Text { bytes: &[], file: None },
        });
        let mut answers = prefilter::may_match(&**prefilter, texts.collect()).into_iter();
        found.iter_mut().filter(|found| found.is_none()).for_each(|found| *found = answers.next());
        found.into_iter().map(|found| found.unwrap_or(true)).collect()
    }

    /// Searches in a file whose bytes are there, and adds what is found.
    fn search_small(
        &mut self,
        file: &Candidate,
        content: std::result::Result<&[u8], lanefs::Error>,
        may_match: bool,
        searched: &mut Searched,
    ) {
        if !searched.late.is_empty() {
            searched.late.push(file.clone());
            return;
        }
        let result = match content {
            Ok(_) if !may_match => Ok(false),
            Ok(bytes) => self.search_bytes(file, bytes),
            Err(error) => Err(std::io::Error::other(error)),
        };
        let buffer = &mut self.printer.get_mut().out;
        if std::mem::take(&mut buffer.is_full) {
            // Its output, and that of the files after it, is written when their turn has come.
            buffer.bytes.truncate(searched.ends.last().copied().unwrap_or(0));
            searched.late.push(file.clone());
            return;
        }
        searched.ends.push(buffer.bytes.len());
        searched.found.files += 1;
        match result {
            Ok(is_shown) => searched.found.shown += u64::from(is_shown),
            Err(error) => {
                searched.found.failed += 1;
                searched.failed.push((file.path.clone(), FileError::of(error)));
            }
        }
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
