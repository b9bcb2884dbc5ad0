//! A mount that ends with its value.

use super::command::run_command;
use crate::measure::stop::Stop;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// Attempts of an unmount: a desktop's scanner may keep a new mount busy for a short time.
const UNMOUNT_TRIES: u32 = 20;

/// A mount that ends with its value in any case.
#[derive(Debug)]
pub(super) struct MountGuard {
    /// Directory of the mount point (and of a new image); dropped after the unmount.
    pub(super) temp: TempDir,
}

impl MountGuard {
    pub(super) fn point(&self) -> PathBuf {
        self.temp.path().join("mnt")
    }
}

impl Drop for MountGuard {
    fn drop(&mut self) {
        // Ctrl-C does not stop the unmount, which it requests.
        let stop = Stop::default();
        let point = self.point();
        let point = point.to_string_lossy();
        let mut result = run_command("umount", &[&point], &stop);
        for _ in 1..UNMOUNT_TRIES {
            if result.is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
            result = run_command("umount", &[&point], &stop);
        }
        if let Err(error) = result {
            eprintln!("{error}; it is detached now and goes when its last user does");
            let _ = run_command("umount", &["-l", &point], &stop);
        }
    }
}
