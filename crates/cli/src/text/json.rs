//! Names and attributes as JSON, for every command that offers it.

use super::{mode, time};
use lanefs::escape::is_harmful;
use lanefs::{Attr, FileKind};
use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Map, Serializer, Value};
use std::io::{self, Write};

/// Returns a value as one line of JSON that does nothing to a terminal: characters that
/// [`lanefs::escape`] escapes in names are written as `\uNNNN`, which says the same to every parser.
pub fn text(value: &impl Serialize) -> String {
    let mut out = Vec::new();
    append(&mut out, value);
    // JSON is UTF-8, so nothing is lost.
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends [`text`] to `out`.
pub fn append(out: &mut Vec<u8>, value: &impl Serialize) {
    // Writing to a vector cannot fail, and neither can the values of this program.
    let _ = value.serialize(&mut Serializer::with_formatter(out, Harmless));
}

/// Compact JSON in which no character acts on a terminal.
struct Harmless;

impl Formatter for Harmless {
    fn write_string_fragment<W: Write + ?Sized>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_harmful(*c)) {
            out.write_all(&rest.as_bytes()[..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }
}

/// Adds a name to a JSON object: the exact text under `key` if it is UTF-8; otherwise the nearest text there,
/// and the exact bytes in hexadecimal under `key_hex`.
pub fn add_name(object: &mut Map<String, Value>, key: &str, name: &[u8]) {
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

/// Adds the attributes of an inode to a JSON object.
pub fn add_attributes(object: &mut Map<String, Value>, attr: &Attr) {
    let mut put = |key: &str, value: Value| object.insert(key.to_string(), value);
    put("inode", attr.ino.0.into());
    put("type", attr.kind.word().into());
    put("mode", format!("{:04o}", attr.perm).into());
    put("links", attr.links.into());
    put("uid", attr.uid.into());
    put("gid", attr.gid.into());
    put("size", attr.size.into());
    put("blocks", attr.blocks.into());
    if matches!(attr.kind, FileKind::CharDevice | FileKind::BlockDevice) {
        let (major, minor) = mode::device_numbers(attr.rdev);
        put("device", vec![major, minor].into());
    }
    put("mtime", time::decimal(attr.mtime).into());
    put("ctime", time::decimal(attr.ctime).into());
    put("atime", time::decimal(attr.atime).into());
    put("btime", time::decimal(attr.btime).into());
    put("generation", attr.generation.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_in_json_acts_on_a_terminal_and_every_parser_reads_the_same() {
        let name = "a\u{9b}\u{7f}\u{202e}b\n\u{e0041}\u{1b}é\"";
        let json = text(&name);
        assert_eq!(json, r#""a\u009b\u007f\u202eb\n\udb40\udc41\u001bé\"""#);
        assert_eq!(serde_json::from_str::<String>(&json).expect("JSON"), name);
    }
}
