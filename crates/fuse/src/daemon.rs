//! A process of its own for a mount. The program starts itself again, and waits until the other says that it works, so errors and
//! exit codes reach whoever asked. Nothing is forked: a process with threads cannot be.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// What the other process writes once it works.
const READY: &str = "ready";

/// What came of starting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// It works; its number.
    Works(u32),
    /// It ended with this exit code, and has said why.
    Failed(u8),
}

/// Runs this program with other arguments, until it says that it works or ends. Its messages go where ours go.
///
/// # Errors
/// The host's, where no process can be had.
pub fn start(arguments: impl IntoIterator<Item = OsString>) -> io::Result<Started> {
    let program = std::env::current_exe()?;
    let mut child =
        Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    if line.trim_end() == READY {
        return Ok(Started::Works(child.id()));
    }
    let code = child.wait()?.code();
    Ok(Started::Failed(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)))
}

/// Says that it works, and lets go of the terminal and of whatever else was inherited. Messages go to `log` from now on.
///
/// # Errors
/// The host's.
pub fn detach(log: Option<&File>) -> io::Result<()> {
    // Fails only for the leader of a group, which needs it least.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/")?;
    let mut out = io::stdout();
    writeln!(out, "{READY}")?;
    out.flush()?;
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(log.unwrap_or(&nothing))?;
    Ok(())
}
