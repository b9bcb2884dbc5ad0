//! The tree on which people's programs run, made once outside of all systems, and its archive.

use crate::error::{Error, Result};
use crate::measure::stop::{STRIDE, Stop};
use crate::systems::peers::run_command;
use crate::systems::temporary::temp_dir;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A word that one file of [`NEEDLES_ONE_OF`] has.
pub(super) const NEEDLE: &str = "needle";
const NEEDLES_ONE_OF: usize = 8;

/// Files of a directory, and directories of the directory above.
const FILES_PER_DIRECTORY: usize = 12;
const DIRECTORIES_TOGETHER: usize = 40;

/// Lines of the smallest file, and more at most.
const LINES: usize = 8;
const MORE_LINES: usize = 80;

/// Transactions of the mix of `sqlite3`.
const TRANSACTIONS: usize = 200;

/// An archive of a tree, and what is known of the tree.
pub(super) struct SampleTree {
    temp: TempDir,
    pub(super) files: usize,
    pub(super) links: usize,
    /// Files, links and directories, with the top one.
    pub(super) entries: usize,
    /// Files with the [`NEEDLE`].
    pub(super) needles: usize,
    pub(super) bytes: u64,
}

impl SampleTree {
    /// Makes the tree `tree` of `files` text files with a symbolic link in each directory, its archive, and
    /// the statements for `sqlite3`.
    pub(super) fn make(files: usize, stop: &Stop) -> Result<SampleTree> {
        let temp = temp_dir()?;
        let mut source = SampleTree { temp, files, links: 0, entries: 1, needles: 0, bytes: 0 };
        let top = source.temp.path().join("tree");
        let mut parts = 0;
        for number in 0..files {
            let directory = number / FILES_PER_DIRECTORY;
            let part = directory / DIRECTORIES_TOGETHER;
            let dir = top.join(format!("part-{part:03}/directory-{directory:04}"));
            let path = dir.join(format!("file-{number:05}.txt"));
            if number % STRIDE == 0 {
                stop.check()?;
            }
            if number % FILES_PER_DIRECTORY == 0 {
                fs::create_dir_all(&dir).map_err(failed(&dir))?;
                let link = dir.join("first");
                symlink(path.file_name().unwrap_or_default(), &link).map_err(failed(&link))?;
                source.links += 1;
                source.entries += 2 + usize::from(parts == part);
                parts = part + 1;
            }
            let text = text(number);
            source.needles += usize::from(text.contains(NEEDLE));
            source.bytes += text.len() as u64;
            source.entries += 1;
            fs::write(&path, text).map_err(failed(&path))?;
        }
        let (archive, home) = (source.archive(), source.temp.path().to_string_lossy().into_owned());
        run_command("tar", &["cf", &archive.to_string_lossy(), "-C", &home, "tree"], stop)?;
        fs::remove_dir_all(&top).map_err(failed(&top))?;
        fs::write(source.statements(), statements()).map_err(failed(&source.statements()))?;
        Ok(source)
    }

    /// The archive of the tree.
    pub(super) fn archive(&self) -> PathBuf {
        self.temp.path().join("tree.tar")
    }

    /// The statements of the mix of transactions.
    pub(super) fn statements(&self) -> PathBuf {
        self.temp.path().join("mix.sql")
    }
}

/// The text of a file.
fn text(number: usize) -> String {
    let mut text = String::new();
    for line in 0..LINES + number * 31 % MORE_LINES {
        let _ = writeln!(text, "line {line} of file {number}: {}", number.wrapping_mul(line) % 9_973);
    }
    if number.is_multiple_of(NEEDLES_ONE_OF) {
        let _ = writeln!(text, "and a {NEEDLE}");
    }
    text
}

/// Inserts, reads, changes and removals, each group of them a transaction with the default journal.
fn statements() -> String {
    let mut text = String::from("create table t(id integer primary key, name text, size integer);\n");
    for number in 0..TRANSACTIONS {
        let (id, old) = (number * 10, number * 5);
        text += "begin;\n";
        for row in id..id + 10 {
            let _ = writeln!(text, "insert into t values({row}, 'name-{row}', {});", row * 7 % 1_000);
        }
        let _ = writeln!(text, "update t set size = size + 1 where id = {old};");
        let _ = writeln!(text, "delete from t where id = {};\ncommit;", old + 3);
        let _ = writeln!(text, "select count(*) from t where size > {};", number % 1_000);
    }
    text
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    Error::host(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_has_what_the_source_says() {
        let stop = Stop::default();
        let files = FILES_PER_DIRECTORY * DIRECTORIES_TOGETHER + 5;
        let source = SampleTree::make(files, &stop).unwrap();
        let list = run_command("tar", &["tf", &source.archive().to_string_lossy()], &stop).unwrap();
        let ending = |end: &str| list.lines().filter(|line| line.ends_with(end)).count();
        assert_eq!((ending(".txt"), ending("/first"), list.lines().count()), (files, 41, source.entries));
        assert_eq!((source.files, source.links, source.needles), (files, 41, files.div_ceil(8)));
        assert!(fs::read_to_string(source.statements()).unwrap().contains("commit;"));
    }
}
