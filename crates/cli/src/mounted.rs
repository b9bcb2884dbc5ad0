//! Volumes that are mounted. The process that serves the mount executes the commands on them; those that use
//! files of the host run here, and reach the volume through that process.

use crate::command::HostCommand;
use crate::context::Context;
use crate::escape::escape;
use crate::failure::Failure;
use crate::image::Image;
use crate::new_file::NewFile;
use crate::{console, exit, interrupt};
use lanefs::FileSystem;
use lanefs_fuse::client::{CommandFile, CommandSpec, MountedVolume};
use lanefs_fuse::{Error, RemoteVolume, client};
use parking_lot::Mutex;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// Converts a failure to mount or unmount that involves no image.
pub fn mount_failure(error: &Error) -> Failure {
    let exit = match error {
        Error::Option(_) => exit::USAGE,
        Error::Directory { .. } | Error::Busy { .. } | Error::Move(_) => exit::PARTIAL,
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
    let command = CommandSpec { file, ..command_line() };
    mount.execute(command, &interrupt::raised).map_err(|error| mount_failure(&error))
}

/// Sends this process's command line to the server of a mount, and makes its output the file `path`. Returns
/// the command's exit code. A command writes its output at its end, or not at all, where it fails or is
/// interrupted.
///
/// # Errors
/// Names the file: the host's. As [`forward`].
pub fn forward_into(mount: &MountedVolume, path: &Path) -> Result<u8, Failure> {
    let file = NewFile::create(path, &Image::Path(mount.source.clone()))?;
    let output = Output::default();
    let command = CommandSpec { output: Some(Box::new(output.clone())), ..command_line() };
    let code = mount.execute(command, &interrupt::raised).map_err(|error| mount_failure(&error))?;
    match &*output.content.lock() {
        None => Err(Failure::host(path, &io::ErrorKind::FileTooLarge.into())),
        Some(content) if content.is_empty() || code == exit::INTERRUPTED => Ok(code),
        Some(content) => file.write(content).map(|()| code),
    }
}

/// The command line of this process.
fn command_line() -> CommandSpec {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    CommandSpec { arguments, terminals: console::terminals(), ..CommandSpec::default() }
}

/// Output of a command in memory.
#[derive(Clone)]
struct Output {
    /// `None` once it was too long.
    content: Arc<Mutex<Option<Vec<u8>>>>,
}

impl Default for Output {
    fn default() -> Self {
        Output { content: Arc::new(Mutex::new(Some(Vec::new()))) }
    }
}

impl Output {
    /// Longest output in bytes.
    const MAX: usize = 256 << 20;
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut content = self.content.lock();
        match &mut *content {
            Some(content) if content.len() + bytes.len() <= Self::MAX => {
                content.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            _ => {
                *content = None;
                Err(io::ErrorKind::FileTooLarge.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
