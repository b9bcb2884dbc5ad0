//! A tree of a volume into an archive.

use super::stream::{CompressedOutput, Compression};
use super::writer::{self, Member};
use crate::Report;
use crate::error::{Error, Result};
use crate::export::data_ranges;
use crate::host::PIECE;
use crate::import::{OWNER, temporary_name};
use crate::name::{is_entry_name, joined, shown};
use crate::run::{Control, Run, count};
use lanefs::{Attr, FileKind, Ino, Volume};
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, fsync, openat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Where an archive goes.
pub enum ArchiveTarget<'a> {
    /// A file of the host. The suffix of its name chooses the compression: `.gz` and `.tgz` gzip, `.zst` and `.tzst` zstd. The file
    /// gets its name when it is whole.
    File(&'a Path),
    /// Standard output, or what stands for it, plain.
    StandardOutput(Box<dyn Write + Send>),
}

/// Writes the tree `source` of the volume as an archive: a directory's content as `./...`, a single file under its
/// name. `overwrite`: an existing file is replaced, at once when the archive is whole.
///
/// # Errors
///
/// Only what keeps the export from beginning: no `source`, the target cannot be made. All else is in the [`Report`].
pub fn export_archive(
    volume: &Volume,
    source: &[u8],
    target: ArchiveTarget<'_>,
    overwrite: bool,
    control: Control<'_>,
) -> Result<Report> {
    let attr =
        volume
            .resolve_no_follow(source)
            .and_then(|attr| {
                if attr.kind == FileKind::Symlink { volume.resolve(source).or(Ok(attr)) } else { Ok(attr) }
            })
            .map_err(|e| Error::volume(format!("cannot export '{}'", shown(source)), e))?;
    match target {
        ArchiveTarget::StandardOutput(output) => {
            let output = CompressedOutput::new(Compression::None, output)
                .map_err(|e| Error::host("cannot write standard output", errno(&e)))?;
            let (report, _) = write_tree(volume, source, &attr, output, "standard output", control);
            Ok(report)
        }
        ArchiveTarget::File(path) => {
            let place = Place::open(path, overwrite)?;
            let what = path.display().to_string();
            let file = place.file.try_clone().map_err(|e| Error::host(what.clone(), errno(&e)))?;
            let compression = Compression::of_name(path.as_os_str().as_bytes());
            let output = match CompressedOutput::new(compression, std::fs::File::from(file)) {
                Ok(output) => output,
                Err(error) => {
                    place.abandon();
                    return Err(Error::host(format!("cannot write '{what}'"), errno(&error)));
                }
            };
            let (mut report, whole) = write_tree(volume, source, &attr, output, &what, control);
            if !whole {
                place.abandon();
            } else if let Err(errno) = place.finish() {
                report.stopped.get_or_insert(Error::host(format!("cannot finish '{what}'"), errno));
            }
            Ok(report)
        }
    }
}

/// The archive's file, under a temporary name until it is whole.
struct Place {
    file: OwnedFd,
    path: PathBuf,
    /// `None`: a device or pipe, written in place.
    temporary: Option<PathBuf>,
    overwrite: bool,
}

impl Place {
    fn open(path: &Path, overwrite: bool) -> Result<Self> {
        let cannot = |errno| Error::host(format!("cannot make '{}'", path.display()), errno);
        let there = statat(CWD, path, AtFlags::empty()).map(|stat| FileType::from_raw_mode(stat.st_mode));
        match there {
            Ok(FileType::RegularFile) if !overwrite => {
                return Err(Error::Usage(format!(
                    "'{}' exists already (--overwrite replaces it)",
                    path.display()
                )));
            }
            Ok(FileType::RegularFile) | Err(_) => (),
            Ok(FileType::Directory) => return Err(cannot(Errno::ISDIR)),
            Ok(_) => {
                let file =
                    openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).map_err(cannot)?;
                return Ok(Place { file, path: path.into(), temporary: None, overwrite });
            }
        }
        let temporary = path.with_file_name(std::ffi::OsString::from_vec(temporary_name()));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(CWD, &temporary, flags, Mode::from_raw_mode(0o666)).map_err(cannot)?;
        Ok(Place { file, path: path.into(), temporary: Some(temporary), overwrite })
    }

    fn finish(self) -> std::result::Result<(), Errno> {
        let Some(temporary) = &self.temporary else { return Ok(()) };
        let flags = if self.overwrite { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        let done = fsync(&self.file).and_then(|()| renameat_with(CWD, temporary, CWD, &self.path, flags));
        if done.is_err() {
            self.abandon();
        }
        done
    }

    fn abandon(&self) {
        if let Some(temporary) = &self.temporary {
            let _ = unlinkat(CWD, temporary, AtFlags::empty());
        }
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// The report, and whether the archive is whole.
fn write_tree<W: Write>(
    volume: &Volume,
    source: &[u8],
    attr: &Attr,
    output: CompressedOutput<W>,
    what: &str,
    control: Control<'_>,
) -> (Report, bool) {
    let mut export = Export {
        run: Run::new(control),
        volume,
        output,
        links: HashMap::new(),
        seen: HashSet::new(),
        buffer: vec![0; PIECE],
        told: Instant::now(),
    };
    let mut written = export.tree(source, attr);
    export.run.tick(true);
    if written.is_ok() && !export.run.ends() {
        written = writer::end(&mut export.output);
    }
    let Export { run, output, .. } = export;
    let finished = written.and_then(|()| output.finish().and_then(|mut output| output.flush()));
    let ended = run.ends();
    let whole = finished.is_ok() && !ended;
    if let Err(error) = finished
        && !ended
    {
        run.stop(Error::host(format!("cannot write {what}"), errno(&error)));
    }
    (run.report("the archive"), whole)
}

struct Export<'a, W: Write> {
    run: Run<'a>,
    volume: &'a Volume,
    output: CompressedOutput<W>,
    /// First members of files with several names.
    links: HashMap<Ino, Vec<u8>>,
    /// Directories: a damaged volume may have a cycle.
    seen: HashSet<Ino>,
    buffer: Vec<u8>,
    told: Instant,
}

impl<W: Write> Export<'_, W> {
    /// `source` and all below it, depth first, names in order; errors are those of the output.
    fn tree(&mut self, source: &[u8], attr: &Attr) -> io::Result<()> {
        let name = lanefs::path::file_name(source).unwrap_or(b".");
        if attr.kind != FileKind::Directory {
            return self.member(name, attr);
        }
        // Paths of the members still to come, the next one last.
        let mut waiting = vec![(attr.ino, b"./".to_vec())];
        while let Some((ino, path)) = waiting.pop() {
            if self.run.ends() {
                break;
            }
            if self.told.elapsed() > Duration::from_millis(100) {
                self.run.tick(false);
                self.told = Instant::now();
            }
            let attr = match self.volume.getattr(ino) {
                Ok(attr) => attr,
                Err(error) => {
                    self.run.volume_refused(path, "cannot read", error);
                    continue;
                }
            };
            if attr.kind != FileKind::Directory {
                self.member(&path, &attr)?;
                continue;
            }
            if !self.seen.insert(ino) {
                self.run.problem(path, "is a directory that has a name elsewhere (run `lanefs fsck`)");
                continue;
            }
            self.member(&path, &attr)?;
            let mut names = self.names(ino, &path);
            names.sort_unstable_by(|a, b| b.1.cmp(&a.1));
            waiting.extend(names);
        }
        Ok(())
    }

    /// The paths in a directory.
    fn names(&self, ino: Ino, path: &[u8]) -> Vec<(Ino, Vec<u8>)> {
        let mut names = Vec::new();
        let mut cookie = 0;
        loop {
            let entries = match self.volume.readdir(&OWNER, ino, cookie, 1024) {
                Ok(entries) => entries,
                Err(error) => {
                    self.run.volume_refused(path.to_vec(), "cannot read", error);
                    return names;
                }
            };
            let Some(last) = entries.last() else { return names };
            cookie = last.cookie;
            for entry in entries {
                let mut below = joined(path, &entry.name);
                if !is_entry_name(&entry.name) {
                    self.run.problem(below, "cannot be a file's name (run `lanefs fsck`)");
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
            self.run.problem(path.to_vec(), "a socket; archives hold none");
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
        let parts = if link_to.is_some() { Ok(Parts::default()) } else { self.parts(attr) };
        let parts = match parts {
            Ok(parts) => parts,
            Err(error) => {
                self.links.remove(&attr.ino);
                self.run.volume_refused(path.to_vec(), "cannot read", error);
                return Ok(());
            }
        };
        let member = Member {
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
            writer::fill_up(&mut self.output, data)?;
        }
        let counters = &self.run.counters;
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

    fn parts(&self, attr: &Attr) -> lanefs::Result<Parts> {
        let mut parts = Parts::default();
        for name in self.volume.listxattr(attr.ino)? {
            let value = self.volume.getxattr(&OWNER, attr.ino, &name)?;
            parts.xattrs.push((name, value));
        }
        if attr.kind == FileKind::Symlink {
            parts.target = self.volume.readlink(attr.ino)?;
        } else if attr.kind == FileKind::File {
            let ranges = data_ranges(self.volume, attr)?;
            parts.ranges = ranges.into_iter().map(|(start, end)| (start, end - start)).collect();
        }
        Ok(parts)
    }

    /// The bytes of the ranges. The header has promised their number, so what cannot be read becomes zeros, and is
    /// told.
    fn content(&mut self, path: &[u8], attr: &Attr, ranges: &[(u64, u64)]) -> io::Result<()> {
        let mut told = false;
        for (start, len) in ranges {
            let (mut offset, stop) = (*start, start + len);
            while offset < stop {
                if self.run.ends() {
                    return Ok(());
                }
                let want = (PIECE as u64 - offset % PIECE as u64).min(stop - offset) as usize;
                let buffer = &mut self.buffer[..want];
                let read = self.volume.read(&OWNER, attr.ino, offset, buffer);
                let count = *read.as_ref().unwrap_or(&0);
                if count < want {
                    buffer[count..].fill(0);
                    if !told {
                        let why = read.map_or_else(|error| error.to_string(), |_| "it is shorter".into());
                        let what = format!("cannot be read whole ({why}); zeros are in the archive instead");
                        self.run.problem(path.to_vec(), what);
                        told = true;
                    }
                }
                self.output.write_all(buffer)?;
                self.run.counters.bytes.fetch_add(want as u64, Relaxed);
                offset += want as u64;
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct Parts {
    target: Vec<u8>,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    ranges: Vec<(u64, u64)>,
}
