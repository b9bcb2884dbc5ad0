//! Open files, with the standard library's traits.

use super::whole::{PERM, Target};
use crate::by_inode::ops::regular;
use crate::files::inode::Inode;
use crate::names::resolve;
use crate::running::volume::Volume;
use crate::vocabulary::as_path::AsPath;
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::path::show;
use crate::vocabulary::types::{Attr, Caller, Ino, SetAttr};
use lanefs_format::Code;
use std::io;
use std::ops::Deref;

/// Ways to open a [`File`], as [`std::fs::OpenOptions`].
#[derive(Clone, Debug)]
pub struct FileMode {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    perm: u16,
}

impl Default for FileMode {
    fn default() -> Self {
        FileMode {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            perm: PERM,
        }
    }
}

macro_rules! flags {
    ($($(#[doc = $doc:literal])* $name:ident;)*) => {
        impl FileMode {
            $(
                $(#[doc = $doc])*
                pub fn $name(&mut self, $name: bool) -> &mut Self {
                    self.$name = $name;
                    self
                }
            )*
        }
    };
}

flags! {
    /// The file is read.
    read;
    /// The file is written.
    write;
    /// Each write goes to the end of the file.
    append;
    /// The content is cut off at first.
    truncate;
    /// The file is made where it is missing.
    create;
    /// The file is made, and must not exist.
    create_new;
}

impl FileMode {
    /// Permissions of a file that is made: the low 12 bits of a mode, 0644 by default.
    pub fn permissions(&mut self, perm: u16) -> &mut Self {
        self.perm = perm;
        self
    }

    /// Opens a file. `volume` is a reference, or an `Arc` for a file that outlives the scope.
    ///
    /// # Errors
    /// [`Code::NotFound`], [`Code::Exists`], [`Code::IsDirectory`]; [`Code::Invalid`] for other inodes that
    /// are not regular files, and for flags that contradict each other; [`Code::NoSpace`]; those of
    /// [`Volume::resolve`].
    pub fn open<V: Deref<Target = Volume>>(&self, volume: V, path: impl AsPath) -> Result<File<V>> {
        let path = path.as_path();
        let attr = self.open_held(&volume, path).map_err(|error| error.at(show(path)))?;
        let writes = self.write || self.append;
        Ok(File { volume, ino: attr.ino, position: 0, reads: self.read, writes, appends: self.append })
    }

    fn open_held(&self, volume: &Volume, path: &[u8]) -> Result<Attr> {
        let writes = self.write || self.append;
        let makes = self.create || self.create_new;
        let only_reads = self.read && !makes && !self.truncate;
        let appends_and_cuts = self.append && self.truncate && !self.create_new;
        if !(writes || only_reads) || appends_and_cuts {
            return Err(Code::Invalid.into());
        }
        let start = volume.start_at_root();
        if !makes && !self.truncate {
            if writes && volume.is_read_only() {
                return Err(Code::ReadOnly.into());
            }
            return volume.hold_found(|core, count| {
                let ino = resolve::resolve(core, &start, path)?.0;
                regular(core, Ino(ino))?;
                count(ino);
                Inode::load(core, ino)?.attr()
            });
        }
        let target = Target { start, path, perm: self.perm, is_new: self.create_new };
        let (attr, place) = volume.hold_made(|edit, plan, count| {
            let place = target.place(edit)?;
            let node = match place.file {
                None if !makes => return Err(Code::NotFound.into()),
                Some(ino) if !self.truncate => regular(edit.core, ino)?,
                _ => place.empty(edit, self.perm, plan)?,
            };
            count(node.ino);
            Ok((node.attr()?, place))
        })?;
        if place.file.is_none() || self.truncate {
            place.notify(volume);
        }
        Ok(attr)
    }
}

/// An open regular file: a position in its content, for [`io::Read`], [`io::Write`] and [`io::Seek`]. The
/// file lives on without a name until this value is dropped.
///
/// Each read and each write is one operation of the volume. Nothing is buffered here: use [`io::BufReader`]
/// and [`io::BufWriter`] for small pieces. Written bytes are durable after [`sync`](Self::sync).
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lanefs::{CreateOptions, File, Volume};
/// use std::io::{Read, Seek, Write};
///
/// let volume = Volume::create_memory(&CreateOptions { size: 64 << 20, ..CreateOptions::default() })?;
/// let mut file = File::create(&volume, "/notes")?;
/// writeln!(file, "one line")?;
/// file.rewind()?;
/// let mut text = String::new();
/// file.read_to_string(&mut text)?;
/// assert_eq!(text, "one line\n");
/// # Ok(())
/// # }
/// ```
pub struct File<V: Deref<Target = Volume>> {
    volume: V,
    ino: Ino,
    position: u64,
    reads: bool,
    writes: bool,
    appends: bool,
}

impl<V: Deref<Target = Volume>> File<V> {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// As [`FileMode::open`].
    pub fn open(volume: V, path: impl AsPath) -> Result<Self> {
        FileMode::default().read(true).open(volume, path)
    }

    /// Opens a file for reading and writing. It is made, or its content is cut off.
    /// ([`Volume::write_file`] replaces a content in one step.)
    ///
    /// # Errors
    /// As [`FileMode::open`].
    pub fn create(volume: V, path: impl AsPath) -> Result<Self> {
        FileMode::default().read(true).write(true).create(true).truncate(true).open(volume, path)
    }

    /// The inode.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// The attributes.
    ///
    /// # Errors
    /// The device's.
    pub fn metadata(&self) -> Result<Attr> {
        self.volume.getattr(self.ino)
    }

    /// Reads content from byte `offset` on; the position stays. The result is shorter than the buffer only at
    /// the end of the file.
    ///
    /// # Errors
    /// [`Code::AccessDenied`] for a file that was not opened for reading; the device's.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if !self.reads {
            return Err(Code::AccessDenied.into());
        }
        self.volume.read(&Caller::OWNER, self.ino, offset, buffer)
    }

    /// Writes all of `data` at byte `offset`, or nothing; the position stays.
    ///
    /// # Errors
    /// [`Code::AccessDenied`] for a file that was not opened for writing; [`Code::NoSpace`],
    /// [`Code::FileTooLarge`]; the device's.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize> {
        self.check_writes()?;
        self.volume.write(&Caller::OWNER, self.ino, offset, data)
    }

    /// Cuts the content off, or extends it with a hole.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn set_len(&self, bytes: u64) -> Result<()> {
        self.check_writes()?;
        let set = SetAttr { size: Some(bytes), ..SetAttr::default() };
        self.volume.setattr(&Caller::OWNER, self.ino, &set).map(drop)
    }

    /// Makes the file, and all earlier changes of the volume, durable.
    ///
    /// # Errors
    /// The device's; the volume is then open for reading only.
    pub fn sync(&self) -> Result<()> {
        self.volume.fsync(self.ino, false)
    }

    fn check_writes(&self) -> Result<()> {
        if self.writes { Ok(()) } else { Err(Code::AccessDenied.into()) }
    }
}

impl<V: Deref<Target = Volume>> io::Read for File<V> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.read_at(self.position, buffer)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl<V: Deref<Target = Volume>> io::Write for File<V> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.appends {
            self.check_writes()?;
            self.position = self.volume.append(&Caller::OWNER, self.ino, data)?;
        } else {
            self.write_at(self.position, data)?;
        }
        self.position += data.len() as u64;
        Ok(data.len())
    }

    /// Nothing is buffered here.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<V: Deref<Target = Volume>> io::Seek for File<V> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let position = match to {
            io::SeekFrom::Start(offset) => Some(offset),
            io::SeekFrom::Current(by) => self.position.checked_add_signed(by),
            io::SeekFrom::End(by) => self.metadata()?.size.checked_add_signed(by),
        };
        self.position = position.ok_or_else(|| Error::from(Code::Invalid))?;
        Ok(self.position)
    }
}

impl<V: Deref<Target = Volume>> std::fmt::Debug for File<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File")
            .field("ino", &self.ino)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl<V: Deref<Target = Volume>> Drop for File<V> {
    fn drop(&mut self) {
        // Where the inode cannot be freed, the next open of the volume for writing does it.
        let _ = self.volume.release(self.ino, 1);
    }
}
