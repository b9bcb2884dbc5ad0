//! Calls by path, for programs that use a volume as a library. They act as [`Caller::OWNER`], and their
//! errors name the path.

use crate::error::{Error, Result};
use crate::inode::Inode;
use crate::path;
use crate::resolve::{self, Start};
use crate::types::{Attr, Caller, Ino, SetAttr};
use crate::volume::Volume;
use lanefs_format::{Code, FileKind};

/// Content read at a time by [`Volume::read_file`].
const PIECE: usize = 1 << 20;

/// Largest file that is taken into memory as a whole, in bytes.
pub(crate) const MAX_WHOLE: u64 = 4 << 30;

pub(crate) fn show(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

impl Volume {
    fn resolve_with(&self, path: &[u8], follow: bool) -> Result<Attr> {
        let root = self.root().0;
        let start = Start { root, base: root, follow, who: &Caller::OWNER };
        self.view(|core| {
            let (ino, _) = resolve::resolve(core, &start, path)?;
            Inode::load(core, ino)?.attr()
        })
        .map_err(|e| e.at(show(path)))
    }

    /// Returns the attributes of the inode that a path names. Symbolic links are followed.
    ///
    /// # Errors
    /// [`Code::NotFound`], [`Code::ComponentNotFound`], [`Code::NotDirectory`], [`Code::SymlinkLoop`].
    pub fn resolve(&self, path: impl AsRef<[u8]>) -> Result<Attr> {
        self.resolve_with(path.as_ref(), true)
    }

    /// Resolves as [`resolve`](Self::resolve) does, but does not follow a symbolic link in the last
    /// component.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn resolve_no_follow(&self, path: impl AsRef<[u8]>) -> Result<Attr> {
        self.resolve_with(path.as_ref(), false)
    }

    /// Returns the directory that holds, or would hold, the last component of a path, and that component.
    ///
    /// # Errors
    /// [`Code::Invalid`] for a path without components (`/`); those of [`resolve`](Self::resolve) for the
    /// directory.
    pub fn resolve_parent<'p>(&self, path: &'p [u8]) -> Result<(Ino, &'p [u8])> {
        let invalid = || Error::from(Code::Invalid).at(show(path));
        let (dir, name) = path::split_last(path).ok_or_else(invalid)?;
        let parent = if dir.is_empty() { self.getattr(self.root())? } else { self.resolve(dir)? };
        if parent.kind != FileKind::Directory {
            return Err(Error::from(Code::NotDirectory).at(show(dir)));
        }
        Ok((parent.ino, name))
    }

    /// Reads the whole content of a file.
    ///
    /// # Errors
    /// [`Code::FileTooLarge`] above 4 GiB (use [`read`](Self::read)); those of [`resolve`](Self::resolve).
    pub fn read_file(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let path = path.as_ref();
        let attr = self.resolve(path)?;
        if attr.size > MAX_WHOLE {
            return Err(Error::from(Code::FileTooLarge).at(show(path)));
        }
        let mut content = Vec::new();
        loop {
            let start = content.len();
            content.resize(start + PIECE.min((attr.size as usize).saturating_sub(start) + 1), 0);
            let got = self.read(&Caller::OWNER, attr.ino, start as u64, &mut content[start..]);
            let got = got.map_err(|e| e.at(show(path)))?;
            content.truncate(start + got);
            if got == 0 {
                return Ok(content);
            }
        }
    }

    /// Creates a file with this content, or replaces the content of an existing file.
    ///
    /// # Errors
    /// Those of [`create_file`](Self::create_file) and [`write`](Self::write).
    pub fn write_file(&self, path: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Result<Attr> {
        let path = path.as_ref();
        let named = |e: Error| e.at(show(path));
        let who = &Caller::OWNER;
        let attr = match self.resolve(path) {
            Ok(attr) => self
                .setattr(who, attr.ino, &SetAttr { size: Some(0), ..SetAttr::default() })
                .map_err(named)?,
            Err(e) if e.code() == Code::NotFound => {
                let (dir, name) = self.resolve_parent(path)?;
                self.create_file(who, dir, name, 0o644).map_err(named)?
            }
            Err(e) => return Err(e),
        };
        self.write(who, attr.ino, 0, content.as_ref()).map_err(named)?;
        self.getattr(attr.ino)
    }
}
