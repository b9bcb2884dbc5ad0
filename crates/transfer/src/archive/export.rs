//! Export of a tree as an archive.

use super::compression::Written;
use super::stream::CompressedOutput;
use super::writer::{self, NewMember};
use crate::export::{ExportOptions, KEPT};
use crate::on_host::host::CHUNK_BYTES;
use crate::on_host::hostdir::FileId;
use crate::on_host::new_file::{FilePlace, NewFile};
use crate::running::expansion::{Expansion, RangesFailure};
use crate::running::job::{Control, PROGRESS_INTERVAL, TransferJob, count};
use crate::running::report::Report;
use crate::vocabulary::error::{Error, OVERWRITE_HINT, Result};
use crate::vocabulary::name::{is_entry_name, shown};
use lanefs::path::join;
use lanefs::{Attr, FileKind, FileSystem, Ino};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, fsync};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Files whose content is fetched together at most.
const BROUGHT_FILES: usize = 512;

/// Destination of an archive.
pub enum ArchiveTarget<'a> {
    /// A file of the host. The suffix of its name chooses the compression: `.gz` and `.tgz` gzip, `.zst` and
    /// `.tzst` zstd. The file gets its name when it is whole.
    File(&'a Path),
    /// Standard output, or a writer in its stead; without compression.
    StandardOutput(Box<dyn Write + Send>),
}

/// Writes the tree `source` of the volume as an archive: a directory's content as `./...`, a single file
/// under its name. With `overwrite` the complete archive replaces an existing file. `threads` and `sync` of
/// `options` have no effect.
///
/// # Errors
///
/// The export cannot start: `source` does not exist, the target cannot be made. All other failures are in the
/// [`Report`].
pub fn export_archive(
    volume: &dyn FileSystem,
    source: &[u8],
    target: ArchiveTarget<'_>,
    options: &ExportOptions,
    control: Control<'_>,
) -> Result<Report> {
    let expansion = Expansion::new(volume, options.max_expansion)
        .map_err(|error| Error::volume("cannot read the size of the volume", error))?;
    let attr =
        volume
            .resolve_no_follow(source)
            .and_then(|attr| {
                if attr.kind == FileKind::Symlink { volume.resolve(source).or(Ok(attr)) } else { Ok(attr) }
            })
            .map_err(|e| Error::volume(format!("cannot export '{}'", shown(source)), e))?;
    match target {
        ArchiveTarget::StandardOutput(output) => {
            let output = CompressedOutput::new(Written::Plain, output)
                .map_err(|e| Error::host("cannot write standard output", errno(&e)))?;
            let (report, _) =
                write_tree(volume, expansion, source, &attr, output, "standard output", control);
            Ok(report)
        }
        ArchiveTarget::File(path) => {
            let what = shown(path.as_os_str().as_bytes());
            let compression = Written::of_name(path.as_os_str().as_bytes())
                .map_err(|advice| Error::Usage(format!("'{what}': {advice}")))?;
            let archive = ArchiveFile::open(path, options)?;
            let file = archive.file().try_clone().map_err(|e| Error::host(what.clone(), errno(&e)))?;
            let output = CompressedOutput::new(compression, std::fs::File::from(file))
                .map_err(|error| Error::host(format!("cannot write '{what}'"), errno(&error)))?;
            let (mut report, complete) = write_tree(volume, expansion, source, &attr, output, &what, control);
            // One that is not complete is removed.
            if complete && let Err(errno) = archive.finish() {
                report.stopped.get_or_insert(Error::host(format!("cannot finish '{what}'"), errno));
            }
            Ok(report)
        }
    }
}

/// The archive's file.
enum ArchiveFile {
    New {
        file: NewFile,
        overwrite: bool,
    },
    /// A device or pipe, which is written directly.
    Special(OwnedFd),
}

impl ArchiveFile {
    fn open(path: &Path, options: &ExportOptions) -> Result<Self> {
        let overwrite = options.overwrite;
        let name = shown(path.as_os_str().as_bytes());
        let cannot = |errno| Error::host(format!("cannot make '{name}'"), errno);
        let place = FilePlace::find(path).map_err(cannot)?;
        if place.existing().is_some_and(|file| options.keep.contains(&FileId::of(file))) {
            return Err(Error::Usage(format!("'{name}' {KEPT}; choose another name")));
        }
        match place.kind() {
            Some(FileType::RegularFile) if !overwrite => {
                Err(Error::Usage(format!("'{name}' exists already {OVERWRITE_HINT}")))
            }
            Some(FileType::RegularFile) | None => {
                place.create(0o666).map(|file| ArchiveFile::New { file, overwrite }).map_err(cannot)
            }
            Some(FileType::Directory) => Err(cannot(Errno::ISDIR)),
            Some(_) => place.open_special().map(ArchiveFile::Special).map_err(cannot),
        }
    }

    fn file(&self) -> &OwnedFd {
        match self {
            ArchiveFile::New { file, .. } => file.file(),
            ArchiveFile::Special(file) => file,
        }
    }

    fn finish(self) -> std::result::Result<(), Errno> {
        let ArchiveFile::New { file, overwrite } = self else { return Ok(()) };
        fsync(file.file())?;
        file.finish(overwrite)
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Writes the archive. Returns the report, and true where the archive is complete.
fn write_tree<W: Write>(
    volume: &dyn FileSystem,
    expansion: Expansion,
    source: &[u8],
    attr: &Attr,
    output: CompressedOutput<W>,
    what: &str,
    control: Control<'_>,
) -> (Report, bool) {
    let mut export = ArchiveExport {
        job: TransferJob::new(control),
        volume,
        expansion,
        output,
        links: HashMap::new(),
        visited: HashSet::new(),
        buffer: vec![0; CHUNK_BYTES],
        last_report: Instant::now(),
    };
    let mut outcome = export.tree(source, attr);
    export.job.report_progress(true);
    if outcome.is_ok() && !export.job.should_stop() {
        outcome = writer::end(&mut export.output);
    }
    let ArchiveExport { job, output, .. } = export;
    let finished = outcome.and_then(|()| output.finish().and_then(|mut output| output.flush()));
    let stopped = job.should_stop();
    let complete = finished.is_ok() && !stopped;
    if let Err(error) = finished
        && !stopped
    {
        job.stop(Error::host(format!("cannot write {what}"), errno(&error)));
    }
    (job.report("the archive"), complete)
}

/// True for the path of a member that is a directory.
fn is_directory(path: &[u8]) -> bool {
    path.ends_with(b"/")
}

struct ArchiveExport<'a, W: Write> {
    job: TransferJob<'a>,
    volume: &'a dyn FileSystem,
    expansion: Expansion,
    output: CompressedOutput<W>,
    /// Name of the first member of each file with several names.
    links: HashMap<Ino, Vec<u8>>,
    /// Directories visited: a damaged volume may have a cycle.
    visited: HashSet<Ino>,
    buffer: Vec<u8>,
    last_report: Instant,
}

impl<W: Write> ArchiveExport<'_, W> {
    /// Writes `source` and all below it, depth first, names in order. Errors are those of the output.
    fn tree(&mut self, source: &[u8], attr: &Attr) -> io::Result<()> {
        let name = lanefs::path::file_name(source).unwrap_or(b".");
        if attr.kind != FileKind::Directory {
            return self.member(name, attr);
        }
        // Paths of the members to be written, the next one last.
        let mut waiting = vec![(attr.ino, b"./".to_vec())];
        let mut brought = 0;
        while let Some((ino, path)) = waiting.pop() {
            if self.job.should_stop() {
                break;
            }
            if self.last_report.elapsed() > PROGRESS_INTERVAL {
                self.job.report_progress(false);
                self.last_report = Instant::now();
            }
            if !is_directory(&path) {
                if brought == 0 {
                    let after = waiting.iter().rev().take_while(|(_, path)| !is_directory(path));
                    let next = std::iter::once(ino).chain(after.map(|(ino, _)| *ino)).take(BROUGHT_FILES);
                    brought = self.volume.bring_files(&next.collect::<Vec<_>>()).max(1);
                }
                brought -= 1;
            }
            let attr = match self.volume.getattr(ino) {
                Ok(attr) => attr,
                Err(error) => {
                    self.job.volume_refused(path, "cannot read", error);
                    continue;
                }
            };
            if attr.kind != FileKind::Directory {
                self.member(&path, &attr)?;
                continue;
            }
            if !self.visited.insert(ino) {
                self.job.damage(path, "is a directory with a second name (run `lanefs fsck`)");
                continue;
            }
            self.member(&path, &attr)?;
            let mut names = self.names(ino, &path);
            names.sort_unstable_by(|a, b| b.1.cmp(&a.1));
            waiting.extend(names);
        }
        Ok(())
    }

    /// Returns the inodes and paths in a directory.
    fn names(&self, ino: Ino, path: &[u8]) -> Vec<(Ino, Vec<u8>)> {
        let mut names = Vec::new();
        let mut cookie = 0;
        loop {
            let entries = match self.volume.readdir(ino, cookie, 1024) {
                Ok(entries) => entries,
                Err(error) => {
                    self.job.volume_refused(path.to_vec(), "cannot read", error);
                    return names;
                }
            };
            let Some(last) = entries.last() else { return names };
            cookie = last.cookie;
            for entry in entries {
                let mut below = join(path, &entry.name);
                if !is_entry_name(&entry.name) {
                    self.job.damage(below, "is not a valid name (run `lanefs fsck`)");
                    continue;
                }
                if entry.kind == FileKind::Directory {
                    below.push(b'/');
                }
                names.push((entry.ino, below));
            }
        }
    }

    fn member(&mut self, path: &[u8], attr: &Attr) -> io::Result<()> {
        if attr.kind == FileKind::Socket {
            self.job.problem(path.to_vec(), "is a socket; archives hold none");
            return Ok(());
        }
        let link_to = if attr.kind != FileKind::Directory && attr.links > 1 {
            match self.links.entry(attr.ino) {
                std::collections::hash_map::Entry::Occupied(first) => Some(first.get().clone()),
                std::collections::hash_map::Entry::Vacant(vacant) => {
                    vacant.insert(path.to_vec());
                    None
                }
            }
        } else {
            None
        };
        let parts = if link_to.is_some() { Ok(MemberParts::default()) } else { self.parts(attr) };
        let parts = match parts {
            Ok(parts) => parts,
            Err(RangesFailure::Stopped) => return Ok(()),
            Err(RangesFailure::Volume(error)) => {
                self.links.remove(&attr.ino);
                self.job.volume_refused(path.to_vec(), "cannot read", error);
                return Ok(());
            }
        };
        let member = NewMember {
            path,
            attr,
            link_to: link_to.as_deref(),
            target: &parts.target,
            xattrs: &parts.xattrs,
            ranges: &parts.ranges,
        };
        let data = writer::begin(&mut self.output, &member)?;
        if data > 0 {
            self.content(path, attr, &parts.ranges)?;
            writer::pad(&mut self.output, data)?;
        }
        let counters = &self.job.counters;
        counters.xattrs.fetch_add(parts.xattrs.len() as u64, Relaxed);
        count(match attr.kind {
            _ if link_to.is_some() => &counters.hard_links,
            FileKind::File => &counters.files,
            FileKind::Directory => &counters.directories,
            FileKind::Symlink => &counters.symlinks,
            _ => &counters.specials,
        });
        Ok(())
    }

    fn parts(&self, attr: &Attr) -> std::result::Result<MemberParts, RangesFailure> {
        let mut parts = MemberParts { xattrs: self.xattrs(attr.ino)?, ..MemberParts::default() };
        if attr.kind == FileKind::Symlink {
            parts.target = self.volume.readlink(attr.ino)?;
        } else if attr.kind == FileKind::File {
            let ranges = self.expansion.ranges(&self.job, self.volume, attr)?;
            parts.ranges = ranges.into_iter().map(|(start, end)| (start, end - start)).collect();
        }
        Ok(parts)
    }

    fn xattrs(&self, ino: Ino) -> lanefs::Result<XattrList> {
        let names = self.volume.listxattr(ino)?;
        names.into_iter().map(|name| self.volume.getxattr(ino, &name).map(|value| (name, value))).collect()
    }

    /// Writes the bytes of the ranges. The header has stated their number, so bytes that cannot be read
    /// become zeros and a problem.
    fn content(&mut self, path: &[u8], attr: &Attr, ranges: &[(u64, u64)]) -> io::Result<()> {
        let mut reported = false;
        for (start, len) in ranges {
            let (mut offset, stop) = (*start, start + len);
            while offset < stop {
                if self.job.should_stop() {
                    return Ok(());
                }
                let want = (CHUNK_BYTES as u64 - offset % CHUNK_BYTES as u64).min(stop - offset) as usize;
                let buffer = &mut self.buffer[..want];
                let read = self.volume.read(attr.ino, offset, buffer);
                let count = *read.as_ref().unwrap_or(&0);
                if count < want {
                    buffer[count..].fill(0);
                    if !reported {
                        self.spoiled(path, read);
                        reported = true;
                    }
                }
                self.output.write_all(&self.buffer[..want])?;
                self.job.counters.bytes.fetch_add(want as u64, Relaxed);
                offset += want as u64;
            }
        }
        Ok(())
    }

    /// Records why the archive has zeros in place of content.
    fn spoiled(&self, path: &[u8], read: lanefs::Result<usize>) {
        let text = |why: &str| format!("cannot be read completely ({why}); the archive has zeros instead");
        match read {
            Err(error @ lanefs::Error::Expansion { .. }) => {
                self.job.volume_refused(path.to_vec(), "cannot read", error);
            }
            Err(error) => self.job.unread(path.to_vec(), text(&error.to_string()), &error),
            Ok(_) => self.job.problem(path.to_vec(), text("it is shorter than its size")),
        }
    }
}

/// Names and values.
type XattrList = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Default)]
struct MemberParts {
    target: Vec<u8>,
    xattrs: XattrList,
    ranges: Vec<(u64, u64)>,
}
