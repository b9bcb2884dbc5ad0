//! Volumes that are mounted. The process that serves the mount executes the commands on them; those that use
//! files of the host run here, and reach the volume through that process.

use crate::command::HostCommand;
use crate::context::Context;
use crate::escape::escape;
use crate::failure::Failure;
use crate::image::Image;
use crate::{console, exit, interrupt};
use lanefs::FileSystem;
use lanefs_fuse::client::{CommandFile, CommandSpec, MountedVolume};
use lanefs_fuse::{Error, RemoteVolume, client};
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
    find(image).is_some()
}

/// The mount of an image, or on the directory that was named instead; `None` if nothing is mounted.
pub fn find(image: &Image) -> Option<MountedVolume> {
    let Image::Path(path) = image else { return None };
    client::find(path)
}

/// Sends this process's command line to the server of a mount. Returns the command's exit code.
///
/// # Errors
/// The mount does not reply, or is another user's.
pub fn forward(mount: &MountedVolume, file: Option<CommandFile>) -> Result<u8, Failure> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let command = CommandSpec { arguments, terminals: console::terminals(), file };
    mount.execute(command, &interrupt::raised).map_err(|error| mount_failure(&error))
}

/// Executes a command in this process, on the volume that the server of a mount has open. Its changes are
/// durable when it returns.
///
/// # Errors
/// The mount does not reply, or is another user's.
pub fn execute_here(mount: &MountedVolume, command: &dyn HostCommand, changes: bool) -> Result<u8, Failure> {
    let volume = RemoteVolume::open(mount).map_err(|error| mount_failure(&error))?;
    let image = Image::Path(mount.source.clone());
    let mut context = Context::new(&volume, &image);
    let outcome = command.execute_beside(&mut context);
    let outcome = match changes {
        true => outcome.and(volume.sync().map_err(|error| Failure::volume(image.name(), &error))),
        false => outcome,
    };
    Ok(context.finish(outcome))
}
