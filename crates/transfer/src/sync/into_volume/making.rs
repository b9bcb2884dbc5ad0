//! New files of the volume: complete before they get their names.

use super::{IntoVolume, attributes_of, id};
use crate::in_volume::volume::TargetDir;
use crate::in_volume::volume_entry::{VolumeEntryError, make_directory};
use crate::on_host::host::CHUNK_BYTES;
use crate::sync::effect::{Found, Made, There};
use crate::sync::failure::Failure;
use crate::sync::node::{Node, Xattrs};
use crate::sync::tree::{Buffers, Source};
use crate::sync::volume_tree::VolumeDir;
use crate::vocabulary::name::temporary_name;
use lanefs::bulk::Change;
use lanefs::{Attr, Code, FileKind, Ino, RenameMode, SetAttr};
use rustix::io::Errno;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Largest file that comes with its content in one transaction, in bytes.
const SMALL_BYTES: u64 = 64 << 10;
/// Times that the content of a file is copied, if it changes meanwhile.
const TRIES: usize = 3;
/// Mode of a file that is not complete: closed to other users.
const UNFINISHED: u16 = 0o600;
/// The same of a directory.
const UNFINISHED_DIRECTORY: u16 = 0o700;

/// A file that was made, and the counter of its kind.
type Counted<'c> = (Made<VolumeDir>, &'c AtomicU64);

impl<A: Source> IntoVolume<'_, A> {
    /// Makes a file in the place of what is there.
    pub(super) fn make(
        &self,
        buffers: &mut Buffers,
        found: &Found<'_, A>,
        to: VolumeDir,
        there: There,
    ) -> Result<Counted<'_>, Failure> {
        let target = to.target(self.volume)?;
        let counters = &self.job.counters;
        let (ino, counter) = match found.node.meta.kind {
            FileKind::Directory => {
                let ino = self.make_directory(found, target, there)?;
                let dir = Some(VolumeDir { ino, may_hand_down: false });
                return Ok((Made { id: Some(id(ino)), dir }, &counters.directories));
            }
            FileKind::File => {
                let ino = match self.make_small(buffers, found, target, there)? {
                    Some(ino) => ino,
                    None => self.make_apart(buffers, found, target, there)?,
                };
                (ino, &counters.files)
            }
            FileKind::Symlink => (self.make_apart(buffers, found, target, there)?, &counters.symlinks),
            _ => (self.make_apart(buffers, found, target, there)?, &counters.specials),
        };
        Ok((Made { id: Some(id(ino)), dir: None }, counter))
    }

    fn make_directory(&self, found: &Found<'_, A>, target: TargetDir, there: There) -> Result<Ino, Failure> {
        if there == There::Nothing {
            let made = make_directory(self.volume, target, found.name.to_bytes(), false);
            return made.map(|made| made.ino).map_err(refused);
        }
        let (attr, temporary) = self
            .under_temporary_name(target, |name| self.volume.mkdir(target.ino, name, UNFINISHED_DIRECTORY))?;
        let placed = self.put_in_place(target, &temporary, found.name.to_bytes(), there, true);
        if placed.is_err() {
            let _ = self.rmdir(target.ino, &temporary);
        }
        placed.map(|()| attr.ino)
    }

    /// Makes a small file at once, with its content and attributes; `None` where that is not possible.
    fn make_small(
        &self,
        buffers: &mut Buffers,
        found: &Found<'_, A>,
        target: TargetDir,
        there: There,
    ) -> Result<Option<Ino>, Failure> {
        if found.node.meta.size > SMALL_BYTES || found.node.meta.may_have_holes() {
            return Ok(None);
        }
        let opened;
        let (file, node) = match found.file {
            Some(file) => (file, *found.node),
            None => {
                opened = self.a.open(found.dir, found.name, found.node)?;
                (&opened.0, opened.1)
            }
        };
        if node.meta.kind != FileKind::File || node.meta.size > SMALL_BYTES {
            return Ok(None);
        }
        let xattrs = self.a.xattrs_of(buffers, file)?;
        let is_plain = xattrs.is_empty() && target.is_plain();
        if !is_plain && there != There::Nothing {
            return Ok(None);
        }
        let Some(data) = self.a.read_whole(file, &node)? else { return Ok(None) };
        let whole = match is_plain {
            true => self.make_whole(target, found.name.to_bytes(), there, &data, &attributes_of(&node))?,
            false => None,
        };
        let ino = match (whole, there) {
            (Some(ino), _) => ino,
            (None, There::Nothing) => match self.make_finished(found, &node, target, &data, &xattrs)? {
                Some(ino) => ino,
                None => return Ok(None),
            },
            (None, _) => return Ok(None),
        };
        self.job.counters.bytes.fetch_add(data.len() as u64, Relaxed);
        Ok(Some(ino))
    }

    /// Makes a file with its content and attributes in one step, beside other threads, and puts it in the
    /// place of what is there in another one. `None` where it does not go: the volume of another process has
    /// no such step.
    fn make_whole(
        &self,
        target: TargetDir,
        name: &[u8],
        there: There,
        data: &[u8],
        set: &SetAttr,
    ) -> Result<Option<Ino>, Failure> {
        if there == There::Nothing {
            return Ok(self.volume.create_whole(target.ino, name, data, set)?.map(|made| made.ino));
        }
        loop {
            let temporary = temporary_name();
            match self.volume.create_whole(target.ino, &temporary, data, set) {
                Ok(None) => return Ok(None),
                Ok(Some(made)) => {
                    let placed = self.put_in_place(target, &temporary, name, there, false);
                    if placed.is_err() {
                        let _ = self.volume.unlink(target.ino, &temporary);
                    }
                    return placed.map(|()| Some(made.ino));
                }
                Err(error) if error.code() == Code::Exists => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Makes a small file under its name, which nothing has, and gives it its attributes.
    fn make_finished(
        &self,
        found: &Found<'_, A>,
        node: &Node,
        target: TargetDir,
        data: &[u8],
        xattrs: &Xattrs,
    ) -> Result<Option<Ino>, Failure> {
        let name = found.name.to_bytes();
        let create = Change::Create { path: name, perm: UNFINISHED, data };
        let made = self.volume.apply(target.ino, &[create])?;
        let ino = match made.first().map(|made| (made.code, made.ino)) {
            Some((Code::Success, Some(ino))) => ino,
            Some((code, _)) => return Err(Failure::Volume(code.into())),
            None => return Ok(None),
        };
        let found = Found { node, ..*found };
        let finished = target
            .take_inherited(self.volume, ino, FileKind::File)
            .map_err(Failure::from)
            .and_then(|()| self.finish(&found, ino, xattrs, None));
        if finished.is_err() {
            let _ = self.volume.unlink(target.ino, name);
        }
        finished.map(|()| Some(ino))
    }

    /// Makes a file under a temporary name, and puts it in its place once it is complete.
    fn make_apart(
        &self,
        buffers: &mut Buffers,
        found: &Found<'_, A>,
        target: TargetDir,
        there: There,
    ) -> Result<Ino, Failure> {
        let (volume, dir, meta) = (self.volume, target.ino, &found.node.meta);
        let link = match meta.kind {
            FileKind::Symlink => self.a.link_target(found.dir, found.name, found.node)?,
            _ => Vec::new(),
        };
        let (attr, temporary) = self.under_temporary_name(target, |name| match meta.kind {
            FileKind::File => volume.create_file(dir, name, UNFINISHED),
            FileKind::Symlink => volume.symlink(dir, name, &link),
            kind => volume.mknod(dir, name, kind, UNFINISHED, meta.rdev),
        })?;
        let made = self
            .fill(buffers, found, attr.ino)
            .and_then(|()| self.put_in_place(target, &temporary, found.name.to_bytes(), there, false));
        if made.is_err() {
            // An error leaves a file with such a name in a consistent volume, and nothing more can be done.
            let _ = volume.unlink(dir, &temporary);
        }
        made.map(|()| attr.ino)
    }

    /// Makes an inode with `make(name)` under a name that nothing has. It inherits no access control list.
    fn under_temporary_name(
        &self,
        target: TargetDir,
        make: impl Fn(&[u8]) -> lanefs::Result<Attr>,
    ) -> Result<(Attr, Vec<u8>), Failure> {
        loop {
            let name = temporary_name();
            match make(&name) {
                Ok(attr) => {
                    target.take_inherited(self.volume, attr.ino, attr.kind)?;
                    return Ok((attr, name));
                }
                Err(error) if error.code() == Code::Exists => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Gives a complete file its name, in one step in which the old file loses it.
    fn put_in_place(
        &self,
        target: TargetDir,
        temporary: &[u8],
        name: &[u8],
        there: There,
        is_directory: bool,
    ) -> Result<(), Failure> {
        let dir = target.ino;
        let mode = match (there, is_directory) {
            (There::Nothing, _) => RenameMode::NoReplace,
            (There::File, false) => RenameMode::Replace,
            (There::File, true) | (There::EmptyDirectory, _) => RenameMode::Exchange,
        };
        self.volume.rename(dir, temporary, dir, name, mode)?;
        if mode == RenameMode::Exchange {
            // The temporary name is that of the old file now.
            match there {
                There::EmptyDirectory => self.rmdir(dir, temporary)?,
                There::Nothing | There::File => self.volume.unlink(dir, temporary)?,
            }
        }
        Ok(())
    }

    /// Copies content and attributes to a new inode.
    fn fill(&self, buffers: &mut Buffers, found: &Found<'_, A>, ino: Ino) -> Result<(), Failure> {
        if found.node.meta.kind != FileKind::File {
            let xattrs = self.a.xattrs(buffers, found.dir, Some(found.name), found.node)?;
            return self.finish(found, ino, &xattrs, None);
        }
        let (node, xattrs, size) = self.copy_content(buffers, found, ino)?;
        self.finish(&Found { node: &node, ..*found }, ino, &xattrs, size)
    }

    /// Copies the content; once more where it changes meanwhile. Returns the file as it was before the last
    /// copy, its extended attributes, and the size where it ends in a hole. All are those of the file that
    /// was open: another one that takes the name meanwhile must not give its privileges to this content.
    fn copy_content(
        &self,
        buffers: &mut Buffers,
        found: &Found<'_, A>,
        ino: Ino,
    ) -> Result<(Node, Xattrs, Option<u64>), Failure> {
        let mut tries = 1;
        loop {
            let (file, node) = self.a.open(found.dir, found.name, found.node)?;
            if node.meta.kind != FileKind::File {
                return Err(Errno::NXIO.into());
            }
            let to = (self.volume, ino);
            buffers.content.resize(CHUNK_BYTES, 0);
            let copied = self.a.copy(self.job, &mut buffers.content, &file, &node, to)?;
            if copied.changed && tries == TRIES {
                let what = format!(
                    "changed each of the {TRIES} times that it was read; the volume has the last copy, which \
                     may be part old and part new"
                );
                self.job.problem((found.path)(), what);
            }
            if !copied.changed || tries == TRIES {
                return Ok((node, self.a.xattrs_of(buffers, &file)?, copied.size));
            }
            tries += 1;
            self.volume.setattr(ino, SetAttr { size: Some(0), ..SetAttr::default() })?;
        }
    }

    /// Sets all attributes of a new file.
    fn finish(
        &self,
        found: &Found<'_, A>,
        ino: Ino,
        xattrs: &Xattrs,
        size: Option<u64>,
    ) -> Result<(), Failure> {
        self.set_xattrs(ino, xattrs, None, found.path)?;
        self.volume.setattr(ino, SetAttr { size, ..attributes_of(found.node) })?;
        Ok(())
    }

    /// Makes a name one more of the file `first`.
    pub(super) fn make_link(
        &self,
        found: &Found<'_, A>,
        to: VolumeDir,
        first: Ino,
        there: There,
    ) -> Result<(), Failure> {
        let (dir, name) = (to.ino, found.name.to_bytes());
        if there == There::Nothing {
            return self.volume.link(first, dir, name).map(drop).map_err(Failure::from);
        }
        let target = TargetDir::plain(dir);
        let (_, temporary) =
            self.under_temporary_name(target, |temporary| self.volume.link(first, dir, temporary))?;
        let placed = self.put_in_place(target, &temporary, name, there, false);
        if placed.is_err() {
            let _ = self.volume.unlink(dir, &temporary);
        }
        placed
    }
}

fn refused(error: VolumeEntryError) -> Failure {
    match error {
        VolumeEntryError::Host(errno) => Failure::Host(errno),
        VolumeEntryError::Volume(error) => Failure::Volume(error),
        VolumeEntryError::Taken | VolumeEntryError::TakenByDirectory => Failure::Volume(Code::Exists.into()),
    }
}
