//! Names as text that keeps every byte and does nothing to a terminal, and back.

pub use lanefs::escape::{escape, escape_into, is_plain_but};

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
