//! Names: their form in messages, the valid ones, temporary ones.

/// Formats a path or name for a message: any name is one line, and none acts on a terminal.
pub use lanefs::escape::escape as shown;
pub(crate) use lanefs::escape::escape_path as shown_path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
    fn names_that_would_leave_the_directory_are_none() {
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0", &[b'x'; 256]] {
            assert!(!is_entry_name(bad));
        }
        for good in [&b"..."[..], b" ", b"\xff\n", &[b'x'; 255]] {
            assert!(is_entry_name(good));
        }
    }
}
