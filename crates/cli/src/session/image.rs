//! The image of a volume: the IMAGE argument, opening and closing. A publication is an image that is read.

use super::publication::{self, LocationParser, Reading, Tell};
use crate::terminal::failure::{self, Failure, Outcome, exit_code};
use crate::terminal::{console, ending, exit, interrupt};
use crate::text::{bytes, escape, size};
use clap::builder::{OsStringValueParser, TypedValueParser};
use lanefs::{Access, Code, CreateOptions, Error, OpenOptions, Volume};
use lanefs_fuse::find;
use lanefs_publish::Location;
use lanefs_transfer::FileId;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// The IMAGE of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// `mem:SIZE`: a new volume in memory, gone when the command ends. Size in bytes.
    Memory(u64),
    /// A file or a raw device.
    Path(PathBuf),
    /// A version on a store, for reading.
    Publication(Location),
}

/// Help for an IMAGE that is read.
pub const HELP: &str =
    "Volume: a file, a raw device, the URL of a publication, or mem:SIZE for a new one in memory";
/// Help for an IMAGE that is changed.
pub const CHANGED_HELP: &str = "Volume: a file or a raw device";

impl Image {
    /// Parses an argument that is not a URL. A file whose name begins with `mem:` is given as `./mem:...`.
    ///
    /// # Errors
    /// The text after `mem:` is not a size.
    pub fn parse(text: OsString) -> Result<Self, String> {
        match bytes::of(&text).strip_prefix(b"mem:") {
            Some(size) => size::parse_size(&String::from_utf8_lossy(size)).map(Image::Memory),
            None if text.is_empty() => Err("the name of the image is empty".to_string()),
            None => Ok(Image::Path(PathBuf::from(text))),
        }
    }

    /// The name for messages.
    pub fn name(&self) -> Vec<u8> {
        match self {
            Image::Memory(bytes) => format!("mem:{bytes}").into_bytes(),
            Image::Path(path) => bytes::of_path(path).to_vec(),
            Image::Publication(location) => location.to_string().into_bytes(),
        }
    }

    /// True if `file` is the image itself, under any name.
    pub fn is(&self, file: &std::fs::File) -> bool {
        file.metadata().is_ok_and(|file| self.is_file(&file))
    }

    /// [`is`](Self::is) for a file of which the caller has the metadata.
    pub fn is_file(&self, file: &std::fs::Metadata) -> bool {
        self.has_identity(file.dev(), file.ino())
    }

    /// [`is`](Self::is) for a file of which the caller knows the device and the inode number.
    pub fn has_identity(&self, dev: u64, ino: u64) -> bool {
        let Image::Path(path) = self else { return false };
        std::fs::metadata(path).is_ok_and(|image| (image.dev(), image.ino()) == (dev, ino))
    }

    /// The file of the image, which a transfer neither reads nor replaces.
    pub fn files(&self) -> Vec<FileId> {
        let Image::Path(path) = self else { return Vec::new() };
        let meta = std::fs::metadata(path);
        meta.map_or_else(|_| Vec::new(), |meta| vec![FileId { dev: meta.dev(), ino: meta.ino() }])
    }

    /// The access that a session gets which would write if it could.
    pub fn best_access(&self) -> Access {
        if self.is_publication() { Access::Read } else { Access::Write }
    }

    /// True for a publication.
    pub fn is_publication(&self) -> bool {
        matches!(self, Image::Publication(_))
    }

    /// Refuses to change a publication.
    ///
    /// # Errors
    /// Names the image, with advice.
    pub fn check_changes(&self) -> Outcome {
        if !self.is_publication() {
            return Ok(());
        }
        let advice = "change the volume that it is made from, and `lanefs publish` that again";
        Err(Failure::usage(self.name(), "a publication cannot be changed", advice))
    }

    /// Opens the volume, or creates the one in memory. Waits for the server of a mount that has ended.
    ///
    /// # Errors
    /// Names the image, with advice.
    pub fn open(&self, options: impl Into<OpenOptions>) -> Result<Volume, Failure> {
        Ok(self.open_telling(options, Tell::User)?.0)
    }

    /// [`Image::open`] with a destination of messages on reads of a store that fail, and with the counts of
    /// a publication.
    ///
    /// # Errors
    /// As [`Image::open`].
    pub fn open_telling(
        &self,
        options: impl Into<OpenOptions>,
        tell: Tell,
    ) -> Result<(Volume, Option<Arc<Reading>>), Failure> {
        let (cache, directory_table) = (cache(), directory_table());
        let options = OpenOptions { cache, directory_table, ..options.into() };
        let volume = match self {
            Image::Memory(size) => {
                Volume::create_memory(&CreateOptions { size: *size, ..CreateOptions::default() })
            }
            // The server of such a directory may keep whoever opens it waiting for ever.
            Image::Path(path) if find::is_mount_point(path) => {
                return Err(self.is_a_directory());
            }
            Image::Path(path) => ending::open(path, || Volume::open(path, options.clone())),
            Image::Publication(location) => {
                if options.access != Access::Read {
                    self.check_changes()?;
                }
                let (volume, reading) = publication::open(location, options, tell)?;
                return Ok((volume, Some(reading)));
            }
        };
        let volume = volume.map_err(|error| self.failure(&error))?;
        volume.interrupt_waits_by(interrupt::raised);
        Ok((volume, None))
    }

    /// Warns of a volume that is open for reading without its journal.
    pub fn warn_of_damage(&self, volume: &Volume) {
        if let Some(damage) = volume.journal_damage() {
            let name = escape::escape(&self.name());
            console::say(&format!("{name}: {damage}; run `lanefs fsck --repair` on the image"));
        }
    }

    /// Closes a volume of this image and returns the exit code. Changes of a volume that was open for writing
    /// are durable then, or the failure is printed.
    pub fn close(&self, volume: Volume, access: Access) -> u8 {
        match access {
            // Nothing was changed, so nothing can be lost.
            Access::Read => exit::OK,
            Access::Write | Access::Repair => {
                exit_code(volume.close().map(|()| exit::OK).map_err(|error| self.failure(&error)))
            }
        }
    }

    /// Converts a failure to open or create this image. A defect of the whole image leads to [`exit::IMAGE`].
    pub fn failure(&self, error: &Error) -> Failure {
        let name = self.name();
        match error {
            Error::Code(code) | Error::At { code, .. } if *code != Code::Io => {
                Failure::new(exit::IMAGE, name, code.text(), &failure::advice(*code))
            }
            Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Failure::new(
                exit::HOST,
                name,
                "no such image",
                "check the path, or create one with `lanefs mkfs`",
            ),
            Error::Io { source, .. } if source.kind() == std::io::ErrorKind::IsADirectory => {
                self.is_a_directory()
            }
            _ => Failure::volume(name, error),
        }
    }

    /// Converts a failure to create this image.
    pub fn creation_failure(&self, error: &Error) -> Failure {
        let is_other = |path: &PathBuf| {
            let kind = std::fs::metadata(path).map(|meta| meta.file_type());
            kind.is_ok_and(|kind| !kind.is_file() && !kind.is_dir() && !kind.is_block_device())
        };
        let name = self.name();
        match (error, self) {
            (_, Image::Path(path)) if path.is_dir() => {
                let advice = "name a file in it, as in `lanefs mkfs DIR/v.lane`";
                Failure::new(exit::HOST, name, "is a directory", advice)
            }
            (Error::Image { .. }, Image::Path(path)) if is_other(path) => {
                let what = "neither a file nor a block device";
                Failure::new(exit::IMAGE, name, what, "choose another name for the volume")
            }
            (Error::Io { source, .. }, _) if source.kind() == std::io::ErrorKind::NotFound => {
                Failure::new(exit::HOST, name, "its directory is missing", "make the directory first")
            }
            _ => self.failure(error),
        }
    }

    /// The failure of a directory that is named as the image: mostly one that is meant as the source.
    fn is_a_directory(&self) -> Failure {
        let advice = "the image comes before all other names, as in `lanefs sync IMAGE SRC DEST`";
        Failure::new(exit::HOST, self.name(), "is a directory, not a volume", advice)
    }
}

/// Memory for the blocks of a volume in bytes, if the command line sets it.
static CACHE: OnceLock<u64> = OnceLock::new();

/// Sets the memory in bytes for volumes that are opened from now on. The first call counts.
pub fn set_cache(bytes: u64) {
    let _ = CACHE.set(bytes);
}

/// The memory that [`set_cache`] set.
pub fn cache() -> Option<u64> {
    CACHE.get().copied()
}

/// Memory for the directory-path table of a volume in bytes, if the command line sets it.
static DIRECTORY_TABLE: OnceLock<u64> = OnceLock::new();

/// Sets the memory in bytes for the directory-path table of volumes that are opened from now on.
pub fn set_directory_table(bytes: u64) {
    let _ = DIRECTORY_TABLE.set(bytes);
}

/// The memory that [`set_directory_table`] set.
pub fn directory_table() -> Option<u64> {
    DIRECTORY_TABLE.get().copied()
}

/// The clap parser of an IMAGE argument.
pub fn parser() -> impl TypedValueParser<Value = Image> {
    ImageParser
}

#[derive(Clone)]
struct ImageParser;

impl TypedValueParser for ImageParser {
    type Value = Image;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Image, clap::Error> {
        match Location::is_url(bytes::of(value)) {
            true => LocationParser.parse_ref(command, arg, value).map(Image::Publication),
            false => OsStringValueParser::new().try_map(Image::parse).parse_ref(command, arg, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_parse() {
        assert_eq!(Image::parse("mem:1M".into()), Ok(Image::Memory(1 << 20)));
        assert_eq!(Image::parse("./mem:1M".into()), Ok(Image::Path("./mem:1M".into())));
        assert!(Image::parse("mem:lots".into()).is_err());
        assert!(Image::parse("".into()).is_err());
    }
}
