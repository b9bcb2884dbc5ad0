//! Course of a session.

use crate::session::context::Context;
use crate::terminal::failure::Failure;

/// Whether the session continues after a line.
pub(super) enum Flow {
    /// The session continues.
    Continue,
    /// The session ends, with this exit code; with the worst of all commands for `None`.
    End(Option<u8>),
}

/// Executes one line of a session.
pub(super) type LineExecutor = fn(&mut Context<'_>, &[u8]) -> Result<Flow, Failure>;
