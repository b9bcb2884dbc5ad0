//! Files that are replaced by a content which comes in pieces.

use super::whole::{PERM, Target};
use crate::running::volume::Volume;
use crate::vocabulary::as_path::AsPath;
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::path::show;
use crate::vocabulary::types::{Attr, Caller, Ino, SetAttr};
use lanefs_format::Code;
use std::io;
use std::ops::Deref;

/// Bytes that are collected in memory for one transaction. A content that has no more is put in place by one.
const COLLECTED_BYTES: usize = 1 << 20;

/// The content of a file to be: it is written in pieces, in any order, and takes the place of the old content
/// in one step by [`finish`](Self::finish). Until then other threads see the old content, or no file. It stays
/// as it is after a crash, and where this value is dropped or a write fails.
///
/// [`Volume::write_file`] does the same for a content that is at hand. One of up to 1 MiB is kept in memory,
/// and keeps the inode of the file. A larger one is on the volume in a file without a name, so it comes with
/// another inode, which takes over mode, owner and extended attributes; further names of the old inode, and
/// whoever has it open, keep the old content. `volume` is a reference, or an `Arc`.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lanefs::{CreateOptions, Replacement, Volume};
/// use std::io::Write;
///
/// let volume = Volume::create_memory(&CreateOptions { size: 64 << 20, ..CreateOptions::default() })?;
/// volume.write_file("/list", "old")?;
/// let mut new = Replacement::begin(&volume, "/list")?;
/// writeln!(new, "one line")?;
/// assert_eq!(volume.read_file("/list")?, b"old");
/// new.finish()?;
/// assert_eq!(volume.read_file("/list")?, b"one line\n");
/// # Ok(())
/// # }
/// ```
pub struct Replacement<V: Deref<Target = Volume>> {
    volume: V,
    path: Vec<u8>,
    is_new: bool,
    /// The file without a name that has the content, where memory does not have all of it.
    apart: Option<Ino>,
    /// Bytes from offset `start` on that the file does not have yet; without a file the whole content.
    collected: Vec<u8>,
    start: u64,
    /// The offset of the next byte of [`io::Write`].
    position: u64,
    /// The failure of a write: the content is not whole.
    failure: Option<Code>,
}

impl<V: Deref<Target = Volume>> Replacement<V> {
    /// Begins to replace the content of a file, or to make one of mode 0644. Symbolic links are followed at
    /// the end as well as now, so other threads may give the path another meaning meanwhile.
    ///
    /// # Errors
    /// Those of [`Volume::write_file`], but for [`Code::NoSpace`].
    pub fn begin(volume: V, path: impl AsPath) -> Result<Self> {
        Self::with(volume, path.as_path(), false)
    }

    /// Begins to make a file, which must not exist, neither now nor at the end.
    ///
    /// # Errors
    /// [`Code::Exists`], also for a symbolic link; those of [`begin`](Self::begin).
    pub fn begin_new(volume: V, path: impl AsPath) -> Result<Self> {
        Self::with(volume, path.as_path(), true)
    }

    fn with(volume: V, path: &[u8], is_new: bool) -> Result<Self> {
        let new = Replacement {
            volume,
            path: path.to_vec(),
            is_new,
            apart: None,
            collected: Vec::new(),
            start: 0,
            position: 0,
            failure: None,
        };
        let looked = new.volume.change(|edit| new.target().place(edit).map(drop));
        looked.map_err(|error| error.at(show(path)))?;
        Ok(new)
    }

    fn target(&self) -> Target<'_> {
        let start = self.volume.start_at_root();
        Target { start, path: &self.path, perm: PERM, is_new: self.is_new }
    }

    /// The length of the content so far, in bytes.
    ///
    /// # Errors
    /// The device's.
    pub fn len(&self) -> Result<u64> {
        let collected = self.start + self.collected.len() as u64;
        match self.apart {
            None => Ok(collected),
            Some(ino) if self.collected.is_empty() => Ok(self.volume.getattr(ino)?.size),
            Some(ino) => Ok(self.volume.getattr(ino)?.size.max(collected)),
        }
    }

    /// True where the content has no byte so far.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads what is written so far, from byte `offset` on. The result is shorter than the buffer only at the
    /// end of the content.
    ///
    /// # Errors
    /// Those of [`write_at`](Self::write_at).
    pub fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let Some(ino) = self.apart else {
            let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.collected.len());
            let len = buffer.len().min(self.collected.len() - from);
            buffer[..len].copy_from_slice(&self.collected[from..from + len]);
            return Ok(len);
        };
        self.attempt(|new| new.put_collected(ino))?;
        self.volume.read(&Caller::OWNER, ino, offset, buffer)
    }

    /// Writes all of `data` at byte `offset`. A gap before it is zeros.
    ///
    /// # Errors
    /// [`Code::NoSpace`], [`Code::FileTooLarge`], [`Code::NoMemory`]; the device's. The content cannot be
    /// finished after that.
    pub fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        self.attempt(|new| new.put(offset, data))
    }

    /// Cuts the content off, or extends it with zeros.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn set_len(&mut self, bytes: u64) -> Result<()> {
        self.attempt(|new| {
            if new.apart.is_none() && bytes <= COLLECTED_BYTES as u64 {
                return new.resize(bytes as usize);
            }
            let ino = new.put_apart()?;
            let set = SetAttr { size: Some(bytes), ..SetAttr::default() };
            new.volume.setattr(&Caller::OWNER, ino, &set).map(drop)
        })
    }

    /// Puts the content in place. It is durable after the next [`Volume::sync`].
    ///
    /// # Errors
    /// [`Code::NoSpace`], where the old and the new content do not fit beside each other; [`Code::Exists`]
    /// for a file that must be new; the failure of an earlier write; those of [`begin`](Self::begin). The
    /// volume is as it was before.
    pub fn finish(mut self) -> Result<Attr> {
        self.put_in_place().map_err(|error| error.at(show(&self.path)))
    }

    fn put_in_place(&mut self) -> Result<Attr> {
        if let Some(code) = self.failure {
            return Err(code.into());
        }
        let Some(ino) = self.apart else {
            return self.volume.put_whole(&self.target(), &self.collected);
        };
        let filled = self.put_collected(ino);
        self.apart = None;
        self.volume.end_apart(&self.target(), ino, filled)
    }

    /// Changes the content. A failure stays.
    fn attempt<T>(&mut self, change: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if let Some(code) = self.failure {
            return Err(Error::from(code).at(show(&self.path)));
        }
        change(self).map_err(|error| {
            self.failure = Some(error.code());
            error.at(show(&self.path))
        })
    }

    fn put(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        let end = offset.checked_add(data.len() as u64).ok_or(Code::FileTooLarge)?;
        if self.apart.is_none() && end <= COLLECTED_BYTES as u64 {
            let (from, to) = (offset as usize, end as usize);
            if !data.is_empty() {
                self.resize(self.collected.len().max(to))?;
                self.collected[from..to].copy_from_slice(data);
            }
            return Ok(());
        }
        let ino = match self.apart {
            Some(ino) => ino,
            None => self.put_apart()?,
        };
        let continues = offset == self.start + self.collected.len() as u64;
        if !continues || self.collected.len() + data.len() > COLLECTED_BYTES {
            self.put_collected(ino)?;
            self.start = offset;
        }
        if data.len() >= COLLECTED_BYTES {
            self.start = end;
            return self.volume.write(&Caller::OWNER, ino, offset, data).map(drop);
        }
        self.collected.try_reserve(data.len()).map_err(|_| Code::NoMemory)?;
        self.collected.extend_from_slice(data);
        Ok(())
    }

    fn resize(&mut self, len: usize) -> Result<()> {
        let more = len.saturating_sub(self.collected.len());
        self.collected.try_reserve(more).map_err(|_| Code::NoMemory)?;
        self.collected.resize(len, 0);
        Ok(())
    }

    /// Puts what is in memory into the file without a name, which is made where there is none.
    fn put_apart(&mut self) -> Result<Ino> {
        let ino = match self.apart {
            Some(ino) => ino,
            None => *self.apart.insert(self.volume.begin_apart(&self.target())?),
        };
        self.put_collected(ino)?;
        Ok(ino)
    }

    fn put_collected(&mut self, ino: Ino) -> Result<()> {
        if !self.collected.is_empty() {
            self.volume.write(&Caller::OWNER, ino, self.start, &self.collected)?;
            self.start += self.collected.len() as u64;
            self.collected.clear();
            self.collected.shrink_to(COLLECTED_BYTES);
        }
        Ok(())
    }
}

impl<V: Deref<Target = Volume>> io::Write for Replacement<V> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.write_at(self.position, data)?;
        self.position += data.len() as u64;
        Ok(data.len())
    }

    /// Nothing is to be seen before [`finish`](Replacement::finish).
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<V: Deref<Target = Volume>> std::fmt::Debug for Replacement<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replacement").field("path", &show(&self.path)).finish_non_exhaustive()
    }
}

impl<V: Deref<Target = Volume>> Drop for Replacement<V> {
    fn drop(&mut self) {
        if let Some(ino) = self.apart {
            // Where the inode cannot be freed, the next open of the volume for writing does it.
            let _ = self.volume.release(ino, 1);
        }
    }
}
