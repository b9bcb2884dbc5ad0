//! The interface of a command on an open volume.

use crate::context::Context;
use crate::failure::Outcome;

/// A command on an open volume. A one-shot command, a line of the shell and a command on a mounted volume
/// execute the same code.
pub trait Command {
    /// Executes the command. It reports a failure for one name to the context and continues with the others.
    ///
    /// # Errors
    /// Failures that end the whole command.
    fn execute(&self, context: &mut Context<'_>) -> Outcome;

    /// True if the volume must be open for writing.
    fn changes(&self) -> bool {
        false
    }
}
