//! The plan of a batch: the names and inodes after all of its changes, computed before any change is made.
//!
//! A path is split before its last name. The directories, each of which many paths have, are looked up level
//! by level, and then the last names all at once. Then the plan applies the changes in their order, on these
//! names alone. So all dependencies within a batch are settled here. The remaining tasks (names to add, names
//! to remove) can be done in any order, and at the same time.

mod changes;
mod lookups;
mod plain;

use super::change::Change;
use super::names::NameMap;
use crate::attempt::Core;
use crate::files::inode::Inode;
use crate::names::dir::Lookup;
use crate::vocabulary::error::Outcome;
use lanefs_format::{Code, FileKind, inode as f};

pub(super) use plain::is_plain;

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
}
