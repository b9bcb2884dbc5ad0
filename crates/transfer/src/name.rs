//! Names: their form in messages, the valid ones, temporary ones.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Formats a path or name for a message. Printable UTF-8 stays as it is; control characters, backslashes and
/// bytes that are not UTF-8 are escaped. So any name is one line, and none can control a terminal.
pub fn shown(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                c if c.is_control() => {
                    c.to_string().bytes().for_each(|byte| out.push_str(&format!("\\x{byte:02x}")));
                }
                c => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| out.push_str(&format!("\\x{byte:02x}")));
    }
    out
}

/// True for a valid name of a directory's entry: 1 to 255 bytes, no '/' and no NUL, neither `.` nor `..`. A
/// damaged or hostile volume or archive may hold others, which must never reach a system call.
pub(crate) fn is_entry_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && name != b"."
        && name != b".."
        && !name.iter().any(|byte| *byte == b'/' || *byte == 0)
}

/// Returns a name that nothing else uses.
pub(crate) fn temporary_name() -> Vec<u8> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!(".lanefs-{}-{}.tmp", rustix::process::getpid(), NEXT.fetch_add(1, Relaxed)).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_is_one_harmless_line() {
        assert_eq!(shown("grüße".as_bytes()), "grüße");
        assert_eq!(shown(b"a\nb\\c\x1b[2J\xff"), "a\\nb\\\\c\\x1b[2J\\xff");
        assert_eq!(shown("\u{9b}".as_bytes()), "\\xc2\\x9b");
    }

    #[test]
    fn names_that_would_leave_the_directory_are_none() {
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0", &[b'x'; 256]] {
            assert!(!is_entry_name(bad));
        }
        for good in [&b"..."[..], b" ", b"\xff\n", &[b'x'; 255]] {
            assert!(is_entry_name(good));
        }
    }
}
