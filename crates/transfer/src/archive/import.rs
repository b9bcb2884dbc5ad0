//! An archive into a volume.

use super::reader::{Member, MemberKind, Reader};
use super::stream::{Ahead, decompressed};
use crate::Report;
use crate::error::{Error, Result};
use crate::host::PIECE;
use crate::import::{ImportOptions, OWNER, Refusal, destination, place, place_directory, place_link};
use crate::name::{is_entry_name, shown};
use crate::run::{Control, Run, count};
use crate::xattrs::is_kept;
use lanefs::{Code, FileKind, Ino, MkdirAll, SetAttr, Volume, XattrMode};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Where an archive comes from.
pub enum ArchiveSource<'a> {
    /// A file of the host.
    File(&'a Path),
    /// Standard input, or what stands for it.
    StandardInput(Box<dyn Read + Send>),
}

/// Unpacks an archive's members into the directory `dest` of the volume, which is made with its parents. Leading
/// slashes and `./` of members' names are dropped; members that would leave `dest` are problems. A member that comes
/// twice counts the second time. Other threads and skipped files of `options` play no part.
///
/// # Errors
///
/// Only what keeps the import from beginning: the archive cannot be opened, `dest` cannot be made. All else is in
/// the [`Report`]. On return everything is durable.
pub fn import_archive(
    volume: &Volume,
    source: ArchiveSource<'_>,
    dest: &[u8],
    options: &ImportOptions<'_>,
    control: Control<'_>,
) -> Result<Report> {
    let (what, input): (String, Box<dyn Read + Send>) = match source {
        ArchiveSource::StandardInput(input) => ("standard input".into(), input),
        ArchiveSource::File(path) => {
            let what = path.display().to_string();
            let cannot = |error: std::io::Error| {
                Error::host(
                    format!("cannot open '{what}'"),
                    Errno::from_io_error(&error).unwrap_or(Errno::IO),
                )
            };
            let file = std::fs::File::open(path).map_err(cannot)?;
            if file.metadata().map_err(cannot)?.is_dir() {
                return Err(Error::Usage(format!("'{what}' is a directory, no tar archive")));
            }
            (what.clone(), Box::new(file))
        }
    };
    let input = decompressed(&what, input)?;
    let top = destination(volume, dest)?.ino;
    let mut import = Import {
        run: Run::new(control),
        volume,
        overwrite: options.overwrite,
        top,
        directories: HashMap::new(),
        made: HashSet::new(),
        attributes: Vec::new(),
        buffer: vec![0; PIECE],
        told: Instant::now(),
    };
    let read = {
        let mut reader = Reader::new(what, Ahead::new(input, control.interrupt));
        import.members(&mut reader)
    };
    if let Err(error) = read
        && !import.run.ends()
    {
        import.run.stop(error);
    }
    import.directory_attributes();
    import.run.tick(true);
    if let Err(error) = volume.sync() {
        import.run.stop(Error::volume("cannot make the import durable", error));
    }
    Ok(import.run.report("the volume"))
}

/// The components of a member's name; `None` where it would leave the destination or is no name.
fn components(path: &[u8]) -> Option<Vec<&[u8]>> {
    let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    parts.map(|part| is_entry_name(part).then_some(part)).collect()
}

struct Import<'a> {
    run: Run<'a>,
    volume: &'a Volume,
    overwrite: bool,
    top: Ino,
    /// Directories below the top, by path without leading slash.
    directories: HashMap<Vec<u8>, Ino>,
    /// What this import made: a later member of the same name replaces it.
    made: HashSet<Ino>,
    /// Of directories; set at the end.
    attributes: Vec<(Ino, Vec<u8>, SetAttr)>,
    buffer: Vec<u8>,
    told: Instant,
}

/// Why a member is not there, or not whole.
enum Fault {
    Refused(Refusal),
    /// In words.
    Text(String),
    /// The archive cannot be read on.
    Archive(Error),
    Ends,
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Fault::Refused(refusal)
    }
}

impl From<lanefs::Error> for Fault {
    fn from(error: lanefs::Error) -> Self {
        Fault::Refused(Refusal::Volume(error))
    }
}

impl Import<'_> {
    fn members<R: Read>(&mut self, reader: &mut Reader<R>) -> Result<()> {
        while !self.run.ends() {
            if self.told.elapsed() > Duration::from_millis(100) {
                self.run.tick(false);
                self.told = Instant::now();
            }
            let Some(member) = reader.next()? else { break };
            match self.member(reader, &member) {
                Ok(()) | Err(Fault::Ends) => (),
                Err(Fault::Archive(error)) => return Err(error),
                Err(Fault::Text(text)) => self.run.problem(member.path, text),
                Err(Fault::Refused(Refusal::Volume(error))) => {
                    self.run.volume_refused(member.path, "cannot write into the volume", error);
                }
                Err(Fault::Refused(taken)) => self.run.problem(member.path, taken.text()),
            }
        }
        Ok(())
    }

    fn member<R: Read>(&mut self, reader: &mut Reader<R>, member: &Member) -> std::result::Result<(), Fault> {
        let outside = || Fault::Text("would leave the destination or has no usable name; left out".into());
        let parts = components(&member.path).ok_or_else(outside)?;
        self.run.counters.xattrs_refused.fetch_add(member.acls, Relaxed);
        let Some((name, parents)) = parts.split_last() else {
            // The archive's own top directory gives its attributes to the destination.
            if member.kind == MemberKind::Own(FileKind::Directory) {
                self.xattrs(self.top, member);
                self.attributes.push((self.top, member.path.clone(), set_attr(member)));
                count(&self.run.counters.directories);
                return Ok(());
            }
            return Err(outside());
        };
        let dir = self.parent(parents)?;
        match &member.kind {
            MemberKind::Own(FileKind::Directory) => self.directory(dir, name, &parts, member),
            MemberKind::HardLink(target) => {
                let ino = self.find(target)?;
                let overwrite = self.may_replace(dir, name);
                place_link(self.volume, ino, dir, name, overwrite)?;
                count(&self.run.counters.hard_links);
                Ok(())
            }
            MemberKind::Own(kind) => self.file(reader, dir, name, *kind, member),
        }
    }

    /// True where what has this name may go: by option, or because an earlier member of this archive made it.
    fn may_replace(&self, dir: Ino, name: &[u8]) -> bool {
        self.overwrite
            || matches!(self.volume.lookup(&OWNER, dir, name), Ok((ino, _)) if self.made.contains(&ino))
    }

    fn directory(
        &mut self,
        dir: Ino,
        name: &[u8],
        parts: &[&[u8]],
        member: &Member,
    ) -> std::result::Result<(), Fault> {
        let overwrite = self.may_replace(dir, name);
        let (ino, _) = place_directory(self.volume, dir, name, overwrite)?;
        self.xattrs(ino, member);
        self.attributes.push((ino, member.path.clone(), set_attr(member)));
        self.directories.insert(parts.join(&b'/'), ino);
        count(&self.run.counters.directories);
        Ok(())
    }

    /// The directory of these components; those that no member brought are made with mode 0755. Links are not
    /// followed: they could lead out of the destination.
    fn parent(&mut self, parts: &[&[u8]]) -> std::result::Result<Ino, Fault> {
        if parts.is_empty() {
            return Ok(self.top);
        }
        let path = parts.join(&b'/');
        if let Some(ino) = self.directories.get(&path) {
            return Ok(*ino);
        }
        let options = MkdirAll { base: Some(self.top), follow: false, ..MkdirAll::default() };
        let at = match self.volume.mkdir_all_with(&options, &path) {
            Ok(attr) => attr.ino,
            Err(lanefs::Error::At { code: Code::NotDirectory, what }) => {
                return Err(Fault::Text(format!("'{what}' on its way is no directory")));
            }
            Err(error) => return Err(error.into()),
        };
        self.directories.insert(path, at);
        Ok(at)
    }

    /// The file that a hard link names, by the same rules.
    fn find(&self, path: &[u8]) -> std::result::Result<Ino, Fault> {
        let missing = || Fault::Text(format!("another name of '{}', which is not there", shown(path)));
        let parts = components(path).ok_or_else(missing)?;
        let mut at = (self.top, FileKind::Directory);
        for part in parts {
            at = self.volume.lookup(&OWNER, at.0, part).map_err(|_| missing())?;
        }
        if at.1 == FileKind::Directory { Err(missing()) } else { Ok(at.0) }
    }

    fn file<R: Read>(
        &mut self,
        reader: &mut Reader<R>,
        dir: Ino,
        name: &[u8],
        kind: FileKind,
        member: &Member,
    ) -> std::result::Result<(), Fault> {
        let volume = self.volume;
        let overwrite = self.overwrite || !self.made.is_empty() && self.may_replace(dir, name);
        let placed = place(volume, dir, name, overwrite, |name| match kind {
            FileKind::File => volume.create_file(&OWNER, dir, name, member.perm),
            FileKind::Symlink => volume.symlink(&OWNER, dir, name, &member.target),
            kind => volume.mknod(&OWNER, dir, name, kind, member.perm, member.rdev),
        })?;
        let filled = self.fill(reader, placed.ino, kind, member);
        if let Err(fault) = filled.and_then(|()| placed.finish(volume).map_err(Fault::from)) {
            placed.abandon(volume);
            return Err(fault);
        }
        self.made.insert(placed.ino);
        count(match kind {
            FileKind::File => &self.run.counters.files,
            FileKind::Symlink => &self.run.counters.symlinks,
            _ => &self.run.counters.specials,
        });
        Ok(())
    }

    fn fill<R: Read>(
        &mut self,
        reader: &mut Reader<R>,
        ino: Ino,
        kind: FileKind,
        member: &Member,
    ) -> std::result::Result<(), Fault> {
        let mut set = set_attr(member);
        if kind == FileKind::File {
            let mut end = 0;
            for (start, len) in &member.ranges {
                let (mut offset, stop) = (*start, start + len);
                while offset < stop {
                    if self.run.ends() {
                        return Err(Fault::Ends);
                    }
                    let want = (PIECE as u64 - offset % PIECE as u64).min(stop - offset) as usize;
                    let count = reader.content(&mut self.buffer[..want]).map_err(Fault::Archive)?;
                    self.volume.write(&OWNER, ino, offset, &self.buffer[..count])?;
                    self.run.counters.bytes.fetch_add(count as u64, Relaxed);
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
        self.volume.setattr(&OWNER, ino, &set)?;
        Ok(())
    }

    fn xattrs(&self, ino: Ino, member: &Member) {
        for (name, value) in &member.xattrs {
            if !is_kept(name) {
                count(&self.run.counters.xattrs_refused);
                continue;
            }
            match self.volume.setxattr(&OWNER, ino, name, value, XattrMode::Set) {
                Ok(()) => count(&self.run.counters.xattrs),
                Err(error) => {
                    let doing = format!("cannot keep the attribute {}", shown(name));
                    self.run.volume_refused(member.path.clone(), &doing, error);
                }
            }
        }
    }

    /// After all members, as each would change its directory's times.
    fn directory_attributes(&mut self) {
        for (ino, path, set) in std::mem::take(&mut self.attributes) {
            if let Err(error) = self.volume.setattr(&OWNER, ino, &set) {
                self.run.volume_refused(path, "cannot set the attributes", error);
            }
        }
    }
}

fn set_attr(member: &Member) -> SetAttr {
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
}
