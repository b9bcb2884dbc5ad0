//! Failures of commands: their messages, exit codes and advice.

use super::{console, exit, interrupt};
use crate::text::escape::escape;
use crate::text::{bytes, size};
use lanefs::escape::harmless;
use lanefs::format::MAX_FILE_SIZE;
use lanefs::{Code, Error, ErrorKind, host_text};
use std::borrow::Cow;
use std::io;
use std::path::Path;

/// Result of a command or of its part for one name.
pub type Outcome = Result<(), Failure>;

/// Why a command, or its part for one name, was not done.
#[derive(Debug)]
pub enum Failure {
    /// A message: `NAME: problem; advice`.
    Message {
        /// The exit code.
        exit: u8,
        /// The text after `lanefs: `.
        text: String,
        /// True if the names that follow would fail alike: no space, no device.
        ends: bool,
    },
    /// The reader of the output has closed it; the command ends silently.
    BrokenPipe,
    /// The user asked to stop.
    Interrupted,
}

impl Failure {
    /// Creates a message about a name, which it escapes.
    pub fn new(exit: u8, name: impl AsRef<[u8]>, what: &str, advice: &str) -> Self {
        let name = escape(name.as_ref());
        let text = match advice {
            "" => format!("{name}: {what}"),
            advice => format!("{name}: {what}; {advice}"),
        };
        Failure::Message { exit, text, ends: false }
    }

    /// Reports wrong use of a command.
    pub fn usage(name: impl AsRef<[u8]>, what: &str, advice: &str) -> Self {
        Self::new(exit::USAGE, name, what, advice)
    }

    /// Reports a part that was not done.
    pub fn partial(name: impl AsRef<[u8]>, what: &str, advice: &str) -> Self {
        Self::new(exit::PARTIAL, name, what, advice)
    }

    /// Reports damage of the volume.
    pub fn damage(name: impl AsRef<[u8]>, what: &str) -> Self {
        Self::new(exit::IMAGE, name, what, CHECK_THE_IMAGE)
    }

    /// Converts a result code of the volume for a name inside it.
    pub fn code(name: impl AsRef<[u8]>, code: Code) -> Self {
        let ends = matches!(code, Code::NoSpace | Code::Io | Code::NoMemory | Code::ReadOnly);
        Self::new(exit_of_code(code), name, code.text(), &advice(code)).ending(ends)
    }

    /// Converts an error of the volume for a name inside it, or for the image.
    pub fn volume(name: impl AsRef<[u8]>, error: &Error) -> Self {
        let name = name.as_ref();
        match error {
            Error::Code(code) | Error::At { code, .. } => Self::code(name, *code),
            Error::Damaged { at, why } => {
                Self::damage(name, &format!("the volume is damaged at position {at:#x}: {why}"))
            }
            Error::WrongData { at, what } => {
                let what = format!("{what}: the data at position {at:#x} do not match their checksum");
                Self::new(exit::IMAGE, name, &what, RESTORE)
            }
            Error::Image { kind, why, .. } => Self::new(exit::IMAGE, name, why, image_advice(*kind)),
            Error::Expansion { .. } => {
                Self::new(exit::IMAGE, name, &error.to_string(), "the option is --max-expansion").ending(true)
            }
            Error::WriteFailed { what, source } => {
                let text = format!("an earlier write failed, {what}: {}", host_text(source));
                Self::new(exit::HOST, name, &text, host_advice(source)).ending(true)
            }
            Error::Io { what, source } => {
                let name_text = escape(name);
                let text = match what.contains(&name_text) || what.is_empty() {
                    true => host_text(source),
                    false => format!("{what}: {}", host_text(source)),
                };
                let ends = error.kind() == ErrorKind::NoSpace;
                Self::new(exit::HOST, name, &text, host_advice(source)).ending(ends)
            }
            other => Self::new(exit_of_code(other.code()), name, &other.to_string(), ""),
        }
    }

    /// Converts an error of the host for one of its files.
    pub fn host(name: &Path, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::ConnectionAborted && interrupt::raised() {
            return Failure::Interrupted;
        }
        let ends = error.kind() == io::ErrorKind::StorageFull;
        Self::new(exit::HOST, bytes::of_path(name), &host_text(error), host_advice(error)).ending(ends)
    }

    /// Converts an error of reading standard input.
    pub fn input(error: &io::Error) -> Self {
        match interrupt::raised() {
            true => Failure::Interrupted,
            false => Self::new(exit::HOST, "standard input", &host_text(error), ""),
        }
    }

    /// Returns the same failure; of a file that is not a volume, with other advice.
    pub fn advising_in_place_of_mkfs(self, advice: &str) -> Self {
        match self {
            Failure::Message { exit, text, ends } => {
                let text = match text.strip_suffix(MAKE_A_VOLUME) {
                    Some(text) => format!("{text}{advice}"),
                    None => text,
                };
                Failure::Message { exit, text, ends }
            }
            other => other,
        }
    }

    /// Returns the same failure; it ends the whole command if `ends_command` is true.
    fn ending(mut self, ends_command: bool) -> Self {
        if let Failure::Message { ends, .. } = &mut self {
            *ends = ends_command;
        }
        self
    }

    /// The exit code.
    pub fn exit(&self) -> u8 {
        match self {
            Failure::Message { exit, .. } => *exit,
            Failure::BrokenPipe => exit::OK,
            Failure::Interrupted => exit::INTERRUPTED,
        }
    }

    /// Returns the message, if there is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Failure::Message { text, .. } => Some(text),
            Failure::BrokenPipe | Failure::Interrupted => None,
        }
    }

    /// Writes the message, if there is one, to standard error.
    pub fn print(&self) {
        self.text().into_iter().for_each(console::say);
    }
}

/// Converts an error of writing to standard output. Commands pass these errors on as they are; all others are
/// converted where they happen.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
            _ if interrupt::raised() => Failure::Interrupted,
            _ => Self::new(exit::HOST, "standard output", &host_text(&error), host_advice(&error)),
        }
    }
}

/// Returns [`Failure::Interrupted`] once the user asked to stop.
///
/// # Errors
/// Only that one.
pub fn check_interrupt() -> Outcome {
    if interrupt::raised() { Err(Failure::Interrupted) } else { Ok(()) }
}

/// The exit code of a command without a session; prints the failure if there is one.
pub fn exit_code(outcome: Result<u8, Failure>) -> u8 {
    outcome.unwrap_or_else(|failure| {
        failure.print();
        failure.exit()
    })
}

/// The exit code of a result code of the volume.
pub fn exit_of_code(code: Code) -> u8 {
    match code {
        Code::Success => exit::OK,
        code if code.is_damage() => exit::IMAGE,
        Code::Io | Code::NoMemory => exit::HOST,
        _ => exit::PARTIAL,
    }
}

/// Advice for an error of the host; empty if the error is clear enough.
fn host_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::PermissionDenied => "check its owner and mode, or run as a user who has access",
        io::ErrorKind::AlreadyExists => REMOVE_OR_RENAME,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space on the host",
        io::ErrorKind::IsADirectory => "name a file, or use -r",
        io::ErrorKind::NotADirectory => "name a directory",
        io::ErrorKind::ReadOnlyFilesystem => "choose a directory that can be written",
        _ => "",
    }
}

/// Advice for an image that cannot be opened or made; empty where the text says it.
fn image_advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Exists => "give --force to overwrite it",
        ErrorKind::NotAVolume => MAKE_A_VOLUME,
        ErrorKind::OlderFormat => "use `lanefs export` there, then `lanefs mkfs` and `lanefs import` here",
        ErrorKind::NewerFormat => "use a newer `lanefs`",
        ErrorKind::NotClosed => "run `lanefs fsck --repair` on it first",
        ErrorKind::Damaged => CHECK_THE_IMAGE,
        _ => "",
    }
}

/// Advice for a file that is not a volume.
const MAKE_A_VOLUME: &str = "make a volume with `lanefs mkfs`";
/// Advice for a name that exists already.
pub const REMOVE_OR_RENAME: &str = "remove it first or choose another name";
/// Advice for a file with damaged data.
const RESTORE: &str = "restore the file from a copy; `lanefs scrub` names all such files";
/// Advice for a damaged volume.
const CHECK_THE_IMAGE: &str = "run `lanefs fsck` on the image";

/// Prints a message of clap: help on standard output, errors on standard error with our prefix.
pub fn print_clap(error: &clap::Error) {
    use std::io::Write;
    if !error.use_stderr() {
        // A pipe that is closed already is no reason to fail.
        let _ = error.print();
        return;
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").map_or_else(|| text.clone(), |rest| format!("lanefs: {rest}"));
    let text = in_own_words(text);
    // The message quotes arguments as they are.
    let _ = io::stderr().write_all(harmless(&text).as_bytes());
}

/// Texts of the parser of numbers, and ours.
const NUMBERS: [(&str, &str); 4] = [
    ("invalid digit found in string", "it is not a whole number"),
    ("cannot parse integer from empty string", "it is not a whole number"),
    ("number too large to fit in target type", "the number is too large"),
    ("number too small to fit in target type", "the number is too small"),
];

/// Replaces the words for programmers at the end of the message's first line.
fn in_own_words(text: String) -> String {
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let found = NUMBERS.iter().find_map(|(theirs, ours)| Some((first.strip_suffix(theirs)?, ours)));
    found.map_or_else(|| text.clone(), |(first, ours)| format!("{first}{ours}\n{rest}"))
}

/// Advice for a result code of the volume.
pub fn advice(code: Code) -> Cow<'static, str> {
    let advice = match code {
        Code::Exists => REMOVE_OR_RENAME,
        Code::NotFound | Code::ComponentNotFound => "check the path with `lanefs ls` or `lanefs find`",
        Code::NotDirectory => "name a directory",
        Code::IsDirectory => "name a file, or use -r if the command has it",
        Code::NotEmpty => "use `rm -r` to remove it with all its entries",
        Code::NameTooLong | Code::PathTooLong => "use a shorter name",
        Code::NoSpace | Code::NoPointer => "remove files, or enlarge the volume with `lanefs grow`",
        Code::TreeFull => "put it into another directory",
        Code::TooManyLinks => "copy the file instead",
        Code::SymlinkLoop => "check the links on the way with `lanefs ls -l`",
        Code::ReadOnly if console::client().is_some() => {
            "the mount is read-only; `lanefs mount -o remount,rw IMAGE DIR` changes that"
        }
        Code::ReadOnly => "open the image, or mount it, for writing",
        Code::InvalidPointer | Code::InvariantViolated => CHECK_THE_IMAGE,
        Code::WrongData => RESTORE,
        Code::Io => "check the device and the host's log",
        Code::FileTooLarge => return format!("keep it within {}", size::human(MAX_FILE_SIZE)).into(),
        Code::NoAttribute => "list them with `lanefs xattr list`",
        Code::AttributeTooLarge => "store it as a file",
        Code::Invalid => "see --help for valid values",
        Code::Busy => "wait for the other user of the image, or end it",
        Code::StaleInode => "resolve the path again",
        _ => "",
    };
    advice.into()
}
