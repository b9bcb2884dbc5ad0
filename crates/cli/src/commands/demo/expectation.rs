//! Results that the demo expects from the volume.

use lanefs::{FileKind, path};
use lanefs_transfer::{FileId, Item};
use std::collections::{HashMap, HashSet};

/// Paths that the comparisons leave out, with all paths below them.
#[derive(Default)]
pub(super) struct LeftOut(HashSet<Vec<u8>>);

impl LeftOut {
    /// Leaves out a path.
    pub(super) fn add(&mut self, path: &[u8]) {
        self.0.insert(path.strip_prefix(b"/").unwrap_or(path).to_vec());
    }

    /// True for a path that is left out.
    pub(super) fn covers(&self, path: &[u8]) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        ends.chain([path.len()]).any(|end| self.0.contains(&path[..end]))
    }
}

/// Paths to resolve: those of all items, then as many that do not exist. Of four, two have a longer name, one
/// is below a missing directory, and one below the item itself, which need not be a directory.
pub(super) fn paths_to_resolve(items: &[Item]) -> Vec<Vec<u8>> {
    let of = |item: &Item| if item.path.is_empty() { b".".to_vec() } else { item.path.clone() };
    let mut paths: Vec<Vec<u8>> = items.iter().map(of).collect();
    for (i, item) in items.iter().enumerate() {
        let mut path = of(item);
        path.extend_from_slice(match i % 4 {
            0 | 1 => b".lanefs-absent",
            2 => b".lanefs-absent/below",
            // A link out of the tree has another target in the volume than on the host.
            _ if item.kind == FileKind::Symlink => b".lanefs-absent",
            _ => b"/.lanefs-absent",
        });
        paths.push(path);
    }
    paths
}

/// Link count that each file must have in the volume: its names within the tree, although the host may have
/// others. A directory has its name, its `.` and the `..` of each subdirectory.
pub(super) fn expected_links(items: &[Item]) -> HashMap<FileId, u32> {
    let mut links = HashMap::new();
    let mut directories = HashMap::new();
    for item in items {
        if item.kind == FileKind::Directory {
            directories.insert(&item.path[..], item.id);
            *links.entry(item.id).or_insert(0) += 2;
        } else {
            *links.entry(item.id).or_insert(0) += 1;
        }
    }
    for item in items.iter().filter(|item| item.kind == FileKind::Directory && !item.path.is_empty()) {
        if let Some(parent) = path::parent(&item.path).and_then(|parent| directories.get(parent)) {
            *links.entry(*parent).or_insert(0) += 1;
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanefs::Time;

    fn item(path: &str, ino: u64, kind: FileKind) -> Item {
        let id = FileId { dev: 1, ino };
        Item { path: path.into(), id, kind, perm: 0, uid: 0, gid: 0, size: 0, mtime: Time(0) }
    }

    #[test]
    fn links_are_those_within_the_tree() {
        let (dir, file) = (FileKind::Directory, FileKind::File);
        let items = [
            item("", 1, dir),
            item("a", 2, dir),
            item("a/b", 3, dir),
            item("f", 4, file),
            item("a/f", 4, file),
        ];
        let links = expected_links(&items);
        let of = |ino| links[&FileId { dev: 1, ino }];
        assert_eq!([of(1), of(2), of(3), of(4)], [3, 3, 2, 2]);
    }

    #[test]
    fn what_is_below_a_left_out_directory_is_left_out() {
        let mut left_out = LeftOut::default();
        assert!(!left_out.covers(b"a"));
        left_out.add(b"/a/b");
        assert!(left_out.covers(b"a/b") && left_out.covers(b"a/b/c") && !left_out.covers(b"a/bc"));
    }

    #[test]
    fn half_of_the_paths_do_not_exist() {
        let paths = paths_to_resolve(&[item("", 1, FileKind::Directory), item("x", 2, FileKind::File)]);
        assert_eq!(paths.len(), 4);
        assert_eq!((&paths[0][..], &paths[1][..]), (&b"."[..], &b"x"[..]));
    }
}
