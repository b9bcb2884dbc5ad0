//! Directories of the destination, by the paths of members.
//!
//! An archive may lead through its own symbolic links: `lib -> usr/lib`, then `lib/x`. Such a link is
//! followed as if the destination were the root directory, which the volume's calls would not do, and never
//! out of it.

use super::failure::MemberFailure;
use crate::in_volume::volume::TargetDir;
use crate::vocabulary::name::shown;
use lanefs::{Code, FileKind, FileSystem, Ino, MkdirAll};
use std::collections::HashMap;

/// Most links on the way to a member; as many as Linux follows in a path.
const MAX_LINKS: u32 = 40;

type Outcome<T> = Result<T, MemberFailure>;

/// The directory into which an archive goes, and those below it.
pub(crate) struct Destination<'a> {
    volume: &'a dyn FileSystem,
    top: TargetDir,
    /// Directories, by path without leading slash. None of these paths leads through a link, so a path stays
    /// that of its directory: members never take the place of directories.
    known: HashMap<Vec<u8>, TargetDir>,
}

impl<'a> Destination<'a> {
    pub(crate) fn new(volume: &'a dyn FileSystem, top: TargetDir) -> Self {
        Destination { volume, top, known: HashMap::new() }
    }

    pub(crate) fn top(&self) -> TargetDir {
        self.top
    }

    /// Notes the directory that was made or found as `name` in the directory of the components `parents`.
    pub(crate) fn made(&mut self, parents: &[&[u8]], name: &[u8], dir: TargetDir) {
        let path = parents.join(&b'/');
        if parents.is_empty() || self.known.contains_key(&path) {
            self.known.insert([parents, &[name]].concat().join(&b'/'), dir);
        }
    }

    /// Returns the directory of these components. Directories without a member get mode 0755.
    pub(crate) fn directory(&mut self, parts: &[&[u8]]) -> Outcome<TargetDir> {
        if parts.is_empty() {
            return Ok(self.top);
        }
        let path = parts.join(&b'/');
        if let Some(dir) = self.known.get(&path) {
            return Ok(*dir);
        }
        let mut walk = Walk::new(self.volume, self.top.ino);
        let found = walk.enter_all(parts)?;
        let ino = if found == parts.len() {
            walk.at()
        } else {
            let options = MkdirAll { base: Some(walk.at()), follow: false, ..MkdirAll::default() };
            self.volume.mkdir_all(options, &parts[found..].join(&b'/'))?.ino
        };
        let dir = TargetDir::existing(self.volume, ino)?;
        if walk.links == 0 {
            self.known.insert(path, dir);
        }
        Ok(dir)
    }

    /// Returns the file of these components, a link itself and not its target; `None` where there is none.
    pub(crate) fn find(&self, parts: &[&[u8]]) -> Outcome<Option<(Ino, FileKind)>> {
        let Some((name, parents)) = parts.split_last() else { return Ok(None) };
        let mut walk = Walk::new(self.volume, self.top.ino);
        if walk.enter_all(parents)? < parents.len() {
            return Ok(None);
        }
        lookup(self.volume, walk.at(), name)
    }
}

/// Looks a name up; `None` where it does not exist.
fn lookup(volume: &dyn FileSystem, dir: Ino, name: &[u8]) -> Outcome<Option<(Ino, FileKind)>> {
    match volume.lookup(dir, name) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code() == Code::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A walk from the destination downwards.
struct Walk<'a> {
    volume: &'a dyn FileSystem,
    /// The destination, and the directories from there to the present one.
    path: Vec<Ino>,
    /// Links followed so far.
    links: u32,
}

impl<'a> Walk<'a> {
    fn new(volume: &'a dyn FileSystem, top: Ino) -> Self {
        Walk { volume, path: vec![top], links: 0 }
    }

    /// The present directory.
    fn at(&self) -> Ino {
        self.path[self.path.len() - 1]
    }

    /// Enters one directory after another. Returns the number of components up to the first one that does not
    /// exist.
    fn enter_all(&mut self, parts: &[&[u8]]) -> Outcome<usize> {
        for (at, part) in parts.iter().enumerate() {
            match lookup(self.volume, self.at(), part)? {
                None => return Ok(at),
                Some((ino, FileKind::Directory)) => self.path.push(ino),
                Some((ino, FileKind::Symlink)) => self.follow(part, ino)?,
                Some(_) => return Err(refused(part, "is not a directory")),
            }
        }
        Ok(parts.len())
    }

    /// Enters the directory to which the link `name` leads.
    fn follow(&mut self, name: &[u8], link: Ino) -> Outcome<()> {
        // Components still to be entered, the next one last.
        let mut waiting = self.components(name, link)?;
        while let Some(part) = waiting.pop() {
            if part == b".." {
                if self.path.len() == 1 {
                    return Err(refused(name, "is a link that leaves the destination"));
                }
                self.path.pop();
                continue;
            }
            match lookup(self.volume, self.at(), &part)? {
                Some((ino, FileKind::Directory)) => self.path.push(ino),
                Some((ino, FileKind::Symlink)) => waiting.extend(self.components(name, ino)?),
                Some(_) => return Err(refused(name, "is a link to no directory")),
                None => {
                    return Err(refused(name, "is a link to a directory that the destination does not have"));
                }
            }
        }
        Ok(())
    }

    /// Returns the components of a link's target, the first one last, and begins at the destination where the
    /// target does so. `name` is the link in the member's path.
    fn components(&mut self, name: &[u8], link: Ino) -> Outcome<Vec<Vec<u8>>> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(refused(name, "leads through too many links"));
        }
        let target = self.volume.readlink(link)?;
        if target.starts_with(b"/") {
            self.path.truncate(1);
        }
        let parts = target.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
        Ok(parts.rev().map(<[u8]>::to_vec).collect())
    }
}

fn refused(name: &[u8], why: &str) -> MemberFailure {
    MemberFailure::Text(format!("'{}' in its path {why}", shown(name)))
}
