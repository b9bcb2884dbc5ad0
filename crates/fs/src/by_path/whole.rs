//! Whole files: content that is read, made or replaced in one step, by path.
//!
//! A file that is replaced keeps its inode, so its other names, its attributes and the programs that have it
//! open see the new content. The old content is cut off and the new one written to other blocks in one
//! transaction: no reader and no crash sees a part of either, and a change that fails leaves the old content.
//!
//! A commit that does not fit into the journal would not be atomic (docs/crash.md). So where the blocks of
//! metadata that change would fill more than half of it, the content goes into a file without a name, which
//! takes the name at the end.

use crate::attempt::edit::Edit;
use crate::by_inode::ops::regular;
use crate::by_inode::pieces::{self, FileState, in_one_state, read_state};
use crate::files::data;
use crate::files::inode::{Inode, add_links};
use crate::files::write_plan::WritePlan;
use crate::names::dir::{self, Name};
use crate::names::resolve::{self, Start};
use crate::names::{namespace, orphans};
use crate::running::volume::Volume;
use crate::vocabulary::as_path::AsPath;
use crate::vocabulary::error::{Error, Outcome, Result};
use crate::vocabulary::notice::Changed;
use crate::vocabulary::path::show;
use crate::vocabulary::types::{Attr, Caller, Ino, SetAttr, XattrMode};
use lanefs_format::{Code, FileKind};
use lanefs_store::Fault;

/// Permissions of a file that [`Volume::write_file`] makes.
pub(crate) const PERM: u16 = 0o644;
/// Bytes of one transaction that fills a file without a name.
const PART_BYTES: usize = 16 << 20;
/// Times that a file without a name tries to take over from one that other threads replace meanwhile.
const NAMINGS: u32 = 64;

/// The file that a whole content is for.
pub(crate) struct Target<'p> {
    pub(crate) start: Start<'p>,
    pub(crate) path: &'p [u8],
    /// Permissions of a file that is made.
    pub(crate) perm: u16,
    /// The file must not exist.
    pub(crate) is_new: bool,
}

impl Target<'_> {
    /// Finds the place, as [`Place::of`].
    pub(crate) fn place(&self, edit: &Edit<'_>) -> Outcome<Place> {
        let itself = Start { follow: false, ..self.start };
        if self.is_new && resolve::resolve(edit.core, &itself, self.path).is_ok() {
            return Err(Code::Exists.into());
        }
        Place::of(edit, &self.start, self.path)
    }
}

/// The place of a file that is to be written.
pub(crate) struct Place {
    pub(crate) dir: Ino,
    pub(crate) name: Vec<u8>,
    /// The file that has the name.
    pub(crate) file: Option<Ino>,
}

impl Place {
    /// Finds the place that a path names. Symbolic links are followed, also one whose target is missing.
    pub(crate) fn of(edit: &Edit<'_>, start: &Start<'_>, path: &[u8]) -> Outcome<Place> {
        if path.ends_with(b"/") {
            // As the kernel, which does not look at the last component.
            resolve::parent_of(edit.core, start, path, Code::IsDirectory)?;
            return Err(Code::IsDirectory.into());
        }
        let mut last = None;
        let found = resolve::locate(edit.core, start, path, |dir, name, has_slash| {
            last = Some((Ino(dir), name.to_vec(), has_slash));
        });
        let file = match found {
            Ok((ino, FileKind::File)) => Some(Ino(ino)),
            Ok((_, FileKind::Directory)) => return Err(Code::IsDirectory.into()),
            Ok(_) => return Err(Code::Invalid.into()),
            Err(Fault::Code(Code::NotFound)) => None,
            Err(fault) => return Err(fault),
        };
        match last {
            Some((_, _, true)) => Err(Code::IsDirectory.into()),
            Some((dir, name, false)) => Ok(Place { dir, name, file }),
            None => Err(Code::NotFound.into()),
        }
    }

    /// Makes the file, or cuts its content off.
    pub(crate) fn empty<'v>(
        &self,
        edit: &mut Edit<'v>,
        perm: u16,
        plan: &mut WritePlan<'_>,
    ) -> Outcome<Inode<'v>> {
        let Some(file) = self.file else {
            let kind = FileKind::File;
            return namespace::create(edit, &Caller::OWNER, self.dir.0, &self.name, kind, perm, 0);
        };
        let node = regular(edit.core, file)?;
        data::truncate(edit, node, 0, plan)?;
        Ok(node)
    }

    /// Gives the name to a file without one; the file that has the name loses it.
    fn give_to(&self, edit: &mut Edit<'_>, ino: Ino) -> Outcome<Attr> {
        let Some(old) = self.file else {
            return namespace::link(edit, &Caller::OWNER, ino.0, self.dir.0, &self.name)?.attr();
        };
        let (dir, node) = (Inode::directory(edit.core, self.dir.0)?, Inode::load(edit.core, ino.0)?);
        let entry =
            dir::find(edit.core, &dir, Name::new(edit.core.seed, &self.name))?.ok_or(Code::NotFound)?;
        orphans::unlist(edit, ino.0)?;
        add_links(edit, node, 1)?;
        dir::replace(edit, entry, ino.0, FileKind::File);
        edit.stamp(dir.view);
        namespace::drop_name(edit, Inode::load(edit.core, old.0)?)?;
        node.attr()
    }

    pub(crate) fn notify(&self, volume: &Volume) {
        self.file.into_iter().for_each(|ino| volume.notify(&[Changed::Inode(ino)]));
        volume.notify(&[Changed::Name { dir: self.dir, name: &self.name }, Changed::Inode(self.dir)]);
    }
}

/// # Whole files, by path
impl Volume {
    /// Reads the whole content of a file: one state of it, whatever other threads write meanwhile.
    ///
    /// # Errors
    /// [`Code::FileTooLarge`] above 4 GiB (use [`read`](Self::read)); [`Code::NoMemory`];
    /// [`Code::IsDirectory`]; those of [`resolve`](Self::resolve).
    pub fn read_file(&self, path: impl AsPath) -> Result<Vec<u8>> {
        let (path, start, shared) = (path.as_path(), self.start_at_root(), &self.shared);
        let at_once = pieces::most_at_once(&shared.state.store).min(pieces::PIECE_BYTES) as u64;
        let mut content = Vec::new();
        let mut found = None;
        let read = in_one_state(shared, |mode| {
            let state = mode.run(shared, |core| {
                let ino = Ino(resolve::resolve(core, &start, path)?.0);
                found = Some(ino);
                let node = regular(core, ino)?;
                let size = node.size();
                if size > pieces::MAX_WHOLE_BYTES {
                    return Err(Code::FileTooLarge.into());
                }
                content.clear();
                content.try_reserve_exact(size as usize).map_err(|_| Code::NoMemory)?;
                content.resize(size as usize, 0);
                if size <= at_once {
                    data::read(core, node, 0, &mut content)?;
                    return Ok(None);
                }
                Ok(Some(FileState::of(core, ino, &node)))
            })?;
            match state {
                None => Ok(Some(())),
                Some(state) => Ok(read_state(shared, mode, &state, 0, &mut content, || false)?.then_some(())),
            }
        });
        let named = |error: Error| match found {
            Some(ino) => self.name_wrong_data(ino, error),
            None => error,
        };
        read.map_err(|error| named(error).at(show(path)))?;
        Ok(content)
    }

    /// Makes a file with this content, or replaces the content of an existing file, in one step: other
    /// threads and a crash see the old content or the new one, and no other. As [`std::fs::write`] does, it
    /// follows symbolic links and makes the target of one that has none. A new file has the mode 0644; an
    /// existing one keeps its inode and attributes.
    ///
    /// Only content whose blocks of metadata outgrow half of the journal comes with a new inode, which takes
    /// over mode, owner and extended attributes; further names of the old inode keep the old content then.
    ///
    /// # Errors
    /// [`Code::NoSpace`], where the old and the new content do not fit beside each other;
    /// [`Code::IsDirectory`], also for a new name with a slash at its end; [`Code::Invalid`] for other inodes
    /// that are not regular files; those of [`resolve`](Self::resolve). The volume is as it was before.
    pub fn write_file(&self, path: impl AsPath, content: impl AsRef<[u8]>) -> Result<Attr> {
        let (start, path) = (self.start_at_root(), path.as_path());
        self.put_whole(&Target { start, path, perm: PERM, is_new: false }, content.as_ref())
            .map_err(|error| error.at(show(path)))
    }

    /// Replaces the content of a regular file in one step, as [`write_file`](Self::write_file), in its inode.
    /// Returns false where that is more than one transaction can change, and leaves the old content.
    ///
    /// # Errors
    /// [`Code::NoSpace`], where the old and the new content do not fit beside each other;
    /// [`Code::IsDirectory`]; [`Code::StaleInode`]. The old content is there then.
    pub fn replace(&self, ino: Ino, content: &[u8]) -> Result<bool> {
        for _ in 0..2 {
            let mut is_too_large = false;
            let done = self.change_data(|edit, plan| {
                // An attempt that is repeated may end before the question.
                is_too_large = false;
                let node = regular(edit.core, ino)?;
                data::truncate(edit, node, 0, plan)?;
                data::write(edit, node, 0, content, plan)?;
                is_too_large = edit.store().room_for_changes() == 0;
                if is_too_large { Err(Code::NotResident.into()) } else { Ok(()) }
            });
            if !is_too_large {
                done?;
                self.notify(&[Changed::Inode(ino)]);
                return Ok(true);
            }
            // Changes of other writers count, too, until they are committed.
            self.shared.commit()?;
        }
        Ok(false)
    }

    /// Makes a file with this content, or replaces the content of an existing file, as
    /// [`write_file`](Self::write_file).
    pub(crate) fn put_whole(&self, target: &Target<'_>, content: &[u8]) -> Result<Attr> {
        // Changes of other writers count, too, until they are committed.
        for _ in 0..2 {
            if let Some(attr) = self.put_at_once(target, content)? {
                return Ok(attr);
            }
            self.shared.commit()?;
        }
        self.put_apart(target, content)
    }

    /// Does the work as one transaction; `None` where it is too large for the journal.
    fn put_at_once(&self, target: &Target<'_>, content: &[u8]) -> Result<Option<Attr>> {
        let mut is_too_large = false;
        let done = self.change_data(|edit, plan| {
            // An attempt that is repeated may end before the question.
            is_too_large = false;
            let place = target.place(edit)?;
            let node = place.empty(edit, target.perm, plan)?;
            data::write(edit, node, 0, content, plan)?;
            is_too_large = edit.store().room_for_changes() == 0;
            if is_too_large { Err(Code::NotResident.into()) } else { Ok((place, node.attr()?)) }
        });
        if is_too_large {
            return Ok(None);
        }
        let (place, attr) = done?;
        place.notify(self);
        Ok(Some(attr))
    }

    /// Writes the content into a file without a name, in several transactions, and gives it the name in the
    /// last one.
    fn put_apart(&self, target: &Target<'_>, content: &[u8]) -> Result<Attr> {
        let made = self.begin_apart(target)?;
        let mut parts = content.chunks(PART_BYTES).enumerate();
        let filled = parts.try_for_each(|(i, part)| {
            self.write(&Caller::OWNER, made, (i * PART_BYTES) as u64, part).map(drop)
        });
        self.end_apart(target, made, filled)
    }

    /// Makes the file without a name that gets the content. It is held.
    pub(crate) fn begin_apart(&self, target: &Target<'_>) -> Result<Ino> {
        let place = self.change(|edit| target.place(edit))?;
        Ok(self.create_unnamed(&Caller::OWNER, place.dir, target.perm)?.ino)
    }

    /// Gives the name to a file of [`begin_apart`](Self::begin_apart), unless its content could not be
    /// written. It is not held any more.
    pub(crate) fn end_apart(&self, target: &Target<'_>, made: Ino, filled: Result<()>) -> Result<Attr> {
        let named = filled.and_then(|()| self.name_apart(target, made));
        if named.is_ok() {
            self.shared.state.holds.forbid_link(made.0);
        }
        // Without a name this frees the inode; where it fails, the next open for writing does.
        let released = self.release(made, 1);
        let (place, attr) = named?;
        released?;
        place.notify(self);
        Ok(attr)
    }

    /// Gives a file the attributes of the one that has the name, and the name.
    fn name_apart(&self, target: &Target<'_>, made: Ino) -> Result<(Place, Attr)> {
        for _ in 0..NAMINGS {
            let old = self.change(|edit| target.place(edit))?.file;
            match old.map_or(Ok(()), |old| self.take_attributes(made, old)) {
                Err(error) if error.code() == Code::StaleInode => continue,
                taken => taken?,
            }
            let named = self.change(|edit| {
                let place = target.place(edit)?;
                if place.file != old {
                    return Ok(None);
                }
                let attr = place.give_to(edit, made)?;
                Ok(Some((place, attr)))
            })?;
            if let Some(named) = named {
                return Ok(named);
            }
        }
        Err(Code::Busy.into())
    }

    /// Gives a file the mode, the owner and the extended attributes of another one.
    fn take_attributes(&self, ino: Ino, like: Ino) -> Result<()> {
        let caller = &Caller::OWNER;
        for name in self.listxattr(like)? {
            self.setxattr(caller, ino, &name, &self.getxattr(caller, like, &name)?, XattrMode::Set)?;
        }
        let old = self.getattr(like)?;
        let set =
            SetAttr { uid: Some(old.uid), gid: Some(old.gid), perm: Some(old.perm), ..SetAttr::default() };
        self.setattr(caller, ino, &set).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::options::{Access, CreateOptions, OpenOptions};
    use std::sync::atomic::{AtomicBool, Ordering};

    const BLOCK: usize = lanefs_format::BLOCK as usize;

    /// Volumes in memory and in files, with checksums and without, each with its writer's way of overwriting.
    fn volumes(dir: &tempfile::TempDir, size: u64) -> Vec<Volume> {
        let options = CreateOptions { size, ..CreateOptions::default() };
        let mut all = vec![Volume::create_memory(&options).expect("create")];
        for data_checksums in [true, false] {
            let path = dir.path().join(format!("{data_checksums}.lane"));
            Volume::create(&path, &CreateOptions { data_checksums, ..options.clone() })
                .and_then(Volume::close)
                .expect("create");
            all.push(Volume::open(&path, OpenOptions::from(Access::Write)).expect("open"));
        }
        all
    }

    fn is_sound(volume: &Volume) {
        let report = volume.check(false, &|_, _| {}).expect("check");
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }

    /// Contents that are inside an inode, in a part of a block, and in several blocks.
    const SIZES: [usize; 6] = [0, 20, 100, BLOCK, 3 * BLOCK + 1, 300_000];

    #[test]
    fn a_file_is_made_and_replaced_by_content_of_any_size() {
        let dir = tempfile::tempdir().expect("a directory");
        for volume in volumes(&dir, 64 << 20) {
            let mut ino = None;
            for (i, size) in SIZES.iter().chain(SIZES.iter().rev()).enumerate() {
                let content = vec![i as u8; *size];
                let attr = volume.write_file("/a", &content).expect("write");
                assert_eq!((attr.size, attr.perm), (*size as u64, 0o644));
                assert_eq!(*ino.get_or_insert(attr.ino), attr.ino, "another inode");
                assert_eq!(volume.read_file("/a").expect("read"), content);
            }
            is_sound(&volume);
        }
    }

    #[test]
    fn names_are_those_of_std_fs_write() {
        let dir = tempfile::tempdir().expect("a directory");
        for volume in volumes(&dir, 64 << 20) {
            let (caller, root) = (&Caller::OWNER, volume.root());
            volume.mkdir_all("/d", 0o755).expect("mkdir");
            volume.symlink_at(caller, root, b"dangling", b"d/target").expect("symlink");
            volume.symlink_at(caller, root, b"nowhere", b"none/target").expect("symlink");
            volume.symlink_at(caller, root, b"loop", b"loop").expect("symlink");
            volume.mknod(caller, root, b"pipe", FileKind::Fifo, 0o644, 0).expect("mknod");
            let first = volume.write_file("/dangling", b"through").expect("write");
            assert_eq!(volume.read_file("/d/target").expect("read"), b"through");
            assert_eq!(volume.resolve_no_follow("/dangling").expect("a link").kind, FileKind::Symlink);
            assert_eq!(volume.write_file("dangling", b"again").expect("write").ino, first.ino);
            for (path, code) in [
                ("/a/x", Code::ComponentNotFound),
                ("/d/x/", Code::IsDirectory),
                ("/d/target/", Code::IsDirectory),
                ("/d", Code::IsDirectory),
                ("/", Code::IsDirectory),
                ("/d/.", Code::IsDirectory),
                ("", Code::NotFound),
                ("/nowhere", Code::ComponentNotFound),
                ("/loop", Code::SymlinkLoop),
                ("/pipe", Code::Invalid),
            ] {
                let error = volume.write_file(path, b"x").expect_err(path);
                assert_eq!(error.code(), code, "{path}: {error}");
            }
            is_sound(&volume);
        }
    }

    #[test]
    fn a_full_volume_keeps_the_old_content_and_makes_no_empty_file() {
        let dir = tempfile::tempdir().expect("a directory");
        for volume in volumes(&dir, 8 << 20) {
            let old = vec![1; 3 << 20];
            volume.write_file("/old", &old).expect("write");
            for path in ["/old", "/new"] {
                let error = volume.write_file(path, vec![2; 16 << 20]).expect_err("no room");
                assert_eq!(error.code(), Code::NoSpace);
            }
            assert_eq!(volume.read_file("/old").expect("read"), old);
            assert_eq!(volume.resolve("/new").expect_err("absent").code(), Code::NotFound);
            // Space that a replacement has freed is there for the next one.
            for i in 0..20 {
                volume.write_file("/old", vec![i; 2 << 20]).expect("write");
            }
            is_sound(&volume);
        }
    }

    #[test]
    fn a_content_is_replaced_in_its_inode_or_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        for volume in volumes(&dir, 8 << 20) {
            let ino = volume.write_file("/a", vec![1; 2 << 20]).expect("write").ino;
            for size in SIZES {
                assert!(volume.replace(ino, &vec![2; size]).expect("replaced"));
                assert_eq!(volume.read_file("/a").expect("read"), vec![2; size]);
            }
            let refused = |ino, size| volume.replace(ino, &vec![3; size]).expect_err("refused").code();
            assert_eq!(refused(ino, 16 << 20), Code::NoSpace);
            assert_eq!(refused(volume.root(), 1), Code::IsDirectory);
            assert_eq!(volume.read_file("/a").expect("read"), vec![2; SIZES[SIZES.len() - 1]]);
            is_sound(&volume);
        }
    }

    #[test]
    fn what_is_too_large_for_the_journal_comes_with_another_inode_and_the_same_attributes() {
        let dir = tempfile::tempdir().expect("a directory");
        for volume in volumes(&dir, 64 << 20) {
            let caller = &Caller::OWNER;
            let to = |path| Target { start: volume.start_at_root(), path, perm: 0o600, is_new: false };
            let content = vec![5; PART_BYTES + 5];
            volume.put_apart(&to(b"/new"), &content).expect("made");
            assert_eq!(volume.resolve("/new").expect("there").perm, 0o600);
            let old = volume.write_file("/old", b"old").expect("write");
            volume.link(caller, old.ino, volume.root(), b"other").expect("link");
            let set = SetAttr { perm: Some(0o4711), uid: Some(7), gid: Some(8), ..SetAttr::default() };
            volume.setattr(caller, old.ino, &set).expect("setattr");
            volume.setxattr(caller, old.ino, b"user.x", b"y", XattrMode::Set).expect("setxattr");
            let new = volume.put_apart(&to(b"/old"), &content).expect("replaced");
            assert_ne!(new.ino, old.ino);
            assert_eq!((new.perm, new.uid, new.gid, new.links), (0o4711, 7, 8, 1));
            assert_eq!(volume.getxattr(caller, new.ino, b"user.x").expect("there"), b"y");
            assert_eq!(volume.read_file("/old").expect("read"), content);
            assert_eq!(volume.read_file("/other").expect("read"), b"old");
            let error = volume.put_apart(&to(b"/full"), &vec![1; 65 << 20]).expect_err("no room");
            assert_eq!(error.code(), Code::NoSpace);
            assert!(volume.resolve("/full").is_err() && volume.held().is_empty());
            is_sound(&volume);
        }
    }

    #[test]
    fn readers_and_writers_of_one_path_see_whole_contents_only() {
        let dir = tempfile::tempdir().expect("a directory");
        for volume in volumes(&dir, 64 << 20) {
            let (volume, is_over) = (&volume, &AtomicBool::new(false));
            std::thread::scope(|scope| {
                let reader = scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        match volume.read_file("/a") {
                            Ok(content) => {
                                let first = content.first().copied().expect("an empty file");
                                assert_eq!(content, vec![first; SIZES[usize::from(first)]]);
                            }
                            Err(error) => assert_eq!(error.code(), Code::NotFound, "{error}"),
                        }
                    }
                });
                let writers = [1, 2].map(|first| {
                    scope.spawn(move || {
                        for i in 0..300 {
                            let number = 1 + (first + i) % (SIZES.len() - 1);
                            volume.write_file("/a", vec![number as u8; SIZES[number]]).expect("write");
                            if i % 7 == 0 {
                                // The other writer may have removed it.
                                let removed = volume.unlink(&Caller::OWNER, volume.root(), b"a");
                                assert!(removed.map_or_else(|e| e.code() == Code::NotFound, |()| true));
                            }
                        }
                    })
                });
                writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
                is_over.store(true, Ordering::Relaxed);
                reader.join().expect("the reader");
            });
            is_sound(volume);
        }
    }

    #[test]
    fn a_file_that_grows_without_end_is_read_in_one_state() {
        let dir = tempfile::tempdir().expect("a directory");
        for volume in volumes(&dir, 256 << 20) {
            let (volume, is_over) = (&volume, &AtomicBool::new(false));
            let ino = volume.write_file("/log", vec![0; 4 * BLOCK]).expect("write").ino;
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    for i in 4.. {
                        let at = (i * BLOCK) as u64;
                        let written = volume.write(&Caller::OWNER, ino, at, &[i as u8; BLOCK]);
                        if is_over.load(Ordering::Relaxed) || written.is_err() {
                            return;
                        }
                    }
                });
                for _ in 0..50 {
                    let content = volume.read_file("/log").expect("read");
                    assert!(content.len().is_multiple_of(BLOCK), "{} bytes", content.len());
                    let of_its_own = |(i, block): (usize, &[u8])| i < 4 || block == [i as u8; BLOCK];
                    assert!(content.chunks(BLOCK).enumerate().all(of_its_own));
                }
                is_over.store(true, Ordering::Relaxed);
            });
        }
    }
}
