//! Whole trees of directories: `mkdir -p` and `rm -r`.

use crate::attempt::edit::Edit;
use crate::names::resolve::{self, Start};
use crate::names::{lookup, namespace};
use crate::running::volume::Volume;
use crate::vocabulary::as_path::AsPath;
use crate::vocabulary::error::{Error, Outcome, Result};
use crate::vocabulary::notice::Changed;
use crate::vocabulary::path::{self, show};
use crate::vocabulary::types::{Attr, Caller, DirEntry, Ino};
use lanefs_format::{Code, FileKind};
use lanefs_store::Fault;
use std::collections::{HashMap, HashSet};

/// Entries read at a time when a tree is removed.
const PAGE_ENTRIES: usize = 256;

/// Options of [`Volume::mkdir_all_with`].
#[derive(Clone, Debug)]
pub struct MkdirAll {
    /// Directory in which relative paths start; `None`: the root directory.
    pub base: Option<Ino>,
    /// Permissions of the last directory, the low 12 bits of a mode.
    pub perm: u16,
    /// Permissions of the directories above it that are missing.
    pub perm_above: u16,
    /// Whether a symbolic link to a directory counts as that directory; otherwise it is in the way.
    pub follow: bool,
}

impl Default for MkdirAll {
    fn default() -> Self {
        MkdirAll { base: None, perm: 0o755, perm_above: 0o755, follow: true }
    }
}

/// Makes the directories of a path that are missing; `made` gets the directory and the name of each. `end`
/// becomes the length of the prefix that was reached. Returns the last directory, or `None` where the next
/// commit has no room for more: the path up to `end` is there then.
pub(crate) fn make_dirs(
    edit: &mut Edit<'_>,
    start: &Start<'_>,
    options: &MkdirAll,
    path: &[u8],
    end: &mut usize,
    mut made: impl FnMut(u64, &[u8]),
) -> Outcome<Option<u64>> {
    let mut dir = if path.first() == Some(&b'/') { start.root } else { start.base };
    *end = 0;
    while let Some((name, rest)) = path::split_first(&path[*end..]) {
        *end = path.len() - rest.len();
        let perm = if path::split_first(rest).is_none() { options.perm } else { options.perm_above };
        let mut found = lookup::lookup(edit.core, start.caller, dir, name);
        if let Ok((_, FileKind::Symlink)) = found
            && options.follow
        {
            // (The link is in the way where its target is missing.)
            found = resolve::resolve(edit.core, start, &path[..*end]).map_err(|fault| match fault {
                Fault::Code(Code::NotFound) => Code::Exists.into(),
                fault => fault,
            });
        } else if matches!(found, Err(Fault::Code(Code::NotFound))) {
            let node = namespace::create(edit, start.caller, dir, name, FileKind::Directory, perm, 0)?;
            made(dir, name);
            if edit.store().room_for_changes() == 0 {
                return Ok(None);
            }
            found = Ok((node.ino, FileKind::Directory));
        }
        dir = match found? {
            (ino, FileKind::Directory) => ino,
            _ => return Err(Code::NotDirectory.into()),
        };
    }
    Ok(Some(dir))
}

/// # Trees of directories
impl Volume {
    /// Makes a directory and the missing ones above it, all of them or none. An existing directory stays as
    /// it is. A path with more missing directories than half of the journal takes is made in several
    /// transactions, from the top.
    ///
    /// # Errors
    /// [`Code::NotDirectory`] where another kind of inode is in the way; [`Code::Exists`] for a symbolic link
    /// to nothing; [`Code::NoSpace`].
    pub fn mkdir_all(&self, path: impl AsPath, perm: u16) -> Result<Attr> {
        self.mkdir_all_with(&MkdirAll { perm, perm_above: perm, ..MkdirAll::default() }, path)
    }

    /// Makes directories as [`mkdir_all`](Self::mkdir_all) does, with options.
    ///
    /// # Errors
    /// As [`mkdir_all`](Self::mkdir_all); an error names the directory that could not be made.
    pub fn mkdir_all_with(&self, options: &MkdirAll, path: impl AsPath) -> Result<Attr> {
        let path = path.as_path();
        let made = self.make_all(options, path).map_err(|(error, end)| error.at(show(&path[..end])))?;
        self.getattr(made).map_err(|error| error.at(show(path)))
    }

    /// Makes the directories of a path, in one transaction where the journal takes it. An error is
    /// accompanied by the length of the prefix that it concerns.
    pub(crate) fn make_all(
        &self,
        options: &MkdirAll,
        path: &[u8],
    ) -> std::result::Result<Ino, (Error, usize)> {
        let base = options.base.unwrap_or(self.root());
        let start = Start { base: base.0, ..self.start_at_root() };
        // Most directories exist already, also those of a volume that is read-only.
        if options.follow
            && let Ok((ino, FileKind::Directory)) = self.view(|core| resolve::resolve(core, &start, path))
        {
            return Ok(Ino(ino));
        }
        let (mut end, mut made, mut tries) = (0, Vec::new(), 0);
        let wanted = self.has_listener();
        loop {
            let mut is_too_large = false;
            let done = self.change(|edit| {
                made.clear();
                let last = make_dirs(edit, &start, options, path, &mut end, |dir, name| {
                    if wanted {
                        made.push((Ino(dir), name.to_vec()));
                    }
                })?;
                // Changes of other writers count, too, until they are committed.
                is_too_large = last.is_none() && tries < 2;
                if is_too_large { Err(Code::NotResident.into()) } else { Ok(last) }
            });
            let last = if is_too_large { None } else { done.map_err(|error| (error, end))? };
            if !is_too_large {
                for (dir, name) in &made {
                    self.notify(&[Changed::Name { dir: *dir, name }, Changed::Inode(*dir)]);
                }
            }
            if let Some(ino) = last {
                return Ok(Ino(ino));
            }
            self.shared.commit().map_err(|error| (error, end))?;
            tries += 1;
        }
    }

    /// Removes the file that a path names, or the directory with its whole content (`rm -r`). Symbolic links
    /// in the last component are removed and not followed. Each entry is removed in a transaction of its own,
    /// so an error or a crash leaves a smaller tree and never half an entry.
    ///
    /// # Errors
    /// [`Code::Invalid`] for a path without components (`/`); those of [`resolve`](Self::resolve),
    /// [`unlink`](Self::unlink) and [`rmdir`](Self::rmdir).
    pub fn remove_all(&self, path: impl AsPath) -> Result<()> {
        let path = path.as_path();
        let (dir, name) = self.resolve_parent(path)?;
        self.remove_all_with(&Caller::OWNER, dir, name, |below, done| {
            done.map_err(|error| error.at(show(&path::join(path, below))))
        })
    }

    /// Removes a name, a directory with its whole content, and reports each removal.
    ///
    /// `visit` is called after each entry: with the entry's path below `name` (empty for `name` itself), and
    /// with the outcome. An error that it returns ends the removal; to ignore a failed entry, it returns
    /// `Ok`. The directories above an entry that could not be removed stay, and no failure is reported for
    /// them.
    ///
    /// ```
    /// # fn main() -> lanefs::Result<()> {
    /// use lanefs::{Caller, CreateOptions, Volume};
    ///
    /// let volume = Volume::create_memory(&CreateOptions { size: 64 << 20, ..CreateOptions::default() })?;
    /// volume.mkdir_all("/a/b", 0o755)?;
    /// let mut removed = 0;
    /// volume.remove_all_with(&Caller::OWNER, volume.root(), b"a", |_, done| {
    ///     removed += 1;
    ///     done
    /// })?;
    /// assert_eq!(removed, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those that `visit` returns.
    pub fn remove_all_with<E>(
        &self,
        caller: &Caller,
        dir: Ino,
        name: &[u8],
        mut visit: impl FnMut(&[u8], Result<()>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let top = match self.lookup(caller, dir, name) {
            Ok((ino, FileKind::Directory)) if name != b"." && name != b".." => ino,
            Ok(_) => return visit(b"", self.unlink(caller, dir, name)),
            Err(error) => return visit(b"", Err(error)),
        };
        let mut removal = Removal {
            volume: self,
            caller,
            path: Vec::new(),
            open: Vec::new(),
            inos: HashSet::new(),
            left: HashMap::new(),
        };
        removal.enter(OpenDirectory::new(dir, name, top, 0, 0));
        while removal.step(&mut visit)? {}
        Ok(())
    }
}

/// A directory that is being emptied.
struct OpenDirectory {
    ino: Ino,
    parent: Ino,
    name: Vec<u8>,
    /// Length of its path.
    path_len: usize,
    /// Cookie of its entry in the directory above.
    own_cookie: u64,
    /// Cookie of the last entry that was removed or could not be: the listing continues after it. From its
    /// beginning it would read all leaf blocks that are empty by now, page after page.
    cookie: u64,
    has_failed: bool,
    /// Whether an entry was removed since the listing began.
    has_removed: bool,
}

impl OpenDirectory {
    fn new(parent: Ino, name: &[u8], ino: Ino, path_len: usize, own_cookie: u64) -> Self {
        let name = name.to_vec();
        OpenDirectory {
            ino,
            parent,
            name,
            path_len,
            own_cookie,
            cookie: 0,
            has_failed: false,
            has_removed: false,
        }
    }

    /// The entry at `cookie` is gone.
    fn removed(&mut self, cookie: u64) {
        self.cookie = cookie;
        self.has_removed = true;
    }

    /// Begins the listing once more, if another thread may have added entries before its end.
    fn restart(&mut self) -> bool {
        let may_find_more = self.has_removed && !self.has_failed;
        if may_find_more {
            (self.cookie, self.has_removed) = (0, false);
        }
        may_find_more
    }

    /// The entry at `cookie` stays, and so does this directory.
    fn skip(&mut self, cookie: u64) {
        self.cookie = cookie;
        self.has_failed = true;
    }
}

/// A tree that is being removed.
struct Removal<'r> {
    volume: &'r Volume,
    caller: &'r Caller,
    /// Path of the current entry, below the top of the tree.
    path: Vec<u8>,
    /// Open directories, from the top downwards.
    open: Vec<OpenDirectory>,
    /// Their inodes.
    inos: HashSet<Ino>,
    /// The directories that stay, with the generations of their inodes: a number may have another inode by
    /// now.
    left: HashMap<Ino, u32>,
}

impl Removal<'_> {
    /// Removes a page of entries, or an emptied directory; false at the end.
    fn step<E>(
        &mut self,
        visit: &mut impl FnMut(&[u8], Result<()>) -> std::result::Result<(), E>,
    ) -> std::result::Result<bool, E> {
        let Some(here) = self.open.last() else { return Ok(false) };
        self.path.truncate(here.path_len);
        match self.volume.readdir(self.caller, here.ino, here.cookie, PAGE_ENTRIES) {
            Ok(page) if page.is_empty() => self.close(visit)?,
            Ok(page) => self.remove_page(page, visit)?,
            Err(error) => {
                self.fail_open();
                visit(&self.path, Err(error))?;
            }
        }
        Ok(true)
    }

    /// Leaves the innermost open directory in place.
    fn fail_open(&mut self) {
        let Some(left) = self.leave() else { return };
        if let Ok(attr) = self.volume.getattr(left.ino) {
            self.left.insert(left.ino, attr.generation);
        }
        if let Some(above) = self.open.last_mut() {
            above.skip(left.own_cookie);
        }
    }

    /// Goes up from the innermost open directory.
    fn leave(&mut self) -> Option<OpenDirectory> {
        let left = self.open.pop()?;
        self.inos.remove(&left.ino);
        Some(left)
    }

    /// Removes the innermost open directory, which has been emptied as far as possible.
    fn close<E>(
        &mut self,
        visit: &mut impl FnMut(&[u8], Result<()>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let Some(here) = self.open.last_mut() else { return Ok(()) };
        let done = self.volume.rmdir(self.caller, here.parent, &here.name);
        let has_entries = matches!(&done, Err(e) if e.code() == Code::NotEmpty);
        if has_entries && here.restart() {
            return Ok(());
        }
        let is_reported = has_entries && here.has_failed;
        if done.is_err() {
            self.fail_open();
        } else if let (Some(left), Some(above)) = (self.leave(), self.open.last_mut()) {
            above.removed(left.own_cookie);
        }
        if is_reported { Ok(()) } else { visit(&self.path, done) }
    }

    /// Removes the entries of a page, up to the first directory that has entries itself: that one is opened.
    fn remove_page<E>(
        &mut self,
        page: Vec<DirEntry>,
        visit: &mut impl FnMut(&[u8], Result<()>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let Some((dir, path_len)) = self.open.last().map(|here| (here.ino, here.path_len)) else {
            return Ok(());
        };
        for entry in page {
            self.path.truncate(path_len);
            path::push(&mut self.path, &entry.name);
            let done = if entry.kind == FileKind::Directory {
                match self.volume.rmdir(self.caller, dir, &entry.name) {
                    Err(error) if error.code() == Code::NotEmpty => match self.open(dir, &entry) {
                        Ok(()) => return Ok(()),
                        Err(error) => Err(error),
                    },
                    done => done,
                }
            } else {
                self.volume.unlink(self.caller, dir, &entry.name)
            };
            if let Some(here) = self.open.last_mut() {
                match &done {
                    Ok(()) => here.removed(entry.cookie),
                    Err(_) => here.skip(entry.cookie),
                }
            }
            visit(&self.path, done)?;
        }
        Ok(())
    }

    /// Opens a directory below the innermost open one.
    ///
    /// # Errors
    /// [`Error::Damaged`] for a directory that was opened before, by another name. Were it opened by each of
    /// its names, a hostile image of 60 directories would have 2^60 paths.
    fn open(&mut self, dir: Ino, entry: &DirEntry) -> Result<()> {
        if self.inos.contains(&entry.ino) || self.was_left(entry.ino) {
            let at = entry.ino.0.saturating_mul(self.volume.shared.state.store.inode_size().bytes());
            return Err(Error::Damaged { at, why: "a directory with more than one name".into() });
        }
        debug_assert!(self.open.last().is_some_and(|above| above.path_len < self.path.len()));
        self.enter(OpenDirectory::new(dir, &entry.name, entry.ino, self.path.len(), entry.cookie));
        Ok(())
    }

    fn enter(&mut self, directory: OpenDirectory) {
        self.inos.insert(directory.ino);
        self.open.push(directory);
    }

    /// True for a directory that could not be removed before.
    fn was_left(&self, ino: Ino) -> bool {
        let left = self.left.get(&ino);
        left.is_some_and(|left| self.volume.getattr(ino).is_ok_and(|attr| attr.generation == *left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::inode::Inode;
    use crate::names::dir::{self, Name};
    use crate::vocabulary::error::ErrorKind;
    use crate::vocabulary::options::CreateOptions;

    /// Returns a volume with a directory of `count` files, and the directory.
    fn volume(count: usize) -> (Volume, Ino) {
        let options = CreateOptions { size: 64 << 20, ..CreateOptions::default() };
        let volume = Volume::create_memory(&options).expect("a volume");
        let dir = volume.mkdir(&Caller::OWNER, volume.root(), b"dir", 0o755).expect("a directory").ino;
        for number in 0..count {
            let name = format!("file-{number}");
            volume.create_file(&Caller::OWNER, dir, name.as_bytes(), 0o644).expect("a file");
        }
        (volume, dir)
    }

    fn removal(volume: &Volume, dir: Ino) -> Removal<'_> {
        let open = vec![OpenDirectory::new(volume.root(), b"dir", dir, 0, 0)];
        let (path, inos, left) = (Vec::new(), HashSet::from([dir]), HashMap::new());
        Removal { volume, caller: &Caller::OWNER, path, open, inos, left }
    }

    #[test]
    fn a_removal_reads_each_leaf_once() {
        let (volume, dir) = volume(4 * PAGE_ENTRIES);
        let mut removal = removal(&volume, dir);
        let mut before = 0;
        for _ in 0..4 {
            assert_eq!(removal.step(&mut |_, done| done).map_err(|e| e.code()), Ok(true));
            let cookie = removal.open.last().map_or(0, |here| here.cookie);
            assert!(cookie > before, "the listing went from {before} to {cookie}");
            before = cookie;
        }
        while removal.step(&mut |_, done| done).expect("nothing fails") {}
        assert_eq!(volume.readdir(&Caller::OWNER, volume.root(), 0, 9).expect("a listing"), []);
    }

    #[test]
    fn entries_that_another_thread_adds_before_the_listing_are_removed_too() {
        let (volume, dir) = volume(3 * PAGE_ENTRIES);
        let mut removal = removal(&volume, dir);
        removal.step(&mut |_, done| done).expect("a page");
        // They take the room of the first page.
        for number in 0..PAGE_ENTRIES / 2 {
            let name = format!("more-{number}");
            volume.create_file(&Caller::OWNER, dir, name.as_bytes(), 0o644).expect("a file");
        }
        let cookie = removal.open.last().map_or(0, |here| here.cookie);
        let first = volume.readdir(&Caller::OWNER, dir, 0, 1).expect("a listing");
        assert!(first[0].cookie < cookie, "all new entries lie after those that are removed");
        let mut removed = 0;
        while removal.step(&mut |_, done| done.map(|()| removed += 1)).expect("nothing fails") {}
        assert_eq!(removed, 2 * PAGE_ENTRIES + PAGE_ENTRIES / 2 + 1);
    }
    #[test]
    fn a_directory_with_two_names_is_entered_once() {
        // Each of these directories has two names in the one above, so the last has 2^LEVELS paths.
        const LEVELS: usize = 40;
        let (volume, mut dir) = volume(0);
        for _ in 0..LEVELS {
            let below = volume.mkdir(&Caller::OWNER, dir, b"one", 0o755).expect("a directory").ino;
            let again = |edit: &mut Edit<'_>| {
                let node = Inode::directory(edit.core, dir.0)?;
                dir::insert(edit, node, Name::new(edit.core.seed, b"two"), below.0, FileKind::Directory)
            };
            volume.change(again).expect("a second entry");
            dir = below;
        }
        let mut damaged = 0;
        let ended = volume.remove_all_with(&Caller::OWNER, volume.root(), b"dir", |_, done| match done {
            Err(error) if error.kind() == ErrorKind::Damaged => {
                damaged += 1;
                Ok(())
            }
            // The second names of directories that are gone.
            Err(error) if error.is_not_found() => Ok(()),
            done => done,
        });
        assert!(ended.is_ok(), "{ended:?}");
        assert_eq!(damaged, LEVELS - 1);
    }
}
