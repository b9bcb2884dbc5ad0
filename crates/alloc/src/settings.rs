//! What the environment asks for, and the line of counters at a program's end. Nothing here allocates.

use crate::heap::Stats;
use crate::os::Line;
use crate::world::{Checks, World};
use std::ffi::CStr;

/// The value of a variable; empty where it is not set.
fn value(name: &CStr) -> &'static [u8] {
    // SAFETY: the name is a C string, and so is what the environment has.
    unsafe {
        let text = libc::getenv(name.as_ptr());
        if text.is_null() { b"" } else { CStr::from_ptr(text).to_bytes() }
    }
}

/// Sets what `LANEFS_ALLOC_CHECKS` says. What it cannot mean is named, and changes nothing.
pub(crate) fn read(world: &World) {
    match value(c"LANEFS_ALLOC_CHECKS") {
        b"" => {}
        b"off" => world.set_checks(Checks::Off),
        b"cheap" => world.set_checks(Checks::Cheap),
        b"full" => world.set_checks(Checks::Full),
        other => {
            let mut line = Line::new();
            line.add(
                b"LANEFS_ALLOC_CHECKS is off, cheap or full; it stays cheap, for nobody knows what this is: ",
            );
            line.add(other);
            line.print();
        }
    }
}

/// True with `LANEFS_ALLOC_STATS=1`.
pub(crate) fn asks_for_stats() -> bool {
    value(c"LANEFS_ALLOC_STATS") == b"1"
}

impl Stats {
    /// Prints all counters in a line on standard error.
    pub(crate) fn print(&self) {
        let mut line = Line::new();
        line.add(b"stats:");
        let mut add = |name: &str, count: u64| {
            line.add(b" ");
            line.add(name.as_bytes());
            line.add(b"=");
            line.number(count as usize, 10);
        };
        if cfg!(feature = "stats") {
            add("magazine_hits", self.magazine_hits);
            add("bump_hits", self.bump_hits);
        }
        add("refills", self.refills);
        add("refilled", self.refilled);
        add("overflows", self.overflows);
        add("from_others", self.from_others);
        line.print();
    }
}
