//! Devices: what keeps a volume's bytes when the program ends.

use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

/// A block device. All calls may come from many threads at once.
pub trait Device: Send + Sync {
    /// Size in bytes.
    fn len(&self) -> u64;

    /// True for a device of size 0.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer` from byte `at` on.
    ///
    /// # Errors
    /// The host's error; `UnexpectedEof` past the end.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes all of `data` from byte `at` on.
    ///
    /// # Errors
    /// The host's error; what part was written is then unknown.
    fn write_at(&self, at: u64, data: &[u8]) -> io::Result<()>;

    /// Returns once all that was written is durable.
    ///
    /// # Errors
    /// The host's error; what was written since the last flush may be lost.
    fn flush(&self) -> io::Result<()>;

    /// Says that a range is of no use any more. It may read as anything from now on.
    ///
    /// # Errors
    /// The host's error. A device that cannot discard does nothing and succeeds.
    fn discard(&self, at: u64, len: u64) -> io::Result<()>;

    /// Changes the size, where the device can (a file can, a raw device cannot).
    ///
    /// # Errors
    /// The host's error.
    fn resize(&self, len: u64) -> io::Result<()>;
}

/// A file, or a raw block device. Locked while open: one writer or many readers.
pub struct FileDevice {
    file: File,
    len: std::sync::atomic::AtomicU64,
    raw: bool,
}

impl FileDevice {
    /// Opens what is there.
    ///
    /// # Errors
    /// The host's error; `WouldBlock` when the volume is in use elsewhere.
    pub fn open(path: &Path, write: bool) -> io::Result<Self> {
        let flags = if write { OFlags::RDWR } else { OFlags::RDONLY };
        Self::with(path, flags, write)
    }

    /// Makes a file of `len` bytes, sparse, or takes an existing raw device that is large enough.
    ///
    /// # Errors
    /// `AlreadyExists` when there is a file and `replace` is false, and the host's errors.
    pub fn create(path: &Path, len: u64, replace: bool) -> io::Result<Self> {
        let is_raw = std::fs::metadata(path).is_ok_and(|m| m.file_type().is_block_device());
        let flags = if is_raw || replace { OFlags::empty() } else { OFlags::EXCL };
        let create = if is_raw { OFlags::empty() } else { OFlags::CREATE };
        let device = Self::with(path, OFlags::RDWR | create | flags, true)?;
        if !is_raw {
            // What an older file held must not shine through: cut it to nothing first, now that it is locked.
            device.resize(0)?;
            device.resize(len)?;
        } else if device.len() < len {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the device is smaller than that"));
        }
        Ok(device)
    }

    fn with(path: &Path, flags: OFlags, write: bool) -> io::Result<Self> {
        // On a block device O_EXCL without O_CREAT claims it, so that a mounted one is refused.
        let is_raw = std::fs::metadata(path).is_ok_and(|m| m.file_type().is_block_device());
        let flags = if is_raw && write { flags | OFlags::EXCL } else { flags };
        let fd = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o666))?;
        let file = File::from(fd);
        let kind = file.metadata()?.file_type();
        if kind.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        if !kind.is_file() && !kind.is_block_device() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a file nor a block device"));
        }
        let lock = if write {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        rustix::fs::flock(&file, lock)?;
        let len = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))?;
        Ok(FileDevice { file, len: len.into(), raw: kind.is_block_device() })
    }
}

impl Device for FileDevice {
    fn len(&self) -> u64 {
        self.len.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, at)
    }

    fn write_at(&self, at: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, at)
    }

    fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn discard(&self, at: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, flags, at, len) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn resize(&self, len: u64) -> io::Result<()> {
        if self.raw {
            return if len <= self.len() {
                Ok(())
            } else {
                Err(io::Error::new(io::ErrorKind::Unsupported, "a raw device keeps its size"))
            };
        }
        self.file.set_len(len)?;
        self.len.store(len, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }
}

/// A device in memory, for images that are given as bytes.
pub struct MemoryDevice {
    bytes: parking_lot::RwLock<Vec<u8>>,
}

impl MemoryDevice {
    /// A device that holds these bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        MemoryDevice { bytes: bytes.into() }
    }
}

impl Device for MemoryDevice {
    fn len(&self) -> u64 {
        self.bytes.read().len() as u64
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let bytes = self.bytes.read();
        let part = usize::try_from(at).ok().and_then(|at| bytes.get(at..at.checked_add(buffer.len())?));
        buffer.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, at: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.bytes.write();
        let part = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at..at.checked_add(data.len())?));
        part.ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(data);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn resize(&self, len: u64) -> io::Result<()> {
        self.bytes.write().resize(len as usize, 0);
        Ok(())
    }
}
