//! The trees that a crash may leave.
//!
//! Metadata are a prefix: the tree is as after operation m, where m is no earlier than the last acknowledged
//! operation and no later than the last one begun. On a volume with checksums of file data content is as
//! after the same operation. On others content in blocks is looser: each sector of a file may be as it was
//! after any operation since the file's data were last made durable, because it is written in place. So a
//! sector is right when it equals that sector of the file in any of these snapshots, in its last block padded
//! with zeros. Any other bytes, another file's or those of free space, are an error.

use super::fill::explain;
use super::image::SECTOR;
use super::snapshot::{InodeIdentity, SnapshotNode, SnapshotTree, show};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// The trees that a crash at one cut may leave, in numbers of completed operations.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    /// Metadata are at least as after this operation.
    pub first: usize,
    /// Metadata are at most as after this operation.
    pub last: usize,
    /// Data of every file are at least as after this operation.
    pub(super) data: usize,
    /// Data of these inodes (numbers) are at least as after a later one.
    pub(super) files: Arc<HashMap<u64, usize>>,
}

/// Content that a file had from one snapshot to another, both included.
struct Version {
    first: usize,
    last: usize,
    bytes: Arc<[u8]>,
}

/// The snapshots of one recording.
pub struct Oracle {
    trees: Vec<SnapshotTree>,
    versions: HashMap<InodeIdentity, Vec<Version>>,
}

/// Most lines of each kind in a report.
const MOST_LINES: usize = 12;

impl Oracle {
    /// Creates an oracle from the trees after 0, 1, 2, ... operations.
    pub fn new(trees: Vec<SnapshotTree>) -> Self {
        let mut versions: HashMap<InodeIdentity, Vec<Version>> = HashMap::new();
        for (number, tree) in trees.iter().enumerate() {
            for node in tree.nodes.values() {
                let Some(content) = &node.content else { continue };
                let known = versions.entry(node.meta.identity).or_default();
                match known.last_mut() {
                    Some(version) if version.bytes == *content => version.last = number,
                    _ => known.push(Version { first: number, last: number, bytes: content.clone() }),
                }
            }
        }
        Oracle { trees, versions }
    }

    /// Returns the number of completed operations.
    pub fn operations(&self) -> usize {
        self.trees.len() - 1
    }

    /// Returns the number of an operation after which the volume may have had this tree.
    ///
    /// # Errors
    /// A report of the differences.
    pub fn judge(&self, found: &SnapshotTree, allowed: &Allowed) -> Result<usize, String> {
        let last = allowed.last.min(self.operations());
        let mut wrong_content = None;
        for number in allowed.first..=last {
            if self.trees[number].print != found.print {
                continue;
            }
            match self.content(number, found, allowed) {
                Ok(()) => return Ok(number),
                Err(what) => wrong_content = Some(format!("as after operation {number}, but {what}")),
            }
        }
        Err(wrong_content.unwrap_or_else(|| self.report(found, allowed.first, last)))
    }

    fn content(&self, number: usize, found: &SnapshotTree, allowed: &Allowed) -> Result<(), String> {
        for (path, node) in &found.nodes {
            let Some(bytes) = &node.content else { continue };
            // The digests are equal, so the same paths are there.
            let Some(expected) = self.trees[number].nodes.get(path) else { continue };
            let Some(known) = &expected.content else { continue };
            if known == bytes {
                continue;
            }
            let exact = expected.inline || found.summed;
            self.sectors(node, expected, exact, bytes, allowed)
                .map_err(|what| format!("{}: {what}", show(path)))?;
        }
        Ok(())
    }

    fn sectors(
        &self,
        node: &SnapshotNode,
        expected: &SnapshotNode,
        exact: bool,
        bytes: &[u8],
        allowed: &Allowed,
    ) -> Result<(), String> {
        let identity = node.meta.identity;
        let first = allowed.files.get(&identity.0).map_or(allowed.data, |own| allowed.data.max(*own));
        let versions: Vec<&Version> = self
            .versions
            .get(&identity)
            .into_iter()
            .flatten()
            .filter(|version| version.last >= first && version.first <= allowed.last)
            .collect();
        let exact = exact.then_some(expected.content.as_deref()).flatten();
        for (index, sector) in bytes.chunks(SECTOR).enumerate() {
            let at = index * SECTOR;
            let right = match exact {
                Some(known) => same(known, at, sector),
                None => versions.iter().any(|version| same(&version.bytes, at, sector)),
            };
            if !right {
                let mut text =
                    format!("its sector at byte {at} holds {}; allowed:", explain(sector, at as u64));
                for version in versions.iter().take(MOST_LINES) {
                    let part = version.bytes.get(at..).unwrap_or_default();
                    let part = &part[..part.len().min(SECTOR)];
                    let _ = write!(
                        text,
                        "\n  after operations {} to {}: {}",
                        version.first,
                        version.last,
                        explain(part, at as u64)
                    );
                }
                return Err(text);
            }
        }
        Ok(())
    }

    /// Describes a tree that is not that of any allowed operation.
    fn report(&self, found: &SnapshotTree, first: usize, last: usize) -> String {
        let mut text = format!("the tree is not as after any of operations {first} to {last}");
        if let Some(number) = self.trees.iter().position(|tree| tree.print == found.print) {
            let _ = write!(text, "; it is as after operation {number}");
            return text;
        }
        let nearest =
            (first..=last).map(|n| (n, differences(&self.trees[n], found))).min_by_key(|(_, d)| d.len());
        let Some((number, lines)) = nearest else { return text };
        let _ = write!(text, "; nearest is operation {number}, from which it differs in:");
        for line in lines.iter().take(MOST_LINES) {
            let _ = write!(text, "\n  {line}");
        }
        text
    }
}

/// Returns true where `sector`, at byte `at`, is as in `bytes`, whose last block is padded with zeros.
fn same(bytes: &[u8], at: usize, sector: &[u8]) -> bool {
    let end = at + sector.len();
    if end > bytes.len().next_multiple_of(4096) {
        return false;
    }
    let known = bytes.get(at..end.min(bytes.len())).unwrap_or_default();
    sector[..known.len()] == *known && sector[known.len()..].iter().all(|byte| *byte == 0)
}

fn differences(expected: &SnapshotTree, found: &SnapshotTree) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, node) in &expected.nodes {
        match found.nodes.get(path) {
            None => lines.push(format!("{}: missing", show(path))),
            Some(other) if other.meta != node.meta => {
                lines.push(format!("{}: {:?}\n    and not {:?}", show(path), other.meta, node.meta));
            }
            Some(_) => {}
        }
    }
    let foreign = found.nodes.keys().filter(|path| !expected.nodes.contains_key(*path));
    lines.extend(foreign.map(|path| format!("{}: is there", show(path))));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_that_was_overwritten_may_be_old_until_the_file_is_durable() -> lanefs::Result<()> {
        use lanefs::{Caller, CreateOptions, Volume};
        let volume = Volume::create_memory(&CreateOptions { size: 8 << 20, ..CreateOptions::default() })?;
        let tree =
            |volume: &Volume| SnapshotTree::of(volume, None, false).unwrap_or_else(|what| panic!("{what}"));
        let ino = volume.write_file("/f", vec![1; 9000])?.ino;
        let old = tree(&volume);
        volume.write(&Caller::OWNER, ino, 0, &vec![2; 9000])?;
        let new = tree(&volume);
        // The metadata are the new ones, and content differs as `change` says.
        let with = |change: &dyn Fn(&mut [u8])| {
            let mut tree = new.clone();
            let Some(node) = tree.nodes.get_mut(&b"/f"[..]) else { panic!("no file") };
            let mut bytes = node.content.as_deref().map(<[u8]>::to_vec).unwrap_or_default();
            change(&mut bytes);
            node.content = Some(bytes.into());
            tree
        };
        let oracle = Oracle::new(vec![old, new.clone()]);
        let allowed = Allowed { first: 1, last: 1, ..Allowed::default() };
        let file = Allowed { files: Arc::new(HashMap::from([(ino.0, 1)])), ..allowed.clone() };
        let other = Allowed { files: Arc::new(HashMap::from([(ino.0 + 1, 1)])), ..allowed.clone() };
        let all = Allowed { data: 1, ..allowed.clone() };
        let mixed = with(&|bytes| bytes[512..1024].fill(1));
        let half = with(&|bytes| bytes[600..1024].fill(1));
        let foreign = with(&|bytes| bytes[512..1024].fill(3));
        for (tree, rights) in [
            (&new, [true; 4]),
            (&mixed, [true, true, false, false]),
            (&half, [false; 4]),
            (&foreign, [false; 4]),
        ] {
            let seen = [&allowed, &other, &file, &all].map(|allowed| oracle.judge(tree, allowed).is_ok());
            assert_eq!(seen, rights);
        }
        Ok(())
    }

    #[test]
    fn a_sector_may_be_the_zeros_behind_the_end_in_the_last_block_but_not_behind_it() {
        let bytes = vec![7; 700];
        assert!(same(&bytes, 0, &[7; 512]));
        let mut mixed = [0; 512];
        mixed[..188].fill(7);
        assert!(same(&bytes, 512, &mixed) && !same(&bytes, 512, &[7; 512]));
        assert!(same(&bytes, 512, &[7; 100]), "a shorter file ends earlier");
        assert!(same(&bytes, 3584, &[0; 512]) && !same(&bytes, 4096, &[0; 512]));
    }
}
