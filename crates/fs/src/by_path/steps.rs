//! Changes by path, one or several as one transaction.
//!
//! A step resolves its paths inside the transaction, so no other thread comes between, and a step sees those
//! before it. Symbolic links before the last component are followed.

use super::tree;
use super::whole::Place;
use crate::attempt::edit::Edit;
use crate::by_inode::ops;
use crate::files::inode::Inode;
use crate::files::write_plan::WritePlan;
use crate::files::{attr, data};
use crate::names::dir::{self, Name};
use crate::names::lookup;
use crate::names::namespace::{self, RenameSide};
use crate::names::resolve::{self, Start, parent_of};
use crate::running::volume::Volume;
use crate::vocabulary::error::{Error, Outcome, Result};
use crate::vocabulary::notice::Changed;
use crate::vocabulary::path::show;
use crate::vocabulary::types::{Attr, Caller, Ino, RenameMode, SetAttr, XattrMode};
use lanefs_format::{Code, FileKind};
use std::cell::Cell;

/// Permissions of a directory, where the caller gives none.
pub(crate) const DIRECTORY_PERM: u16 = 0o755;

/// One change.
pub(crate) enum Step<'c> {
    /// Makes a file.
    Create { path: &'c [u8], perm: u16, content: &'c [u8] },
    /// Makes a file, or replaces its content. A symbolic link is followed.
    Write { path: &'c [u8], perm: u16, content: &'c [u8] },
    /// Makes a directory.
    MakeDir { path: &'c [u8], perm: u16 },
    /// Makes a directory and the missing ones above it; it may exist.
    MakeDirs { path: &'c [u8], perm: u16 },
    /// Removes a name that is not a directory's.
    RemoveFile { path: &'c [u8] },
    /// Removes an empty directory.
    RemoveDir { path: &'c [u8] },
    /// Gives a file or directory another name.
    Rename { from: &'c [u8], to: &'c [u8], mode: RenameMode },
    /// Gives an inode a further name.
    HardLink { of: &'c [u8], path: &'c [u8] },
    /// Makes a symbolic link.
    Symlink { target: &'c [u8], path: &'c [u8] },
    /// Changes attributes. A symbolic link is followed.
    SetAttributes { path: &'c [u8], set: SetAttr },
    /// Sets an extended attribute. A symbolic link is followed.
    SetXattr { path: &'c [u8], name: &'c [u8], value: &'c [u8] },
    /// Removes an extended attribute. A symbolic link is followed.
    RemoveXattr { path: &'c [u8], name: &'c [u8] },
}

/// Changes for the listener, in owned form: they are told after the transaction.
struct Notes {
    wanted: bool,
    names: Vec<(u64, Vec<u8>)>,
    inodes: Vec<u64>,
}

impl Notes {
    fn name(&mut self, dir: u64, name: &[u8]) {
        if self.wanted {
            self.names.push((dir, name.to_vec()));
            self.inodes.push(dir);
        }
    }

    fn inode(&mut self, ino: u64) {
        if self.wanted {
            self.inodes.push(ino);
        }
    }

    fn clear(&mut self) {
        self.names.clear();
        self.inodes.clear();
    }

    fn tell(&self, volume: &Volume) {
        for (dir, name) in &self.names {
            volume.notify(&[Changed::Name { dir: Ino(*dir), name }]);
        }
        self.inodes.iter().for_each(|ino| volume.notify(&[Changed::Inode(Ino(*ino))]));
    }
}

/// A path that ends with a slash names a directory.
fn must_be_directory(edit: &Edit<'_>, dir: u64, name: &[u8]) -> Outcome<()> {
    match lookup::lookup(edit.core, &Caller::OWNER, dir, name)?.1 {
        FileKind::Directory => Ok(()),
        _ => Err(Code::NotDirectory.into()),
    }
}

/// A path with a slash at its end names no new inode but a directory.
fn refuse_slash(edit: &Edit<'_>, dir: u64, name: &[u8], path: &[u8]) -> Outcome<()> {
    if !ends_with_slash(path) {
        return Ok(());
    }
    lookup::lookup(edit.core, &Caller::OWNER, dir, name)?;
    Err(Code::Exists.into())
}

fn ends_with_slash(path: &[u8]) -> bool {
    path.ends_with(b"/")
}

impl<'c> Step<'c> {
    /// The path that an error names.
    fn path(&self) -> &'c [u8] {
        match self {
            Step::Create { path, .. }
            | Step::Write { path, .. }
            | Step::MakeDir { path, .. }
            | Step::MakeDirs { path, .. }
            | Step::RemoveFile { path }
            | Step::RemoveDir { path }
            | Step::Rename { from: path, .. }
            | Step::HardLink { path, .. }
            | Step::Symlink { path, .. }
            | Step::SetAttributes { path, .. }
            | Step::SetXattr { path, .. }
            | Step::RemoveXattr { path, .. } => path,
        }
    }

    /// The subject of an error: the path, or both.
    pub(crate) fn subject(&self) -> String {
        match self {
            Step::Rename { from, to, .. } => format!("{} to {}", show(from), show(to)),
            Step::HardLink { of, path } => format!("{} for {}", show(path), show(of)),
            step => show(step.path()),
        }
    }

    /// Tells whether the change has no bound but its content. A commit that outgrows the journal would not be
    /// atomic, so such a change is refused.
    fn is_boundless(&self) -> bool {
        matches!(self, Step::Create { .. } | Step::Write { .. } | Step::MakeDirs { .. })
    }

    fn removes_names(&self) -> bool {
        matches!(self, Step::RemoveFile { .. } | Step::RemoveDir { .. } | Step::Rename { .. })
    }

    /// Makes the change. Returns the attributes of the inode that it made or changed; none after a removal.
    fn make(
        &self,
        edit: &mut Edit<'_>,
        start: &Start<'_>,
        plan: &mut WritePlan<'c>,
        notes: &mut Notes,
    ) -> Outcome<Option<Attr>> {
        let caller = &Caller::OWNER;
        match *self {
            Step::Create { path, perm, content } => {
                let (dir, name) = parent_of(edit.core, start, path, Code::Invalid)?;
                if ends_with_slash(path) {
                    return Err(Code::IsDirectory.into());
                }
                let node = namespace::create(edit, caller, dir, name, FileKind::File, perm, 0)?;
                data::write(edit, node, 0, content, plan)?;
                notes.name(dir, name);
                node.attr().map(Some)
            }
            Step::Write { path, perm, content } => {
                let place = Place::of(edit, start, path)?;
                let node = place.empty(edit, perm, plan)?;
                data::write(edit, node, 0, content, plan)?;
                place.file.into_iter().for_each(|ino| notes.inode(ino.0));
                notes.name(place.dir.0, &place.name);
                node.attr().map(Some)
            }
            Step::MakeDir { path, perm } => {
                let (dir, name) = parent_of(edit.core, start, path, Code::Exists)?;
                let node = namespace::create(edit, caller, dir, name, FileKind::Directory, perm, 0)?;
                notes.name(dir, name);
                node.attr().map(Some)
            }
            Step::MakeDirs { path: b"", .. } => Err(Code::NotFound.into()),
            Step::MakeDirs { path, perm } => {
                let options = tree::MkdirAll { perm, perm_above: perm, ..tree::MkdirAll::default() };
                let made = |dir, name: &[u8]| notes.name(dir, name);
                match tree::make_dirs(edit, start, &options, path, &mut 0, made)? {
                    Some(ino) => Inode::load(edit.core, ino)?.attr().map(Some),
                    // The caller finds no room, either.
                    None => Ok(None),
                }
            }
            Step::RemoveFile { path } => {
                let (dir, name) = parent_of(edit.core, start, path, Code::IsDirectory)?;
                if ends_with_slash(path) {
                    must_be_directory(edit, dir, name)?;
                }
                let ino = namespace::unlink(edit, caller, dir, name)?;
                notes.name(dir, name);
                notes.inode(ino);
                Ok(None)
            }
            Step::RemoveDir { path } => {
                let (dir, name) = parent_of(edit.core, start, path, Code::Busy)?;
                let ino = namespace::rmdir(edit, caller, dir, name)?;
                notes.name(dir, name);
                notes.inode(ino);
                Ok(None)
            }
            Step::Rename { from, to, mode } => rename(edit, start, from, to, mode, notes).map(|()| None),
            Step::HardLink { of, path } => {
                let first = Start { follow: false, ..*start };
                let ino = resolve::resolve(edit.core, &first, of)?.0;
                let (dir, name) = parent_of(edit.core, start, path, Code::Exists)?;
                refuse_slash(edit, dir, name, path)?;
                let node = namespace::link(edit, caller, ino, dir, name)?;
                notes.name(dir, name);
                notes.inode(ino);
                node.attr().map(Some)
            }
            Step::Symlink { target, path } => {
                let (dir, name) = parent_of(edit.core, start, path, Code::Exists)?;
                refuse_slash(edit, dir, name, path)?;
                let node = namespace::symlink(edit, caller, dir, name, target)?;
                notes.name(dir, name);
                node.attr().map(Some)
            }
            Step::SetAttributes { path, ref set } => {
                let node = Inode::load(edit.core, resolve::resolve(edit.core, start, path)?.0)?;
                attr::set(edit, caller, node, set, plan)?;
                notes.inode(node.ino);
                node.attr().map(Some)
            }
            Step::SetXattr { path, name, value } => {
                let node = Inode::load(edit.core, resolve::resolve(edit.core, start, path)?.0)?;
                ops::set_xattr(edit, caller, node, name, value, XattrMode::Set)?;
                notes.inode(node.ino);
                Ok(None)
            }
            Step::RemoveXattr { path, name } => {
                let node = Inode::load(edit.core, resolve::resolve(edit.core, start, path)?.0)?;
                ops::remove_xattr(edit, caller, node, name)?;
                notes.inode(node.ino);
                Ok(None)
            }
        }
    }
}

fn rename(
    edit: &mut Edit<'_>,
    start: &Start<'_>,
    from: &[u8],
    to: &[u8],
    mode: RenameMode,
    notes: &mut Notes,
) -> Outcome<()> {
    let (dir, name) = parent_of(edit.core, start, from, Code::Busy)?;
    let (to_dir, new_name) = parent_of(edit.core, start, to, Code::Busy)?;
    if ends_with_slash(from) || ends_with_slash(to) {
        must_be_directory(edit, dir, name)?;
    }
    let side = |dir, name| RenameSide { dir, name };
    if notes.wanted {
        for (dir, name) in [(dir, name), (to_dir, new_name)] {
            let node = Inode::directory(edit.core, dir)?;
            if let Some(entry) = dir::find(edit.core, &node, Name::new(edit.core.seed, name))? {
                notes.inode(entry.ino());
            }
        }
    }
    let owner = &Caller::OWNER;
    namespace::rename(edit, owner, owner, &side(dir, name), &side(to_dir, new_name), mode)?;
    notes.name(dir, name);
    notes.name(to_dir, new_name);
    Ok(())
}

impl Volume {
    /// Makes one change of a path below the root directory. Returns the attributes of the inode that it made
    /// or changed.
    pub(crate) fn do_step(&self, step: &Step<'_>) -> Result<Option<Attr>> {
        let done = self.do_steps(self.root(), std::slice::from_ref(step));
        done.map_err(|(error, _)| error.at(step.subject()))
    }

    /// As [`do_step`](Self::do_step) for a change that leaves an inode.
    pub(crate) fn do_step_on_inode(&self, step: &Step<'_>) -> Result<Attr> {
        self.do_step(step)?.ok_or_else(|| Error::from(Code::StaleInode).at(step.subject()))
    }

    /// Makes all changes in their order, or none. Relative paths begin at `base`. Returns the attributes of
    /// the inode that the last one made or changed. An error comes with the number of the change that failed.
    pub(crate) fn do_steps(
        &self,
        base: Ino,
        steps: &[Step<'_>],
    ) -> std::result::Result<Option<Attr>, (Error, usize)> {
        let failed = Cell::new(0);
        let again = |error: &Error| error.code() == Code::NoSpace && steps.iter().any(Step::removes_names);
        let done = match self.try_steps(base, steps, true, &failed) {
            // Names can be removed although no space is left to list a held inode.
            Err(error) if again(&error) => self.try_steps(base, steps, false, &failed),
            done => done,
        };
        done.map_err(|error| (error, failed.get()))
    }

    fn try_steps(
        &self,
        base: Ino,
        steps: &[Step<'_>],
        may_list: bool,
        failed: &Cell<usize>,
    ) -> Result<Option<Attr>> {
        let start = Start { base: base.0, ..self.start_at_root() };
        let mut notes = Notes { wanted: self.has_listener(), names: Vec::new(), inodes: Vec::new() };
        // Changes of other writers count, too, until they are committed.
        for _ in 0..2 {
            let mut is_too_large = false;
            let made = self.change_data(|edit, plan| {
                notes.clear();
                (edit.may_list, is_too_large) = (may_list, false);
                if steps.len() > 1 {
                    edit.tx.has_steps();
                }
                let mut last = None;
                for (number, step) in steps.iter().enumerate() {
                    failed.set(number);
                    last = step.make(edit, &start, plan, &mut notes)?;
                    let must_fit = steps.len() > 1 || step.is_boundless();
                    is_too_large = must_fit && edit.store().room_for_changes() == 0;
                    if is_too_large {
                        return Err(Code::FileTooLarge.into());
                    }
                }
                if steps.len() > 1 {
                    plan.forget(edit.freed);
                }
                Ok(last)
            });
            if !is_too_large {
                return made.inspect(|_| notes.tell(self));
            }
            self.shared.commit()?;
        }
        let what = "the transaction has more changes than the journal takes at once; make it smaller";
        Err(Error::At { code: Code::FileTooLarge, what: what.into() })
    }
}
