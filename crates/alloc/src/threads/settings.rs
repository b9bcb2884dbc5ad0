//! Settings from the environment. Nothing here allocates.

use crate::checking::checks::Checks;
use crate::host::message::Line;
use crate::memory::backend::Backend;
use std::ffi::CStr;

/// Returns the value of a variable, or nothing if it is not set.
fn value(name: &CStr) -> &'static [u8] {
    if cfg!(miri) {
        return b"";
    }
    // SAFETY: the name is a C string, and so is a value in the environment.
    unsafe {
        let text = libc::getenv(name.as_ptr());
        if text.is_null() { b"" } else { CStr::from_ptr(text).to_bytes() }
    }
}

/// Sets the grade of `LANEFS_ALLOC_CHECKS`. A value that is not a grade is printed, and changes nothing.
pub(crate) fn read_checks(backend: &Backend) {
    match value(c"LANEFS_ALLOC_CHECKS") {
        b"" => {}
        b"off" => backend.set_checks(Checks::Off),
        b"cheap" => backend.set_checks(Checks::Cheap),
        b"full" => backend.set_checks(Checks::Full),
        other => {
            let mut line = Line::new();
            line.add(
                b"LANEFS_ALLOC_CHECKS is off, cheap or full; it stays cheap, for this is none of them: ",
            );
            line.add(other);
            line.print();
        }
    }
}

/// Returns true with `LANEFS_ALLOC_STATS=1`.
pub(crate) fn wants_stats() -> bool {
    value(c"LANEFS_ALLOC_STATS") == b"1"
}
