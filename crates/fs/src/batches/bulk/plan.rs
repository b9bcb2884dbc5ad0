//! The plan of a batch: the names and inodes after all of its changes, computed before any change is made.
//!
//! A path is split before its last name. The directories, each of which many paths have, are looked up level
//! by level, and then the last names all at once. Then the plan applies the changes in their order, on these
//! names alone. So all dependencies within a batch are settled here. The remaining tasks (names to add, names
//! to remove) can be done in any order, and at the same time.

use super::change::Change;
use super::engine::{DirEngine, LookupRequest};
use super::names::NameMap;
use crate::attempt::Core;
use crate::files::inode::Inode;
use crate::names::dir::{self, Dentry, Lookup, Name};
use crate::vocabulary::error::Outcome;
use crate::vocabulary::path;
use crate::vocabulary::types::RenameMode;
use lanefs_format::{Code, FileKind, INODE_DEFAULT_ACL, MAX_NAME, inode as f};
use lanefs_store::Fault;

const SETGID: u16 = 0o2000;

/// An inode that has a name, had one, or will have one.
pub(super) struct Object<'c> {
    pub(super) kind: FileKind,
    /// Inode number; 0 for an inode that is not created yet.
    pub(super) ino: u64,
    /// For a new inode: the low 12 bits of the mode, the group, the content.
    pub(super) perm: u16,
    pub(super) gid: u32,
    pub(super) data: &'c [u8],
    /// For a directory: its parent now, and before.
    pub(super) parent: u32,
    pub(super) old_parent: u32,
    /// True for a directory or a new inode that has lost its name.
    pub(super) is_gone: bool,
    /// True where its name changed.
    pub(super) is_moved: bool,
    /// For an existing inode that is not a directory: the number of names that it lost.
    pub(super) lost: u32,
    /// For a directory whose content changed: the number of added entries.
    entries: i64,
    pub(super) is_stamped: bool,
}

impl<'c> Object<'c> {
    fn there(kind: FileKind, ino: u64, parent: u32) -> Self {
        Object {
            kind,
            ino,
            perm: 0,
            gid: 0,
            data: b"",
            parent,
            old_parent: parent,
            is_gone: false,
            is_moved: false,
            lost: 0,
            entries: 0,
            is_stamped: false,
        }
    }

    fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }
}

/// A name in a directory.
pub(super) struct Binding<'c> {
    pub(super) dir: u32,
    pub(super) name: &'c [u8],
    pub(super) seen: Lookup,
    /// The object with this name before the batch, and now.
    pub(super) before: Option<u32>,
    pub(super) now: Option<u32>,
}

/// The directory of paths, up to their last name.
struct Parent<'c> {
    path: &'c [u8],
    /// The directory, as it was when this many directories had moved.
    found: Option<(u32, u32)>,
}

/// A path of a change, split before its last name.
#[derive(Clone, Copy)]
struct SplitPath<'c> {
    parent: u32,
    /// The last name, and its binding: that of [`Parent::found`] before any directory moved.
    name: &'c [u8],
    binding: Option<u32>,
}

/// The plan of a batch while it is made. Its buffers serve one batch after the other.
#[derive(Default)]
pub(super) struct BatchPlan<'c> {
    pub(super) objects: Vec<Object<'c>>,
    pub(super) bindings: Vec<Binding<'c>>,
    names: NameMap<(u32, &'c [u8]), u32>,
    /// The paths of all changes, one after the other, and their directories.
    paths: Vec<SplitPath<'c>>,
    parents: Vec<Parent<'c>>,
    by_path: NameMap<&'c [u8], u32>,
    /// The directories in which paths begin, and their ancestors.
    above: NameMap<u64, u32>,
    root: u32,
    base: u32,
    /// Directories that lost or changed their names so far.
    moved: u32,
    /// The codes of the changes so far, and the objects that they created or found.
    pub(super) answers: Vec<(Code, Option<u32>)>,
}

/// The reason why a change is not made.
enum Stop {
    /// It fails with this code.
    Fails(Code),
    /// Batches cannot contain it: its path has symbolic links, or it inherits an access control list.
    Obstacle,
    /// The attempt cannot continue.
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Stop::Fault(fault)
    }
}

impl From<Code> for Stop {
    fn from(code: Code) -> Self {
        Stop::Fails(code)
    }
}

/// Returns true for a change whose paths consist of plain names.
pub(super) fn is_plain(change: &Change<'_>) -> bool {
    match change {
        Change::Create { path, .. } | Change::Unlink { path } => is_plain_path(path, false),
        Change::Mkdir { path, .. } | Change::MkdirAll { path, .. } | Change::Rmdir { path } => {
            is_plain_path(path, true)
        }
        Change::Rename { from, to, mode } => {
            *mode != RenameMode::Exchange && is_plain_path(from, false) && is_plain_path(to, false)
        }
    }
}

fn is_plain_path(path: &[u8], may_end_in_slash: bool) -> bool {
    let is_dots = |at: usize| {
        let begins = at == 0 || path[at - 1] == b'/';
        begins && matches!(path[at..], [b'.'] | [b'.', b'/', ..] | [b'.', b'.'] | [b'.', b'.', b'/', ..])
    };
    path.iter().any(|byte| *byte != b'/')
        && (may_end_in_slash || path.last() != Some(&b'/'))
        && memchr::memchr(0, path).is_none()
        && !memchr::memchr_iter(b'.', path).any(is_dots)
        && (path.len() <= MAX_NAME || path::components(path).all(|name| name.len() <= MAX_NAME))
}

/// Verifies a lookup of an engine, because an entry is removed on its word.
///
/// # Errors
/// [`Code::NotResident`] where the entry is not as the engine said.
fn verify_lookup(core: &Core<'_>, name: &[u8], seen: &Lookup) -> Outcome<()> {
    let Some((at, ino, kind)) = seen.entry else { return Ok(()) };
    let entry = Dentry::at(core, at)?;
    let is_it =
        entry.is(Name { bytes: name, hash: seen.hash }) && entry.ino() == ino && entry.kind()? == kind;
    if is_it { Ok(()) } else { Err(Code::NotResident.into()) }
}

/// The paths of a change.
fn paths<'c>(change: &Change<'c>) -> [Option<&'c [u8]>; 2] {
    match *change {
        Change::Create { path, .. }
        | Change::Mkdir { path, .. }
        | Change::MkdirAll { path, .. }
        | Change::Unlink { path }
        | Change::Rmdir { path } => [Some(path), None],
        Change::Rename { from, to, .. } => [Some(from), Some(to)],
    }
}

impl<'c> BatchPlan<'c> {
    /// Begins the plan of a batch; relative paths begin in the directory `base`.
    ///
    /// # Errors
    /// [`Code::NotResident`] for a directory without a name.
    pub(super) fn begin(&mut self, core: &Core<'_>, root: u64, base: u64) -> Outcome<()> {
        self.objects.clear();
        self.bindings.clear();
        self.names.clear();
        self.paths.clear();
        self.parents.clear();
        self.by_path.clear();
        self.above.clear();
        self.answers.clear();
        self.moved = 0;
        self.root = self.beginning(core, root)?;
        self.base = self.beginning(core, base)?;
        Ok(())
    }

    /// The object of a directory in which paths begin, with its ancestors.
    fn beginning(&mut self, core: &Core<'_>, ino: u64) -> Outcome<u32> {
        let (mut at, mut below) = (ino, None::<u32>);
        let first = self.objects.len() as u32;
        loop {
            if let Some(known) = self.above.get(&at).copied() {
                if let Some(below) = below {
                    self.set_parent(below, known);
                    return Ok(first);
                }
                return Ok(known);
            }
            let node = Inode::directory(core, at)?;
            if node.view.get(f::LINKS) == 0 {
                return Err(Code::NotResident.into());
            }
            let object = self.objects.len() as u32;
            self.objects.push(Object::there(FileKind::Directory, at, object));
            self.above.insert(at, object);
            if let Some(below) = below {
                self.set_parent(below, object);
            }
            if node.parent() == at {
                return Ok(first);
            }
            (at, below) = (node.parent(), Some(object));
        }
    }

    fn set_parent(&mut self, of: u32, parent: u32) {
        let object = &mut self.objects[of as usize];
        (object.parent, object.old_parent) = (parent, parent);
    }

    fn start(&self, path: &[u8]) -> u32 {
        if path.first() == Some(&b'/') { self.root } else { self.base }
    }

    /// Looks up all names in the paths of these changes, as far as they exist.
    ///
    /// # Errors
    /// [`Code::NotResident`] where the engine cannot.
    pub(super) fn load(
        &mut self,
        core: &Core<'_>,
        engine: &mut dyn DirEngine,
        changes: &[Change<'c>],
    ) -> Outcome<()> {
        self.split(changes);
        // The directories of the paths: each with its rest, and what is reached so far.
        let mut ways: Vec<(u32, &'c [u8], u32)> =
            (0..).zip(&self.parents).map(|(n, parent)| (n, parent.path, self.start(parent.path))).collect();
        let mut reached = Vec::with_capacity(ways.len());
        while !ways.is_empty() {
            let first = self.bindings.len();
            reached.clear();
            for (parent, rest, dir) in ways.drain(..) {
                match path::split_first(rest) {
                    Some((name, rest)) => reached.push((parent, rest, self.binding_to_load(dir, name))),
                    None => self.parents[parent as usize].found = Some((dir, 0)),
                }
            }
            self.seek(core, engine, first)?;
            for (parent, rest, binding) in reached.drain(..) {
                let found = self.bindings[binding as usize].now;
                if let Some(dir) = found.filter(|object| self.objects[*object as usize].is_directory()) {
                    ways.push((parent, rest, dir));
                }
            }
        }
        let first = self.bindings.len();
        for number in 0..self.paths.len() {
            let SplitPath { parent, name, .. } = self.paths[number];
            if let Some((dir, _)) = self.parents[parent as usize].found {
                self.paths[number].binding = Some(self.binding_to_load(dir, name));
            }
        }
        self.seek(core, engine, first)
    }

    /// Splits all paths before their last names.
    fn split(&mut self, changes: &[Change<'c>]) {
        let mut last = (&b""[..], None);
        for path in changes.iter().flat_map(paths).flatten() {
            let Some((above, name)) = path::split_last(path) else { continue };
            // Neighbours often have the same directory.
            let known = last.1.filter(|_| last.0 == above);
            let parent = known.unwrap_or_else(|| {
                let next = self.parents.len() as u32;
                let parent = *self.by_path.entry(above).or_insert(next);
                if parent == next {
                    self.parents.push(Parent { path: above, found: None });
                }
                parent
            });
            last = (above, Some(parent));
            self.paths.push(SplitPath { parent, name, binding: None });
        }
    }

    /// The binding of a name that is looked up next.
    fn binding_to_load(&mut self, dir: u32, name: &'c [u8]) -> u32 {
        let next = self.bindings.len() as u32;
        let binding = *self.names.entry((dir, name)).or_insert(next);
        if binding == next {
            self.bindings.push(Binding { dir, name, seen: Lookup::default(), before: None, now: None });
        }
        binding
    }

    /// Looks up the names of all bindings from `first` on.
    fn seek(&mut self, core: &Core<'_>, engine: &mut dyn DirEngine, first: usize) -> Outcome<()> {
        let names: Vec<LookupRequest<'_>> = self.bindings[first..]
            .iter()
            .map(|binding| LookupRequest { dir: self.objects[binding.dir as usize].ino, name: binding.name })
            .collect();
        if names.is_empty() {
            return Ok(());
        }
        let seen = engine.seek(&names).map_err(|_| Fault::from(Code::NotResident))?;
        if seen.len() != names.len() {
            return Err(Code::NotResident.into());
        }
        for (binding, seen) in (first..).zip(seen) {
            verify_lookup(core, self.bindings[binding].name, &seen)?;
            self.saw(binding, seen);
        }
        Ok(())
    }

    /// Records the result of a lookup.
    fn saw(&mut self, binding: usize, seen: Lookup) {
        let dir = self.bindings[binding].dir;
        let found = seen.entry.map(|(_, ino, kind)| {
            let is_directory = kind == FileKind::Directory;
            let known = is_directory.then(|| self.above.get(&ino).copied()).flatten();
            known.unwrap_or_else(|| {
                self.objects.push(Object::there(kind, ino, dir));
                self.objects.len() as u32 - 1
            })
        });
        let binding = &mut self.bindings[binding];
        (binding.seen, binding.before, binding.now) = (seen, found, found);
    }

    /// The binding of a name. Looks the name up if `load` did not: in a new directory, or after one was
    /// renamed.
    fn binding(&mut self, core: &Core<'_>, dir: u32, name: &'c [u8]) -> Outcome<u32> {
        if let Some(binding) = self.names.get(&(dir, name)) {
            return Ok(*binding);
        }
        let ino = self.objects[dir as usize].ino;
        let seen = match ino {
            0 => Lookup::default(),
            ino => dir::look(core, &Inode::directory(core, ino)?, Name::new(core.seed, name))?,
        };
        let binding = self.bindings.len();
        self.bindings.push(Binding { dir, name, seen, before: None, now: None });
        self.names.insert((dir, name), binding as u32);
        self.saw(binding, seen);
        Ok(binding as u32)
    }

    /// Plans the changes in their order, up to one that batches cannot contain. Returns the number planned.
    pub(super) fn go_through(&mut self, core: &Core<'_>, changes: &[Change<'c>]) -> Outcome<usize> {
        let mut at = 0;
        for (number, change) in changes.iter().enumerate() {
            let done = match *change {
                Change::Create { perm, data, .. } => self.make(core, at, FileKind::File, perm, data),
                Change::Mkdir { perm, .. } => self.make(core, at, FileKind::Directory, perm, b""),
                Change::MkdirAll { perm, .. } => self.make_all(core, at, perm),
                Change::Unlink { .. } => self.unlink(core, at),
                Change::Rmdir { .. } => self.rmdir(core, at),
                Change::Rename { mode, .. } => self.rename(core, at, mode),
            };
            at += paths(change).iter().flatten().count();
            self.answers.push(match done {
                Ok(object) => (Code::Success, object),
                Err(Stop::Fails(code)) => (code, None),
                Err(Stop::Obstacle) => return Ok(number),
                Err(Stop::Fault(fault)) => return Err(fault),
            });
        }
        Ok(changes.len())
    }

    /// The directory of a path's last name, where it is known and no directory has moved since.
    fn known_parent(&self, path: &SplitPath<'c>) -> Option<u32> {
        let (dir, moved) = self.parents[path.parent as usize].found?;
        (moved == self.moved).then_some(dir)
    }

    /// The binding of a path's last name, in its directory.
    fn last_binding(&mut self, core: &Core<'_>, path: &SplitPath<'c>, dir: u32) -> Outcome<u32> {
        match path.binding {
            Some(binding) if self.moved == 0 => Ok(binding),
            _ => self.binding(core, dir, path.name),
        }
    }

    /// The directory of a path's last name, and that name's binding.
    fn walk(&mut self, core: &Core<'_>, at: usize) -> Result<(u32, u32), Stop> {
        let path = self.paths[at];
        let dir = match self.known_parent(&path) {
            Some(dir) => dir,
            None => {
                let dir = self.enter(core, self.parents[path.parent as usize].path)?;
                self.parents[path.parent as usize].found = Some((dir, self.moved));
                dir
            }
        };
        Ok((dir, self.last_binding(core, &path, dir)?))
    }

    /// The directory with this path.
    fn enter(&mut self, core: &Core<'_>, path: &'c [u8]) -> Result<u32, Stop> {
        let (mut dir, mut rest) = (self.start(path), path);
        loop {
            let object = &self.objects[dir as usize];
            if !object.is_directory() {
                return Err(if object.kind == FileKind::Symlink {
                    Stop::Obstacle
                } else {
                    Code::NotDirectory.into()
                });
            }
            // A path may begin in a directory that was removed.
            if object.is_gone {
                return Err(Stop::Obstacle);
            }
            let Some((name, more)) = path::split_first(rest) else { return Ok(dir) };
            let binding = self.binding(core, dir, name)?;
            dir = self.bindings[binding as usize].now.ok_or(Code::ComponentNotFound)?;
            rest = more;
        }
    }

    /// Records a new inode in a directory. One that inherits an access control list is made alone.
    fn made(&mut self, core: &Core<'_>, dir: u32, binding: u32, new: Object<'c>) -> Result<u32, Stop> {
        let (mut perm, mut gid) = (new.perm, 0);
        if let Some(group) = self.inherited_group(core, dir)? {
            gid = group;
            perm |= if new.is_directory() { SETGID } else { 0 };
        }
        let number = self.objects.len() as u32;
        self.objects.push(Object { perm, gid, ..new });
        self.bindings[binding as usize].now = Some(number);
        self.count(dir, 1);
        Ok(number)
    }

    /// The group that new inodes inherit from a directory.
    fn inherited_group(&self, core: &Core<'_>, dir: u32) -> Result<Option<u32>, Stop> {
        let object = &self.objects[dir as usize];
        if object.ino == 0 {
            return Ok((object.perm & SETGID != 0).then_some(object.gid));
        }
        let node = Inode::directory(core, object.ino)?;
        if node.flags() & INODE_DEFAULT_ACL != 0 {
            return Err(Stop::Obstacle);
        }
        Ok((node.mode() & SETGID != 0).then(|| node.view.get(f::GID)))
    }

    /// Records a change of a directory's content.
    fn count(&mut self, dir: u32, by: i64) {
        let object = &mut self.objects[dir as usize];
        object.entries += by;
        object.is_stamped = true;
    }

    fn make(
        &mut self,
        core: &Core<'_>,
        at: usize,
        kind: FileKind,
        perm: u16,
        data: &'c [u8],
    ) -> Result<Option<u32>, Stop> {
        let (dir, binding) = self.walk(core, at)?;
        if self.bindings[binding as usize].now.is_some() {
            return Err(Code::Exists.into());
        }
        let new = Object { perm: perm & 0o7777, data, ..Object::there(kind, 0, dir) };
        Ok(Some(self.made(core, dir, binding, new)?))
    }

    fn make_all(&mut self, core: &Core<'_>, at: usize, perm: u16) -> Result<Option<u32>, Stop> {
        let path = self.paths[at];
        let dir = match self.known_parent(&path) {
            Some(dir) => dir,
            None => {
                let above = self.parents[path.parent as usize].path;
                let (mut dir, mut rest) = (self.start(above), above);
                while let Some((name, more)) = path::split_first(rest) {
                    let binding = self.binding_in(core, dir, name)?;
                    dir = self.make_where_missing(core, dir, binding, perm)?;
                    rest = more;
                }
                if self.objects[dir as usize].is_gone {
                    return Err(Stop::Obstacle);
                }
                self.parents[path.parent as usize].found = Some((dir, self.moved));
                dir
            }
        };
        let binding = self.last_binding(core, &path, dir)?;
        Ok(Some(self.make_where_missing(core, dir, binding, perm)?))
    }

    /// The binding of a name in a directory that may have been removed.
    fn binding_in(&mut self, core: &Core<'_>, dir: u32, name: &'c [u8]) -> Result<u32, Stop> {
        if self.objects[dir as usize].is_gone {
            return Err(Stop::Obstacle);
        }
        Ok(self.binding(core, dir, name)?)
    }

    /// The directory in a binding, which is made where the binding is empty.
    fn make_where_missing(
        &mut self,
        core: &Core<'_>,
        dir: u32,
        binding: u32,
        perm: u16,
    ) -> Result<u32, Stop> {
        match self.bindings[binding as usize].now {
            Some(found) => match self.objects[found as usize].kind {
                FileKind::Directory => Ok(found),
                FileKind::Symlink => Err(Stop::Obstacle),
                _ => Err(Code::NotDirectory.into()),
            },
            None => {
                let new = Object { perm: perm & 0o7777, ..Object::there(FileKind::Directory, 0, dir) };
                self.made(core, dir, binding, new)
            }
        }
    }

    fn unlink(&mut self, core: &Core<'_>, at: usize) -> Result<Option<u32>, Stop> {
        let (dir, binding) = self.walk(core, at)?;
        let found = self.bindings[binding as usize].now.ok_or(Code::NotFound)?;
        if self.objects[found as usize].is_directory() {
            return Err(Code::IsDirectory.into());
        }
        self.bindings[binding as usize].now = None;
        self.count(dir, -1);
        self.lose_name(found);
        Ok(None)
    }

    fn rmdir(&mut self, core: &Core<'_>, at: usize) -> Result<Option<u32>, Stop> {
        let (dir, binding) = self.walk(core, at)?;
        let found = self.bindings[binding as usize].now.ok_or(Code::NotFound)?;
        if !self.objects[found as usize].is_directory() {
            return Err(Code::NotDirectory.into());
        }
        if !self.is_empty(core, found)? {
            return Err(Code::NotEmpty.into());
        }
        self.bindings[binding as usize].now = None;
        self.count(dir, -1);
        self.lose_name(found);
        Ok(None)
    }

    fn lose_name(&mut self, found: u32) {
        let object = &mut self.objects[found as usize];
        self.moved += u32::from(object.is_directory());
        if object.ino == 0 || object.is_directory() {
            object.is_gone = true;
        } else {
            object.lost += 1;
        }
    }

    fn is_empty(&self, core: &Core<'_>, dir: u32) -> Outcome<bool> {
        let object = &self.objects[dir as usize];
        if object.ino == 0 || object.entries > 0 {
            return Ok(object.entries == 0);
        }
        let fewer = object.entries.unsigned_abs();
        Ok(dir::count(core, &Inode::directory(core, object.ino)?, fewer)? == fewer)
    }

    /// Returns true where a directory is another one, or an ancestor of it.
    fn is_above(&self, dir: u32, below: u32) -> bool {
        let mut at = below;
        // There is no cycle, but a damaged volume may have led to one.
        for _ in 0..=self.objects.len() {
            if at == dir {
                return true;
            }
            let parent = self.objects[at as usize].parent;
            if parent == at {
                return false;
            }
            at = parent;
        }
        true
    }

    fn rename(&mut self, core: &Core<'_>, at: usize, mode: RenameMode) -> Result<Option<u32>, Stop> {
        let (from_dir, from) = self.walk(core, at)?;
        let (to_dir, to) = self.walk(core, at + 1)?;
        let moved = self.bindings[from as usize].now.ok_or(Code::NotFound)?;
        let other = self.bindings[to as usize].now;
        if mode == RenameMode::NoReplace && other.is_some() {
            return Err(Code::Exists.into());
        }
        let is_directory = self.objects[moved as usize].is_directory();
        if is_directory && self.is_above(moved, to_dir) {
            return Err(Code::Invalid.into());
        }
        if let Some(other) = other {
            let (object, with) = (&self.objects[moved as usize], &self.objects[other as usize]);
            if with.is_directory() && self.is_above(other, from_dir) {
                return Err(Code::NotEmpty.into());
            }
            if moved == other || object.ino != 0 && object.ino == with.ino {
                return Ok(None);
            }
            match (is_directory, with.is_directory()) {
                (true, false) => return Err(Code::NotDirectory.into()),
                (false, true) => return Err(Code::IsDirectory.into()),
                (true, true) if !self.is_empty(core, other)? => return Err(Code::NotEmpty.into()),
                _ => {}
            }
            self.lose_name(other);
        }
        self.bindings[from as usize].now = None;
        self.bindings[to as usize].now = Some(moved);
        self.count(from_dir, -1);
        self.count(to_dir, i64::from(other.is_none()));
        let object = &mut self.objects[moved as usize];
        object.is_moved = true;
        if is_directory {
            object.parent = to_dir;
            self.moved += 1;
        }
        Ok(None)
    }
}
