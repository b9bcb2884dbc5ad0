//! The file of a trace, which a failed mount takes away again.

use crate::terminal::exit;
use crate::terminal::failure::Failure;
use crate::text::bytes;
use lanefs::host_path::open_dir;
use lanefs_fuse::Trace;
use lanefs_transfer::by_descriptor::FilePlace;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, fstat, statat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Permissions of the file: names of a volume are its user's business.
const PERM: u16 = 0o600;

/// A new file for a trace. It is removed when it is dropped, unless it is kept.
pub(super) struct TraceFile {
    path: PathBuf,
    dir: OwnedFd,
    name: Vec<u8>,
    file: OwnedFd,
    is_kept: bool,
}

impl TraceFile {
    /// Makes the file. No file that is there is written to, and no link of its name is followed: another user
    /// may have put one there. Its directory is opened once, so nobody who changes names meanwhile leads the
    /// file elsewhere.
    ///
    /// # Errors
    /// The host's; a file of this name exists.
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        let failed = |errno: Errno| match errno {
            Errno::EXIST => {
                let what = "exists already";
                Failure::new(exit::HOST, bytes::of_path(path), what, "name another file, or remove it")
            }
            errno => Failure::host(path, &errno.into()),
        };
        let name = path.file_name().ok_or_else(|| failed(Errno::ISDIR))?;
        let name = bytes::of(name).to_vec();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let dir = open_dir(parent).map_err(failed)?;
        let place = FilePlace::in_dir(dir.try_clone().map_err(|error| Failure::host(path, &error))?, &name);
        let file = place.append(PERM).map_err(failed)?;
        Ok(TraceFile { path: path.to_path_buf(), dir, name, file, is_kept: false })
    }

    /// Begins the trace.
    ///
    /// # Errors
    /// The host's.
    pub(super) fn begin(&self) -> Result<Arc<Trace>, Failure> {
        let file = self.file.try_clone().map_err(|error| Failure::host(&self.path, &error))?;
        Ok(Arc::new(Trace::new(File::from(file))))
    }

    /// Leaves the file where it is.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        let is_own = || {
            let there = statat(&self.dir, &self.name[..], AtFlags::SYMLINK_NOFOLLOW)?;
            let own = fstat(&self.file)?;
            Ok::<_, Errno>((there.st_dev, there.st_ino) == (own.st_dev, own.st_ino))
        };
        if !self.is_kept && is_own().unwrap_or(false) {
            let _ = unlinkat(&self.dir, &self.name[..], AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn the_file_of_a_mount_that_failed_is_taken_away_and_no_other_one() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("trace");
        drop(TraceFile::create(&path).expect("made"));
        assert!(!path.exists());
        let made = TraceFile::create(&path).expect("made");
        assert_eq!(path.metadata().expect("there").permissions().mode() & 0o777, 0o600);
        fs::remove_file(&path).expect("removed");
        fs::write(&path, "of another one").expect("written");
        drop(made);
        assert_eq!(fs::read_to_string(&path).expect("there"), "of another one");
        assert!(TraceFile::create(&path).is_err(), "a file is there");
        fs::remove_file(&path).expect("removed");
        TraceFile::create(&path).expect("made").keep();
        assert!(path.exists());
    }

    #[test]
    fn links_and_names_that_change_lead_nowhere_else() {
        let home = tempfile::tempdir().expect("a directory");
        let (dir, target) = (home.path().join("dir"), home.path().join("target"));
        fs::create_dir(&dir).expect("made");
        symlink(&target, dir.join("trace")).expect("a link");
        assert!(TraceFile::create(&dir.join("trace")).is_err());
        assert!(!target.exists());
        // The directory is another one by the time that the mount fails.
        let made = TraceFile::create(&dir.join("own")).expect("made");
        fs::rename(&dir, home.path().join("moved")).expect("moved");
        fs::create_dir(&dir).expect("made");
        fs::write(dir.join("own"), "of another one").expect("written");
        drop(made);
        assert_eq!(fs::read_to_string(dir.join("own")).expect("there"), "of another one");
        assert!(!home.path().join("moved/own").exists());
    }
}
