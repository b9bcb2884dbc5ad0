//! A file of the host that a command writes. It appears under its name when it is complete.

use crate::bytes;
use crate::failure::{Failure, Outcome};
use crate::image::Image;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Permissions of a new file, without those that the umask takes.
const PERM: u32 = 0o666;

/// A file of the host that is not complete.
pub struct NewFile {
    /// The name that the user gave, for messages.
    name: PathBuf,
    target: Target,
}

enum Target {
    /// A temporary file, and the name that it gets.
    Temporary(NamedTempFile, PathBuf),
    /// A pipe or a character device, which nothing may replace.
    Special(File),
}

impl NewFile {
    /// Creates a temporary file beside `path`. A pipe or a character device of that name is opened instead.
    ///
    /// # Errors
    /// Names the file: it is a directory, a block device or `image`; the host's.
    pub fn create(path: &Path, image: &Image) -> Result<Self, Failure> {
        let target = Self::target(path, image);
        Ok(NewFile { name: path.to_path_buf(), target: target? })
    }

    fn target(path: &Path, image: &Image) -> Result<Target, Failure> {
        let failed = |error: io::Error| Failure::host(path, &error);
        // A file that exists may be without rights to read it; replacing it needs none.
        let (name, perm) = match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => return Err(failed(ErrorKind::IsADirectory.into())),
            Ok(meta) if image.is_file(&meta) => {
                let advice = "choose another name";
                return Err(Failure::usage(bytes::of_path(path), "is the image itself", advice));
            }
            // A disk is worth more than a picture, and may be the volume under another name.
            Ok(meta) if meta.file_type().is_block_device() => {
                let advice = "choose a file";
                return Err(Failure::usage(bytes::of_path(path), "is a block device", advice));
            }
            Ok(meta) if !meta.is_file() => {
                return Ok(Target::Special(OpenOptions::new().write(true).open(path).map_err(failed)?));
            }
            // The target of a symbolic link is replaced, not the link. Its set-id bits would be the user's.
            Ok(meta) => (path.canonicalize().map_err(failed)?, Some(meta.permissions().mode() & 0o777)),
            Err(error) if error.kind() == ErrorKind::NotFound => (path.to_path_buf(), None),
            Err(error) => return Err(failed(error)),
        };
        let dir = match name.parent() {
            Some(dir) if dir.as_os_str().is_empty() => Path::new("."),
            Some(dir) => dir,
            None => return Err(failed(ErrorKind::IsADirectory.into())),
        };
        std::fs::metadata(dir).map_err(failed)?;
        let file = tempfile::Builder::new()
            .prefix(".lanefs-")
            .permissions(Permissions::from_mode(PERM))
            .tempfile_in(dir)
            // The error of `tempfile` has the name of the temporary file.
            .map_err(|error| failed(error.kind().into()))?;
        if let Some(perm) = perm {
            file.as_file().set_permissions(Permissions::from_mode(perm)).map_err(failed)?;
        }
        Ok(Target::Temporary(file, name))
    }

    /// Writes the whole content, and gives the file its name.
    ///
    /// # Errors
    /// Names the file: the host's.
    pub fn write(self, content: &[u8]) -> Outcome {
        let failed = |error: &io::Error| match (&self.target, error.kind()) {
            (Target::Special(_), ErrorKind::BrokenPipe) => Failure::BrokenPipe,
            _ => Failure::host(&self.name, error),
        };
        let written = match &self.target {
            Target::Temporary(file, _) => file.as_file().write_all(content),
            Target::Special(file) => (&mut &*file).write_all(content),
        };
        written.map_err(|error| failed(&error))?;
        match self.target {
            Target::Special(_) => Ok(()),
            Target::Temporary(file, name) => {
                file.persist(name).map(drop).map_err(|error| Failure::host(&self.name, &error.error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
