//! Devices in files and on raw block devices.

use super::alignment::{self, Alignment};
use super::flush::Flushes;
use super::pool::RingPool;
use super::transfer::Transfer;
use super::{
    Choice, Device, FileId, FileOptions, IoBuf, IoBufMut, Read, ReadErrors, Write, bounce, host, mark,
    parallel, system,
};
use lanefs_sync::lock::Mutex;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A file, or a raw block device. It is locked while open: one writer or many readers.
///
/// It uses direct I/O and io_uring where the host has them; [`engine`](Device::engine) says which. Direct I/O
/// moves bytes between the disk and the caller's memory where position, length and address are multiples of
/// the disk's sectors (4096 always is); other requests take a copy, and such writes are done one at a time.
pub struct FileDevice {
    file: File,
    lock: File,
    len: AtomicU64,
    raw: bool,
    write: bool,
    alignment: Alignment,
    /// The reason why the page cache is used; `None` for direct I/O.
    cached: Option<&'static str>,
    rings: Result<RingPool, String>,
    /// Locked while a block is read, changed in part and written, and while the length changes.
    partial: Mutex<()>,
    flushes: Flushes,
}

/// A file that was made, and may have to go again.
#[derive(Debug)]
pub struct NewImage {
    /// Keeps the inode number from another file.
    file: File,
    path: PathBuf,
}

impl NewImage {
    /// Removes the name, where it is still this file's.
    pub fn remove(self) {
        let id = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
        let own = rustix::fs::fstat(&self.file).map(id);
        if own.is_ok() && rustix::fs::lstat(&self.path).map(id) == own {
            drop(std::fs::remove_file(&self.path));
        }
    }
}

impl FileDevice {
    /// Opens an existing file or device.
    ///
    /// # Errors
    /// The host's error; `WouldBlock` when the volume is in use, with the process that has it where the host
    /// says so.
    pub fn open(path: &Path, write: bool) -> io::Result<Self> {
        Self::open_with(path, &FileOptions { write, ..FileOptions::default() })
    }

    /// Opens an existing file or device with these options.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(path: &Path, options: &FileOptions) -> io::Result<Self> {
        let flags = if options.write { OFlags::RDWR } else { OFlags::RDONLY };
        Ok(Self::locked(path, flags, options.write, Mode::empty())?.set_up(options))
    }

    /// Makes a file of `len` bytes, sparse, or takes an existing raw device that is large enough.
    ///
    /// # Errors
    /// `AlreadyExists` when there is a file and `replace` is false, and the host's errors.
    pub fn create(path: &Path, len: u64, replace: bool) -> io::Result<Self> {
        Self::create_with(path, len, replace, &FileOptions::default())
    }

    /// Makes a device as [`create`](Self::create), with these options. It is always open for writing.
    ///
    /// # Errors
    /// As [`create`](Self::create); `InvalidInput` for the mode of a raw device.
    pub fn create_with(path: &Path, len: u64, replace: bool, options: &FileOptions) -> io::Result<Self> {
        let is_raw = host::is_raw(path);
        // Nobody else opens it before it has the mode.
        let first = if options.mode.is_some() { Mode::RUSR | Mode::WUSR } else { Mode::from_raw_mode(0o666) };
        let locked = |flags| Self::locked(path, OFlags::RDWR | flags, true, first);
        let (device, is_new) =
            match locked(if is_raw { OFlags::empty() } else { OFlags::CREATE | OFlags::EXCL }) {
                Err(error) if replace && error.kind() == io::ErrorKind::AlreadyExists => {
                    (locked(OFlags::CREATE)?, false)
                }
                device => (device?, !is_raw),
            };
        match device.make(len, options.mode) {
            Ok(()) => Ok(device.set_up(options)),
            Err(error) => {
                if let (true, Ok(Some(new))) = (is_new, device.new_image(path)) {
                    new.remove();
                }
                Err(error)
            }
        }
    }

    /// Gives a device the mode and the length of a new one.
    fn make(&self, len: u64, mode: Option<u16>) -> io::Result<()> {
        if let Some(mode) = mode {
            self.set_mode(mode)?;
        }
        if self.raw {
            let is_small = self.len() < len;
            let small = || io::Error::new(io::ErrorKind::InvalidInput, "the device is smaller than that");
            return if is_small { Err(small()) } else { Ok(()) };
        }
        // A length that the host refuses costs an older file nothing.
        self.resize(len)?;
        // No byte of an older file may show through: truncate it, now that it is locked.
        self.resize(0)?;
        self.resize(len)
    }

    /// Returns this file and its name, for whoever finds later that it shall not stay; `None` for a raw
    /// device.
    ///
    /// # Errors
    /// The host has no descriptor left.
    pub fn new_image(&self, path: &Path) -> io::Result<Option<NewImage>> {
        let file = (!self.raw).then(|| self.file.try_clone()).transpose()?;
        Ok(file.map(|file| NewImage { file, path: path.to_owned() }))
    }

    /// Opens the device as every host can: with system calls and the page cache.
    fn locked(path: &Path, flags: OFlags, write: bool, mode: Mode) -> io::Result<Self> {
        let host::Opened { file, lock, raw } = host::open_locked(path, flags, write, mode)?;
        let len = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))?;
        // A loop device may end with a part of a sector, which cannot be written.
        let len = if raw { len - len % host::sector(&file)? } else { len };
        Ok(FileDevice {
            file,
            lock,
            len: len.into(),
            raw,
            write,
            alignment: Alignment::NONE,
            cached: Some("as asked for"),
            rings: Err("as asked for".into()),
            partial: Mutex::default(),
            flushes: Flushes::default(),
        })
    }

    fn set_mode(&self, mode: u16) -> io::Result<()> {
        match self.raw {
            true => Err(io::Error::new(io::ErrorKind::InvalidInput, "a raw device keeps its own mode")),
            false => Ok(rustix::fs::fchmod(&self.file, Mode::from_raw_mode((mode & 0o777).into()))?),
        }
    }

    fn set_up(mut self, options: &FileOptions) -> Self {
        if options.direct == Choice::Auto {
            match alignment::turn_direct(&self.file, self.raw) {
                Some(alignment) => (self.alignment, self.cached) = (alignment, None),
                None => self.cached = Some("the file system below refuses direct I/O"),
            }
        }
        if options.io_uring == Choice::Auto {
            self.rings = RingPool::new().map_err(|error| format!("io_uring is refused: {error}"));
        }
        self
    }

    fn check(&self, at: u64, len: usize) -> io::Result<()> {
        match at.checked_add(len as u64) {
            Some(end) if end <= self.len() => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Returns true when the request needs no bounce buffer.
    fn fits(&self, at: u64, address: usize, len: usize) -> bool {
        self.alignment.fits(at, len) && self.alignment.fits_memory(address)
    }

    /// Returns true for a request that a ring takes; all others are done one by one, wrong ones included.
    fn is_for_ring(&self, at: u64, address: usize, len: usize) -> bool {
        len > 0 && self.fits(at, address, len) && self.check(at, len).is_ok()
    }

    /// Returns a ring for `count` requests, where there are rings and one pays.
    fn ring(&self, count: usize) -> Option<super::pool::Lent<'_>> {
        self.rings.as_ref().ok().filter(|_| count > 1)?.take()
    }
}

impl Drop for FileDevice {
    /// Releases the lock that only names the process first: the kernel would do so last, and whoever met it
    /// then would find no other lock that tells what the process does.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.lock, FlockOperation::Unlock);
    }
}

impl Device for FileDevice {
    fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    fn is_read_only(&self) -> bool {
        !self.write
    }

    fn file_id(&self) -> Option<FileId> {
        FileId::of(&self.file).ok().flatten()
    }

    fn show_mark(&self, mark: Option<u64>) {
        mark::show(&self.lock, self.write, mark);
    }

    fn engine(&self) -> String {
        let calls = match &self.rings {
            Ok(_) => "io_uring".into(),
            Err(why) => format!("system calls ({why})"),
        };
        match self.cached {
            None => format!("{calls}, direct I/O"),
            Some(why) => format!("{calls}, page cache ({why})"),
        }
    }

    fn read_at(&self, at: u64, buffer: IoBufMut<'_>) -> io::Result<()> {
        self.check(at, buffer.len())?;
        let len = buffer.len();
        if self.fits(at, buffer.address(), len) {
            system::read(&self.file, at, buffer, len, self.alignment.unit())
        } else {
            bounce::read(&self.file, &self.alignment, at, buffer)
        }
    }

    fn read_many(&self, requests: &mut [Read<'_>]) -> Result<(), ReadErrors> {
        let Some(mut ring) = self.ring(requests.len()) else {
            let errors = Mutex::new(ReadErrors::default());
            parallel::for_each(requests.iter_mut().enumerate(), |(index, request)| {
                if let Err(error) = self.read_at(request.at, request.buffer.reborrow()) {
                    errors.lock().add(index, error);
                }
            });
            return errors.into_inner().into_result();
        };
        let mut errors = ReadErrors::default();
        let mut others = Vec::new();
        let transfers = requests.iter_mut().enumerate().filter_map(|(index, request)| {
            if self.is_for_ring(request.at, request.buffer.address(), request.buffer.len()) {
                return Some(Transfer::read(index, request.at, request.buffer.reborrow()));
            }
            others.push(index);
            None
        });
        ring.transfer_all(&self.file, self.alignment.unit(), transfers, |index, error| {
            errors.add(index, error);
            true
        });
        drop(ring);
        for index in others {
            let request = &mut requests[index];
            if let Err(error) = self.read_at(request.at, request.buffer.reborrow()) {
                errors.add(index, error);
            }
        }
        errors.into_result()
    }

    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        self.check(at, data.len())?;
        if self.fits(at, data.address(), data.len()) {
            system::write(&self.file, at, data, self.alignment.unit())
        } else {
            let whole = self.alignment.fits(at, data.len());
            let _partial = (!whole).then(|| self.partial.lock());
            bounce::write(&self.file, &self.alignment, self.len(), at, data)
        }
    }

    fn write_many(&self, requests: &[Write<'_>]) -> io::Result<()> {
        let mut failure = None;
        let Some(mut ring) = self.ring(requests.len()) else {
            let failed = AtomicBool::new(false);
            let first = Mutex::new(&mut failure);
            parallel::for_each(requests.iter(), |request| {
                if !failed.load(Ordering::Relaxed)
                    && let Err(error) = self.write_at(request.at, request.data)
                {
                    failed.store(true, Ordering::Relaxed);
                    first.lock().get_or_insert(error);
                }
            });
            return failure.map_or(Ok(()), Err);
        };
        let mut others = Vec::new();
        let transfers = requests.iter().enumerate().filter_map(|(index, request)| {
            if self.is_for_ring(request.at, request.data.address(), request.data.len()) {
                return Some(Transfer::write(index, request.at, request.data));
            }
            others.push(request);
            None
        });
        ring.transfer_all(&self.file, self.alignment.unit(), transfers, |_, error| {
            failure.get_or_insert(error);
            false
        });
        drop(ring);
        match failure {
            Some(error) => Err(error),
            None => others.into_iter().try_for_each(|request| self.write_at(request.at, request.data)),
        }
    }

    fn flush(&self) -> io::Result<()> {
        self.flushes.flush(&self.file)
    }

    fn discard(&self, at: u64, len: u64) -> io::Result<()> {
        let end = at.saturating_add(len).min(self.len());
        if !self.raw {
            return if at < end { host::punch_hole(&self.file, at, end - at) } else { Ok(()) };
        }
        let sector = host::sector(&self.file)?;
        let (at, end) = (at.next_multiple_of(sector), end - end % sector);
        if at < end { host::discard_raw(&self.file, at, end - at) } else { Ok(()) }
    }

    fn resize(&self, len: u64) -> io::Result<()> {
        if self.raw {
            return if len <= self.len() {
                Ok(())
            } else {
                Err(io::Error::new(io::ErrorKind::Unsupported, "a raw device keeps its size"))
            };
        }
        let _partial = self.partial.lock();
        self.file.set_len(len)?;
        self.len.store(len, Ordering::Relaxed);
        Ok(())
    }
}
