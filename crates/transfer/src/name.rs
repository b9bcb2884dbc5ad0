//! Names as people see them, and names that may be used at all.

/// A path or name for a message: printable UTF-8 as it is, control characters, backslashes and bytes that are no
/// UTF-8 escaped, so that any name is one line and none can drive a terminal.
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

/// True for what may name an entry of a directory: 1 to 255 bytes, no '/' and no NUL, neither `.` nor `..`. A
/// damaged or hostile volume or archive may hold others, and those must never reach a system call.
pub(crate) fn is_entry_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && name != b"."
        && name != b".."
        && !name.iter().any(|byte| *byte == b'/' || *byte == 0)
}

/// `base/name`, without doubling a slash.
pub(crate) fn joined(base: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = base.to_vec();
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
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

    #[test]
    fn joining_keeps_one_slash() {
        assert_eq!(joined(b"/", b"a"), b"/a");
        assert_eq!(joined(b"a", b"b"), b"a/b");
        assert_eq!(joined(b"", b"b"), b"b");
    }
}
