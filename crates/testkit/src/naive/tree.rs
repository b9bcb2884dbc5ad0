//! The whole tree.

use super::acl;
use super::blocks::Naive;
use super::file_map::FileMap;
use super::inode::{DIRECTORY, FILE, Inode, LINK};
use super::{Read, ensure};
use std::collections::BTreeMap;

/// Flag of the orphan directory: it may not list all inodes without a name.
const UNLISTED: u16 = 4;

/// An inode under one of its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Inode number.
    pub ino: u64,
    /// `st_mode`.
    pub mode: u16,
    /// Number of names; of directories two and one for each subdirectory.
    pub links: u32,
    /// User and group.
    pub owner: (u32, u32),
    /// Size in bytes; 0 for directories.
    pub size: u64,
    /// Device number.
    pub rdev: u64,
    /// Times of content, of the inode, of access and of birth, in nanoseconds since 1970.
    pub times: [i64; 4],
    /// Generation.
    pub generation: u32,
    /// Blocks of 4 KiB that it owns.
    pub blocks: u64,
    /// Extended attributes.
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Content of a file or target of a link outside of holes, in order: offset and bytes.
    pub content: Vec<(u64, Vec<u8>)>,
}

/// All entries of a volume by path; that of the root is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// The entries.
    pub entries: BTreeMap<Vec<u8>, Entry>,
}

/// A directory to be visited.
struct Open {
    path: Vec<u8>,
    number: u64,
    parent: u64,
}

impl Naive<'_> {
    /// Reads and checks everything.
    ///
    /// # Errors
    /// The first contradiction to the document, with the path or the position where it is.
    pub fn tree(&self) -> Result<Tree, String> {
        self.claim_system()?;
        let mut tree = Tree::default();
        let root = self.superblock.root;
        let mut open = vec![Open { path: Vec::new(), number: root, parent: root }];
        self.name(root);
        while let Some(dir) = open.pop() {
            let shown = String::from_utf8_lossy(&dir.path).into_owned();
            self.visit_directory(&dir, &mut tree, &mut open).map_err(|text| format!("{shown}: {text}"))?;
        }
        self.visit_orphans().map_err(|text| format!("orphan directory: {text}"))?;
        self.check_links(&tree)?;
        self.check_space()?;
        let (recorded, inodes) = (self.superblock.inodes, self.visited.borrow().len() as u64);
        ensure(!self.superblock.clean || recorded == inodes, || {
            format!("the superblock says {recorded} inodes, and {inodes} are in use")
        })?;
        Ok(tree)
    }

    /// Counts a name of an inode. Returns true for its first.
    fn name(&self, number: u64) -> bool {
        let mut visited = self.visited.borrow_mut();
        let names = visited.entry(number).or_insert(0);
        *names += 1;
        *names == 1
    }

    fn visit_directory(&self, dir: &Open, tree: &mut Tree, open: &mut Vec<Open>) -> Read<()> {
        let inode = self.inode(dir.number)?;
        ensure(inode.kind() == DIRECTORY, || "is not a directory".to_owned())?;
        ensure(inode.parent_or_device() == dir.parent, || "another parent".to_owned())?;
        let (directory, blocks) = self.directory(&inode)?;
        let mut subdirectories = 0;
        for entry in directory.entries.values().filter(|entry| !entry.is_dummy()) {
            let mut path = dir.path.clone();
            path.push(b'/');
            path.extend_from_slice(&entry.name);
            let shown = String::from_utf8_lossy(&path).into_owned();
            let is_directory = u16::from(entry.kind) == DIRECTORY;
            let first = self.name(entry.inode);
            if is_directory {
                subdirectories += 1;
                ensure(first, || format!("{shown}: a second name of a directory"))?;
                open.push(Open { path, number: entry.inode, parent: dir.number });
                continue;
            }
            let below = self.inode(entry.inode).map_err(|text| format!("{shown}: {text}"))?;
            ensure(below.kind() == u16::from(entry.kind), || format!("{shown}: its entry has another type"))?;
            let node = self.node(&below, 0, first).map_err(|text| format!("{shown}: {text}"))?;
            tree.entries.insert(path, node);
        }
        ensure(inode.links() == 2 + subdirectories, || format!("{} links", inode.links()))?;
        tree.entries.insert(dir.path.clone(), self.node(&inode, blocks, true)?);
        Ok(())
    }

    /// An inode's attributes and content. Its blocks are claimed at its first name.
    fn node(&self, inode: &Inode, more_blocks: u64, first: bool) -> Read<Entry> {
        let (mut attributes, mut owned) = (BTreeMap::new(), more_blocks);
        if first {
            let map = if inode.is_inline() { FileMap::default() } else { self.file_map(inode)? };
            let (found, blocks) = self.attributes(inode)?;
            acl::check(inode, &found)?;
            owned += self.claim_map(inode, &map)? + blocks;
            ensure(inode.blocks() == owned, || format!("owns {owned} blocks, not {}", inode.blocks()))?;
            attributes = found;
        }
        let has_content = matches!(inode.kind(), FILE | LINK);
        Ok(Entry {
            ino: inode.number,
            mode: inode.mode(),
            links: inode.links(),
            owner: inode.owner(),
            size: if inode.kind() == DIRECTORY { 0 } else { inode.size() },
            rdev: if matches!(inode.kind(), 2 | 6) { inode.parent_or_device() } else { 0 },
            times: inode.times(),
            generation: inode.generation(),
            blocks: inode.blocks(),
            attributes,
            content: if has_content { self.content(inode)? } else { Vec::new() },
        })
    }

    /// The orphan directory: each entry's name is the number of its inode.
    fn visit_orphans(&self) -> Read<()> {
        let number = self.superblock.orphans;
        let inode = self.inode(number)?;
        ensure(inode.parent_or_device() == number && inode.links() == 2, || "links or parent".to_owned())?;
        let (directory, blocks) = self.directory(&inode)?;
        self.name(number);
        self.node(&inode, blocks, true)?;
        for entry in directory.entries.values().filter(|entry| !entry.is_dummy()) {
            let good = entry.name == format!("{:x}", entry.inode).as_bytes();
            ensure(good, || format!("an entry of inode {}", entry.inode))?;
            if entry.inode != number {
                ensure(!self.superblock.clean, || format!("inode {} on a closed volume", entry.inode))?;
                ensure(self.name(entry.inode), || format!("inode {} has a name", entry.inode))?;
                self.visit_listed(entry.inode)?;
            }
        }
        if inode.flags() & UNLISTED != 0 {
            ensure(!self.superblock.clean, || "not all are listed".to_owned())?;
            for unlisted in self.inodes_in_use()? {
                if self.inode(unlisted)?.links() == 0 && self.name(unlisted) {
                    self.visit_listed(unlisted)?;
                }
            }
        }
        Ok(())
    }

    /// An inode without a name.
    fn visit_listed(&self, number: u64) -> Read<()> {
        let listed = self.inode(number)?;
        ensure(listed.links() == 0, || format!("inode {number} has {} links", listed.links()))?;
        let mut blocks = 0;
        if listed.kind() == DIRECTORY {
            let (directory, more) = self.directory(&listed)?;
            let names = directory.entries.values().any(|entry| !entry.is_dummy());
            let alone = !names && listed.parent_or_device() == number;
            ensure(alone, || format!("directory {number} has names or a parent"))?;
            blocks = more;
        }
        self.node(&listed, blocks, true).map(drop)
    }

    fn check_links(&self, tree: &Tree) -> Read<()> {
        let visited = self.visited.borrow();
        for (path, entry) in tree.entries.iter().filter(|(_, entry)| entry.mode >> 12 != DIRECTORY) {
            let names = visited.get(&entry.ino).copied().unwrap_or(0);
            ensure(u64::from(entry.links) == names, || {
                format!("{}: {} links and {names} names", String::from_utf8_lossy(path), entry.links)
            })?;
        }
        Ok(())
    }
}
