//! Files like those of a source tree: words in lines, from a seed, the same for every system.

use super::rows::LITERAL;
use crate::systems::file_volume::FileSet;
use crate::systems::workload::{SEED, Strings};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::ffi::CStr;

/// Different lines of all files.
const LINES: usize = 8192;
/// Lines of them with the literal, and with each of the five alternatives.
const WITH_LITERAL: usize = 4;
const ALTERNATIVES: [&str; 5] = ["read", "write", "open", "close", "flush"];

/// Mean number of lines of a file, and the largest.
const MEAN_LINES: f64 = 200.0;
const MOST_LINES: usize = 4000;

/// Files of a directory, and directories of one above them.
const FILES_PER_DIRECTORY: usize = 20;
const DIRECTORIES_ABOVE: usize = 25;

/// One file of so many has the content of the one before it.
const COPY_OF: usize = 10;

const WORDS: [&str; 40] = [
    "static", "int", "return", "struct", "if", "else", "for", "while", "const", "void", "unsigned", "page",
    "inode", "buffer", "device", "kernel", "config", "module", "index", "table", "cache", "socket", "filter",
    "timer", "signal", "memory", "string", "format", "parser", "lock", "queue", "node", "list", "entry",
    "state", "error", "value", "size", "offset", "count",
];

/// The files of a source tree.
pub(super) struct Sources {
    directories: Strings,
    paths: Strings,
    /// Lines, one after the other, and the end of each.
    text: Vec<u8>,
    ends: Vec<usize>,
    /// Number of lines of each file.
    lengths: Vec<usize>,
}

impl Sources {
    pub(super) fn new(files: usize) -> Self {
        let mut rng = StdRng::seed_from_u64(SEED);
        let (mut text, mut ends) = (Vec::new(), Vec::with_capacity(LINES));
        for number in 0..LINES {
            text.resize(text.len() + 4 * rng.random_range(0..4usize), b' ');
            for _ in 0..rng.random_range(1..9usize) {
                text.extend_from_slice(WORDS[rng.random_range(0..WORDS.len())].as_bytes());
                text.extend_from_slice([&b" "[..], b"_", b"(", b"->", b", "][rng.random_range(0..5usize)]);
            }
            match number {
                0..WITH_LITERAL => text.extend_from_slice(LITERAL.as_bytes()),
                number if number < WITH_LITERAL + ALTERNATIVES.len() => {
                    text.extend_from_slice(ALTERNATIVES[number - WITH_LITERAL].as_bytes());
                    text.extend_from_slice(b"_request_refused");
                }
                _ => {}
            }
            text.extend_from_slice(b";\n");
            ends.push(text.len());
        }
        let mut length = |_| {
            let exponential = -f64::ln(rng.random_range(f64::MIN_POSITIVE..1.0));
            ((exponential * MEAN_LINES) as usize).clamp(1, MOST_LINES)
        };
        let lengths = (0..files).map(&mut length).collect();
        let above = |leaf: usize| format!("part-{:04}", leaf / DIRECTORIES_ABOVE);
        let leaf = |leaf: usize| format!("{}/{}-{leaf:05}", above(leaf), WORDS[leaf % WORDS.len()]);
        let leaves = files.div_ceil(FILES_PER_DIRECTORY);
        let mut directories = Strings::default();
        for number in 0..leaves {
            if number % DIRECTORIES_ABOVE == 0 {
                directories.push(above(number).as_bytes());
            }
            directories.push(leaf(number).as_bytes());
        }
        let name = |file: usize| {
            let [first, second] = [WORDS[file % WORDS.len()], WORDS[file / 7 % WORDS.len()]];
            format!("{}/{first}_{second}_{file}.c", leaf(file / FILES_PER_DIRECTORY))
        };
        Sources { directories, paths: (0..files).map(name).collect(), text, ends, lengths }
    }

    /// The file whose content a file has: itself, or the one before it.
    fn original(file: usize) -> usize {
        if file % COPY_OF == COPY_OF - 1 { file - 1 } else { file }
    }

    /// Number of groups of files with the same content.
    pub(super) fn groups(&self) -> usize {
        self.lengths.len() / COPY_OF
    }

    fn line(&self, number: usize) -> &[u8] {
        let begin = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.text[begin..self.ends[number]]
    }
}

impl FileSet for Sources {
    fn len(&self) -> usize {
        self.lengths.len()
    }

    fn bytes(&self) -> u64 {
        let mean = self.text.len() / LINES;
        self.lengths.iter().map(|lines| (lines + 1) as u64 * mean as u64).sum()
    }

    fn directories(&self) -> &Strings {
        &self.directories
    }

    fn path(&self, file: usize) -> &CStr {
        self.paths.get(file)
    }

    fn content(&self, file: usize, to: &mut Vec<u8>) {
        let file = Self::original(file);
        // No two originals are equal.
        to.extend_from_slice(format!("/* file {file} */\n").as_bytes());
        let mut rng = StdRng::seed_from_u64(SEED ^ file as u64);
        for _ in 0..self.lengths[file] {
            to.extend_from_slice(self.line(rng.random_range(0..LINES)));
        }
        if file == 0 {
            // Each pattern has a line, however few files there are.
            to.extend_from_slice(self.line(0));
            to.extend_from_slice(self.line(WITH_LITERAL));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn contents_are_lines_and_one_of_ten_is_a_copy() {
        let sources = Sources::new(2000);
        let content = |file| {
            let mut content = Vec::new();
            sources.content(file, &mut content);
            content
        };
        let all: Vec<Vec<u8>> = (0..2000).map(content).collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 2000 - sources.groups());
        assert!(all.iter().all(|content| content.ends_with(b";\n") && content.is_ascii()));
        let bytes: usize = all.iter().map(Vec::len).sum();
        assert!((bytes as f64 / sources.bytes() as f64 - 1.0).abs() < 0.1, "{bytes}, {}", sources.bytes());
        let with = |text: &str| {
            all.iter()
                .filter(|content| content.windows(text.len()).any(|part| part == text.as_bytes()))
                .count()
        };
        assert!((50..600).contains(&with(LITERAL)) && with("_request_refused") > 50, "{}", with(LITERAL));
        // Directories come after those above them.
        let mut made = HashSet::new();
        for directory in sources.directories().iter() {
            let directory = directory.to_str().expect("text");
            assert!(directory.rsplit_once('/').is_none_or(|(above, _)| made.contains(above)));
            made.insert(directory.to_string());
        }
    }
}
