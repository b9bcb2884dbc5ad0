//! Import of an archive.

use super::acl_text;
use super::destination::Destination;
use super::failure::MemberFailure;
use super::reader::{ArchiveMember, MemberKind, Part, Reader};
use super::stream::ReadAhead;
use crate::import::{IdNames, ImportOptions};
use crate::in_volume::volume::{TargetDir, destination};
use crate::in_volume::volume_entry::{VolumeEntryError, create_entry, link_entry, make_directory};
use crate::on_host::host::CHUNK_BYTES;
use crate::running::commits::Commits;
use crate::running::job::{Control, PROGRESS_INTERVAL, TransferJob, count};
use crate::running::report::Report;
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::input::open_input;
use crate::vocabulary::name::{is_entry_name, shown};
use crate::vocabulary::xattrs::{DEFAULT_LIST, is_kept};
use lanefs::{FileKind, FileSystem, Ino, SetAttr};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Source of an archive.
pub enum ArchiveSource<'a> {
    /// A file of the host.
    File(&'a Path),
    /// Standard input, or a reader in its stead.
    StandardInput(Box<dyn Read + Send>),
}

/// Extracts an archive's members into the directory `dest` of the volume, which is made with its parents.
/// Leading slashes and `./` of members' names are dropped; members that would leave `dest` are problems. A
/// member below a symbolic link goes where the link leads with `dest` as the root directory. Of two members
/// with the same name the second one counts. `threads` and `skip` of `options` have no effect. On return
/// everything that the report counts is durable.
///
/// # Errors
///
/// The import cannot start: the archive cannot be opened, `dest` cannot be made. All other failures are in
/// the [`Report`].
pub fn import_archive(
    volume: &dyn FileSystem,
    source: ArchiveSource<'_>,
    dest: &[u8],
    options: &ImportOptions<'_>,
    control: Control<'_>,
) -> Result<Report> {
    import_members(volume, source, dest, options, control).map(|imported| imported.report)
}

/// The members of an archive, imported.
pub(crate) struct ImportedMembers {
    pub(crate) report: Report,
    /// The directories that have a member of their own.
    pub(crate) directories: HashSet<Ino>,
    /// The archive has members and an end.
    pub(crate) is_complete: bool,
}

/// As [`import_archive`].
pub(crate) fn import_members(
    volume: &dyn FileSystem,
    source: ArchiveSource<'_>,
    dest: &[u8],
    options: &ImportOptions<'_>,
    control: Control<'_>,
) -> Result<ImportedMembers> {
    let Some(OpenedSource { what, input, is_pipe }) = OpenedSource::open(source, control)? else {
        return Ok(interrupted(control));
    };
    let Some(input) = ReadAhead::start(&what, input, control.interrupt)? else {
        return Ok(interrupted(control));
    };
    let reads_on = is_pipe || input.is_compressed();
    let top = destination(volume, dest)?;
    let mut import = ArchiveImport {
        job: TransferJob::new(control),
        volume,
        commits: Commits::new(volume, options.commit),
        overwrite: options.overwrite,
        names: options.names,
        destination: Destination::new(volume, top),
        made: HashSet::new(),
        attributes: Vec::new(),
        has_noted_parents: false,
        buffer: vec![0; CHUNK_BYTES],
        last_report: Instant::now(),
    };
    let mut reader = Reader::new(what.clone(), input, options.ignore_damage);
    let mut read = import.members(&mut reader);
    let is_complete = reader.is_complete();
    if read.is_ok() && reads_on && !import.job.should_stop() {
        let rest = reader.into_input().finish();
        read = rest.map_err(|error| Error::Archive { what, why: error.to_string() });
    }
    if let Err(error) = read
        && !import.job.should_stop()
    {
        import.job.stop(error);
    }
    let directories = import.attributes.iter().map(|attributes| attributes.ino).collect();
    import.directory_attributes();
    let report = import.commits.finish(import.job, "the volume");
    Ok(ImportedMembers { report, directories, is_complete })
}

/// An archive that is open for reading.
struct OpenedSource {
    /// Name in messages.
    what: String,
    input: Box<dyn Read + Send>,
    /// Another program may write the archive, and waits until all is read.
    is_pipe: bool,
}

impl OpenedSource {
    /// Opens the archive; `None` where the transfer stops first.
    fn open(source: ArchiveSource<'_>, control: Control<'_>) -> Result<Option<Self>> {
        let path = match source {
            ArchiveSource::StandardInput(input) => {
                return Ok(Some(OpenedSource { what: "standard input".into(), input, is_pipe: true }));
            }
            ArchiveSource::File(path) => path,
        };
        let what = shown(path.as_os_str().as_bytes());
        let cannot = |errno| Error::host(format!("cannot open '{what}'"), errno);
        let file = match open_input(path, control.interrupt) {
            Err(Errno::INTR) if (control.interrupt)() => return Ok(None),
            file => file.map_err(cannot)?,
        };
        let kind = FileType::from_raw_mode(fstat(&file).map_err(cannot)?.st_mode);
        if kind == FileType::Directory {
            return Err(Error::Usage(format!("'{what}' is a directory, no tar archive")));
        }
        let input = Box::new(std::fs::File::from(file));
        Ok(Some(OpenedSource { what, input, is_pipe: kind == FileType::Fifo }))
    }
}

/// The outcome of an import that was interrupted before it knew its archive.
fn interrupted(control: Control<'_>) -> ImportedMembers {
    let job = TransferJob::new(control);
    job.should_stop();
    let report = job.report("the volume");
    ImportedMembers { report, directories: HashSet::new(), is_complete: false }
}

/// Returns the components of a member's name; `None` where it would leave the destination or is invalid.
fn components(path: &[u8]) -> Option<Vec<&[u8]>> {
    let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    parts.map(|part| is_entry_name(part).then_some(part)).collect()
}

/// Returns what follows the last `..` of a path.
fn after_parents(path: &[u8]) -> &[u8] {
    let mut parts = path.rsplit(|byte| *byte == b'/');
    let below: usize = parts.by_ref().take_while(|part| *part != b"..").map(|part| part.len() + 1).sum();
    &path[path.len().saturating_sub(below.saturating_sub(1))..]
}

struct ArchiveImport<'a> {
    job: TransferJob<'a>,
    volume: &'a dyn FileSystem,
    commits: Commits<'a>,
    overwrite: bool,
    names: Option<&'a dyn IdNames>,
    destination: Destination<'a>,
    /// Inodes that this import made: a later member of the same name replaces them.
    made: HashSet<Ino>,
    /// Attributes of directories, which are set at the end.
    attributes: Vec<DirectoryAttributes>,
    /// The user knows that targets of hard links lost their `..`.
    has_noted_parents: bool,
    buffer: Vec<u8>,
    last_report: Instant,
}

impl ArchiveImport<'_> {
    fn members<R: Read>(&mut self, reader: &mut Reader<R>) -> Result<()> {
        while !self.job.should_stop() {
            if self.last_report.elapsed() > PROGRESS_INTERVAL {
                self.job.report_progress(false);
                self.last_report = Instant::now();
            }
            let mut member = match reader.next()? {
                Part::Member(member) => member,
                Part::Damage(error, bytes) => {
                    self.damage(&error, bytes);
                    continue;
                }
                Part::End => break,
            };
            self.take_lists(&mut member);
            // A hard link has the times of its file.
            if member.has_far_time() && !matches!(member.kind, MemberKind::HardLink(_)) {
                self.job.note_far_time_of(&member.path);
            }
            self.commits.commit_if_due(&self.job);
            match self.member(reader, &member) {
                Ok(()) | Err(MemberFailure::Stopped) => (),
                Err(MemberFailure::Archive(error)) => return Err(error),
                Err(MemberFailure::Text(text)) => self.job.problem(member.path, text),
                Err(MemberFailure::Entry(VolumeEntryError::Volume(error))) => {
                    self.job.volume_refused(member.path, "cannot write into the volume", error);
                }
                Err(MemberFailure::Entry(error)) => self.job.problem(member.path, error.text()),
            }
        }
        Ok(())
    }

    /// Names damage of the archive.
    fn damage(&self, error: &Error, bytes: u64) {
        let text = format!("skipped {bytes} bytes to the next header");
        match error {
            Error::Archive { what, why } => self.job.problem(what.clone().into(), format!("{why}; {text}")),
            error => self.job.problem(Vec::new(), format!("{error}; {text}")),
        }
    }

    /// Takes the access control lists in text form as attributes.
    fn take_lists(&self, member: &mut ArchiveMember) {
        for (name, text) in std::mem::take(&mut member.lists) {
            match acl_text::parse(&text, self.names).filter(|_| !name.is_empty()) {
                Some(value) => member.xattrs.push((name, value)),
                None => count(&self.job.counters.lists_refused),
            }
        }
    }

    fn member<R: Read>(
        &mut self,
        reader: &mut Reader<R>,
        member: &ArchiveMember,
    ) -> std::result::Result<(), MemberFailure> {
        let outside =
            || MemberFailure::Text("would leave the destination or has no usable name; left out".into());
        let parts = components(&member.path).ok_or_else(outside)?;
        let Some((name, parents)) = parts.split_last() else {
            // The destination takes the attributes of the archive's top directory.
            if member.kind == MemberKind::Own(FileKind::Directory) {
                self.directory_xattrs(self.destination.top().ino, member);
                count(&self.job.counters.directories);
                return Ok(());
            }
            return Err(outside());
        };
        let dir = self.destination.directory(parents)?;
        match &member.kind {
            MemberKind::Own(FileKind::Directory) => self.directory(dir, name, parents, member),
            MemberKind::HardLink(target) => {
                let ino = self.find(target)?;
                let overwrite = self.may_replace(dir.ino, name);
                link_entry(self.volume, ino, dir.ino, name, overwrite)?;
                count(&self.job.counters.hard_links);
                Ok(())
            }
            MemberKind::Own(kind) => self.file(reader, dir, name, *kind, member),
        }
    }

    /// True where the file of this name may be replaced: by option, or because an earlier member of this
    /// archive made it.
    fn may_replace(&self, dir: Ino, name: &[u8]) -> bool {
        self.overwrite || matches!(self.volume.lookup(dir, name), Ok((ino, _)) if self.made.contains(&ino))
    }

    fn directory(
        &mut self,
        dir: TargetDir,
        name: &[u8],
        parents: &[&[u8]],
        member: &ArchiveMember,
    ) -> std::result::Result<(), MemberFailure> {
        let overwrite = self.may_replace(dir.ino, name);
        let target = make_directory(self.volume, dir, name, overwrite)?;
        self.directory_xattrs(target.ino, member);
        self.destination.made(parents, name, target);
        count(&self.job.counters.directories);
        Ok(())
    }

    /// Returns the target of a hard link: the part of its path after the last `..`, as tar does.
    fn find(&mut self, path: &[u8]) -> std::result::Result<Ino, MemberFailure> {
        let below = after_parents(path);
        if below.len() < path.len() && !std::mem::replace(&mut self.has_noted_parents, true) {
            self.job.note("targets of hard links: left out what stands before a '..', and that".into());
        }
        let parts = components(below).unwrap_or_default();
        match self.destination.find(&parts)? {
            Some((ino, kind)) if kind != FileKind::Directory => Ok(ino),
            _ => {
                Err(MemberFailure::Text(format!("is a hard link to '{}', which does not exist", shown(path))))
            }
        }
    }

    fn file<R: Read>(
        &mut self,
        reader: &mut Reader<R>,
        target: TargetDir,
        name: &[u8],
        kind: FileKind,
        member: &ArchiveMember,
    ) -> std::result::Result<(), MemberFailure> {
        let (volume, dir) = (self.volume, target.ino);
        let overwrite = self.overwrite || !self.made.is_empty() && self.may_replace(dir, name);
        let entry = create_entry(volume, target, name, overwrite, |name| match kind {
            FileKind::File => volume.create_file(dir, name, member.perm),
            FileKind::Symlink => volume.symlink(dir, name, &member.target),
            kind => volume.mknod(dir, name, kind, member.perm, member.rdev),
        })?;
        let filled = self.fill(reader, entry.ino, kind, member);
        if let Err(failure) = filled.and_then(|()| entry.finish(volume).map_err(MemberFailure::from)) {
            entry.abandon(volume);
            return Err(failure);
        }
        self.made.insert(entry.ino);
        count(match kind {
            FileKind::File => &self.job.counters.files,
            FileKind::Symlink => &self.job.counters.symlinks,
            _ => &self.job.counters.specials,
        });
        Ok(())
    }

    fn fill<R: Read>(
        &mut self,
        reader: &mut Reader<R>,
        ino: Ino,
        kind: FileKind,
        member: &ArchiveMember,
    ) -> std::result::Result<(), MemberFailure> {
        let mut set = set_attr(member);
        if kind == FileKind::File {
            let mut end = 0;
            for (start, len) in &member.ranges {
                let (mut offset, stop) = (*start, start + len);
                while offset < stop {
                    if self.job.should_stop() {
                        return Err(MemberFailure::Stopped);
                    }
                    let want = (CHUNK_BYTES as u64 - offset % CHUNK_BYTES as u64).min(stop - offset) as usize;
                    let count = reader.content(&mut self.buffer[..want]).map_err(MemberFailure::Archive)?;
                    self.volume.write(ino, offset, &self.buffer[..count])?;
                    self.job.counters.bytes.fetch_add(count as u64, Relaxed);
                    offset += count as u64;
                    end = offset;
                }
            }
            set.size = (end < member.size).then_some(member.size);
        }
        if kind == FileKind::Symlink {
            set.perm = None;
        }
        self.xattrs(ino, member);
        self.volume.setattr(ino, set)?;
        Ok(())
    }

    fn xattrs(&self, ino: Ino, member: &ArchiveMember) {
        for (name, value) in &member.xattrs {
            self.xattr(ino, &member.path, name, value);
        }
    }

    fn xattr(&self, ino: Ino, path: &[u8], name: &[u8], value: &[u8]) {
        if !is_kept(name) {
            return count(&self.job.counters.xattrs_refused);
        }
        self.job.set_xattr(self.volume, ino, name, value, || path.to_vec());
    }

    /// Sets the extended attributes of a directory, and records what is set when the directory is complete.
    fn directory_xattrs(&mut self, ino: Ino, member: &ArchiveMember) {
        let mut default_list = None;
        for (name, value) in &member.xattrs {
            match &name[..] {
                DEFAULT_LIST => default_list = Some(value.clone()),
                name => self.xattr(ino, &member.path, name, value),
            }
        }
        let (path, set) = (member.path.clone(), set_attr(member));
        self.attributes.push(DirectoryAttributes { ino, path, set, default_list });
    }

    /// Sets the attributes of directories. Call it after all members: each changes the times of its
    /// directory.
    fn directory_attributes(&mut self) {
        for DirectoryAttributes { ino, path, set, default_list } in std::mem::take(&mut self.attributes) {
            if let Some(list) = default_list {
                self.xattr(ino, &path, DEFAULT_LIST, &list);
            }
            if let Err(error) = self.volume.setattr(ino, set) {
                self.job.volume_refused(path, "cannot set the attributes", error);
            }
        }
    }
}

/// Attributes of a directory that are set once it is complete.
struct DirectoryAttributes {
    ino: Ino,
    path: Vec<u8>,
    set: SetAttr,
    /// Access control list for new files.
    default_list: Option<Vec<u8>>,
}

fn set_attr(member: &ArchiveMember) -> SetAttr {
    SetAttr {
        perm: Some(member.perm),
        uid: Some(member.uid),
        gid: Some(member.gid),
        size: None,
        atime: Some(member.atime),
        mtime: Some(member.mtime),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_the_destination_are_refused() {
        assert_eq!(components(b"/a/./b//c/").unwrap(), [&b"a"[..], b"b", b"c"]);
        assert_eq!(components(b"./").unwrap(), [&b""[..]; 0]);
        assert!(components(b"a/../b").is_none());
        assert!(components(&[b'x'; 256]).is_none());
    }

    #[test]
    fn only_what_follows_the_last_parent_counts() {
        for (path, below) in [
            ("a/b", "a/b"),
            ("/a", "/a"),
            ("../a", "a"),
            ("a/../../b/c", "b/c"),
            ("a/..", ""),
            ("..", ""),
            ("..a/b..", "..a/b.."),
            ("", ""),
        ] {
            assert_eq!(after_parents(path.as_bytes()), below.as_bytes(), "{path}");
        }
    }
}
