//! Single operations on a LaneFS volume.

use super::files::Files;
use crate::error::{Error, Result};
use crate::systems::lane::Lane;
use lanefs::{FileKind, Ino};
use std::ffi::CStr;
use std::hint::black_box;

/// Entries that one `readdir` call requests.
const LISTED_AT_ONCE: usize = 1024;

/// Permissions of new directories and files.
const DIRECTORY_PERM: u16 = 0o755;
const FILE_PERM: u16 = 0o644;

impl Lane {
    fn named(&self, dir: Ino, name: &CStr) -> Result<Ino> {
        let found = self.volume().lookup(self.caller(), dir, name.to_bytes());
        found.map(|(ino, _)| ino).map_err(|e| Error::volume("lookup")(e.at(name.to_string_lossy())))
    }

    /// Calls `each` for every entry; returns the number of entries.
    fn entries(&self, dir: Ino, mut each: impl FnMut(Ino, FileKind) -> Result<()>) -> Result<u64> {
        let (mut cookie, mut count) = (0, 0);
        loop {
            let entries = self.volume().readdir(self.caller(), dir, cookie, LISTED_AT_ONCE);
            let entries = entries.map_err(Error::volume("readdir"))?;
            let Some(last) = entries.last() else { return Ok(count) };
            cookie = last.cookie;
            count += entries.len() as u64;
            for entry in &entries {
                each(entry.ino, entry.kind)?;
            }
        }
    }

    fn walk_below(&self, dir: Ino) -> Result<u64> {
        let mut below = 0;
        let here = self.entries(dir, |ino, kind| {
            black_box(self.volume().getattr(ino).map_err(Error::volume("getattr"))?);
            if kind == FileKind::Directory {
                below += self.walk_below(ino)?;
            }
            Ok(())
        })?;
        Ok(here + below)
    }
}

impl Files for Lane {
    type Dir = Ino;
    type File = Ino;

    fn top(&self) -> Result<Ino> {
        Ok(self.volume().root())
    }

    fn make_dir(&self, dir: &Ino, name: &CStr) -> Result<()> {
        let made = self.volume().mkdir(self.caller(), *dir, name.to_bytes(), DIRECTORY_PERM);
        made.map(drop).map_err(Error::volume("mkdir"))
    }

    fn remove_dir(&self, dir: &Ino, name: &CStr) -> Result<()> {
        self.volume().rmdir(self.caller(), *dir, name.to_bytes()).map_err(Error::volume("rmdir"))
    }

    fn open_dir(&self, dir: &Ino, name: &CStr) -> Result<Ino> {
        self.named(*dir, name)
    }

    fn create(&self, dir: &Ino, name: &CStr) -> Result<Ino> {
        let made = self.volume().create_file(self.caller(), *dir, name.to_bytes(), FILE_PERM);
        made.map(|attr| attr.ino).map_err(Error::volume("creating a file"))
    }

    fn open(&self, dir: &Ino, name: &CStr) -> Result<Ino> {
        self.named(*dir, name)
    }

    fn remove(&self, dir: &Ino, name: &CStr) -> Result<()> {
        self.volume().unlink(self.caller(), *dir, name.to_bytes()).map_err(Error::volume("unlink"))
    }

    fn read(&self, file: &Ino, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.volume().read(self.caller(), *file, offset, buffer).map_err(Error::volume("reading"))
    }

    fn write(&self, file: &Ino, offset: u64, data: &[u8]) -> Result<()> {
        let written = self.volume().write(self.caller(), *file, offset, data);
        written.map(drop).map_err(Error::volume("writing"))
    }

    fn sync_file(&self, file: &Ino) -> Result<()> {
        self.volume().fsync(*file, false).map_err(Error::volume("fsync"))
    }

    fn stat_name(&self, dir: &Ino, name: &CStr) -> Result<u64> {
        let ino = self.named(*dir, name)?;
        let attr = self.volume().getattr(ino).map_err(Error::volume("getattr"))?;
        Ok(black_box(attr).ino.0)
    }

    fn stat_path(&self, path: &CStr) -> Result<u64> {
        let attr = self.volume().resolve(path.to_bytes()).map_err(Error::volume("resolve"))?;
        Ok(black_box(attr).ino.0)
    }

    fn list(&self, name: &CStr) -> Result<u64> {
        self.entries(self.named(self.volume().root(), name)?, |ino, _| {
            black_box(ino);
            Ok(())
        })
    }

    fn walk(&self, name: &CStr) -> Result<u64> {
        self.walk_below(self.named(self.volume().root(), name)?)
    }
}
