//! Path resolution.

use super::{Body, Model, Node, ROOT, permission};
use crate::engine::{EngineResult, Handle};
use lanefs::Caller;
use lanefs_format::{Code, FileKind, MAX_SYMLINKS_FOLLOWED};

/// A remaining part of a path.
enum PathPart {
    Name(Vec<u8>),
    /// The path ended in '/': the inode found must be a directory, and a symbolic link before it is followed.
    Slash,
}

/// The parts of `path`, last one first.
fn parts(path: &[u8]) -> Vec<PathPart> {
    let mut parts: Vec<PathPart> = path
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
        .map(|name| PathPart::Name(name.to_vec()))
        .collect();
    if path.ends_with(b"/") {
        parts.push(PathPart::Slash);
    }
    parts.reverse();
    parts
}

impl Model {
    pub(super) fn walk(
        &mut self,
        caller: &Caller,
        base: Handle,
        path: &[u8],
        follow: bool,
    ) -> EngineResult<Handle> {
        if path.is_empty() {
            return Err(Code::NotFound.into());
        }
        let mut at = if path.starts_with(b"/") { ROOT } else { base };
        let mut rest = parts(path);
        let mut links = 0;
        while let Some(part) = rest.pop() {
            let PathPart::Name(name) = part else {
                if self.node(at)?.kind != FileKind::Directory {
                    return Err(Code::NotDirectory.into());
                }
                continue;
            };
            let found = match self.child(caller, at, &name) {
                // Where more names follow, the code says that the missing name was not the last one.
                Err(error)
                    if error.code == Code::NotFound
                        && rest.iter().any(|s| matches!(s, PathPart::Name(_))) =>
                {
                    return Err(Code::ComponentNotFound.into());
                }
                other => other?,
            };
            match &self.node(found)?.body {
                Body::Link(target) if follow || !rest.is_empty() => {
                    links += 1;
                    if links > MAX_SYMLINKS_FOLLOWED {
                        return Err(Code::SymlinkLoop.into());
                    }
                    if target.starts_with(b"/") {
                        at = ROOT;
                    }
                    let mut more = parts(target);
                    rest.append(&mut more);
                    self.links_followed += 1;
                }
                _ => at = found,
            }
        }
        Ok(at)
    }

    /// One name in one directory, `.` and `..` included.
    pub(super) fn child(&self, caller: &Caller, dir: Handle, name: &[u8]) -> EngineResult<Handle> {
        let node = self.searched(caller, dir, name)?;
        let Body::Directory { entries, parent } = &node.body else {
            return Err(Code::NotDirectory.into());
        };
        match name {
            b"." => Ok(dir),
            b".." => Ok(*parent),
            _ => entries.get(name).copied().ok_or_else(|| Code::NotFound.into()),
        }
    }

    /// `mkdir -p`: existing directories are passed through, symbolic links to directories included. All
    /// missing directories are made, or none.
    pub(super) fn make_all(&mut self, path: &[u8], perm: u16) -> EngineResult<Handle> {
        let (mut before, next) = (Vec::new(), self.next);
        let made = self.make_each(path, perm, &mut before);
        if made.is_err() {
            self.nodes.extend(before.into_iter().rev());
            self.nodes.retain(|handle, _| *handle < next);
            self.next = next;
        }
        made
    }

    /// Makes the missing directories one by one. `before` gets each directory that changes, as it was.
    fn make_each(
        &mut self,
        path: &[u8],
        perm: u16,
        before: &mut Vec<(Handle, Node)>,
    ) -> EngineResult<Handle> {
        let caller = Caller::OWNER;
        let mut at = ROOT;
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        for (number, name) in names.clone().enumerate() {
            at = match self.walk(&caller, at, name, true) {
                Ok(found) if self.kind(found) == Some(FileKind::Directory) => found,
                Ok(_) => return Err(Code::NotDirectory.into()),
                Err(error) if error.code == Code::NotFound => {
                    let mut missing = names.clone().skip(number);
                    missing.try_for_each(|name| self.searched(&caller, at, name).map(drop))?;
                    before.push((at, self.node(at)?.clone()));
                    self.make_directory(&caller, at, name, perm)?
                }
                Err(error) => return Err(error),
            };
        }
        Ok(at)
    }

    /// Returns true where `above` is `below` or one of its ancestors.
    pub(super) fn is_above(&self, above: Handle, mut below: Handle) -> bool {
        loop {
            if above == below {
                return true;
            }
            match self.nodes.get(&below).map(|node| &node.body) {
                Some(Body::Directory { parent, .. }) if *parent != below => below = *parent,
                _ => return false,
            }
        }
    }

    /// Read permission on a directory, for listing.
    pub(super) fn listed(&self, caller: &Caller, dir: Handle) -> EngineResult<&Body> {
        let node = self.node(dir)?;
        if node.kind != FileKind::Directory {
            return Err(Code::NotDirectory.into());
        }
        permission::demand(caller, node, permission::READ)?;
        Ok(&node.body)
    }
}
