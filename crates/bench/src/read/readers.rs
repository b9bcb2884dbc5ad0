//! The systems that read.

use super::archive::Archive;
use super::corpus::{Corpus, MOST, Requests};
use super::rows::Work;
use crate::peers::Host;
use crate::stop::{STRIDE, Stop};
use crate::system::Named;
use crate::threads::{share, together};
use crate::values::LANEFS;
use crate::{Error, Result};
use lanefs::{
    Access, Caller, CreateOptions, FileContents, OpenOptions, PathSet, ReadFiles, Volume, WriteMany,
};
use rustix::fs::{self as sys, Advice, Mode, OFlags};
use std::ffi::CStr;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// Files of one call that makes them.
const MADE_AT_ONCE: usize = 1024;

/// A volume in a file, with a cache for all of it.
pub(super) struct LaneFiles {
    volume: Volume,
    image: File,
}

impl LaneFiles {
    /// Makes all files; returns the time for the calls that make them.
    pub(super) fn make(dir: &Path, corpus: &Corpus, stop: &Stop) -> Result<(Self, Duration)> {
        let path = dir.join("volume.lane");
        let size = (512 << 20) + corpus.bytes() * 2 + corpus.len() as u64 * 8192;
        let options = CreateOptions { size, ..CreateOptions::default() };
        let failed = || Error::volume("making a volume");
        Volume::create(&path, &options).and_then(Volume::close).map_err(failed())?;
        let options = OpenOptions { cache: Some(size), ..OpenOptions::from(Access::Write) };
        let volume = Volume::open(&path, options).map_err(failed())?;
        let image = File::open(&path).map_err(Error::host("the volume's file"))?;
        let options = WriteMany { make_directories: Some(0o755), threads: 1, ..WriteMany::default() };
        let (mut set, mut data, mut offsets) = (PathSet::new(), Vec::new(), Vec::new());
        let mut elapsed = Duration::ZERO;
        for first in (0..corpus.len()).step_by(MADE_AT_ONCE) {
            stop.check()?;
            set.clear();
            data.clear();
            offsets.clear();
            offsets.push(0);
            let files = first..corpus.len().min(first + MADE_AT_ONCE);
            for file in files.clone() {
                set.push(corpus.path(file).to_bytes());
                corpus.content(file, &mut data);
                offsets.push(data.len() as u64);
            }
            let start = Instant::now();
            let codes =
                volume.write_many(&options, &set, &data, &offsets).map_err(Error::volume("write_many"))?;
            elapsed += start.elapsed();
            let good = codes.iter().filter(|code| **code == lanefs::Code::Success).count();
            check(LANEFS, "new files", good as u64, files.len())?;
        }
        volume.sync().map_err(Error::volume("sync"))?;
        Ok((LaneFiles { volume, image }, elapsed))
    }

    /// Empties the cache, and that of the host if the volume uses it.
    fn drop_caches(&self) -> Result<()> {
        self.volume.drop_caches().map_err(Error::volume("emptying the cache"))?;
        sys::fsync(&self.image).map_err(Error::host("the volume's file"))?;
        sys::fadvise(&self.image, 0, None, Advice::DontNeed).map_err(Error::host("the volume's file"))
    }

    /// Reads files in batches; returns the number of right ones.
    fn read(
        &self,
        corpus: &Corpus,
        requests: &Requests,
        part: &[usize],
        work: &Work,
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

/// Makes all files by open, write and close; returns the time.
pub(super) fn make_on_host(host: &Host, corpus: &Corpus, stop: &Stop) -> Result<Duration> {
    let start = Instant::now();
    for directory in corpus.directories().iter() {
        sys::mkdirat(host.root(), directory, Mode::from(0o755)).map_err(host.error("mkdir"))?;
    }
    let mut elapsed = start.elapsed();
    let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let (mut data, mut ends) = (Vec::new(), Vec::new());
    for first in (0..corpus.len()).step_by(MADE_AT_ONCE) {
        stop.check()?;
        data.clear();
        ends.clear();
        let files = first..corpus.len().min(first + MADE_AT_ONCE);
        for file in files.clone() {
            corpus.content(file, &mut data);
            ends.push(data.len());
        }
        let (start, mut begin) = (Instant::now(), 0);
        for (file, end) in files.zip(&ends) {
            let made = sys::openat(host.root(), corpus.path(file), new, Mode::from(0o644));
            let made = made.map_err(host.error("creating"))?;
            rustix::io::write(&made, &data[begin..*end]).map_err(host.error("writing"))?;
            begin = *end;
        }
        elapsed += start.elapsed();
    }
    sys::syncfs(host.root()).map_err(host.error("syncfs"))?;
    Ok(elapsed)
}

/// Reads a file by open, read and close; returns its length.
fn read_on_host(host: &Host, path: &CStr, buffer: &mut [u8]) -> Result<usize> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let opened = sys::openat(host.root(), path, flags, Mode::empty()).map_err(host.error("opening"))?;
    rustix::io::read(&opened, buffer).map_err(host.error("reading"))
}

/// A system under measurement.
pub(super) enum Reader<'s> {
    /// LaneFS, many files a call.
    Batch(&'s LaneFiles),
    /// LaneFS, one file a call.
    Single(&'s LaneFiles),
    Host(&'s Host),
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
            Reader::Archive(_) => "tar",
        }
    }

    /// Has nothing in memory any more.
    pub(super) fn drop_caches(&self) -> Result<()> {
        match self {
            Reader::Batch(lane) | Reader::Single(lane) => lane.drop_caches(),
            Reader::Host(host) => {
                sys::syncfs(host.root()).map_err(host.error("syncfs"))?;
                std::fs::write("/proc/sys/vm/drop_caches", "3")
                    .map_err(Error::host("/proc/sys/vm/drop_caches"))
            }
            Reader::Archive(archive) => archive.drop_caches(),
        }
    }

    /// Reads all requested files, each thread its share.
    pub(super) fn read(
        &self,
        corpus: &Corpus,
        requests: &Requests,
        work: &Work,
        stop: &Stop,
    ) -> Result<Duration> {
        let numbers: Vec<usize> = (0..requests.len()).collect();
        let paths: Vec<&CStr> = requests.strings.iter().collect();
        let done = together(work.threads, |thread| {
            let part = share(&numbers, work.threads, thread);
            if let Reader::Batch(lane) = self {
                return lane.read(corpus, requests, part, work, stop);
            }
            let (mut good, mut buffer) = (0, vec![0; MOST]);
            for part in part.chunks(STRIDE) {
                stop.check()?;
                let range = part[0]..part[0] + part.len();
                for (file, path) in requests.files[range.clone()].iter().zip(&paths[range]) {
                    let len = match self {
                        Reader::Batch(_) => 0,
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

/// Fails if a system gave a wrong number of right answers: its time then means nothing.
fn check(system: &str, what: &'static str, found: u64, expected: usize) -> Result<()> {
    let expected = expected as u64;
    if found == expected {
        Ok(())
    } else {
        Err(Error::Wrong { system: system.into(), what, found, expected })
    }
}
