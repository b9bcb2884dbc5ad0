//! Real trees of the host: their size, and their import.

use crate::error::{Error, Result};
use crate::measure::stop::Stop;
use lanefs::Volume;
use lanefs_transfer::{Control, ImportOptions, Silent, import_tree};
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The tree that is imported where no other is named.
pub(crate) fn default_tree(quick: bool) -> PathBuf {
    PathBuf::from(if quick { "/usr/share/doc" } else { "/usr" })
}

/// Imports a tree, its own file system only, as `cp -ax` copies it. Returns the number of names.
pub(crate) fn import_into(
    volume: &Volume,
    source: &Path,
    to: &[u8],
    stop: &Stop,
) -> std::result::Result<u64, String> {
    let import = ImportOptions { one_file_system: true, ..ImportOptions::default() };
    let interrupt = || stop.is_set();
    let control = Control { interrupt: &interrupt, progress: &Silent };
    let report = import_tree(volume, source, to, &import, control).map_err(|e| e.to_string())?;
    // The peers do not copy an unreadable file or one that changes meanwhile either; an early end is a
    // failure.
    match report.stopped {
        Some(reason) => Err(reason.to_string()),
        None => Ok(report.counts.entries()),
    }
}

/// Counts of a tree.
#[derive(Debug, Default)]
pub(crate) struct TreeContent {
    pub(crate) names: u64,
    pub(crate) inodes: u64,
    /// Bytes of the files, in whole blocks.
    pub(crate) bytes: u64,
}

impl TreeContent {
    /// Walks and reads a tree, so that its size is known and it is in the host's cache for every system.
    pub(crate) fn of(source: &Path, stop: &Stop) -> Result<Self> {
        let top = fs::symlink_metadata(source).map_err(Error::host(source.display().to_string()))?;
        if !top.is_dir() {
            return Err(Error::Arguments(format!("--tree {}: not a directory", source.display())));
        }
        let mut content = TreeContent { names: 1, inodes: 1, bytes: 0 };
        let mut buffer = vec![0; 1 << 20];
        let mut waiting = vec![source.to_path_buf()];
        while let Some(directory) = waiting.pop() {
            stop.check()?;
            // Unreadable files are left to the systems under measurement, which report them.
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                let Ok(about) = entry.metadata() else { continue };
                content.names += 1;
                content.inodes += 1;
                if about.is_dir() && about.dev() == top.dev() {
                    waiting.push(entry.path());
                } else if about.is_file() {
                    content.bytes += about.len().next_multiple_of(4096);
                    let Ok(mut file) = fs::File::open(entry.path()) else { continue };
                    while file.read(&mut buffer).is_ok_and(|read| read > 0) {
                        stop.check()?;
                    }
                }
            }
        }
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_counted() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("d")).unwrap();
        fs::write(temp.path().join("d/f"), "12345").unwrap();
        std::os::unix::fs::symlink("nowhere", temp.path().join("l")).unwrap();
        let content = TreeContent::of(temp.path(), &Stop::default()).unwrap();
        assert_eq!((content.names, content.bytes), (4, 4096));
        assert!(TreeContent::of(&temp.path().join("d/f"), &Stop::default()).is_err());
        assert!(TreeContent::of(&temp.path().join("none"), &Stop::default()).is_err());
    }
}
