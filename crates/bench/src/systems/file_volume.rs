//! A volume in a file and directories of the host, each with the same set of files.

use super::peers::Host;
use super::workload::Strings;
use crate::error::{Error, Result, check};
use crate::measure::stop::Stop;
use crate::measure::values::LANEFS;
use lanefs::{Access, CreateOptions, OpenOptions, PathSet, Volume, WriteMany};
use rustix::fs::{self as sys, Advice, Mode, OFlags};
use std::ffi::CStr;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// Name of the volume's file.
pub(crate) const IMAGE: &str = "volume.lane";

/// Files of one call that makes them.
const MADE_AT_ONCE: usize = 1024;

/// Files with their contents, the same for every system.
pub(crate) trait FileSet {
    /// Number of files.
    fn len(&self) -> usize;
    /// Bytes of all files.
    fn bytes(&self) -> u64;
    /// All directories, each after the one above it.
    fn directories(&self) -> &Strings;
    /// Path of a file.
    fn path(&self, file: usize) -> &CStr;
    /// Appends a file's content.
    fn content(&self, file: usize, to: &mut Vec<u8>);
}

/// A volume in a file, with a cache for all of it.
pub(crate) struct FileVolume {
    pub(crate) volume: Volume,
    image: File,
}

impl FileVolume {
    /// Makes a volume in `dir` with all files; returns the time for the calls that make them.
    pub(crate) fn make(dir: &Path, files: &impl FileSet, stop: &Stop) -> Result<(Self, Duration)> {
        let path = dir.join(IMAGE);
        let size = (512 << 20) + files.bytes() * 2 + files.len() as u64 * 8192;
        let options = CreateOptions { size, ..CreateOptions::default() };
        let failed = || Error::volume("making a volume");
        Volume::create(&path, &options).and_then(Volume::close).map_err(failed())?;
        let options = OpenOptions { cache: Some(size), ..OpenOptions::from(Access::Write) };
        let volume = Volume::open(&path, options).map_err(failed())?;
        let image = File::open(&path).map_err(Error::host("the volume's file"))?;
        let options = WriteMany { make_directories: Some(0o755), threads: 1, ..WriteMany::default() };
        let (mut set, mut data, mut offsets) = (PathSet::new(), Vec::new(), Vec::new());
        let mut elapsed = Duration::ZERO;
        for first in (0..files.len()).step_by(MADE_AT_ONCE) {
            stop.check()?;
            set.clear();
            data.clear();
            offsets.clear();
            offsets.push(0);
            let part = first..files.len().min(first + MADE_AT_ONCE);
            for file in part.clone() {
                set.push(files.path(file).to_bytes());
                files.content(file, &mut data);
                offsets.push(data.len() as u64);
            }
            let start = Instant::now();
            let codes =
                volume.write_many(&options, &set, &data, &offsets).map_err(Error::volume("write_many"))?;
            elapsed += start.elapsed();
            let good = codes.iter().filter(|code| **code == lanefs::Code::Success).count();
            check(LANEFS, "new files", good as u64, part.len())?;
        }
        volume.sync().map_err(Error::volume("sync"))?;
        Ok((FileVolume { volume, image }, elapsed))
    }

    /// Closes the volume.
    pub(crate) fn close(self) -> Result<()> {
        self.volume.close().map_err(Error::volume("closing"))
    }

    /// Empties the cache, and that of the host if the volume uses it.
    pub(crate) fn drop_caches(&self) -> Result<()> {
        self.volume.drop_caches().map_err(Error::volume("emptying the cache"))?;
        sys::fsync(&self.image).map_err(Error::host("the volume's file"))?;
        sys::fadvise(&self.image, 0, None, Advice::DontNeed).map_err(Error::host("the volume's file"))
    }
}

/// Makes all files by open, write and close; returns the time.
pub(crate) fn make_on_host(host: &Host, files: &impl FileSet, stop: &Stop) -> Result<Duration> {
    let start = Instant::now();
    for directory in files.directories().iter() {
        sys::mkdirat(host.root(), directory, Mode::from(0o755)).map_err(host.error("mkdir"))?;
    }
    let mut elapsed = start.elapsed();
    let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let (mut data, mut ends) = (Vec::new(), Vec::new());
    for first in (0..files.len()).step_by(MADE_AT_ONCE) {
        stop.check()?;
        data.clear();
        ends.clear();
        let part = first..files.len().min(first + MADE_AT_ONCE);
        for file in part.clone() {
            files.content(file, &mut data);
            ends.push(data.len());
        }
        let (start, mut begin) = (Instant::now(), 0);
        for (file, end) in part.zip(&ends) {
            let made = sys::openat(host.root(), files.path(file), new, Mode::from(0o644));
            let made = made.map_err(host.error("creating"))?;
            rustix::io::write(&made, &data[begin..*end]).map_err(host.error("writing"))?;
            begin = *end;
        }
        elapsed += start.elapsed();
    }
    sys::syncfs(host.root()).map_err(host.error("syncfs"))?;
    Ok(elapsed)
}
