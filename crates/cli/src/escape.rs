//! Names as text that keeps every byte and never moves a terminal's cursor.

/// True for text that [`escape_into`] leaves as it is, wherever it is cut at `delimiter`, which may be any
/// byte.
pub fn is_plain_but(text: &[u8], delimiter: u8) -> bool {
    let is_plain = |b: &u8| (0x20..0x7f).contains(b) & (*b != b'\\') | (*b == delimiter);
    // Without a branch for each byte the processor compares many at a time.
    text.chunks(256).all(|chunk| chunk.iter().fold(true, |all, b| all & is_plain(b)))
}

/// Appends `bytes` to `out` with control characters and invalid UTF-8 as `\xNN` (lower case) and a backslash
/// as `\\`. [`unescape`] returns the same bytes.
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
                // Unicode does not count line and paragraph separators and bidirectional controls as control
                // characters, but they have the same effect on a terminal.
                '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => push_hex(out, encoded),
                c if c.is_control() => push_hex(out, encoded),
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
pub fn escape(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    escape_into(&mut out, bytes);
    // The text is valid UTF-8, so nothing is lost.
    String::from_utf8_lossy(&out).into_owned()
}

/// The byte that `\xNN` stands for; `rest` begins after the backslash.
pub fn hex_escape(rest: &[u8]) -> Option<u8> {
    let [b'x', high, low, ..] = rest else { return None };
    let digit = |b: u8| char::from(b).to_digit(16);
    u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()
}

/// The bytes that an escaped text stands for. A backslash before anything but `xNN` stands for the next
/// character.
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&b) = text.get(at) {
        at += 1;
        if b != b'\\' {
            out.push(b);
        } else if let Some(byte) = text.get(at..).and_then(hex_escape) {
            out.push(byte);
            at += 3;
        } else {
            out.push(text.get(at).copied().unwrap_or(b'\\'));
            at += 1;
        }
    }
    out
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
        assert_eq!(escape(b""), "");
    }

    #[test]
    fn every_pair_of_bytes_survives() {
        for a in 0..=255u8 {
            for b in 0..=255u8 {
                let bytes = [b'x', a, b, b'4', b'1'];
                let text = escape(&bytes);
                assert!(!text.chars().any(char::is_control), "{text:?}");
                assert_eq!(unescape(text.as_bytes()), bytes, "{text}");
                let is_plain = bytes.is_ascii() && text.as_bytes() == bytes;
                assert_eq!(is_plain_but(&bytes, b'x'), is_plain, "{text}");
                assert!(a != b || is_plain_but(&bytes[1..3], a), "{text}");
            }
        }
    }

    #[test]
    fn unescape_takes_what_people_write() {
        assert_eq!(unescape(br"a\ b\x41\xg\"), br"a bAxg\");
    }
}
