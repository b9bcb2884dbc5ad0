//! Completion at the prompt: commands, their options, and paths inside the volume.

use crate::session::context::OWNER;
use crate::text::escape::escape;
use crate::text::words;
use lanefs::{FileKind, Ino, ResolveOptions, Volume};
use rustyline::completion::{Completer, Pair};
use rustyline::{Context, Helper, Highlighter, Hinter, Validator};
use std::collections::BTreeMap;

/// Entries of a directory that completion reads: enough for a person, and no wait in a directory of millions.
const MAX_ENTRIES: usize = 20_000;

/// The completer of the line editor.
#[derive(Helper, Highlighter, Hinter, Validator)]
pub(super) struct ShellHelper<'v> {
    volume: &'v Volume,
    /// The working directory.
    pub(super) cwd: Vec<u8>,
    /// Its inode.
    pub(super) cwd_ino: Ino,
    /// Options of each command.
    commands: BTreeMap<String, Vec<String>>,
}

impl<'v> ShellHelper<'v> {
    /// Completes the subcommands of `line`.
    pub(super) fn new(volume: &'v Volume, line: &clap::Command) -> Self {
        let mut commands = BTreeMap::new();
        for command in line.get_subcommands() {
            let long = command.get_arguments().filter_map(|arg| arg.get_long());
            let options = long.map(|name| format!("--{name}")).chain(["--help".to_string()]).collect();
            commands.insert(command.get_name().to_string(), options);
        }
        commands.insert("help".to_string(), Vec::new());
        ShellHelper { volume, cwd: b"/".to_vec(), cwd_ino: volume.root(), commands }
    }

    fn paths(&self, word: &[u8]) -> Vec<Pair> {
        // `cp` marks paths inside the volume with a colon.
        let (mark, path) = word.strip_prefix(b":").map_or((&b""[..], word), |path| (b":", path));
        let at = path.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
        let (head, start) = path.split_at(at);
        let mut pairs = Vec::new();
        for (name, kind) in self.names(head, start) {
            let mut whole = [mark, head, &name].concat();
            let mut display = escape(&name);
            if kind == FileKind::Directory {
                whole.push(b'/');
                display.push('/');
            }
            pairs.push(Pair { display, replacement: words::quote(&whole) });
        }
        pairs
    }

    /// Names in the directory `head` that begin with `start`, sorted. A directory that cannot be read has
    /// none.
    fn names(&self, head: &[u8], start: &[u8]) -> Vec<(Vec<u8>, FileKind)> {
        let options = ResolveOptions { base: Some(self.cwd_ino), ..ResolveOptions::default() };
        let dir = if head.is_empty() { b"." } else { head };
        let Some(dir) = self.volume.resolve_batch(&options, &[dir]).ok().and_then(|found| found.first()?.ino)
        else {
            return Vec::new();
        };
        let entries = self.volume.readdir(&OWNER, dir, 0, MAX_ENTRIES).unwrap_or_default();
        let mut names: Vec<_> = entries
            .into_iter()
            // Hidden names need a typed dot.
            .filter(|e| e.name.starts_with(start) && (!start.is_empty() || !e.name.starts_with(b".")))
            .map(|e| (e.name, e.kind))
            .collect();
        names.sort_unstable();
        names
    }
}

impl Completer for ShellHelper<'_> {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = line.get(..pos).unwrap_or(line);
        let start = word_start(before);
        let typed = &before[start..];
        // Close an open quote to read the word; its replacement is quoted with backslashes.
        let word = ["", "'", "\""]
            .iter()
            .find_map(|end| words::split(format!("{typed}{end}").as_bytes()).ok())
            .and_then(|mut words| words.pop())
            .unwrap_or_default();
        let command = before.split_whitespace().next().unwrap_or("");
        let matching = |name: &str, space: &str| {
            let replacement = format!("{name}{space}");
            name.starts_with(typed).then(|| Pair { display: name.to_string(), replacement })
        };
        let pairs = match () {
            () if before[..start].trim().is_empty() || command == "help" => {
                self.commands.keys().filter_map(|name| matching(name, " ")).collect()
            }
            () if typed.starts_with('-') => {
                let options = self.commands.get(command).map(Vec::as_slice).unwrap_or_default();
                options.iter().filter_map(|name| matching(name, " ")).collect()
            }
            () => self.paths(&word),
        };
        Ok((start, pairs))
    }
}

/// Start of the last word of an unfinished line.
fn word_start(line: &str) -> usize {
    let mut start = 0;
    let mut quote = None;
    let mut escaped = false;
    for (at, byte) in line.bytes().enumerate() {
        match (quote, byte) {
            _ if escaped => escaped = false,
            (None | Some(b'"'), b'\\') => escaped = true,
            (None, b'\'' | b'"') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            (None, b' ' | b'\t') => start = at + 1,
            _ => {}
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::word_start;

    #[test]
    fn the_last_word_is_found() {
        for (line, start) in [
            ("", 0),
            ("ls", 0),
            ("ls ", 3),
            ("ls a\\ b", 3),
            ("ls 'a b", 3),
            ("ls 'a b' c", 9),
            ("cat \"a\\\" b", 4),
        ] {
            assert_eq!(word_start(line), start, "{line}");
        }
    }
}
