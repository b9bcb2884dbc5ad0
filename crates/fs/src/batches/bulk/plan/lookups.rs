//! The names of a batch as they are before it: looked up level by level, each once.

use super::{BatchPlan, Binding, Object, Parent, SplitPath, paths};
use crate::attempt::Core;
use crate::batches::bulk::change::Change;
use crate::batches::bulk::engine::{DirEngine, LookupRequest};
use crate::files::inode::Inode;
use crate::names::dir::{self, Dentry, Lookup, Name};
use crate::vocabulary::error::Outcome;
use crate::vocabulary::path;
use lanefs_format::{Code, FileKind};
use lanefs_store::Fault;

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

impl<'c> BatchPlan<'c> {
    /// Looks up all names in the paths of these changes, as far as they exist.
    ///
    /// # Errors
    /// [`Code::NotResident`] where the engine cannot.
    pub(in crate::batches::bulk) fn load(
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
    pub(super) fn binding(&mut self, core: &Core<'_>, dir: u32, name: &'c [u8]) -> Outcome<u32> {
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
}
