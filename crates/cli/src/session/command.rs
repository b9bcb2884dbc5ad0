//! The interface of a command on an open volume.

use super::context::Context;
use super::expansion;
use crate::terminal::failure::{Failure, Outcome};
use lanefs_fuse::RemoteVolume;
use lanefs_publish::Location;
use std::io::Read;
use std::path::Path;

/// A command on an open volume. A one-shot command, a line of the shell and a command on a mounted volume
/// execute the same code.
pub trait Command {
    /// Executes the command. It reports a failure for one name to the context and continues with the others.
    ///
    /// # Errors
    /// Failures that end the whole command.
    fn execute(&self, context: &mut Context<'_>) -> Outcome;

    /// Opens the file of the host that the command reads beside standard input, if its arguments name one.
    /// The client of a mount opens it for the server, which reads it as [`console::open_file`].
    ///
    /// [`console::open_file`]: crate::terminal::console::open_file
    ///
    /// # Errors
    /// Names the file.
    fn host_file(&self) -> Result<Option<Box<dyn Read + Send>>, Failure> {
        Ok(None)
    }

    /// Name of the file of the host that the command writes, if it writes its whole output to one. The server
    /// of a mount writes to standard output instead, from which the client makes the file.
    fn new_file(&self) -> Option<&Path> {
        None
    }

    /// The command in the form for a volume that the server of a mount has open, if it uses files of the host
    /// by name. The client executes it, with its own rights on the host; the server refuses it.
    fn on_host(&self) -> Option<&dyn HostCommand> {
        None
    }

    /// The bound on the data that the command reads of the volume, as a multiple of the bytes that were given
    /// for them; 0 for no bound.
    fn max_expansion(&self) -> u64 {
        expansion::DEFAULT
    }

    /// Bytes by which the command makes the volume grow, at most; `None` if it does not.
    fn growth(&self) -> Option<u64> {
        None
    }

    /// The store to which the volume is published once the command has ended and the volume is closed, if its
    /// arguments name one.
    fn publishes(&self) -> Option<AfterCommand<'_>> {
        None
    }

    /// True if the volume must be open for writing.
    fn changes(&self) -> bool {
        false
    }
}

/// A publication that follows a command.
#[derive(Clone, Copy, Debug)]
pub struct AfterCommand<'c> {
    /// The store, and the tag.
    pub to: &'c Location,
    /// Its report is one JSON object.
    pub json: bool,
}

/// A command that uses files of the host by name.
pub trait HostCommand {
    /// Executes the command on a volume that the server of a mount has open.
    ///
    /// # Errors
    /// As [`Command::execute`].
    fn execute_beside(&self, context: &mut Context<'_, RemoteVolume>) -> Outcome;
}
