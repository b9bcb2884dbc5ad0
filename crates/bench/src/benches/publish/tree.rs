//! A tree of the host that is published, and a volume with the same files.

use super::rows::CHANGED;
use crate::error::{Error, Result};
use crate::measure::stop::Stop;
use crate::systems::peers::run_command;
use crate::systems::trees::{TreeContent, import_into};
use crate::systems::walk::WalkedFiles;
use lanefs::{Access, CreateOptions, OpenOptions, PathSet, Volume};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A copy of a tree, which may change, and a volume with the same files.
pub(super) struct SourceTree {
    pub(super) dir: PathBuf,
    pub(super) image: PathBuf,
    pub(super) names: u64,
    /// The files in the order of their paths, with their sizes.
    files: Vec<(Vec<u8>, u64)>,
    /// The same, by size.
    by_size: Vec<usize>,
}

impl SourceTree {
    pub(super) fn make(source: &Path, temp: &Path, stop: &Stop) -> Result<SourceTree> {
        let content = TreeContent::of(source, stop)?;
        let (dir, image) = (temp.join("tree"), temp.join("tree.lane"));
        run_command("cp", &["-ax", &source.to_string_lossy(), &dir.to_string_lossy()], stop)?;
        let size = (content.bytes + content.inodes * 1024) / 2 * 3 + (256 << 20);
        let options = CreateOptions { size, ..CreateOptions::default() };
        let volume = Volume::create(&image, &options).map_err(Error::volume("making a volume"))?;
        let names = import_into(&volume, &dir, b"/", stop).map_err(Error::Import)?;
        let files: Vec<_> = WalkedFiles::new(&volume).map(|file| (file.path, file.size)).collect();
        volume.close().map_err(Error::volume("closing"))?;
        let mut by_size: Vec<usize> = (0..files.len()).collect();
        by_size.sort_by_key(|file| files[*file].1);
        Ok(SourceTree { dir, image, names, files, by_size })
    }

    /// Directory of restic's cache.
    pub(super) fn restic_cache(&self) -> PathBuf {
        self.image.with_extension("restic")
    }

    /// Number of files.
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, size)| size).sum()
    }

    /// Path and size of each file.
    pub(super) fn files(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.files.iter().map(|(path, size)| (&path[..], *size))
    }

    /// The paths of some files.
    pub(super) fn paths(&self, files: &[usize]) -> PathSet {
        files.iter().map(|file| &self.files[*file].0).collect()
    }

    /// Opens the volume for reading.
    pub(super) fn open(&self) -> Result<Volume> {
        Volume::open(&self.image, Access::Read).map_err(Error::volume("opening"))
    }

    /// Gives one file of a hundred another content of the same length and the same entropy, in the directory
    /// and in the volume; others in each round. They are taken evenly by size. Returns their bytes.
    pub(super) fn change(&self, round: usize, stop: &Stop) -> Result<u64> {
        let volume = Volume::open(&self.image, OpenOptions::from(Access::Write));
        let volume = volume.map_err(Error::volume("opening"))?;
        let mut changed = 0;
        for file in self.by_size.iter().skip(round % CHANGED).step_by(CHANGED) {
            stop.check()?;
            let path = &self.files[*file].0;
            let host = self.dir.join(std::ffi::OsStr::from_bytes(path.strip_prefix(b"/").unwrap_or(path)));
            let failed = || Error::host(host.display().to_string());
            let mut content = fs::read(&host).map_err(failed())?;
            content.iter_mut().for_each(|byte| *byte ^= 1 + (round % 255) as u8);
            fs::write(&host, &content).map_err(failed())?;
            volume.write_file(path, &content).map_err(Error::volume("write_file"))?;
            changed += content.len() as u64;
        }
        volume.close().map_err(Error::volume("closing"))?;
        Ok(changed)
    }
}
