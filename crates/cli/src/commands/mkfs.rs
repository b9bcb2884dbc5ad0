//! `lanefs mkfs`.

use crate::session::image::{self, Image};
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::{console, ending, exit, interrupt};
use crate::text::escape::escape;
use crate::text::identity::{MAX_LABEL, parse_label, parse_uuid};
use crate::text::{bytes, mode, size};
use clap::Args;
use lanefs::format::{MAX_VOLUME, MIN_VOLUME};
use lanefs::{Code, CreateOptions, Error, InodeSize, Volume};
use lanefs_publish::family_seed;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Create a volume
///
/// Creates an empty volume in IMAGE. A file is sparse: it takes the space of its content only. An existing
/// volume or file is overwritten with --force only.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lanefs mkfs v.lane --size 8G
  lanefs mkfs v.lane --size 500G --inode-size 128 --label dataset
  lanefs mkfs /dev/sdx1 --force")]
pub struct Mkfs {
    /// File (created if it is missing) or raw device
    #[arg(value_name = "IMAGE", value_parser = image::parser())]
    image: Image,
    /// Size of the volume: 512M, 8G, 1.5T [default: all of a device]
    #[arg(long, allow_negative_numbers = true, value_parser = size::parse_size)]
    size: Option<u64>,
    /// Size of an inode in bytes: 256 keeps small files and directories inside inodes, 128 saves space
    #[arg(long, value_name = "BYTES", default_value = "256", value_parser = ["128", "256"])]
    inode_size: String,
    #[arg(long, help = format!("Label of the volume, at most {MAX_LABEL} bytes"), default_value = "", hide_default_value = true, value_parser = parse_label)]
    label: String,
    /// Identity of the volume [default: random]
    #[arg(long, value_parser = parse_uuid)]
    uuid: Option<[u8; 16]>,
    /// Name of a family: volumes of one family can be the shards of one join (see `lanefs join`)
    #[arg(long, value_name = "NAME")]
    family: Option<String>,
    /// Keep no checksums of file data, and overwrite them in place
    #[arg(long)]
    no_data_checksums: bool,
    /// Permissions of the file: octal, as in chmod(1) [default: 666 without those that the umask takes]
    #[arg(long, value_parser = mode::parse_file_mode)]
    mode: Option<u16>,
    /// Overwrite the content of IMAGE
    #[arg(long, short)]
    force: bool,
    /// Print nothing on success
    #[arg(long, short)]
    quiet: bool,
}

impl Mkfs {
    /// Creates the volume.
    ///
    /// # Errors
    /// The size is missing or impossible, IMAGE exists, or the host fails.
    pub fn execute(&self) -> Outcome {
        self.image.check_changes()?;
        if let (Image::Memory(_), Some(_)) = (&self.image, self.mode) {
            return Err(Failure::usage("--mode", "a volume in memory has no file", "leave it out"));
        }
        let options = CreateOptions {
            size: self.volume_bytes()?,
            inode_size: if self.inode_size == "128" { InodeSize::B128 } else { InodeSize::B256 },
            force: self.force,
            label: self.label.clone(),
            uuid: self.uuid,
            seed: self.family.as_deref().map(family_seed),
            data_checksums: !self.no_data_checksums,
            mode: self.mode,
        };
        let volume = match &self.image {
            Image::Memory(_) => Volume::create_memory(&options),
            Image::Path(path) => {
                let create = || Volume::create_unless(path, &options, interrupt::raised);
                ending::open(path, create)
            }
            Image::Publication(_) => Err(Code::ReadOnly.into()),
        }
        .map_err(|error| self.not_made(&error))?;
        let superblock = volume.superblock();
        volume.close().map_err(|error| self.image.failure(&error))?;
        if !self.quiet {
            let uuid = uuid::Uuid::from_bytes(superblock.uuid);
            let bytes = size::human(superblock.volume_bytes);
            let inode = superblock.inode_size.bytes();
            let line =
                format!("{}: {bytes}, inodes of {inode} bytes, uuid {uuid}\n", escape(&self.image.name()));
            console::output().write_all(line.as_bytes())?;
        }
        Ok(())
    }

    /// The failure of a volume that was not made.
    fn not_made(&self, error: &Error) -> Failure {
        match error {
            Error::Io { source, .. } if source.kind() == ErrorKind::Interrupted && interrupt::raised() => {
                match &self.image {
                    // A new file is gone, and one that stays has been overwritten.
                    Image::Path(path) if path.exists() => {
                        let what = "interrupted: its old content is gone, and it holds no volume";
                        Failure::new(exit::INTERRUPTED, self.image.name(), what, "make the volume again")
                    }
                    _ => Failure::Interrupted,
                }
            }
            error => self.image.creation_failure(error),
        }
    }

    fn volume_bytes(&self) -> Result<u64, Failure> {
        let size = match (&self.image, self.size) {
            (Image::Memory(size), _) => *size,
            (_, Some(size)) => size,
            (Image::Path(path), None) => device_bytes(path)?,
            (Image::Publication(_), None) => 0,
        };
        let (problem, advice) = match size {
            MIN_VOLUME..=MAX_VOLUME => return Ok(size),
            0..MIN_VOLUME => ("small", format!("give at least --size {}", size::human(MIN_VOLUME))),
            _ => ("large", format!("give at most --size {}", size::human(MAX_VOLUME))),
        };
        let what = format!("{} is too {problem} for a volume", size::human(size));
        Err(Failure::usage(self.image.name(), &what, &advice))
    }
}

/// The size of a block device.
fn device_bytes(path: &Path) -> Result<u64, Failure> {
    let is_device = std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_block_device());
    if !is_device {
        let advice = "give the size of the volume, as in --size 8G";
        return Err(Failure::usage(bytes::of_path(path), "no size given", advice));
    }
    std::fs::File::open(path)
        .and_then(|mut device| std::io::Seek::seek(&mut device, std::io::SeekFrom::End(0)))
        .map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => Failure::host(path, &error),
            _ => Failure::new(exit::HOST, bytes::of_path(path), &lanefs::host_text(&error), "give --size"),
        })
}
