//! Names as text that keeps every byte and does nothing to a terminal.
//!
//! Every name that is printed for people goes through [`escape_into`], and every message through
//! [`harmless`], so that what counts as harmful is decided once, in [`is_harmful`].

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Returns whether a character acts on a terminal or on the text around it, rather than being shown: control
/// characters, line and paragraph separators, marks of direction, invisible characters that hide a difference
/// between two names, and tags.
///
/// Unicode counts only some of them as control characters (`Cc`). The others are those of its report 36,
/// "Unicode Security Considerations", that are not needed to write any language. Joiners (U+200C and U+200D)
/// are needed, and stay.
#[must_use]
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns whether [`escape_into`] leaves a text as it is, wherever it is cut at `delimiter`, which may be
/// any byte.
#[must_use]
pub fn is_plain_but(text: &[u8], delimiter: u8) -> bool {
    let is_plain = |b: &u8| (0x20..0x7f).contains(b) & (*b != b'\\') | (*b == delimiter);
    // Without a branch for each byte the processor compares many at a time.
    text.chunks(256).all(|chunk| chunk.iter().fold(true, |all, b| all & is_plain(b)))
}

/// Appends `bytes` to `out` with harmful characters and invalid UTF-8 as `\xNN` (lower case) and a backslash
/// as `\\`. The program's `unescape` returns the same bytes.
pub fn escape_into(out: &mut Vec<u8>, bytes: &[u8]) {
    // Nearly all names are plain ASCII, and a batch has millions of them. A space is plain anyway.
    if is_plain_but(bytes, b' ') {
        out.extend_from_slice(bytes);
        return;
    }
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            let mut buffer = [0; 4];
            let encoded = c.encode_utf8(&mut buffer).as_bytes();
            match c {
                '\\' => out.extend_from_slice(b"\\\\"),
                c if is_harmful(c) => push_hex(out, encoded),
                _ => out.extend_from_slice(encoded),
            }
        }
        push_hex(out, chunk.invalid());
    }
}

fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for b in bytes {
        out.extend_from_slice(&[b'\\', b'x', DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]);
    }
}

/// [`escape_into`] as a string.
#[must_use]
pub fn escape(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    escape_into(&mut out, bytes);
    // The text is valid UTF-8, so nothing is lost.
    String::from_utf8_lossy(&out).into_owned()
}

/// [`escape`] of a path of the host.
#[must_use]
pub fn escape_path(path: &Path) -> String {
    escape(path.as_os_str().as_bytes())
}

/// Returns a message with its harmful characters as `\xNN`. Line feeds and tabs stay, because a message may
/// have several lines; names in it were escaped before. This is the last guard before a terminal or a log:
/// a message may have text from a server, a library or the system.
#[must_use]
pub fn harmless(message: &str) -> Cow<'_, str> {
    let is_kept = |c: char| !is_harmful(c) || matches!(c, '\n' | '\t');
    if message.chars().all(is_kept) {
        return message.into();
    }
    let mut out = Vec::with_capacity(message.len());
    for c in message.chars() {
        let mut buffer = [0; 4];
        let encoded = c.encode_utf8(&mut buffer).as_bytes();
        if is_kept(c) { out.extend_from_slice(encoded) } else { push_hex(&mut out, encoded) }
    }
    String::from_utf8_lossy(&out).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_what_would_harm_a_line_or_a_terminal() {
        assert_eq!(escape(b"plain name"), "plain name");
        assert_eq!(escape("Größe 漢字".as_bytes()), "Größe 漢字");
        assert_eq!(escape(b"a\tb\nc\\d\x1b\x7f"), r"a\x09b\x0ac\\d\x1b\x7f");
        assert_eq!(escape(b"\xff\xc3(\xe2\x82"), r"\xff\xc3(\xe2\x82");
        assert_eq!(escape("\u{85}\u{202e}".as_bytes()), r"\xc2\x85\xe2\x80\xae");
        assert_eq!(escape("\u{e0041}\u{feff}".as_bytes()), r"\xf3\xa0\x81\x81\xef\xbb\xbf");
        // A joiner, as in Persian words and in emoji of several people.
        assert_eq!(escape("می\u{200c}خواهم".as_bytes()), "می\u{200c}خواهم");
        assert_eq!(escape(b""), "");
    }

    #[test]
    fn messages_keep_their_lines_and_what_was_escaped_before() {
        assert_eq!(harmless("two\nlines:\t'a\\x1b'"), "two\nlines:\t'a\\x1b'");
        assert_eq!(harmless("\x1b[2J\x07\u{9b}\r\u{202e}"), r"\x1b[2J\x07\xc2\x9b\x0d\xe2\x80\xae");
    }
}
