//! Names: few, so that operations meet; and of every kind that a directory treats specially.

use crate::one_hash;
use crate::seeded::Seeded;

/// Short names that collide often.
const COMMON: [&[u8]; 8] = [b"a", b"b", b"c", b"dd", b"e1", b"f.txt", b"G", b"h h"];
/// Names that need care: control characters, no UTF-8, a leading dash or dot, and lengths around the hash's
/// 32 bytes and the 16 B units of an entry.
const ODD: [&[u8]; 9] = [
    b"\xff\x01\n",
    b"\xc3\xa4\xc3\xb6",
    b"...",
    b"-rf",
    b"fifteen-bytes-n",
    b"sixteen-bytes-na",
    b"seventeen-bytes-n",
    b"a-name-of-exactly-32-bytes-12345",
    b"a-name-of-exactly-33-bytes-123456",
];

/// A name that may or may not exist.
pub(super) fn any(numbers: &mut Seeded) -> Vec<u8> {
    match numbers.below(100) {
        0..70 => numbers.pick(&COMMON).to_vec(),
        70..85 => numbers.pick(&ODD).to_vec(),
        85..88 => vec![b'L'; 255],
        88..90 => vec![b'M'; 254],
        90 => vec![b'N'; 256],
        91 => vec![b'O'; 300],
        92 => b".".to_vec(),
        93 => b"..".to_vec(),
        94..97 => numbers.pick(one_hash::names()).clone(),
        _ => bulk_name(numbers.below(300)),
    }
}

/// Member `number` of an endless series of names whose lengths range from 1 to 255.
pub fn bulk_name(number: u64) -> Vec<u8> {
    let mut name = format!("n{number}").into_bytes();
    // Most names are short, as in practice; every seventh is padded to a length of its own.
    if number % 7 == 6 {
        let len = 8 + (number * 37 % 248) as usize;
        while name.len() < len {
            name.push(b'a' + (name.len() % 26) as u8);
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_has_no_name_twice() {
        let names: std::collections::HashSet<_> = (0..5000).map(bulk_name).collect();
        assert_eq!(names.len(), 5000);
        assert!(names.iter().all(|n| (1..=255).contains(&n.len())));
        assert!(names.iter().any(|n| n.len() > 250));
    }
}
