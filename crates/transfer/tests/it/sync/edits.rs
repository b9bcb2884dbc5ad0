//! Random trees, and random edits of them.

use crate::common::{is_root, noise, set_mtime};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A sequence of numbers that its seed decides.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit.max(1)
    }

    fn of<'c, T>(&mut self, choices: &'c [T]) -> &'c T {
        &choices[self.below(choices.len())]
    }
}

/// Edits a tree: adds, changes and removes names of every kind.
pub(crate) struct Editor {
    pub(crate) random: Random,
    top: PathBuf,
    /// Makes files with several names.
    pub(crate) links: bool,
    /// Replaces files by those of other types.
    pub(crate) types: bool,
    made: usize,
}

impl Editor {
    pub(crate) fn new(seed: u64, top: &Path) -> Self {
        fs::create_dir(top).unwrap();
        Editor { random: Random::new(seed), top: top.to_owned(), links: true, types: true, made: 0 }
    }

    /// All names below the top, directories first or not.
    fn all(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let (mut dirs, mut files) = (vec![self.top.clone()], Vec::new());
        let mut at = 0;
        while let Some(dir) = dirs.get(at).cloned() {
            at += 1;
            let mut entries: Vec<PathBuf> =
                fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
            entries.sort();
            for path in entries {
                if path.symlink_metadata().unwrap().is_dir() { dirs.push(path) } else { files.push(path) }
            }
        }
        (dirs, files)
    }

    fn new_path(&mut self, dirs: &[PathBuf]) -> PathBuf {
        self.made += 1;
        // Names that are prefixes of each other.
        let stem = *self.random.of(&["a", "ab", "abc", "a.b", "b"]);
        self.random.of(dirs).join(format!("{stem}{}", self.made % 40))
    }

    fn content(&mut self) -> Vec<u8> {
        let len = *self.random.of(&[0, 1, 50, 161, 4096, 5000, 66_000, 300_000]);
        let more = self.random.below(100);
        noise(if len == 0 { 0 } else { len + more })
    }

    pub(crate) fn edit(&mut self, times: usize) {
        for _ in 0..times {
            self.edit_once();
        }
    }

    fn edit_once(&mut self) {
        let (dirs, files) = self.all();
        let new = self.new_path(&dirs);
        let is_new = new.symlink_metadata().is_err();
        let file = (!files.is_empty()).then(|| self.random.of(&files).clone());
        match (self.random.below(17), file) {
            (0..=3, _) if is_new => fs::write(&new, self.content()).unwrap(),
            (4, _) if is_new && dirs.len() < 30 => fs::create_dir(&new).unwrap(),
            (5, _) if is_new => symlink(format!("target/{}", self.made), &new).unwrap(),
            (6, _) if is_new => self.special(&new),
            (7, Some(file)) if is_new && self.links => fs::hard_link(file, &new).unwrap(),
            (8, Some(file)) if is_new => fs::rename(file, &new).unwrap(),
            (9, Some(file)) => fs::remove_file(file).unwrap(),
            (10, Some(file)) if is_regular(&file) => fs::write(&file, self.content()).unwrap(),
            (11, Some(file)) if is_regular(&file) => self.change_a_part(&file),
            (12, Some(file)) if is_regular(&file) => self.attributes(&file),
            (13, _) => {
                let dir = self.random.of(&dirs).clone();
                self.attributes(&dir);
            }
            (14, _) if dirs.len() > 1 && self.random.below(3) == 0 => {
                fs::remove_dir_all(&dirs[1 + self.random.below(dirs.len() - 1)]).unwrap();
            }
            (15, _) if dirs.len() > 1 && is_new => {
                let dir = &dirs[1 + self.random.below(dirs.len() - 1)];
                if !new.starts_with(dir) {
                    fs::rename(dir, &new).unwrap();
                }
            }
            (16, Some(file)) if self.types => self.change_type(&file, &dirs),
            _ => {}
        }
    }

    fn special(&mut self, path: &Path) {
        let kind = *self.random.of(&[FileType::Fifo, FileType::Socket]);
        mknodat(CWD, path, kind, Mode::from_raw_mode(0o640), 0).unwrap();
    }

    fn change_a_part(&mut self, path: &Path) {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        match self.random.below(3) {
            0 => OpenOptions::new().append(true).open(path).unwrap().write_all(b"more").unwrap(),
            1 => file.set_len(self.random.below(500_000) as u64).unwrap(),
            _ => file.write_all_at(b"island", (1 << 20) + self.random.below(1 << 20) as u64).unwrap(),
        }
    }

    fn attributes(&mut self, path: &Path) {
        let value = [b'v'; 40];
        let len = self.random.below(40);
        match self.random.below(5) {
            0 => set_mtime(path, 1_600_000_000_000_000_000 + self.random.below(1 << 40) as u64),
            1 => {
                let mode = *self.random.of(&[0o700, 0o755, 0o750, 0o1777, 0o2755]);
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            }
            2 if is_root() => {
                std::os::unix::fs::lchown(path, Some(self.random.below(5) as u32), Some(7)).unwrap();
            }
            3 => {
                let name = *self.random.of(&["user.a", "user.b"]);
                // The file system may have none.
                let _ = rustix::fs::lsetxattr(path, name, &value[..len], XattrFlags::empty());
            }
            _ => {
                let _ = rustix::fs::lremovexattr(path, "user.a");
            }
        }
    }

    /// A file becomes a directory, or one of another type; a directory becomes a file.
    fn change_type(&mut self, file: &Path, dirs: &[PathBuf]) {
        match self.random.below(3) {
            0 if dirs.len() < 30 => {
                fs::remove_file(file).unwrap();
                fs::create_dir(file).unwrap();
                fs::write(file.join("inner"), "inner").unwrap();
            }
            1 => {
                fs::remove_file(file).unwrap();
                symlink("elsewhere", file).unwrap();
            }
            _ if dirs.len() > 1 => {
                let dir = &dirs[1 + self.random.below(dirs.len() - 1)];
                fs::remove_dir_all(dir).unwrap();
                drop(File::create(dir).unwrap());
            }
            _ => {}
        }
    }
}

fn is_regular(path: &Path) -> bool {
    path.symlink_metadata().unwrap().is_file()
}
