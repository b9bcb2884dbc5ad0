//! The volume that kernels are probed on: directories of every form, links, and paths whose answers are
//! known.

use crate::error::{Error, Result};
use crate::lookups::mirrored::Mirrored;
use crate::shared::query::PathResult;
use crate::twin::headers::dir_table::DirPath;
use crate::twin::kernels::walk::Requests;
use lanefs::format::{Code, FileKind, HashSeed};
use lanefs::{Caller, Ino, ResolveOptions, Volume};
use std::collections::HashMap;

/// Files of the large directory: several regions, so a tree.
pub(super) const MANY_FILES: usize = 4000;

/// The volume's hash seed, and two names that have the same hash with it: only a comparison of names tells
/// them apart.
pub(super) const SEED: [u8; 16] = [7; 16];
pub(super) const SAME_HASH: [&str; 2] = ["collision-0061688", "collision-0088900"];

/// Two names of the same hash in the directory cache, whose first twelve bytes are the same, too.
const SAME_IN_CACHE: [&str; 2] = ["cached-in-0305077", "cached-in-0341050"];

/// Paths whose answers are known.
pub(crate) struct KnownPaths {
    pub(super) paths: Vec<String>,
    pub(super) answers: Vec<PathResult>,
}

impl KnownPaths {
    fn expect(&mut self, path: impl Into<String>, code: Code, found: Option<(FileKind, Ino)>) {
        let (kind, ino) = found.map_or((0, 0), |(kind, ino)| (kind as u32, ino.0));
        self.paths.push(path.into());
        self.answers.push(PathResult { code, kind, ino });
    }

    fn found(&mut self, path: impl Into<String>, kind: FileKind, ino: Ino) {
        self.expect(path, Code::Success, Some((kind, ino)));
    }

    /// Fills a volume.
    pub(super) fn new(volume: &Volume) -> Result<KnownPaths> {
        let mut known = KnownPaths { paths: Vec::new(), answers: Vec::new() };
        let (caller, root) = (Caller::OWNER, volume.root());
        let file =
            |dir, name: &str| volume.create_file(&caller, dir, name.as_bytes(), 0o644).map(|attr| attr.ino);
        let mkdir = |dir, name: &str| volume.mkdir(&caller, dir, name.as_bytes(), 0o755).map(|attr| attr.ino);
        let link = |dir, name: &str, to: &str| {
            volume.symlink_at(&caller, dir, name.as_bytes(), to.as_bytes()).map(|attr| attr.ino)
        };
        let many = mkdir(root, "many")?;
        for number in 0..MANY_FILES {
            let name = match number % 2 {
                0 => format!("file {number}"),
                _ => format!("a file of many with the number {number:0width$}", width = number % 60),
            };
            // All of them: the lowest hash of a region shows a wrong step in the tree.
            known.found(format!("/many/{name}"), FileKind::File, file(many, &name)?);
            if number % 7 == 0 {
                known.expect(format!("/many/not {name}"), Code::NotFound, None);
            }
        }
        let [there, not_there] = SAME_HASH;
        known.found(format!("/many/{there}"), FileKind::File, file(many, there)?);
        known.expect(format!("/many/{not_there}"), Code::NotFound, None);
        for name in SAME_IN_CACHE {
            known.found(format!("/many/{name}"), FileKind::File, file(many, name)?);
        }
        for path in directories_of_one_hash(volume) {
            let dir = mkdir(root, path.trim_start_matches('/'))?;
            known.found(format!("{path}/file"), FileKind::File, file(dir, "file")?);
        }
        let few = mkdir(root, "few")?;
        known.found("//few/./../few/link", FileKind::Symlink, link(few, "link", "elsewhere")?);
        known.expect("/few/link/", Code::NotFound, None);
        known.found("few//", FileKind::Directory, few);
        known.found("/", FileKind::Directory, root);
        known.expect("", Code::NotFound, None);
        known.expect("/none/file", Code::ComponentNotFound, None);
        let one = file(few, "file")?;
        known.found("/few/file", FileKind::File, one);
        known.expect("/few/file/", Code::NotDirectory, None);
        known.expect("/few/file/more", Code::NotDirectory, None);
        known.expect(format!("/few/{}", "n".repeat(256)), Code::NotResident, None);
        let links = mkdir(root, "links")?;
        link(links, "m", "..")?;
        link(links, "n", "m/few/")?;
        known.found("/links/n/file", FileKind::File, one);
        known.found("/links/m/links/n/../few", FileKind::Directory, few);
        // Links are followed before the last component only, as the query says: 40 of them, to a directory.
        link(links, "1", "/few")?;
        for number in 2..=41 {
            link(links, &number.to_string(), &(number - 1).to_string())?;
        }
        known.found("/links/40/file", FileKind::File, one);
        known.expect("/links/41/file", Code::SymlinkLoop, None);
        Ok(known)
    }

    /// Resolves all paths; returns the work that lookups left to later kernels.
    pub(super) fn ask(&self, mirrored: &Mirrored<'_>, kernel: &'static str) -> Result<Requests> {
        let query = mirrored.query(&ResolveOptions { follow: false, ..ResolveOptions::default() });
        let (found, requests) = mirrored.lookup_directly(&query, &self.paths)?;
        for ((path, expected), found) in self.paths.iter().zip(&self.answers).zip(found) {
            if found != *expected {
                let size = query.inode_size.bytes();
                return wrong(
                    kernel,
                    format!("{path:?} with inodes of {size} B: {found:?}, not {expected:?}"),
                );
            }
        }
        Ok(requests)
    }
}

/// Returns the paths of two directories that have the same hash in the directory-path table.
fn directories_of_one_hash(volume: &Volume) -> [String; 2] {
    let (start, seed) = (volume.root().0, HashSeed::from_bytes(SEED));
    let mut seen = HashMap::new();
    for number in 0.. {
        let path = format!("/of one hash {number:07}");
        let hash = DirPath { start, path: path.as_bytes() }.hash(seed);
        if let Some(other) = seen.insert(hash, number) {
            return [format!("/of one hash {other:07}"), path];
        }
    }
    Default::default()
}

/// Reports a kernel that answered wrongly.
pub(super) fn wrong<T>(kernel: impl Into<String>, what: String) -> Result<T> {
    Err(Error::Wrong { kernel: kernel.into(), what })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twin::headers::name::ShortName;
    use lanefs::format::half_md4;

    #[test]
    fn two_names_have_the_same_hash() {
        let [one, other] = SAME_HASH.map(|name| half_md4(HashSeed::from_bytes(SEED), name.as_bytes()));
        assert_eq!(one, other);
        let hash = |name: &str| ShortName::new(HashSeed::from_bytes(SEED), name.as_bytes()).hash;
        assert_eq!(hash(SAME_IN_CACHE[0]), hash(SAME_IN_CACHE[1]));
        assert_eq!(SAME_IN_CACHE[0][..12], SAME_IN_CACHE[1][..12]);
    }
}
