//! Names that only the tree that follows has, with all that is below them.

use super::directory::TASK_NAMES;
use super::{Engine, WhichTree};
use crate::sync::difference::Change;
use crate::sync::effect::Effect;
use crate::sync::failure::Failure;
use crate::sync::listing::Listing;
use crate::sync::node::Name;
use crate::sync::pair::Pair;
use crate::sync::tree::{Buffers, Tree};

/// A directory that is being emptied.
struct Emptying<D> {
    dir: D,
    /// Its name in the directory above; `None` for the one that is emptied, but stays.
    name: Option<Name>,
    names: Box<dyn Iterator<Item = Name>>,
    /// A name could not be removed, or was not to be.
    stays: bool,
}

impl<A: Tree, B: Tree, E: Effect<A, B>> Engine<'_, A, B, E> {
    /// Removes a name of `b` that `a` lacks; false where it stays.
    pub(super) fn removed(&self, buffers: &mut Buffers, pair: &Pair<A, B>, name: &Name) -> bool {
        let Some(dir) = &pair.b else { return true };
        let path = pair.path(name.name.to_bytes());
        let is_empty = if name.is_dir() { self.emptied(buffers, pair, name) } else { Ok(true) };
        match is_empty {
            Ok(true) => {
                let is_removed = self.remove(dir, name, path);
                if is_removed {
                    pair.touch();
                }
                return is_removed;
            }
            Ok(false) if self.job.should_stop() => {}
            Ok(false) => {
                let path = crate::vocabulary::name::shown(&self.b.path(&path));
                self.job.note(format!("{path}: stays, as names below it do"));
            }
            Err(failure) => self.failed(&path, WhichTree::B, failure),
        }
        false
    }

    /// Remembers how many names the files have of which names are about to be removed.
    pub(super) fn remember(&self, dir: &B::Dir, names: &Listing) {
        if !E::CHANGES {
            return;
        }
        for segment in names.segments() {
            for begin in (0..segment.len()).step_by(TASK_NAMES) {
                if self.job.should_stop() {
                    return;
                }
                let names = segment.names(begin..segment.len().min(begin + TASK_NAMES));
                let files: Vec<Name> = names.map(|(name, _)| name).filter(|name| !name.is_dir()).collect();
                // A file that cannot be described has no name that is compared.
                let nodes = self.b.nodes(dir, &files.iter().collect::<Vec<_>>()).unwrap_or_default();
                for node in nodes.into_iter().flatten() {
                    self.links.before(node);
                }
            }
        }
    }

    /// Removes one name; false where that fails.
    fn remove(&self, dir: &B::Dir, name: &Name, path: Vec<u8>) -> bool {
        let is_removed = self.effect.remove(dir, name, &|| self.b.path(&path));
        if is_removed {
            self.differs(path, name.kind, Change::Removed);
        }
        self.effect.between();
        is_removed
    }

    /// True where the directory of a name in `b` has no names.
    pub(super) fn is_empty(
        &self,
        buffers: &mut Buffers,
        pair: &Pair<A, B>,
        name: &Name,
    ) -> Result<bool, Failure> {
        let Some(dir) = &pair.b else { return Ok(true) };
        let entered = self.b.enter(dir, name, &self.b.node(dir, name)?)?;
        let mut is_empty = true;
        self.b.names(self.job, buffers, &entered, &mut |_, _, _| is_empty = false)?;
        Ok(is_empty)
    }

    /// Removes all that is below a directory of `b`; false where something stays.
    pub(super) fn emptied(
        &self,
        buffers: &mut Buffers,
        pair: &Pair<A, B>,
        name: &Name,
    ) -> Result<bool, Failure> {
        let Some(dir) = &pair.b else { return Ok(true) };
        let mut open = vec![Emptying { name: None, ..self.open(buffers, dir, name)? }];
        // The path of the last one, of which a chain may have thousands.
        let mut path = pair.path(name.name.to_bytes());
        loop {
            let Some(here) = open.last_mut() else { return Ok(true) };
            if self.job.should_stop() {
                return Ok(false);
            }
            if let Some(name) = here.names.next() {
                let len = path.len();
                path.push(b'/');
                path.extend_from_slice(name.name.to_bytes());
                // Below a directory that had another name there is none that was left out under that.
                if !pair.reads_content && self.leaves_out(&path, name.is_dir()) {
                    here.stays = true;
                } else if self.is_taken(&here.dir, &name) {
                    // Only where a renaming failed it still has this name.
                    here.stays |= E::CHANGES;
                } else if name.is_dir() {
                    let dir = here.dir.clone();
                    open.push(self.open(buffers, &dir, &name)?);
                    continue;
                } else {
                    here.stays |= !self.remove(&here.dir, &name, path.clone());
                }
                path.truncate(len);
                continue;
            }
            let Some(Emptying { name, stays, .. }) = open.pop() else { return Ok(true) };
            let (Some(above), Some(name)) = (open.last_mut(), name) else { return Ok(!stays) };
            let is_removed = !stays && self.remove(&above.dir, &name, path.clone());
            path.truncate(path.len() - name.name.to_bytes().len() - 1);
            above.stays |= !is_removed;
        }
    }

    fn open(&self, buffers: &mut Buffers, dir: &B::Dir, name: &Name) -> Result<Emptying<B::Dir>, Failure> {
        let entered = self.b.enter(dir, name, &self.b.node(dir, name)?)?;
        let mut names = Listing::default();
        self.b.names(self.job, buffers, &entered, &mut |name, kind, ino| names.push(name, kind, ino))?;
        self.remember(&entered, &names);
        let names = Box::new(names.into_names());
        Ok(Emptying { dir: entered, name: Some(name.clone()), names, stays: false })
    }
}
