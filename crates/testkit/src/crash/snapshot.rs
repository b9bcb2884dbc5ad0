//! A whole tree at one time: names, attributes, content, extended attributes.

use lanefs::{Attr, Caller, FileKind, Ino, Volume};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// A file that takes most of a volume; its content is read only on request.
pub(super) const BALLAST_PATH: &[u8] = b"/ballast";
/// Largest file that a workload makes, with a margin: a larger size is an error, and must not fill memory.
const MOST_BYTES: u64 = 16 << 20;

/// Identity of an inode: its number and its generation.
pub(super) type InodeIdentity = (u64, u32);

/// The part of an inode that a crash leaves as it was after one operation, as a whole. Access times are left
/// out: no operation promises them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Meta {
    pub(super) identity: InodeIdentity,
    pub(super) kind: FileKind,
    pub(super) perm: u16,
    pub(super) links: u32,
    pub(super) owner: (u32, u32),
    pub(super) rdev: u64,
    /// 0 for directories, whose size the engine defines for itself.
    pub(super) size: u64,
    /// Of content, of the inode, of birth.
    pub(super) times: [i64; 3],
    pub(super) target: Vec<u8>,
    /// Length and hash of each: they may be large, and there are many trees.
    pub(super) xattrs: BTreeMap<Vec<u8>, (usize, u64)>,
}

/// An inode under one of its names.
#[derive(Clone, Debug)]
pub(super) struct SnapshotNode {
    pub(super) meta: Meta,
    /// Of a regular file, where it was read.
    pub(super) content: Option<Arc<[u8]>>,
    /// True where content may lie in the inode, so that it changes as metadata do.
    pub(super) inline: bool,
}

/// A tree.
#[derive(Clone, Debug)]
pub struct SnapshotTree {
    pub(super) nodes: BTreeMap<Vec<u8>, SnapshotNode>,
    /// Hash of everything but file content.
    pub(super) print: u64,
    /// File data have checksums, so their blocks are not overwritten in place.
    pub(super) summed: bool,
}

impl SnapshotTree {
    /// Reads the tree of `volume`. Content that is equal to that in `before` is shared with it. `ballast`:
    /// that file's content is read too.
    ///
    /// # Errors
    /// Those of the volume, and sizes that no workload makes.
    pub(super) fn of(
        volume: &Volume,
        before: Option<&SnapshotTree>,
        ballast: bool,
    ) -> Result<SnapshotTree, String> {
        let mut walk = Walk { volume, known: HashMap::new(), old: before.map(contents).unwrap_or_default() };
        let mut nodes = BTreeMap::new();
        let root = volume.root();
        nodes.insert(b"/".to_vec(), walk.node(root, b"/", false)?);
        let mut open = vec![(root, Vec::new())];
        while let Some((dir, path)) = open.pop() {
            let mut cookie = 0;
            loop {
                let page = volume
                    .readdir(&Caller::OWNER, dir, cookie, 128)
                    .map_err(|error| format!("listing {}: {error}", show(&path)))?;
                let Some(last) = page.last() else { break };
                cookie = last.cookie;
                for entry in page {
                    let mut full = path.clone();
                    full.push(b'/');
                    full.extend_from_slice(&entry.name);
                    let content = ballast || full != BALLAST_PATH;
                    let node = walk.node(entry.ino, &full, content)?;
                    if node.meta.kind != entry.kind {
                        return Err(format!("{}: its entry has another type", show(&full)));
                    }
                    if entry.kind == FileKind::Directory {
                        open.push((entry.ino, full.clone()));
                    }
                    if nodes.insert(full.clone(), node).is_some() {
                        return Err(format!("{}: is there twice", show(&full)));
                    }
                }
            }
        }
        let mut hasher = DefaultHasher::new();
        for (path, node) in &nodes {
            (path, &node.meta).hash(&mut hasher);
        }
        let summed = volume.superblock().has_data_checksums();
        Ok(SnapshotTree { nodes, print: hasher.finish(), summed })
    }
}

fn contents(tree: &SnapshotTree) -> HashMap<InodeIdentity, Arc<[u8]>> {
    let with = |node: &SnapshotNode| Some((node.meta.identity, node.content.clone()?));
    tree.nodes.values().filter_map(with).collect()
}

/// A hash of many bytes: quick, and good enough for bytes that no enemy makes.
fn digest(bytes: &[u8]) -> u64 {
    let (eights, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    eights.iter().chain([&last]).fold(bytes.len() as u64, |hash, eight| {
        (hash ^ u64::from_le_bytes(*eight)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

/// A name for people.
pub(super) fn show(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

struct Walk<'v> {
    volume: &'v Volume,
    /// Inodes visited under another name already.
    known: HashMap<Ino, SnapshotNode>,
    old: HashMap<InodeIdentity, Arc<[u8]>>,
}

impl Walk<'_> {
    fn node(&mut self, ino: Ino, path: &[u8], content: bool) -> Result<SnapshotNode, String> {
        if let Some(node) = self.known.get(&ino) {
            return Ok(node.clone());
        }
        let node = self.read(ino, content).map_err(|what| format!("{}: {what}", show(path)))?;
        if node.meta.links > 1 && node.meta.kind != FileKind::Directory {
            self.known.insert(ino, node.clone());
        }
        Ok(node)
    }

    fn read(&self, ino: Ino, content: bool) -> Result<SnapshotNode, String> {
        let text = |error: lanefs::Error| error.to_string();
        let attr = self.volume.getattr(ino).map_err(text)?;
        let mut xattrs = BTreeMap::new();
        for name in self.volume.listxattr(ino).map_err(text)? {
            let value = self.volume.getxattr(&Caller::OWNER, ino, &name).map_err(text)?;
            xattrs.insert(name, (value.len(), digest(&value)));
        }
        let target = match attr.kind {
            FileKind::Symlink => self.volume.readlink(ino).map_err(text)?,
            _ => Vec::new(),
        };
        let content = match attr.kind {
            FileKind::File if content => Some(self.content(&attr)?),
            _ => None,
        };
        let meta = Meta {
            identity: (attr.ino.0, attr.generation),
            kind: attr.kind,
            perm: attr.perm,
            links: attr.links,
            owner: (attr.uid, attr.gid),
            rdev: attr.rdev,
            size: if attr.kind == FileKind::Directory { 0 } else { attr.size },
            times: [attr.mtime.0, attr.ctime.0, attr.btime.0],
            target,
            xattrs,
        };
        Ok(SnapshotNode { meta, content, inline: attr.blocks == 0 && attr.size <= 160 })
    }

    fn content(&self, attr: &Attr) -> Result<Arc<[u8]>, String> {
        if attr.size > MOST_BYTES {
            return Err(format!("has {} bytes, more than any operation gave it", attr.size));
        }
        // Bytes that the volume does not fill must not pass for content.
        let mut bytes = vec![0xa5; attr.size as usize];
        let n =
            self.volume.read(&Caller::OWNER, attr.ino, 0, &mut bytes).map_err(|error| error.to_string())?;
        if n != bytes.len() {
            return Err(format!("reading gives {n} of {} bytes", bytes.len()));
        }
        match self.old.get(&(attr.ino.0, attr.generation)) {
            Some(old) if **old == bytes[..] => Ok(old.clone()),
            _ => Ok(bytes.into()),
        }
    }
}
