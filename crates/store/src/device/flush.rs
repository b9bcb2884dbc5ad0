//! Flushes, on a kernel that reports a failure only once.

use lanefs_sync::lock::Mutex;
use std::fs::File;
use std::io;

/// The flushes of one file.
///
/// A failed flush means that some write is lost, and the kernel reports it to one caller only: the next
/// `fdatasync` succeeds although the bytes never reached the disk. So a failure is kept. The call is made
/// under the lock: otherwise a second flush could succeed before the first has recorded its failure.
#[derive(Default)]
pub(super) struct Flushes {
    failed: Mutex<Option<(io::ErrorKind, Option<i32>)>>,
}

impl Flushes {
    /// `fdatasync`, or the failure of an earlier one.
    pub(super) fn flush(&self, file: &File) -> io::Result<()> {
        self.flush_by(|| file.sync_data())
    }

    fn flush_by(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut failed = self.failed.lock();
        if let Some((kind, errno)) = *failed {
            return Err(errno.map_or_else(|| kind.into(), io::Error::from_raw_os_error));
        }
        let result = sync();
        if let Err(error) = &result {
            *failed = Some((error.kind(), error.raw_os_error()));
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_after_a_failed_flush_fails_with_the_same_error() {
        let flushes = Flushes::default();
        assert!(flushes.flush_by(|| Ok(())).is_ok());
        let no_space = || io::Error::from(rustix::io::Errno::NOSPC);
        assert_eq!(
            flushes.flush_by(|| Err(no_space())).unwrap_err().raw_os_error(),
            no_space().raw_os_error()
        );
        let again = flushes.flush_by(|| unreachable!("the kernel is not asked again"));
        assert_eq!(again.unwrap_err().raw_os_error(), no_space().raw_os_error());
    }
}
