//! What every command works with: the volume, the working directory, the output and the worst exit code so far.

use crate::console;
use crate::escape::{escape, escape_into};
use crate::exit::{self, Failure, Outcome};
use crate::image::Image;
use lanefs::{Attr, Caller, Code, Ino, ResolveOptions, Volume};
use std::io::{BufWriter, Write};

/// Everything that is done here is done as the volume's owner: whoever may write the image may change all of it.
pub const OWNER: Caller = Caller::OWNER;

/// The state of a session; a one-shot command is a session of one command.
pub struct Context<'v> {
    /// The volume.
    pub volume: &'v Volume,
    /// Where the volume lies: what reads the host must not read that.
    pub image: &'v Image,
    /// The working directory, absolute and without `.` and `..`.
    pub cwd: Vec<u8>,
    /// The inode of the working directory.
    pub cwd_ino: Ino,
    /// Standard output.
    pub out: BufWriter<Box<dyn Write + Send>>,
    /// True where standard output is a terminal: names are escaped for it.
    pub terminal: bool,
    /// The worst exit code so far.
    pub status: u8,
}

impl<'v> Context<'v> {
    /// A session that starts in the root directory and writes to standard output.
    pub fn new(volume: &'v Volume, image: &'v Image) -> Self {
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

    /// Tells of a failure on standard error and remembers its exit code.
    pub fn report(&mut self, failure: &Failure) {
        self.status = self.status.max(failure.exit());
        if let Failure::Message { text, .. } = failure {
            // What was printed before belongs before the message.
            let _ = self.out.flush();
            say(text);
        }
    }

    /// Goes on after a failure for one name, unless it ends the whole command.
    ///
    /// # Errors
    /// [`Failure::BrokenPipe`], [`Failure::Interrupted`], and what would befall the other names as well.
    pub fn go_on(&mut self, outcome: Outcome) -> Outcome {
        match outcome {
            Err(failure @ Failure::Message { ends: false, .. }) => {
                self.report(&failure);
                crate::interrupt::check()
            }
            other => other.and_then(|()| crate::interrupt::check()),
        }
    }

    /// Ends a command: output flushed, failure told. Returns the worst exit code so far.
    pub fn finish(&mut self, outcome: Outcome) -> u8 {
        let outcome = outcome.and_then(|()| self.out.flush().map_err(Failure::from));
        if let Err(failure) = &outcome {
            self.report(failure);
        }
        self.status
    }

    /// The attributes of what `path` names, from the working directory on.
    ///
    /// # Errors
    /// Name the path.
    pub fn resolve(&self, path: &[u8], follow: bool) -> Result<Attr, Failure> {
        self.try_resolve(path, follow)?.map_err(|code| Failure::code(path, code))
    }

    /// [`Context::resolve`] where not to exist is no error: the inner result is the volume's answer.
    ///
    /// # Errors
    /// Where the volume could not answer at all.
    pub fn try_resolve(&self, path: &[u8], follow: bool) -> Result<Result<Attr, Code>, Failure> {
        let options = ResolveOptions { base: Some(self.cwd_ino), follow, attributes: true, caller: OWNER };
        let answers = self.volume.resolve_batch(&options, &[path]).map_err(|e| Failure::volume(path, &e))?;
        match answers.first() {
            Some(answer) if answer.code == Code::Success => match (answer.attr, answer.ino) {
                (Some(attr), _) => Ok(Ok(attr)),
                (None, Some(ino)) => Ok(Ok(self.attr(path, ino)?)),
                (None, None) => Ok(Err(Code::NotFound)),
            },
            Some(answer) => Ok(Err(answer.code)),
            None => Ok(Err(Code::NotFound)),
        }
    }

    /// The attributes of an inode reached as `path`.
    ///
    /// # Errors
    /// Name the path.
    pub fn attr(&self, path: &[u8], ino: Ino) -> Result<Attr, Failure> {
        self.volume.getattr(ino).map_err(|e| Failure::volume(path, &e))
    }

    /// The directory that holds, or will hold, the last component of `path`, and that component.
    ///
    /// # Errors
    /// Where the directory does not exist, or the last component is `.`, `..` or missing.
    pub fn parent<'p>(&self, path: &'p [u8]) -> Result<(Ino, &'p [u8]), Failure> {
        let (head, name) = split(path);
        if matches!(name, b"" | b"." | b"..") {
            return Err(Failure::new(
                exit::PARTIAL,
                path,
                "names no entry of a directory",
                "end it with a name",
            ));
        }
        if head.is_empty() {
            return Ok((self.cwd_ino, name));
        }
        match self.try_resolve(head, true)? {
            Ok(attr) => Ok((attr.ino, name)),
            // What was not found is on the way to the name that the user gave.
            Err(Code::NotFound) => Err(Failure::code(path, Code::ComponentNotFound)),
            Err(code) => Err(Failure::code(path, code)),
        }
    }

    /// A name as it goes to standard output: escaped on a terminal, its very bytes elsewhere.
    pub fn push_name(&self, line: &mut Vec<u8>, name: &[u8]) {
        if self.terminal { escape_into(line, name) } else { line.extend_from_slice(name) }
    }
}

/// Writes a message to standard error. A closed standard error is no reason to stop.
pub fn say(text: &str) {
    console::complain(format!("lanefs: {text}\n").as_bytes());
}

/// Splits a path before its last component; slashes at the end do not count. `a/b/` gives (`a/`, `b`).
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let end = path.iter().rposition(|b| *b != b'/').map_or(0, |at| at + 1);
    let start = path[..end].iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
    (&path[..start], &path[start..end])
}

/// `dir` and a name in it as one path.
pub fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = dir.to_vec();
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// `path` seen from the absolute path `cwd`, with `.` and `..` taken out as `cd` does it.
pub fn normalise(cwd: &[u8], path: &[u8]) -> Vec<u8> {
    let whole = if path.starts_with(b"/") { path.to_vec() } else { join(cwd, path) };
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in whole.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut out = b"/".to_vec();
    out.extend_from_slice(&parts.join(&b'/'));
    out
}

/// Adds a name to a JSON object: the exact text under `key` where it is UTF-8; else the nearest text there, and the
/// exact bytes in hexadecimal under `key_hex`.
pub fn json_name(object: &mut serde_json::Map<String, serde_json::Value>, key: &str, name: &[u8]) {
    match std::str::from_utf8(name) {
        Ok(text) => {
            object.insert(key.to_string(), text.into());
        }
        Err(_) => {
            object.insert(key.to_string(), String::from_utf8_lossy(name).into());
            let hex: String = name.iter().map(|b| format!("{b:02x}")).collect();
            object.insert(format!("{key}_hex"), hex.into());
        }
    }
}

/// A name for a prompt or a message.
pub fn shown(name: &[u8]) -> String {
    escape(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_split_before_the_last_component() {
        for (path, head, name) in [
            ("a", "", "a"),
            ("a/b/", "a/", "b"),
            ("/a", "/", "a"),
            ("/a//b", "/a//", "b"),
            ("/", "", ""),
            ("", "", ""),
            ("a/..", "a/", ".."),
        ] {
            let (h, n) = split(path.as_bytes());
            assert_eq!((h, n), (head.as_bytes(), name.as_bytes()), "{path}");
        }
    }

    #[test]
    fn cd_normalises() {
        for (cwd, path, result) in [
            ("/", "a/./b//c", "/a/b/c"),
            ("/a/b", "../c", "/a/c"),
            ("/a", "../../..", "/"),
            ("/a", "/x/", "/x"),
            ("/a", "", "/a"),
        ] {
            assert_eq!(normalise(cwd.as_bytes(), path.as_bytes()), result.as_bytes());
        }
    }
}
