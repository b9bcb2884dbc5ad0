//! Volumes that are mounted: commands on them go to the process that serves the mount.

use crate::escape::escape;
use crate::failure::Failure;
use crate::image::Image;
use crate::{exit, interrupt};
use lanefs_fuse::{Error, client};
use std::ffi::OsString;

/// Converts a failure to mount or unmount that involves no image.
pub fn mount_failure(error: &Error) -> Failure {
    let exit = match error {
        Error::Option(_) => exit::USAGE,
        Error::Directory { .. } | Error::Busy { .. } => exit::PARTIAL,
        Error::Volume(_) => exit::IMAGE,
        Error::Host { .. } | Error::Helper(_) => exit::HOST,
    };
    Failure::Message { exit, text: escape(error.to_string().as_bytes()), ends: true }
}

/// Converts a failure to mount this image.
pub fn image_mount_failure(image: &Image, error: &Error) -> Failure {
    match error {
        Error::Volume(error) => image.failure(error),
        other => mount_failure(other),
    }
}

/// The failure of a command that needs the image for itself.
pub fn in_use(image: &Image) -> Failure {
    Failure::new(exit::IMAGE, image.name(), "is mounted", "unmount it with `lanefs umount` first")
}

/// True if the image is mounted, or names the directory of a mount.
pub fn is_mounted(image: &Image) -> bool {
    matches!(image, Image::Path(path) if client::find(path).is_some())
}

/// Sends this process's command line to the process that serves the image, or the mount on the directory that
/// was named instead. Returns the command's exit code; `None` if nothing is mounted.
pub fn forward(image: &Image) -> Option<Result<u8, Failure>> {
    let Image::Path(path) = image else { return None };
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let code = client::find(path)?.execute(&words, &interrupt::raised);
    Some(code.map_err(|error| mount_failure(&error)))
}
