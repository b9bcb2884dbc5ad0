//! Destinations of a server's messages: standard error, a file, or the system's log.

use lanefs::escape::harmless;
use log::{Level, LevelFilter, Log, Metadata, Record};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Socket of the system's log.
const SYSLOG: &str = "/dev/log";
/// Facility of daemons, shifted by the three bits of the severity.
const DAEMON: u8 = 3 << 3;

/// Destination of a server's messages.
#[derive(Debug)]
pub enum Destination {
    /// Standard error.
    Stderr,
    /// A file that is open for appending.
    File(File),
    /// The system's log.
    Syslog,
}

/// A destination that is open.
enum LogTarget {
    Stderr,
    File(File),
    Syslog(UnixDatagram),
}

struct Logger(OnceLock<LogTarget>);

static LOGGER: Logger = Logger(OnceLock::new());

/// Sends messages to `destination` from now on.
///
/// # Errors
/// The host's, for a system without a log.
pub fn start(destination: Destination) -> io::Result<()> {
    let target = match destination {
        Destination::Stderr => LogTarget::Stderr,
        Destination::File(file) => LogTarget::File(file),
        Destination::Syslog => {
            let socket = UnixDatagram::unbound()?;
            socket.connect(SYSLOG)?;
            LogTarget::Syslog(socket)
        }
    };
    // Both calls fail only for the second mount of a process, which shares the log of the first one.
    let _ = LOGGER.0.set(target);
    if log::set_logger(&LOGGER).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
    Ok(())
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Info
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let text = record.args().to_string();
        let text = harmless(&text);
        // An error in writing the log cannot be reported anywhere.
        let _ = match self.0.get() {
            None | Some(LogTarget::Stderr) => writeln!(io::stderr(), "lanefs: {text}"),
            Some(LogTarget::File(file)) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let line = format!("{} {}: {text}\n", now.as_secs(), record.level());
                let mut file = file;
                file.write_all(line.as_bytes())
            }
            Some(LogTarget::Syslog(socket)) => {
                let severity = match record.level() {
                    Level::Error => 3,
                    Level::Warn => 4,
                    _ => 6,
                };
                let line = format!("<{}>lanefs[{}]: {text}", DAEMON | severity, std::process::id());
                socket.send(line.as_bytes()).map(|_| ())
            }
        };
    }

    fn flush(&self) {}
}
