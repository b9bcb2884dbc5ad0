//! Names for inodes without one, in the directory `lost+found` of the root.
//!
//! The maker of an image may have taken any names that a repair could count up. So after a few that people
//! know, the name ends with a number that nobody can know before the repair, and is free.

use crate::attempt::edit::Edit;
use crate::check::pass::Pass;
use crate::files::inode::{Inode, add_links};
use crate::lifecycle::mkfs;
use crate::names::dir::{self, Name};
use crate::names::namespace;
use crate::vocabulary::error::Outcome;
use crate::vocabulary::types::{Caller, Time};
use lanefs_format::{Code, FileKind, inode as f};
use lanefs_store::Fault;

/// Names that are tried before the one that nobody knows.
const NUMBERED: u32 = 8;

/// The names to try for `stem`, in order.
fn candidates(stem: &str, secret: u64) -> impl Iterator<Item = String> {
    let numbered = (1..NUMBERED).map(move |number| format!("{stem}-{number}"));
    std::iter::once(stem.to_owned()).chain(numbered).chain([format!("{stem}-{secret:016x}")])
}

impl Pass<'_, '_> {
    /// Puts inodes without a name into lost+found. Those for which there is no space are noted.
    pub(in crate::check) fn attach_all(&mut self, root: u64, lost: &[(u64, FileKind)]) -> Outcome<()> {
        // Without random numbers the time serves: it is not secret, but nobody chose names by it.
        let secret = mkfs::random().map_or(Time::now().0 as u64, |bytes| u128::from_le_bytes(bytes) as u64);
        let mut own = false;
        for (ino, kind) in lost {
            if !own {
                match self.mend(|edit| attach(edit, root, (*ino, *kind), secret, false)) {
                    // Its list or its count of links is full, so this repair gets a directory of its own.
                    Err(Fault::Code(Code::TreeFull | Code::TooManyLinks | Code::Exists)) => own = true,
                    Err(fault @ (Fault::Code(_) | Fault::Damaged { .. })) => {
                        self.obstacles.add(&format!("inode {ino}, into lost+found"), fault);
                        continue;
                    }
                    done => {
                        done?;
                        continue;
                    }
                }
            }
            let what = || format!("inode {ino}, into lost+found");
            self.try_to_mend(what, |edit| attach(edit, root, (*ino, *kind), secret, true))?;
        }
        Ok(())
    }
}

/// Puts an inode without a name into lost+found; with `own` into one of this repair.
fn attach(
    edit: &mut Edit<'_>,
    root: u64,
    (ino, kind): (u64, FileKind),
    secret: u64,
    own: bool,
) -> Outcome<()> {
    let lost = lost_and_found(edit, root, secret, own)?;
    let (parent, node) = (Inode::directory(edit.core, lost)?, Inode::load(edit.core, ino)?);
    for name in candidates(&format!("inode-{ino}"), secret) {
        let name = Name::new(edit.core.seed, name.as_bytes());
        if dir::find(edit.core, &parent, name)?.is_some() {
            continue;
        }
        dir::insert(edit, parent, name, ino, kind)?;
        if kind == FileKind::Directory {
            add_links(edit, parent, 1)?;
            edit.tx.put(node.view, f::PARENT_OR_DEVICE, lost);
        } else {
            edit.tx.put(node.view, f::LINKS, 1);
        }
        return Ok(());
    }
    Err(Code::Exists.into())
}

/// The directory `lost+found` of the root, created when needed; with `own` one of this repair.
fn lost_and_found(edit: &mut Edit<'_>, root: u64, secret: u64, own: bool) -> Outcome<u64> {
    let node = Inode::directory(edit.core, root)?;
    let skipped = if own { NUMBERED as usize } else { 0 };
    for name in candidates("lost+found", secret).skip(skipped) {
        match dir::find(edit.core, &node, Name::new(edit.core.seed, name.as_bytes()))? {
            Some(entry) if entry.kind()? == FileKind::Directory => return Ok(entry.ino()),
            Some(_) => {}
            None => {
                let (caller, kind) = (&Caller::OWNER, FileKind::Directory);
                return Ok(namespace::create(edit, caller, root, name.as_bytes(), kind, 0o700, 0)?.ino);
            }
        }
    }
    Err(Code::Exists.into())
}
