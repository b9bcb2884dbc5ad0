//! A file of the host that a command writes. It appears under its name when it is complete.

use super::image::Image;
use crate::terminal::failure::{Failure, Outcome};
use crate::text::bytes;
use lanefs_transfer::by_descriptor::{FilePlace, NewFile as TemporaryFile};
use rustix::fd::OwnedFd;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Permissions of a new file, without those that the umask takes.
const PERM: u16 = 0o666;

/// A file of the host that is not complete.
pub struct NewFile {
    /// The name that the user gave, for messages.
    name: PathBuf,
    target: NewFileKind,
}

enum NewFileKind {
    /// A temporary file beside the name that it gets.
    Temporary(TemporaryFile),
    /// A pipe or a character device, which nothing may replace.
    Special(OwnedFd),
}

impl NewFile {
    /// Creates a temporary file beside `path`. A pipe or a character device of that name is opened instead.
    ///
    /// # Errors
    /// Names the file: it is a directory, a block device or `image`; the host's.
    pub fn create(path: &Path, image: &Image) -> Result<Self, Failure> {
        let target = Self::target(path, image)?;
        Ok(NewFile { name: path.to_path_buf(), target })
    }

    fn target(path: &Path, image: &Image) -> Result<NewFileKind, Failure> {
        let failed = |errno: Errno| Failure::host(path, &errno.into());
        // A file that exists may be without rights to read it; replacing it needs none. The target of a
        // symbolic link is replaced, not the link.
        let place = FilePlace::find(path).map_err(failed)?;
        match place.kind() {
            Some(FileType::Directory) => Err(failed(Errno::ISDIR)),
            _ if place.existing().is_some_and(|stat| image.has_identity(stat.st_dev, stat.st_ino)) => {
                let advice = "choose another name";
                Err(Failure::usage(bytes::of_path(path), "is the image itself", advice))
            }
            // A disk is worth more than a picture, and may be the volume under another name.
            Some(FileType::BlockDevice) => {
                Err(Failure::usage(bytes::of_path(path), "is a block device", "choose a file"))
            }
            Some(FileType::RegularFile) | None => {
                place.create(PERM).map(NewFileKind::Temporary).map_err(failed)
            }
            Some(_) => place.open_special().map(NewFileKind::Special).map_err(failed),
        }
    }

    /// Writes the whole content, and gives the file its name.
    ///
    /// # Errors
    /// Names the file: the host's.
    pub fn write(self, content: &[u8]) -> Outcome {
        self.writer()?.write_all(content).map_err(|error| self.failure(&error))?;
        self.finish()
    }

    /// Returns the file for a writer of the content, whose errors are [`failure`](Self::failure)s.
    ///
    /// # Errors
    /// Names the file: the host's.
    pub fn writer(&self) -> Result<File, Failure> {
        let file = match &self.target {
            NewFileKind::Temporary(file) => file.file(),
            NewFileKind::Special(file) => file,
        };
        file.try_clone().map(File::from).map_err(|error| self.failure(&error))
    }

    /// Makes the content durable, where it is that of a file.
    ///
    /// # Errors
    /// The host's.
    pub fn sync(&self) -> io::Result<()> {
        match &self.target {
            NewFileKind::Temporary(file) => Ok(rustix::fs::fsync(file.file())?),
            NewFileKind::Special(_) => Ok(()),
        }
    }

    /// Converts an error of writing.
    pub fn failure(&self, error: &io::Error) -> Failure {
        match (error.kind(), &self.target) {
            (ErrorKind::BrokenPipe, NewFileKind::Special(_)) => Failure::BrokenPipe,
            _ => Failure::host(&self.name, error),
        }
    }

    /// Gives the file its name, once its content is written.
    ///
    /// # Errors
    /// Names the file: the host's.
    pub fn finish(self) -> Outcome {
        match self.target {
            NewFileKind::Special(_) => Ok(()),
            NewFileKind::Temporary(file) => {
                file.finish(true).map_err(|errno| Failure::host(&self.name, &errno.into()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    fn create(path: &Path) -> Result<NewFile, Failure> {
        NewFile::create(path, &Image::Memory(0))
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).expect("a directory");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_has_its_name_when_it_is_complete() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, link) = (dir.path().join("new"), dir.path().join("link"));
        drop(create(&file).expect("created"));
        assert_eq!(names(dir.path()), [""; 0], "a file that was dropped leaves nothing");
        create(&file).expect("created").write(b"one").expect("written");
        std::os::unix::fs::symlink("new", &link).expect("a link");
        fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("set");
        let second = create(&link).expect("created");
        assert_eq!(fs::read(&file).expect("there"), b"one");
        second.write(b"two").expect("written");
        assert_eq!(fs::read(&file).expect("there"), b"two");
        assert_eq!(file.metadata().expect("there").permissions().mode() & 0o777, 0o640);
        assert!(link.is_symlink());
        assert_eq!(names(dir.path()), ["link", "new"]);
    }

    #[test]
    fn devices_stay_and_the_image_is_refused() {
        create(Path::new("/dev/null")).expect("opened").write(b"x").expect("written");
        assert!(!Path::new("/dev/null").is_file());
        let dir = tempfile::tempdir().expect("a directory");
        let (image, link) = (dir.path().join("v.lane"), dir.path().join("other"));
        fs::write(&image, "a volume").expect("written");
        fs::hard_link(&image, &link).expect("a second name");
        let refused = NewFile::create(&link, &Image::Path(image.clone())).err().expect("refused");
        assert!(matches!(refused, Failure::Message { ref text, .. } if text.contains("the image itself")));
        for (path, part) in [(dir.path().join("none/x"), "none/x"), (dir.path().to_path_buf(), "directory")] {
            let refused = create(&path).err().expect("refused");
            assert!(matches!(refused, Failure::Message { ref text, .. } if text.contains(part)));
        }
        assert_eq!(fs::read(&image).expect("there"), b"a volume");
    }
}
