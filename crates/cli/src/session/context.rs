//! State of a session: the volume, the working directory, the output and the worst exit code so far.

use super::image::Image;
use crate::terminal::failure::{Failure, Outcome, check_interrupt};
use crate::terminal::{console, exit};
use crate::text::escape::escape_into;
use lanefs::{Attr, Caller, Code, FileKind, FileSystem, Ino, Volume, path};
use std::io::{BufWriter, Write};

/// Commands act as the volume's owner: a user who can write the image can change all of it.
pub const OWNER: Caller = Caller::OWNER;

/// The state of a session; a one-shot command is a session of one command. `V` is a volume of this process,
/// or one that the server of a mount has open.
pub struct Context<'v, V = Volume> {
    /// The volume.
    pub volume: &'v V,
    /// The volume's image. Commands that read the host skip this file.
    pub image: &'v Image,
    /// The working directory, absolute and without `.` and `..`.
    pub cwd: Vec<u8>,
    /// The inode of the working directory.
    pub cwd_ino: Ino,
    /// Standard output.
    pub out: BufWriter<Box<dyn Write + Send>>,
    /// True if names are escaped because standard output is a terminal.
    pub terminal: bool,
    /// The worst exit code so far.
    pub status: u8,
}

/// A path inside the volume from a directory that is known by its inode, so that a walk resolves only the
/// name that is new, however deep it is.
#[derive(Clone, Copy, Debug)]
pub struct Place<'p> {
    /// The directory in which `path` begins.
    pub base: Ino,
    /// The path from there.
    pub path: &'p [u8],
    /// The whole path, for messages.
    pub shown: &'p [u8],
}

impl<'v, V: FileSystem> Context<'v, V> {
    /// Starts a session in the root directory that writes to standard output.
    pub fn new(volume: &'v V, image: &'v Image) -> Self {
        Context {
            volume,
            image,
            cwd: b"/".to_vec(),
            cwd_ino: volume.root(),
            out: BufWriter::with_capacity(1 << 16, console::output()),
            terminal: console::output_is_terminal(),
            status: exit::OK,
        }
    }

    /// Reports a failure on standard error and remembers its exit code.
    pub fn report(&mut self, failure: &Failure) {
        self.raise_status(failure.exit());
        // Earlier output belongs before the message.
        let _ = self.out.flush();
        failure.print();
    }

    /// Raises the session's exit code to at least `exit`.
    pub fn raise_status(&mut self, exit: u8) {
        self.status = self.status.max(exit);
    }

    /// Reports a failure for one name and continues, unless the failure ends the whole command.
    ///
    /// # Errors
    /// [`Failure::BrokenPipe`], [`Failure::Interrupted`], and failures that the other names would meet as
    /// well.
    pub fn go_on(&mut self, outcome: Outcome) -> Outcome {
        match outcome {
            Err(failure @ Failure::Message { ends: false, .. }) => {
                self.report(&failure);
                check_interrupt()
            }
            other => other.and_then(|()| check_interrupt()),
        }
    }

    /// Ends a command: flushes the output and reports the failure. Returns the worst exit code so far.
    pub fn finish(&mut self, outcome: Outcome) -> u8 {
        let outcome = outcome.and_then(|()| self.out.flush().map_err(Failure::from));
        if let Err(failure) = &outcome {
            self.report(failure);
        }
        self.status
    }

    /// The place of a path that begins at the working directory.
    pub fn place<'p>(&self, path: &'p [u8]) -> Place<'p> {
        Place { base: self.cwd_ino, path, shown: path }
    }

    /// Resolves `path` from the working directory and returns its attributes.
    ///
    /// # Errors
    /// Names the path.
    pub fn resolve(&self, path: &[u8], follow: bool) -> Result<Attr, Failure> {
        self.try_resolve(path, follow)?.map_err(|code| Failure::code(path, code))
    }

    /// [`Context::resolve`] for a path that may be missing: the inner result is the volume's answer.
    ///
    /// # Errors
    /// The volume could not answer.
    pub fn try_resolve(&self, path: &[u8], follow: bool) -> Result<Result<Attr, Code>, Failure> {
        self.try_resolve_place(self.place(path), follow)
    }

    /// [`Context::try_resolve`] for a place.
    ///
    /// # Errors
    /// The volume could not answer.
    pub fn try_resolve_place(&self, at: Place<'_>, follow: bool) -> Result<Result<Attr, Code>, Failure> {
        let answer = self.volume.resolve_at(at.base, at.path, follow);
        let answer = answer.map_err(|e| Failure::volume(at.shown, &e))?;
        match (answer.code, answer.attr, answer.ino) {
            (Code::Success, Some(attr), _) => Ok(Ok(attr)),
            (Code::Success, None, Some(ino)) => Ok(Ok(self.attr(at.shown, ino)?)),
            (Code::Success, None, None) => Ok(Err(Code::NotFound)),
            (code, ..) => Ok(Err(code)),
        }
    }

    /// Returns the attributes of an inode that was reached as `path`.
    ///
    /// # Errors
    /// Names the path.
    pub fn attr(&self, path: &[u8], ino: Ino) -> Result<Attr, Failure> {
        self.volume.getattr(ino).map_err(|e| Failure::volume(path, &e))
    }

    /// True if `path` is a directory or a symbolic link to one.
    ///
    /// # Errors
    /// The volume could not answer.
    pub fn is_directory(&self, path: &[u8]) -> Result<bool, Failure> {
        Ok(self.try_resolve(path, true)?.is_ok_and(|attr| attr.kind == FileKind::Directory))
    }

    /// Splits `path` into the directory of its last component, which need not exist, and that component.
    ///
    /// # Errors
    /// The directory does not exist, or the last component is `.`, `..` or missing.
    pub fn parent<'p>(&self, path: &'p [u8]) -> Result<(Ino, &'p [u8]), Failure> {
        self.parent_of_place(self.place(path))
    }

    /// [`Context::parent`] for a place.
    ///
    /// # Errors
    /// As [`Context::parent`].
    pub fn parent_of_place<'p>(&self, at: Place<'p>) -> Result<(Ino, &'p [u8]), Failure> {
        let (parent, name) = match path::split_last(at.path) {
            None | Some((_, b"." | b"..")) => {
                return Err(Failure::partial(
                    at.shown,
                    "names no entry of a directory",
                    "end it with a name",
                ));
            }
            Some((b"", name)) => return Ok((at.base, name)),
            Some(both) => both,
        };
        match self.try_resolve_place(Place { path: parent, ..at }, true)? {
            Ok(attr) => Ok((attr.ino, name)),
            // The missing component lies before the user's last one.
            Err(Code::NotFound) => Err(Failure::code(at.shown, Code::ComponentNotFound)),
            Err(code) => Err(Failure::code(at.shown, code)),
        }
    }

    /// Returns the target of a symbolic link; `None` for any other file.
    ///
    /// # Errors
    /// Names the path.
    pub fn link_target(&self, path: &[u8], attr: &Attr) -> Result<Option<Vec<u8>>, Failure> {
        if attr.kind != FileKind::Symlink {
            return Ok(None);
        }
        self.volume.readlink(attr.ino).map(Some).map_err(|e| Failure::volume(path, &e))
    }

    /// Appends a name as it goes to standard output: escaped on a terminal, unchanged elsewhere.
    pub fn push_name(&self, line: &mut Vec<u8>, name: &[u8]) {
        if self.terminal { escape_into(line, name) } else { line.extend_from_slice(name) }
    }
}
