//! The whole content of a volume, as a value that can be compared.

use super::XATTR;
use crate::engine::Engine;
use crate::model::{Model, ROOT};
use lanefs::path::join;
use lanefs::{Caller, Code, FileKind, Ino, Volume};
use std::collections::{BTreeMap, HashMap};

const CALLER: Caller = Caller::OWNER;

/// The inode that a path names, without times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepEntry {
    /// Type.
    pub kind: FileKind,
    /// Permission bits.
    pub perm: u16,
    /// Link count.
    pub links: u32,
    /// Content of a file, or target of a symbolic link.
    pub content: Vec<u8>,
    /// The extended attribute that steps set.
    pub xattr: Option<Vec<u8>>,
    /// The first path of the inode, which tells hard links from copies.
    pub first_path: Vec<u8>,
}

/// Every path below the root directory.
pub type StepTree = BTreeMap<Vec<u8>, StepEntry>;

/// Makes a tree of entries with their inode numbers.
fn finish(found: BTreeMap<Vec<u8>, (u64, StepEntry)>) -> StepTree {
    let mut first = HashMap::new();
    let mut tree = StepTree::new();
    for (path, (inode, entry)) in found {
        let first_path = first.entry(inode).or_insert_with(|| path.clone()).clone();
        tree.insert(path, StepEntry { first_path, ..entry });
    }
    tree
}

/// Returns the content of the model.
pub fn tree_of_model(model: &mut Model) -> StepTree {
    let mut found = BTreeMap::new();
    let mut open = vec![(ROOT, b"/".to_vec())];
    while let Some((dir, path)) = open.pop() {
        for (name, node) in model.entries(dir).cloned().unwrap_or_default() {
            let path = join(&path, &name);
            let Ok(stat) = model.stat(node) else { continue };
            let mut content = Vec::new();
            match stat.kind {
                FileKind::Directory => open.push((node, path.clone())),
                FileKind::Symlink => content = model.readlink(node).unwrap_or_default(),
                _ => {
                    content.resize(stat.size as usize, 0);
                    model.content(node).map(|all| all.read(0, &mut content));
                }
            }
            let xattr = model.getxattr(&CALLER, node, XATTR).ok();
            let (kind, perm, links) = (stat.kind, stat.perm, stat.links);
            found.insert(
                path,
                (node, StepEntry { kind, perm, links, content, xattr, first_path: Vec::new() }),
            );
        }
    }
    finish(found)
}

/// Returns the content of a volume.
///
/// # Errors
/// Those of the volume.
pub fn tree_of_volume(volume: &Volume) -> lanefs::Result<StepTree> {
    let mut found = BTreeMap::new();
    let mut open = vec![(volume.root(), b"/".to_vec())];
    while let Some((dir, path)) = open.pop() {
        let mut cookie = 0;
        loop {
            let page = volume.readdir(&CALLER, dir, cookie, 64)?;
            let Some(last) = page.last() else { break };
            cookie = last.cookie;
            for entry in page {
                let path = join(&path, &entry.name);
                if entry.kind == FileKind::Directory {
                    open.push((entry.ino, path.clone()));
                }
                found.insert(path, (entry.ino.0, look(volume, entry.ino)?));
            }
        }
    }
    Ok(finish(found))
}

fn look(volume: &Volume, ino: Ino) -> lanefs::Result<StepEntry> {
    let attr = volume.getattr(ino)?;
    let mut content = Vec::new();
    match attr.kind {
        // A device is a whiteout.
        FileKind::Directory | FileKind::CharDevice => {}
        FileKind::Symlink => content = volume.readlink(ino)?,
        _ => {
            content.resize(attr.size as usize, 0);
            let len = volume.read(&CALLER, ino, 0, &mut content)?;
            content.truncate(len);
        }
    }
    let xattr = match volume.getxattr(&CALLER, ino, XATTR) {
        Ok(value) => Some(value),
        Err(error) if error.code() == Code::NoAttribute => None,
        Err(error) => return Err(error),
    };
    Ok(StepEntry {
        kind: attr.kind,
        perm: attr.perm,
        links: attr.links,
        content,
        xattr,
        first_path: Vec::new(),
    })
}
