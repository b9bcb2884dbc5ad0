//! Lines of the shell, command lines and escaped names.

use clap::Parser;
use lanefs_cli::cli::Cli;
use lanefs_cli::text::escape::{escape, unescape};
use lanefs_cli::text::words::{quote, split};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Escapes and unescapes the input. Splits it into words as a line of the shell, quotes and splits each
/// again, and parses them as a command line.
pub fn words(data: &[u8]) {
    assert_eq!(unescape(escape(data).as_bytes()), data);
    let Ok(words) = split(data) else { return };
    for word in words.iter().filter(|word| !word.is_empty()) {
        assert_eq!(split(quote(word).as_bytes()).as_deref(), Ok(std::slice::from_ref(word)));
    }
    let arguments = words.into_iter().map(OsString::from_vec);
    let _ = Cli::try_parse_from(std::iter::once(OsString::from("lanefs")).chain(arguments));
}
