//! Devices: storage for a volume's bytes that outlives the program.
//!
//! [`Device`] is the interface. [`FileDevice`] is a file or a raw block device: direct I/O and io_uring
//! where the host has them ([`FileOptions`]). [`MemoryDevice`] is an image that is given as bytes.
//! [`DeviceSnapshot`] has the bytes that a device had at one moment.

mod alignment;
mod bounce;
mod buffer;
mod errors;
mod file;
mod flush;
mod holder;
mod host;
mod identity;
mod lock;
mod mark;
mod memory;
mod ofd;
mod opening;
mod options;
mod origin;
mod overlay;
mod parallel;
mod pool;
mod ring;
mod snapshot;
mod system;
mod transfer;

pub use buffer::{IoBuf, IoBufMut};
pub use errors::ReadErrors;
pub use file::{FileDevice, NewImage};
pub use identity::FileId;
pub use lock::has_writer;
pub use mark::ImageUse;
pub use memory::MemoryDevice;
pub use opening::OpeningLock;
pub use options::{Choice, FileOptions};
pub use origin::{BlockOrigin, Origins};
pub use overlay::Overlay;
pub use snapshot::DeviceSnapshot;
pub(crate) use snapshot::Preserving;

use std::io;

/// One of many reads: fills `buffer` from byte `at` on.
#[derive(Debug)]
pub struct Read<'b> {
    /// Byte position on the device.
    pub at: u64,
    /// Memory to fill. After an error its content is unknown.
    pub buffer: IoBufMut<'b>,
}

/// One of many writes: `data` goes to byte `at` and on.
#[derive(Clone, Copy, Debug)]
pub struct Write<'b> {
    /// Byte position on the device.
    pub at: u64,
    /// Bytes to write.
    pub data: IoBuf<'b>,
}

/// A block device. All calls may come from many threads at once.
///
/// Concurrent calls on ranges that share no byte do not affect each other, however close the ranges are.
/// Where a write overlaps a concurrent read or write, each byte is that of one of them.
///
/// Memory comes as an address and a length ([`IoBuf`], [`IoBufMut`]), as in the kernel's `iovec`: other
/// threads may read the memory that a read fills, and change what a write takes. A device that is written in
/// safe Rust uses their methods to copy.
///
/// A device that can only be read says so by [`is_read_only`](Self::is_read_only), and leaves
/// [`write_at`](Self::write_at), [`flush`](Self::flush), [`discard`](Self::discard) and
/// [`resize`](Self::resize) out: they refuse. Any other device has all four.
pub trait Device: Send + Sync {
    /// Returns the size in bytes.
    fn len(&self) -> u64;

    /// Returns true for a device of size 0.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true where writes are known to be refused.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Returns true where only the bytes of a closed volume have a place: one that was not closed is refused,
    /// and its log is not read.
    fn is_for_closed_volumes(&self) -> bool {
        false
    }

    /// Returns the bytes from which the content comes: the size, unless that is a claim of somebody else, as
    /// it is for a publication. There it is the bytes that were fetched so far.
    fn given(&self) -> u64 {
        self.len()
    }

    /// Returns the origins of the blocks, where some are those of other volumes.
    fn origins(&self) -> Option<&dyn Origins> {
        None
    }

    /// Returns words for people: how the bytes are accessed, such as "io_uring, direct I/O".
    fn engine(&self) -> String {
        "a device".into()
    }

    /// Returns the file or raw device that has the bytes, where it is one.
    fn file_id(&self) -> Option<FileId> {
        None
    }

    /// Shows a number of up to 56 bits to processes that find the device in use ([`ImageUse`]), instead of
    /// the one before; `None` shows none. A device that is not a file, and a host without such locks, show
    /// none.
    fn show_mark(&self, _mark: Option<u64>) {}

    /// Fills `buffer` from byte `at` on.
    ///
    /// # Errors
    /// The host's error; `UnexpectedEof` past the end; `InvalidData` for bytes that the device itself has
    /// found damaged.
    fn read_at(&self, at: u64, buffer: IoBufMut<'_>) -> io::Result<()>;

    /// Fills a slice, as [`read_at`](Self::read_at).
    ///
    /// # Errors
    /// As `read_at`.
    fn read_slice(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read_at(at, IoBufMut::new(buffer))
    }

    /// Does many reads, any number of them at the same time, and returns when all have ended. A failed read
    /// does not stop the others.
    ///
    /// # Errors
    /// The error of [`read_at`](Self::read_at), for each failed read.
    fn read_many(&self, requests: &mut [Read<'_>]) -> Result<(), ReadErrors> {
        let mut errors = ReadErrors::default();
        for (index, request) in requests.iter_mut().enumerate() {
            if let Err(error) = self.read_at(request.at, request.buffer.reborrow()) {
                errors.add(index, error);
            }
        }
        errors.into_result()
    }

    /// Does many reads as [`read_many`](Self::read_many), for a caller that knows all that it needs, such as a
    /// batch of files. A device that reads ahead of its requests reads nothing ahead of these.
    ///
    /// # Errors
    /// As `read_many`.
    fn read_batch(&self, requests: &mut [Read<'_>]) -> Result<(), ReadErrors> {
        self.read_many(requests)
    }

    /// Writes all of `data` from byte `at` on.
    ///
    /// # Errors
    /// The host's error; the written part is then unknown. `UnexpectedEof` past the end: only
    /// [`resize`](Self::resize) makes a device larger. `ReadOnlyFilesystem` without an implementation.
    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        let _ = (at, data);
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    /// Writes a slice, as [`write_at`](Self::write_at).
    ///
    /// # Errors
    /// As `write_at`.
    fn write_slice(&self, at: u64, data: &[u8]) -> io::Result<()> {
        self.write_at(at, IoBuf::new(data))
    }

    /// Does many writes, in any order and any number of them at the same time, and returns when all have
    /// ended. The ranges share no byte.
    ///
    /// # Errors
    /// The first error; it is then unknown which of the other writes were done.
    fn write_many(&self, requests: &[Write<'_>]) -> io::Result<()> {
        requests.iter().try_for_each(|request| self.write_at(request.at, request.data))
    }

    /// Makes the block at `at` read as the one at `from` does now, without a copy. False where the device can
    /// only be written.
    fn take_from(&self, at: u64, from: u64) -> bool {
        let _ = (at, from);
        false
    }

    /// Makes all writes before the call durable.
    ///
    /// # Errors
    /// The host's error; writes since the last flush may be lost. `Unsupported` without an implementation,
    /// except for a device that can only be read, where there is nothing to do.
    fn flush(&self) -> io::Result<()> {
        // A device that takes writes and forgets to make them durable must not seem to do it.
        if self.is_read_only() { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
    }

    /// Discards a range. It may read as anything from now on.
    ///
    /// # Errors
    /// The host's error. A device that cannot discard does nothing and succeeds. `ReadOnlyFilesystem` without
    /// an implementation.
    fn discard(&self, at: u64, len: u64) -> io::Result<()> {
        let _ = (at, len);
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    /// Changes the size, where the device can (a file can, a raw device cannot).
    ///
    /// # Errors
    /// The host's error. `ReadOnlyFilesystem` without an implementation.
    fn resize(&self, len: u64) -> io::Result<()> {
        let _ = len;
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device with the calls that have no default, and whether it can be written.
    struct Plain {
        is_read_only: bool,
    }

    impl Device for Plain {
        fn len(&self) -> u64 {
            4096
        }
        fn is_read_only(&self) -> bool {
            self.is_read_only
        }
        fn read_at(&self, _at: u64, mut buffer: IoBufMut<'_>) -> io::Result<()> {
            buffer.copy_from(&vec![7; buffer.len()]);
            Ok(())
        }
    }

    #[test]
    fn a_device_without_calls_that_change_it_refuses_them() {
        for is_read_only in [true, false] {
            let device = Plain { is_read_only };
            let refused = [device.write_slice(0, &[1]), device.discard(0, 4096), device.resize(0)];
            for answer in refused {
                assert_eq!(answer.map_err(|e| e.kind()), Err(io::ErrorKind::ReadOnlyFilesystem));
            }
            // Nothing that was written may seem to be durable.
            assert_eq!(device.flush().is_ok(), is_read_only);
        }
    }
}
