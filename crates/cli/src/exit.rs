//! Exit codes, and what stops a command.

use crate::escape::escape;
use lanefs::{Code, Error};
use std::io;
use std::path::Path;

/// Everything was done.
pub const OK: u8 = 0;
/// Something was not found or not done; the rest was.
pub const PARTIAL: u8 = 1;
/// The command line makes no sense.
pub const USAGE: u8 = 2;
/// The image is not a LaneFS volume, is damaged or is in use.
pub const IMAGE: u8 = 3;
/// The host or the device failed.
pub const HOST: u8 = 4;
/// Ctrl-C or a request to terminate.
pub const INTERRUPTED: u8 = 130;

/// The table that `--help` and the manual page show.
pub const TABLE: &str = "\
Exit codes:
    0  everything was done
    1  something was not found or not done; the rest was
    2  the command line makes no sense
    3  the image is not a LaneFS volume, is damaged or is in use
    4  the host or the device failed
  130  interrupted

`lanefs fsck` has e2fsck's codes instead: 0 clean, 1 errors corrected, 4 errors left,
8 operational error, 16 usage error, 32 interrupted.";

/// What a command ends with: nothing, or why it stopped.
pub type Outcome = Result<(), Failure>;

/// Why a command, or its part for one name, was not done.
#[derive(Debug)]
pub enum Failure {
    /// Something to tell: `NAME: what happened; what to do`.
    Message {
        /// The exit code it leads to.
        exit: u8,
        /// The text behind `lanefs: `.
        text: String,
        /// True where the names that follow would fail alike: no space, no device.
        ends: bool,
    },
    /// Whoever read the output has gone; nothing is said.
    BrokenPipe,
    /// The user asked to stop.
    Interrupted,
}

impl Failure {
    /// A message about a name, which is escaped.
    pub fn new(exit: u8, name: impl AsRef<[u8]>, what: &str, advice: &str) -> Self {
        let name = escape(name.as_ref());
        let text = match advice {
            "" => format!("{name}: {what}"),
            advice => format!("{name}: {what}; {advice}"),
        };
        Failure::Message { exit, text, ends: false }
    }

    /// Wrong use of a command.
    pub fn usage(name: impl AsRef<[u8]>, what: &str, advice: &str) -> Self {
        Self::new(USAGE, name, what, advice)
    }

    /// An outcome of the volume for a name inside it.
    pub fn code(name: impl AsRef<[u8]>, code: Code) -> Self {
        let exit = match code {
            Code::InvalidPointer | Code::InvariantViolated => IMAGE,
            Code::Io | Code::NoMemory => HOST,
            _ => PARTIAL,
        };
        let ends = matches!(code, Code::NoSpace | Code::Io | Code::NoMemory | Code::ReadOnly);
        Self::new(exit, name, code.text(), advice(code)).ending(ends)
    }

    /// An error of the volume for a name inside it, or for the image.
    pub fn volume(name: impl AsRef<[u8]>, error: &Error) -> Self {
        let name = name.as_ref();
        match error {
            Error::Code(code) | Error::At { code, .. } => Self::code(name, *code),
            Error::Damaged { at, why } => {
                let what = format!("the volume is damaged at position {at:#x}: {why}");
                Self::new(IMAGE, name, &what, "run `lanefs fsck` on the image")
            }
            Error::Image { why, .. } => Self::new(IMAGE, name, why, ""),
            Error::Io { what, source } => {
                let name_text = escape(name);
                let text = match what.contains(&name_text) || what.is_empty() {
                    true => host_text(source),
                    false => format!("{what}: {}", host_text(source)),
                };
                Self::new(HOST, name, &text, host_advice(source))
            }
        }
    }

    /// An error of the host for one of its files.
    pub fn host(name: &Path, error: &io::Error) -> Self {
        let ends = error.kind() == io::ErrorKind::StorageFull;
        Self::new(HOST, crate::bytes::of_path(name), &host_text(error), host_advice(error)).ending(ends)
    }

    /// The same failure, ending the whole command where `now` is true.
    fn ending(mut self, now: bool) -> Self {
        if let Failure::Message { ends, .. } = &mut self {
            *ends = now;
        }
        self
    }

    /// The exit code it leads to.
    pub fn exit(&self) -> u8 {
        match self {
            Failure::Message { exit, .. } => *exit,
            Failure::BrokenPipe => OK,
            Failure::Interrupted => INTERRUPTED,
        }
    }
}

/// Errors of writing to standard output, the one writer whose errors reach commands as they are.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
            _ if crate::interrupt::raised() => Failure::Interrupted,
            _ => Self::new(HOST, "standard output", &host_text(&error), host_advice(&error)),
        }
    }
}

/// The host's error in words, without Rust's note of its number.
pub fn host_text(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_string(),
        None => text,
    }
}

/// What to do about an error of the host; empty where its words say enough.
fn host_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::PermissionDenied => "check its owner and mode, or run as a user who may",
        io::ErrorKind::AlreadyExists => "remove it first or choose another name",
        io::ErrorKind::StorageFull => "free some space on the host",
        io::ErrorKind::IsADirectory => "name a file, or use -r",
        io::ErrorKind::NotADirectory => "name a directory",
        io::ErrorKind::ReadOnlyFilesystem => "choose a place that can be written",
        _ => "",
    }
}

/// Shows what clap has to say: help on standard output, errors on standard error as all of ours begin.
pub fn show_clap(error: &clap::Error) {
    use std::io::Write;
    if !error.use_stderr() {
        // A pipe that is closed already is no reason to fail.
        let _ = error.print();
        return;
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").map_or_else(|| text.clone(), |rest| format!("lanefs: {rest}"));
    let _ = io::stderr().write_all(text.as_bytes());
}

/// What to do about an outcome of the volume.
pub fn advice(code: Code) -> &'static str {
    match code {
        Code::Exists => "remove it first or choose another name",
        Code::NotFound | Code::ComponentNotFound => "check the path with `lanefs ls` or `lanefs find`",
        Code::NotDirectory => "name a directory",
        Code::IsDirectory => "name a file, or use -r where the command has it",
        Code::NotEmpty => "use `rm -r` to remove it with all that it holds",
        Code::NameTooLong | Code::PathTooLong => "use a shorter name",
        Code::NoSpace | Code::NoPointer => "remove something, or enlarge the volume with `lanefs grow`",
        Code::TreeFull | Code::TooManyCollisions => "put it into another directory",
        Code::TooManyLinks => "copy the file instead",
        Code::SymlinkLoop => "look at the links on the way with `lanefs ls -l`",
        Code::ReadOnly => "open the image for writing",
        Code::InvalidPointer | Code::InvariantViolated => "run `lanefs fsck` on the image",
        Code::Io => "check the device and the host's log",
        Code::FileTooLarge => "keep it below 128 PiB",
        Code::NoAttribute => "list them with `lanefs xattr list`",
        Code::AttributeTooLarge => "store it as a file",
        Code::Invalid => "see --help for what is possible",
        Code::Busy => "wait for the other user of the image, or end it",
        Code::StaleInode => "look the path up again",
        _ => "",
    }
}
