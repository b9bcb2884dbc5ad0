//! The tree that all followers copy, and its changes.

use super::rows::CHANGED_ONE_OF;
use crate::error::{Error, Result};
use crate::measure::stop::{STRIDE, Stop};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Bytes of a file, which no compression makes smaller.
const FILE_BYTES: usize = 4096;
/// Files of a directory, and directories of the directory above.
pub(super) const FILES_PER_DIRECTORY: usize = 32;
const DIRECTORIES_TOGETHER: usize = 250;
/// Bytes that are appended to a file.
pub(super) const APPENDED_BYTES: usize = 100;

/// A tree of files of one size.
pub(super) struct FollowedTree {
    pub(super) dir: PathBuf,
    files: usize,
    random: SmallRng,
}

impl FollowedTree {
    pub(super) fn make(dir: PathBuf, files: usize, stop: &Stop) -> Result<FollowedTree> {
        let mut tree = FollowedTree { dir, files, random: SmallRng::seed_from_u64(1) };
        for file in 0..files {
            if file % FILES_PER_DIRECTORY == 0 {
                stop.check()?;
                let path = tree.directory(file / FILES_PER_DIRECTORY);
                fs::create_dir_all(&path).map_err(failed(&path))?;
            }
            tree.write(file)?;
        }
        Ok(tree)
    }

    pub(super) fn files(&self) -> usize {
        self.files
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        (self.files * FILE_BYTES) as u64
    }

    /// Files and directories, or some more.
    pub(super) fn inodes(&self) -> u64 {
        (self.files + self.files / FILES_PER_DIRECTORY * 2 + 10) as u64
    }

    fn directory(&self, number: usize) -> PathBuf {
        self.dir.join(format!("part-{:04}/directory-{number:06}", number / DIRECTORIES_TOGETHER))
    }

    fn path(&self, file: usize) -> PathBuf {
        self.directory(file / FILES_PER_DIRECTORY).join(format!("file-{file:08}.dat"))
    }

    /// Gives a file another content.
    fn write(&mut self, file: usize) -> Result<()> {
        let mut content = [0; FILE_BYTES];
        self.random.fill_bytes(&mut content);
        let path = self.path(file);
        fs::write(&path, content).map_err(failed(&path))
    }

    /// Gives one file of [`CHANGED_ONE_OF`] another content, others in each round; returns their bytes.
    pub(super) fn change(&mut self, round: usize, stop: &Stop) -> Result<u64> {
        let mut changed = 0;
        for (number, file) in (round % CHANGED_ONE_OF..self.files).step_by(CHANGED_ONE_OF).enumerate() {
            if number % STRIDE == 0 {
                stop.check()?;
            }
            self.write(file)?;
            changed += FILE_BYTES as u64;
        }
        Ok(changed)
    }

    /// Appends [`APPENDED_BYTES`] to a file, another one in each round.
    pub(super) fn append(&mut self, round: usize) -> Result<()> {
        let mut more = [0; APPENDED_BYTES];
        self.random.fill_bytes(&mut more);
        let path = self.path(self.files / 2 + round % FILES_PER_DIRECTORY);
        let file = File::options().append(true).open(&path);
        file.and_then(|mut file| file.write_all(&more)).map_err(failed(&path))
    }

    /// Renames a directory of [`DIRECTORIES_TOGETHER`] directories, or its name back in the next round.
    pub(super) fn rename(&mut self, round: usize) -> Result<()> {
        let (one, other) = (self.dir.join("part-0000"), self.dir.join("renamed"));
        let (from, to) = if round.is_multiple_of(2) { (&one, &other) } else { (&other, &one) };
        fs::rename(from, to).map_err(failed(from))
    }
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    Error::host(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_its_files_and_its_changes_are_as_large_as_told() {
        let temp = tempfile::tempdir().unwrap();
        let stop = Stop::default();
        let mut tree = FollowedTree::make(temp.path().join("tree"), 200, &stop).unwrap();
        let contents = |tree: &FollowedTree| -> Vec<_> {
            (0..tree.files()).map(|file| fs::read(tree.path(file)).unwrap()).collect()
        };
        let before = contents(&tree);
        assert_eq!((tree.bytes(), before.iter().map(Vec::len).sum::<usize>()), (200 * 4096, 200 * 4096));
        assert_eq!(tree.change(7, &stop).unwrap(), 2 * 4096);
        let after = contents(&tree);
        let changed: Vec<_> = (0..200).filter(|file| before[*file] != after[*file]).collect();
        assert_eq!(changed, [7, 107]);
        tree.append(3).unwrap();
        assert_eq!(contents(&tree).iter().map(Vec::len).sum::<usize>(), 200 * 4096 + APPENDED_BYTES);
        tree.rename(0).unwrap();
        assert!(tree.dir.join("renamed").is_dir() && !tree.path(0).exists());
        tree.rename(1).unwrap();
        assert!(tree.path(0).exists());
    }
}
