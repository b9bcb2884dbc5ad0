//! The directories of a tree with their sizes: the largest ones, in bounded memory.

use crate::common::usage::{Usage, allocated};
use crate::common::walk::{Visit, Walk, WalkOptions};
use crate::session::context::Context;
use crate::terminal::failure::Failure;
use crate::terminal::progress::Progress;
use lanefs::{Code, FileKind};

/// Directories that are kept. Smaller ones are merged.
const MAX_DIRECTORIES: usize = 2000;

/// A directory with all that is below it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Directory {
    /// Its name; of the first one the path.
    pub(super) name: Vec<u8>,
    /// Bytes of all that is in it.
    pub(super) bytes: u64,
    /// Bytes of itself and of its files; at the greatest depth also of the directories below.
    pub(super) own: u64,
    /// Directories in it, the largest first.
    pub(super) below: Vec<Directory>,
    /// Directories in it that are merged.
    pub(super) merged: Merged,
    /// Directories below it that are kept.
    kept: usize,
}

/// Directories of which only the sum is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Merged {
    pub(super) directories: u64,
    pub(super) bytes: u64,
}

impl Merged {
    pub(super) fn add(&mut self, directory: &Directory) {
        self.directories += 1;
        self.bytes = self.bytes.saturating_add(directory.bytes);
    }
}

impl Directory {
    /// Measures the directories below `path`, down to `depth`.
    ///
    /// # Errors
    /// Names the path. A directory that cannot be read is reported to the context.
    pub(super) fn measure(context: &mut Context<'_>, path: &[u8], depth: usize) -> Result<Self, Failure> {
        let start = context.resolve(path, true)?;
        if start.kind != FileKind::Directory {
            return Err(Failure::code(path, Code::NotDirectory));
        }
        let mut progress = Progress::new("counted");
        let mut walk = Walk::new(context.volume, path, start.ino, start.kind, WalkOptions::default());
        let mut usage = Usage::default();
        let mut open = OpenDirectories { open: Vec::new(), limit: MAX_DIRECTORIES };
        while let Some(step) = walk.advance(context)? {
            if step.visit == Visit::Leave {
                continue;
            }
            // A file belongs to the directory above it; one that is too deep to the last one that is kept.
            open.close_to(step.depth.min(depth + 1));
            progress.tick();
            let Some(own) = usage.own_bytes(context, &walk, step, allocated)? else { continue };
            if step.kind == FileKind::Directory && step.depth <= depth {
                let name = if step.depth == 0 { path } else { walk.name() };
                open.open.push(Directory { name: name.to_vec(), ..Directory::default() });
            }
            open.add(own);
        }
        open.close_to(1);
        let mut root = open.open.pop().unwrap_or_default();
        root.finish(MAX_DIRECTORIES);
        Ok(root)
    }

    /// Computes the sum, sorts, and merges all directories but the `limit` largest ones.
    fn finish(&mut self, limit: usize) {
        let below = self.below.iter().fold(self.merged.bytes, |sum, one| sum.saturating_add(one.bytes));
        self.bytes = self.own.saturating_add(below);
        self.prune(limit);
        self.below.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    }

    /// Merges all directories but the `limit` largest ones.
    fn prune(&mut self, limit: usize) {
        if self.kept <= limit {
            return;
        }
        let mut sizes = Vec::with_capacity(self.kept);
        self.collect_sizes(&mut sizes);
        // A directory is as large as one below it, or larger: so those that are kept are a tree.
        let (larger, least, _) = sizes.select_nth_unstable_by(limit.saturating_sub(1), |a, b| b.cmp(a));
        let least = *least;
        let mut equal = limit - larger.iter().filter(|size| **size > least).count();
        self.merge_below(least, &mut equal);
    }

    fn collect_sizes(&self, sizes: &mut Vec<u64>) {
        for one in &self.below {
            sizes.push(one.bytes);
            one.collect_sizes(sizes);
        }
    }

    /// Merges directories that are smaller than `least`; of those of that size `equal` are kept.
    fn merge_below(&mut self, least: u64, equal: &mut usize) {
        let Directory { below, merged, .. } = self;
        below.retain_mut(|one| {
            let is_kept = one.bytes > least || one.bytes == least && *equal > 0;
            if is_kept {
                *equal -= usize::from(one.bytes == least);
                one.merge_below(least, equal);
            } else {
                merged.add(one);
            }
            is_kept
        });
        self.kept = self.below.iter().map(|one| one.kept + 1).sum();
    }
}

/// The directories that the walk is inside, the outermost first.
struct OpenDirectories {
    open: Vec<Directory>,
    limit: usize,
}

impl OpenDirectories {
    /// Adds bytes to the innermost directory.
    fn add(&mut self, bytes: u64) {
        if let Some(directory) = self.open.last_mut() {
            directory.own = directory.own.saturating_add(bytes);
        }
    }

    /// Closes directories until `depth` are open, or one.
    fn close_to(&mut self, depth: usize) {
        while self.open.len() > depth.max(1)
            && let Some(mut closed) = self.open.pop()
        {
            closed.finish(self.limit);
            if let Some(above) = self.open.last_mut() {
                above.kept += closed.kept + 1;
                above.below.push(closed);
                // Twice as many, so that it is not pruned again and again.
                if above.kept > 2 * self.limit {
                    above.prune(self.limit);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Closes directories of these depths and sizes, in the order of a walk.
    fn tree(limit: usize, walk: &[(usize, u64)]) -> Directory {
        let mut open = OpenDirectories { open: Vec::new(), limit };
        for (number, (depth, bytes)) in walk.iter().enumerate() {
            open.close_to(*depth);
            open.open.push(Directory { name: number.to_string().into_bytes(), ..Directory::default() });
            open.add(*bytes);
        }
        open.close_to(1);
        let mut root = open.open.pop().unwrap_or_default();
        root.finish(limit);
        root
    }

    fn kept(directory: &Directory) -> usize {
        directory.below.iter().map(|one| kept(one) + 1).sum()
    }

    /// The sum of the parts, which must be that of the whole.
    fn check(directory: &Directory) {
        let parts: u64 = directory.below.iter().map(|one| one.bytes).sum();
        assert_eq!(directory.own + parts + directory.merged.bytes, directory.bytes, "{directory:?}");
        assert!(directory.below.is_sorted_by(|a, b| a.bytes >= b.bytes), "{directory:?}");
        directory.below.iter().for_each(check);
    }

    #[test]
    fn sizes_add_up() {
        let root = tree(100, &[(0, 1), (1, 10), (2, 100), (2, 200), (1, 1000), (2, 5)]);
        check(&root);
        assert_eq!(root.bytes, 1316);
        let names = |directory: &Directory| -> Vec<String> {
            directory.below.iter().map(|one| String::from_utf8_lossy(&one.name).into_owned()).collect()
        };
        assert_eq!(
            (names(&root), names(&root.below[1])),
            (vec!["4".into(), "1".into()], vec!["3".into(), "2".into()])
        );
    }

    #[test]
    fn only_the_largest_are_kept() {
        // Of the same size, of different ones, and deep ones that are larger than others at the top.
        for sizes in [|_| 4096, |i: usize| i as u64 * 7919 % 1009, |_| 0] {
            let mut walk = vec![(0, 0)];
            walk.extend((0..5000).map(|i| (1 + i % 3, sizes(i))));
            let root = tree(50, &walk);
            check(&root);
            assert_eq!(kept(&root), 50);
            assert_eq!(root.bytes, walk.iter().map(|(_, bytes)| bytes).sum::<u64>());
        }
        let root = tree(2, &[(0, 0), (1, 5), (1, 100), (2, 90), (1, 7), (1, 6)]);
        assert_eq!((root.below.len(), root.below[0].below.len()), (1, 1));
        assert_eq!(root.merged, Merged { directories: 3, bytes: 18 });
    }
}
