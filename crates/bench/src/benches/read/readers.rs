//! The systems that read.

use super::archive::Archive;
use super::corpus::{Corpus, CorpusRequests, MOST_BYTES};
use super::rows::ReadWork;
use super::uring::{DEPTH, UringReader};
use crate::error::{Error, Result, check};
use crate::measure::stop::{STRIDE, Stop};
use crate::measure::threads::{share, together};
use crate::measure::values::LANEFS;
use crate::systems::file_volume::FileVolume;
use crate::systems::peers::Host;
use crate::systems::served::forget;
use crate::systems::system::Named;
use lanefs::{Caller, FileContents, ReadFiles};
use rustix::fs::{self as sys, Mode, OFlags};
use std::ffi::CStr;
use std::time::Duration;

impl FileVolume {
    /// Reads files in batches; returns the number of right ones.
    fn read(
        &self,
        corpus: &Corpus,
        requests: &CorpusRequests,
        part: &[usize],
        work: &ReadWork,
        stop: &Stop,
    ) -> Result<u64> {
        // A warm batch is the work of the thread that asks; a cold one may have others wait for the disk.
        let options = ReadFiles { threads: if work.is_cold { 0 } else { 1 }, ..ReadFiles::default() };
        let (mut contents, mut good) = (FileContents::new(), 0);
        for batch in part.chunks(work.batch) {
            stop.check()?;
            let paths = requests.set.view().slice(batch[0]..batch[0] + batch.len());
            let read = self.volume.read_files(&options, paths, &mut contents);
            read.map_err(Error::volume("read_files"))?;
            for (request, content) in batch.iter().zip(contents.iter()) {
                let is_right = |content| corpus.is_right(requests.files[*request], content);
                good += u64::from(content.is_ok_and(is_right));
            }
        }
        Ok(good)
    }

    /// Reads a file by itself; returns its length.
    fn read_singly(&self, path: &CStr, buffer: &mut [u8]) -> Result<usize> {
        let attr = self.volume.resolve(path.to_bytes()).map_err(Error::volume("resolve"))?;
        self.volume.read(&Caller::OWNER, attr.ino, 0, buffer).map_err(Error::volume("read"))
    }
}

/// Reads a file by open, read and close; returns its length.
fn read_on_host(host: &Host, path: &CStr, buffer: &mut [u8]) -> Result<usize> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let opened = sys::openat(host.root(), path, flags, Mode::empty()).map_err(host.error("opening"))?;
    rustix::io::read(&opened, buffer).map_err(host.error("reading"))
}

/// Reads files through io_uring; returns the number of right ones.
fn read_by_uring(
    host: &Host,
    corpus: &Corpus,
    files: &[usize],
    paths: &[&CStr],
    part: &[usize],
    stop: &Stop,
) -> Result<u64> {
    let (mut reader, mut good) = (UringReader::new(host.root())?, 0);
    for part in part.chunks(DEPTH) {
        stop.check()?;
        let wanted: Vec<(&CStr, usize)> =
            part.iter().map(|request| (paths[*request], corpus.size(files[*request]))).collect();
        reader.read(&wanted, |index, content| {
            let file = files[part[index]];
            good += u64::from(content.is_some_and(|content| corpus.is_right(file, content)));
        })?;
    }
    Ok(good)
}

/// A system under measurement.
pub(super) enum Reader<'s> {
    /// LaneFS, many files a call.
    Batch(&'s FileVolume),
    /// LaneFS, one file a call.
    Single(&'s FileVolume),
    /// By open, read and close.
    Host(&'s Host),
    /// By io_uring, with the size of each file known.
    Uring(&'s Host),
    Archive(&'s Archive),
}

impl Named for Reader<'_> {
    fn name(&self) -> &str {
        self.named()
    }
}

impl Reader<'_> {
    pub(super) fn named(&self) -> &str {
        match self {
            Reader::Batch(_) => LANEFS,
            Reader::Single(_) => "lanefs-single",
            Reader::Host(host) => host.name(),
            Reader::Uring(_) => "ext4-io_uring",
            Reader::Archive(_) => "tar",
        }
    }

    /// Has nothing in memory any more.
    pub(super) fn drop_caches(&self) -> Result<()> {
        match self {
            Reader::Batch(lane) | Reader::Single(lane) => lane.drop_caches(),
            Reader::Host(_) | Reader::Uring(_) => forget(true),
            Reader::Archive(archive) => archive.drop_caches(),
        }
    }

    /// Reads all requested files, each thread its share.
    pub(super) fn read(
        &self,
        corpus: &Corpus,
        requests: &CorpusRequests,
        work: &ReadWork,
        stop: &Stop,
    ) -> Result<Duration> {
        let numbers: Vec<usize> = (0..requests.len()).collect();
        let paths: Vec<&CStr> = requests.strings.iter().collect();
        let done = together(work.threads, |thread| {
            let part = share(&numbers, work.threads, thread);
            if let Reader::Batch(lane) = self {
                return lane.read(corpus, requests, part, work, stop);
            }
            if let Reader::Uring(host) = self {
                return read_by_uring(host, corpus, &requests.files, &paths, part, stop);
            }
            let (mut good, mut buffer) = (0, vec![0; MOST_BYTES]);
            for part in part.chunks(STRIDE) {
                stop.check()?;
                let range = part[0]..part[0] + part.len();
                for (file, path) in requests.files[range.clone()].iter().zip(&paths[range]) {
                    let len = match self {
                        Reader::Batch(_) | Reader::Uring(_) => 0,
                        Reader::Single(lane) => lane.read_singly(path, &mut buffer)?,
                        Reader::Host(host) => read_on_host(host, path, &mut buffer)?,
                        Reader::Archive(archive) => archive.read(path, &mut buffer)?,
                    };
                    good += u64::from(corpus.is_right(*file, &buffer[..len]));
                }
            }
            Ok(good)
        })?;
        check(self.named(), "files read", done.sum, requests.len())?;
        Ok(done.elapsed)
    }
}
