//! A background process for a mount. The program starts a second instance of itself and waits until that
//! reports ready, so errors and exit codes reach the caller. It does not fork: a process with threads cannot.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// Line that the background process writes once the mount works.
const READY: &str = "ready";

/// Outcome of starting the background process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    /// The mount works; the number of the process.
    Ready(u32),
    /// The process ended with this exit code, after a message.
    Failed(u8),
}

/// Starts this program with other arguments, and waits until it reports ready or ends. It inherits standard
/// error.
///
/// # Errors
/// The host's, where the process cannot be started.
pub fn start(arguments: impl IntoIterator<Item = OsString>) -> io::Result<Started> {
    let program = std::env::current_exe()?;
    let mut child =
        Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    if line.trim_end() == READY {
        return Ok(Started::Ready(child.id()));
    }
    let code = child.wait()?.code();
    Ok(Started::Failed(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)))
}

/// Reports ready, and releases the terminal and all else that the process inherited. Messages go to `log`
/// from now on.
///
/// # Errors
/// The host's.
pub fn detach(log: Option<&File>) -> io::Result<()> {
    // Fails only for the leader of a process group, which needs no new session.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/")?;
    let mut out = io::stdout();
    writeln!(out, "{READY}")?;
    out.flush()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(log.unwrap_or(&null))?;
    Ok(())
}
