//! A volume's whole tree, and the difference of two.

use lanefs::{Caller, FileKind, Ino, SetAttr, Time, Volume};
use std::collections::{BTreeMap, HashMap};

const CALLER: Caller = Caller::OWNER;

/// A time before all tests: directories have it until their content changes.
const LONG_AGO: Time = Time(1_000_000_000);

/// The file of a path. Inode numbers and times are each volume's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    kind: FileKind,
    perm: u16,
    links: u32,
    owner: (u32, u32),
    rdev: u64,
    /// Of a file its content, of a link its target.
    content: Vec<u8>,
    /// Of an inode with several names the first one.
    same_as: Option<Vec<u8>>,
    /// The content of a directory has changed since the last [`age`].
    is_changed: bool,
}

/// All paths.
pub(crate) type Tree = BTreeMap<Vec<u8>, Node>;

/// A tree as it is seen from outside: by listing, and by looking up each name that is listed.
pub(crate) fn tree(volume: &Volume) -> Result<Tree, String> {
    let mut tree = Tree::new();
    let mut names: HashMap<Ino, Vec<Vec<u8>>> = HashMap::new();
    let root = volume.root();
    tree.insert(b"/".to_vec(), node(volume, root, b"/")?);
    let mut pending = vec![(root, Vec::new())];
    while let Some((dir, above)) = pending.pop() {
        let mut cookie = 0;
        loop {
            let page = volume.readdir(&CALLER, dir, cookie, 500).map_err(|error| at(&above, &error))?;
            let Some(last) = page.last() else { break };
            cookie = last.cookie;
            for entry in page {
                let path = [&above[..], b"/", &entry.name].concat();
                let found = volume.lookup(&CALLER, dir, &entry.name).map_err(|error| at(&path, &error))?;
                if found != (entry.ino, entry.kind) {
                    return Err(at(&path, &"is listed as another one than is found"));
                }
                let node = node(volume, entry.ino, &path)?;
                if node.kind != entry.kind {
                    return Err(at(&path, &"its entry has another type"));
                }
                if node.kind == FileKind::Directory {
                    let up = volume.lookup(&CALLER, entry.ino, b"..").map_err(|error| at(&path, &error))?;
                    if up.0 != dir {
                        return Err(at(&path, &"its parent is another one"));
                    }
                    pending.push((entry.ino, path.clone()));
                }
                if node.kind != FileKind::Directory && node.links > 1 {
                    names.entry(entry.ino).or_default().push(path.clone());
                }
                if tree.insert(path.clone(), node).is_some() {
                    return Err(at(&path, &"is listed twice"));
                }
            }
        }
    }
    for paths in names.values() {
        for path in paths {
            if let Some(node) = tree.get_mut(path) {
                node.same_as = paths.iter().min().cloned();
            }
        }
    }
    Ok(tree)
}

fn at(path: &[u8], what: &dyn std::fmt::Display) -> String {
    format!("/{}: {what}", path.strip_prefix(b"/").unwrap_or(path).escape_ascii())
}

fn node(volume: &Volume, ino: Ino, path: &[u8]) -> Result<Node, String> {
    let failed = |error: lanefs::Error| at(path, &error);
    let attr = volume.getattr(ino).map_err(failed)?;
    let mut content = Vec::new();
    match attr.kind {
        FileKind::File => {
            content.resize(attr.size as usize, 0);
            let read = volume.read(&CALLER, ino, 0, &mut content).map_err(failed)?;
            if read != content.len() {
                return Err(at(path, &format!("{read} bytes of {}", content.len())));
            }
        }
        FileKind::Symlink => content = volume.readlink(ino).map_err(failed)?,
        _ => {}
    }
    Ok(Node {
        kind: attr.kind,
        perm: attr.perm,
        links: attr.links,
        owner: (attr.uid, attr.gid),
        rdev: attr.rdev,
        content,
        same_as: None,
        is_changed: attr.kind == FileKind::Directory && attr.mtime != LONG_AGO,
    })
}

/// The first difference, in words.
pub(crate) fn difference(wanted: &Tree, found: &Tree) -> Option<String> {
    for path in wanted.keys().chain(found.keys()) {
        match (wanted.get(path), found.get(path)) {
            (Some(wanted), Some(found)) if wanted == found => {}
            (Some(wanted), Some(found)) => return Some(at(path, &format!("{found:?}, not {wanted:?}"))),
            (Some(_), None) => return Some(at(path, &"is not there")),
            _ => return Some(at(path, &"is there and should not be")),
        }
    }
    None
}

/// Directories whose content has changed are made old again, so that the next change is seen.
pub(crate) fn age(volume: &Volume, tree: &Tree) -> lanefs::Result<()> {
    let long_ago = SetAttr { mtime: Some(LONG_AGO), ..SetAttr::default() };
    for (path, _) in tree.iter().filter(|(_, node)| node.is_changed) {
        let dir = volume.resolve_no_follow(path)?.ino;
        volume.setattr(&CALLER, dir, &long_ago)?;
    }
    Ok(())
}
