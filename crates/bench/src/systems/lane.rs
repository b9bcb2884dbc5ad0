//! LaneFS as a system under measurement: a volume, in memory by default, called through the library.

use super::peers::SpaceRequest;
use super::system::{Create, Expect, Named, System};
use super::workload::{CHAIN_NAME, Strings, Tree, chain_path};
use crate::error::{Error, Result, check};
use crate::measure::stop::{STRIDE, Stop};
use crate::measure::threads::in_threads;
use crate::measure::values::LANEFS;
use lanefs::{Caller, Code, CreateOptions, FileKind, Ino, InodeSize, ResolveOptions, Volume};
use std::ffi::CStr;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Paths in one `resolve_batch` call.
pub const BATCH: usize = 1024;

/// Entries that one `readdir` call requests.
const LISTED_AT_ONCE: usize = 1024;

/// Returns the size of a volume with room for `need`: twice the maximum of an inode with its entry. Memory is
/// taken only as it fills.
pub(crate) fn bytes_for(need: SpaceRequest) -> u64 {
    (512 << 20) + need.inodes * 1024 + need.bytes * 2
}

/// A volume, and its owner as the caller.
pub struct Lane {
    name: &'static str,
    volume: Volume,
    caller: Caller,
}

impl Lane {
    /// Makes an empty memory volume of `size_bytes` with 256-byte inodes; it takes memory as it fills.
    pub fn new(size_bytes: u64) -> Result<Self> {
        let options =
            CreateOptions { size: size_bytes, inode_size: InodeSize::B256, ..CreateOptions::default() };
        let volume = Volume::create_memory(&options).map_err(Error::volume("making a memory volume"))?;
        Ok(Lane::on(volume))
    }

    /// Wraps a volume of any kind.
    pub(crate) fn on(volume: Volume) -> Self {
        Lane::with_name(LANEFS, volume)
    }

    /// Wraps a volume that differs from the usual, under a name of its own in reports.
    pub(crate) fn with_name(name: &'static str, volume: Volume) -> Self {
        Lane { name, volume, caller: Caller::OWNER }
    }

    /// The volume.
    pub(crate) fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Identity of the calls.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// As [`System::resolve`] in the root with one thread, one path a call: the cost for a program without
    /// batches.
    pub fn resolve_singly(&self, requests: &Strings, stop: &Stop) -> Result<Duration> {
        let options = self.options(None)?;
        let paths: Vec<&[u8]> = requests.iter().map(CStr::to_bytes).collect();
        let start = Instant::now();
        let found = resolve_slice(&self.volume, &options, &paths, 1, Expect::Found, stop)?;
        let elapsed = start.elapsed();
        check(self.name(), "single lookups", found, requests.len())?;
        Ok(elapsed)
    }

    fn directory(&self, name: &CStr) -> Result<Ino> {
        let found = self.volume.lookup(&self.caller, self.volume.root(), name.to_bytes());
        found.map(|(ino, _)| ino).map_err(Error::volume(format!("{}", name.to_string_lossy())))
    }

    fn options(&self, directory: Option<&CStr>) -> Result<ResolveOptions> {
        let base = directory.map(|name| self.directory(name)).transpose()?;
        Ok(ResolveOptions { base, follow: false, attributes: true, caller: self.caller.clone() })
    }
}

/// Resolves all paths in batches; returns the number of right answers.
fn resolve_slice(
    volume: &Volume,
    options: &ResolveOptions,
    paths: &[&[u8]],
    batch: usize,
    expect: Expect,
    stop: &Stop,
) -> Result<u64> {
    let (mut good, mut sum) = (0u64, 0u64);
    for part in paths.chunks(STRIDE.next_multiple_of(batch)) {
        stop.check()?;
        for batch in part.chunks(batch) {
            let answers = volume.resolve_batch(options, batch).map_err(Error::volume("resolve_batch"))?;
            for answer in &answers {
                match (expect, &answer.attr) {
                    (Expect::Found, Some(attr)) => {
                        sum = sum.wrapping_add(attr.ino.0).wrapping_add(attr.size);
                        good += 1;
                    }
                    (Expect::Absent, None) if answer.code == Code::NotFound => good += 1,
                    _ => (),
                }
            }
        }
    }
    black_box(sum);
    Ok(good)
}

impl Named for Lane {
    fn name(&self) -> &str {
        self.name
    }
}

impl System for Lane {
    fn make_tree(&self, tree: &Tree, stop: &Stop) -> Result<()> {
        // Files come directory by directory, so the last parent is nearly always the next one's.
        let mut last: Option<(&[u8], Ino)> = None;
        let directories = tree.directories.iter().map(|path| (path.to_bytes(), true));
        let files = tree.files.iter().map(|path| (path.to_bytes(), false));
        for (i, (path, is_directory)) in directories.chain(files).enumerate() {
            if i % STRIDE == 0 {
                stop.check()?;
            }
            let cut = path.iter().rposition(|&b| b == b'/');
            let (parent, name) = cut.map_or((&path[..0], path), |at| (&path[..at], &path[at + 1..]));
            let ino = match last {
                Some((known, ino)) if known == parent => ino,
                _ if parent.is_empty() => self.volume.root(),
                _ => self.volume.resolve(parent).map_err(Error::volume("making the tree"))?.ino,
            };
            last = Some((parent, ino));
            let made = if is_directory {
                self.volume.mkdir(&self.caller, ino, name, 0o755)
            } else {
                self.volume.create_file(&self.caller, ino, name, 0o644)
            };
            made.map_err(Error::volume("making the tree"))?;
        }
        Ok(())
    }

    fn resolve(
        &self,
        directory: Option<&CStr>,
        requests: &Strings,
        threads: usize,
        expect: Expect,
        stop: &Stop,
    ) -> Result<Duration> {
        let options = self.options(directory)?;
        let paths: Vec<&[u8]> = requests.iter().map(CStr::to_bytes).collect();
        let (elapsed, good) = in_threads(&paths, threads, |share| {
            resolve_slice(&self.volume, &options, share, BATCH, expect, stop)
        })?;
        check(self.name(), "lookups", good, requests.len())?;
        Ok(elapsed)
    }

    fn make_directory(&self, name: &CStr) -> Result<()> {
        let made = self.volume.mkdir(&self.caller, self.volume.root(), name.to_bytes(), 0o755);
        made.map(drop).map_err(Error::volume("mkdir"))
    }

    fn remove_directory(&self, name: &CStr) -> Result<()> {
        self.volume.rmdir(&self.caller, self.volume.root(), name.to_bytes()).map_err(Error::volume("rmdir"))
    }

    fn create_files(&self, directory: &CStr, names: &Strings, how: Create, stop: &Stop) -> Result<Duration> {
        let dir = self.directory(directory)?;
        timed(names, stop, "creating files", |name| match how {
            Create::Open => self.volume.create_file(&self.caller, dir, name, 0o644).map(drop),
            Create::Node => self.volume.mknod(&self.caller, dir, name, FileKind::File, 0o644, 0).map(drop),
        })
    }

    fn unlink_files(&self, directory: &CStr, names: &Strings, stop: &Stop) -> Result<Duration> {
        let dir = self.directory(directory)?;
        timed(names, stop, "unlinking files", |name| self.volume.unlink(&self.caller, dir, name))
    }

    fn make_subdirectories(&self, directory: &CStr, names: &Strings, stop: &Stop) -> Result<Duration> {
        let dir = self.directory(directory)?;
        timed(names, stop, "making directories", |name| {
            self.volume.mkdir(&self.caller, dir, name, 0o755).map(drop)
        })
    }

    fn remove_subdirectories(&self, directory: &CStr, names: &Strings, stop: &Stop) -> Result<()> {
        let dir = self.directory(directory)?;
        timed(names, stop, "removing directories", |name| self.volume.rmdir(&self.caller, dir, name))
            .map(drop)
    }

    fn make_chain(&self, directory: &CStr, depth: usize, stop: &Stop) -> Result<Duration> {
        let mut ino = self.directory(directory)?;
        let name = CHAIN_NAME.to_bytes();
        let start = Instant::now();
        for _ in 0..depth {
            ino = self
                .volume
                .mkdir(&self.caller, ino, name, 0o755)
                .map_err(Error::volume("making a chain"))?
                .ino;
        }
        let elapsed = start.elapsed();
        stop.check()?;
        Ok(elapsed)
    }

    fn resolve_chain(&self, directory: &CStr, depth: usize, times: usize, stop: &Stop) -> Result<Duration> {
        let options = self.options(Some(directory))?;
        let path = chain_path(depth);
        let paths = vec![path.as_slice(); times];
        let start = Instant::now();
        let found = resolve_slice(&self.volume, &options, &paths, BATCH, Expect::Found, stop)?;
        let elapsed = start.elapsed();
        check(self.name(), "chain lookups", found, times)?;
        Ok(elapsed)
    }

    fn remove_chain(&self, directory: &CStr, depth: usize, stop: &Stop) -> Result<()> {
        let name = CHAIN_NAME.to_bytes();
        let mut parents = vec![self.directory(directory)?];
        for _ in 1..depth {
            let parent = parents[parents.len() - 1];
            let found = self.volume.lookup(&self.caller, parent, name).map_err(Error::volume("a chain"))?;
            parents.push(found.0);
        }
        stop.check()?;
        for parent in parents.into_iter().rev().take(depth) {
            self.volume.rmdir(&self.caller, parent, name).map_err(Error::volume("removing a chain"))?;
        }
        Ok(())
    }

    fn list_and_stat(&self, directory: &CStr, expected: usize, stop: &Stop) -> Result<Duration> {
        let dir = self.directory(directory)?;
        let (mut cookie, mut found, mut sum) = (0, 0u64, 0u64);
        let start = Instant::now();
        loop {
            stop.check()?;
            let entries = self.volume.readdir(&self.caller, dir, cookie, LISTED_AT_ONCE);
            let entries = entries.map_err(Error::volume("readdir"))?;
            let Some(last) = entries.last() else { break };
            cookie = last.cookie;
            for entry in &entries {
                let attr = self.volume.getattr(entry.ino).map_err(Error::volume("getattr"))?;
                sum = sum.wrapping_add(attr.ino.0).wrapping_add(attr.size);
                found += 1;
            }
        }
        let elapsed = start.elapsed();
        black_box(sum);
        check(self.name(), "a listing", found, expected)?;
        Ok(elapsed)
    }

    fn used_bytes(&self) -> Result<Option<u64>> {
        let space = self.volume.statfs().map_err(Error::volume("statfs"))?;
        Ok(Some(space.blocks.saturating_sub(space.free_blocks) * space.block_size))
    }

    fn settle(&self) -> Result<()> {
        self.volume.sync().map_err(Error::volume("sync"))
    }
}

/// Applies one operation to every name; returns the time of all.
fn timed(
    names: &Strings,
    stop: &Stop,
    what: &'static str,
    mut operation: impl FnMut(&[u8]) -> lanefs::Result<()>,
) -> Result<Duration> {
    let names: Vec<&[u8]> = names.iter().map(CStr::to_bytes).collect();
    let start = Instant::now();
    for part in names.chunks(STRIDE) {
        stop.check()?;
        for name in part {
            operation(name).map_err(|e| Error::volume(what)(e.at(String::from_utf8_lossy(name))))?;
        }
    }
    Ok(start.elapsed())
}
