//! Volumes that are mounted. The process that serves the mount executes the commands on them; those that use
//! files of the host run here, and reach the volume through that process.

use super::command::HostCommand;
use super::context::Context;
use super::image::Image;
use super::new_file::NewFile;
use crate::terminal::failure::{Failure, Outcome};
use crate::terminal::{console, exit, interrupt};
use crate::text::bytes;
use crate::text::escape::escape;
use lanefs::FileSystem;
use lanefs_fuse::client::{CommandFile, CommandSpec, MountedVolume};
use lanefs_fuse::unmount::{self, Unmounted};
use lanefs_fuse::{Error, RemoteVolume, find, std_output};
use parking_lot::Mutex;
use std::cell::Cell;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Converts a failure to mount or unmount that involves no image.
pub fn mount_failure(error: &Error) -> Failure {
    let exit = match error {
        Error::Option(_) => exit::USAGE,
        Error::Directory { .. } | Error::Busy { .. } | Error::Move(_) => exit::PARTIAL,
        Error::Volume(_) => exit::IMAGE,
        Error::Host { .. } | Error::Helper(_) => exit::HOST,
    };
    Failure::Message { exit, text: error.to_string(), ends: true }
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

/// Finds the mount through which a command reaches a volume that cannot be opened: the mount of the image, or
/// on the directory that was named instead.
///
/// # Errors
/// `failure`, where this user has no such mount; it says as well which other user claims to have one. Another
/// user's mount is on the directory; the mount does not reply.
pub fn in_place_of(image: &Image, failure: Failure) -> Result<MountedVolume, Failure> {
    let Image::Path(path) = image else { return Err(failure) };
    match find::find(path) {
        Ok(Some(mount)) => Ok(mount),
        Ok(None) => Err(with_claim(path, failure)),
        Err(error) => Err(mount_failure(&error)),
    }
}

/// Adds to a failure that another user claims to have mounted the image.
pub fn with_claim(path: &Path, failure: Failure) -> Failure {
    match (failure, find::claim(path)) {
        (Failure::Message { exit, text, ends }, Some(claim)) => {
            let claim = claim.to_string();
            Failure::Message { exit, text: format!("{text}; {claim}"), ends }
        }
        (failure, _) => failure,
    }
}

/// Time after which a command says for whom it waits.
const SILENCE: Duration = Duration::from_secs(5);
/// Time after which it names a reason for which it may wait without an end.
const LONG_WAIT: Duration = Duration::from_secs(10);

/// Unmounts the volume on a directory, and waits until it is closed. Says for whom it waits, where that takes
/// long, and whom it does not wait for.
///
/// # Errors
/// No mount of LaneFS, in use, not closed well; the user asks to stop.
pub fn unmount(dir: &Path) -> Outcome {
    let (begin, said, explained) = (Instant::now(), Cell::new(false), Cell::new(false));
    let name = escape(bytes::of_path(dir));
    let give_up = || {
        if begin.elapsed() >= SILENCE && !said.replace(true) {
            console::say(&format!("{name}: unmounted; waiting for its server to close the volume"));
        }
        if begin.elapsed() >= LONG_WAIT && !explained.replace(true) {
            console::say(&format!(
                "{name}: still waiting: another mount namespace, such as a container's, may have the mount"
            ));
        }
        interrupt::raised()
    };
    match unmount::unmount(dir, &give_up) {
        Ok(Unmounted::Done) => Ok(()),
        Ok(Unmounted::NotAwaited(why)) => {
            let why = escape(why.as_bytes());
            console::say(&format!("{name}: unmounted; not waiting for its server: {why}"));
            Ok(())
        }
        Err(error) => Err(talk_failure(error)),
    }
}

/// Converts a failure of talking to a mount, which ends when the user asks to stop.
pub fn talk_failure(error: impl Into<Error>) -> Failure {
    if interrupt::raised() { Failure::Interrupted } else { mount_failure(&error.into()) }
}

/// Sends this process's command line to the server of a mount. Returns the command's exit code.
///
/// # Errors
/// The mount does not reply, or is another user's.
pub fn forward(mount: &MountedVolume, file: Option<CommandFile>) -> Result<u8, Failure> {
    let output: Option<Box<dyn Write + Send>> = match std_output::is_closed() {
        true => Some(Box::new(console::ClosedOutput)),
        false => None,
    };
    let command = CommandSpec { file, output, ..command_line() };
    interrupt::wait_for_commands();
    mount.execute(command, interrupt::raised).map_err(talk_failure)
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
    interrupt::wait_for_commands();
    let code = mount.execute(command, interrupt::raised).map_err(talk_failure)?;
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
    const MAX_BYTES: usize = 256 << 20;
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut content = self.content.lock();
        match &mut *content {
            Some(content) if content.len() + bytes.len() <= Self::MAX_BYTES => {
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
    interrupt::wait_for_commands();
    let volume = RemoteVolume::open(mount, interrupt::raised).map_err(talk_failure)?;
    let image = Image::Path(mount.source.clone());
    let mut context = Context::new(&volume, &image);
    let outcome = command.execute_beside(&mut context);
    let outcome = match changes {
        true => outcome.and(volume.sync().map_err(|error| Failure::volume(image.name(), &error))),
        false => outcome,
    };
    Ok(context.finish(outcome))
}
