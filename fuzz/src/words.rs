//! Command lines and escaped names.

use clap::Parser;
use lanefs_cli::cli::Cli;
use lanefs_cli::escape::{escape, unescape};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Escapes and unescapes the input; then parses its lines as the words of a command line.
pub fn words(data: &[u8]) {
    assert_eq!(unescape(escape(data).as_bytes()), data);
    let lines = data.split(|byte| *byte == b'\n').map(|word| OsString::from_vec(word.to_vec()));
    let _ = Cli::try_parse_from(std::iter::once(OsString::from("lanefs")).chain(lines));
}
