//! Misuses that each grade of checks catches: the program dies by SIGABRT, and a line on standard error names
//! the misuse. Misuses that a grade does not catch are tested if the program can be expected to survive.

mod support;

use Seen::{Dies, Lives, NoObject, Twice, WrittenBehind, WrittenFreed};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use support::{Run, compile, preload, run};

/// Outcome of a misuse.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    /// The message of each.
    Twice,
    NoObject,
    WrittenBehind,
    WrittenFreed,
    /// Nobody notices, and the program goes on.
    Lives,
    /// A header is read where nothing may lie: dead by SIGSEGV, or by SIGABRT with the message of
    /// [`NoObject`].
    Dies,
}

impl Seen {
    fn message(self) -> Option<&'static str> {
        match self {
            Twice => Some("lanefs-alloc: memory was freed twice at 0x"),
            NoObject | Dies => {
                Some("lanefs-alloc: there is no object in use at an address that was freed or resized, at 0x")
            }
            WrittenBehind => Some("lanefs-alloc: memory was written to behind the end of an object at 0x"),
            WrittenFreed => Some("lanefs-alloc: memory was written to after it was freed at 0x"),
            Lives => None,
        }
    }

    fn is(self, run: &Run) -> bool {
        let status = run.output.status;
        if self == Lives {
            return status.success() && run.text() == "survived\n" && run.messages.lines().count() == 1;
        }
        let is_told = run.messages.lines().count() == 1
            && self.message().is_some_and(|message| run.messages.starts_with(message));
        let is_aborted = status.signal() == Some(libc::SIGABRT) && is_told;
        is_aborted || self == Dies && is_wild(run)
    }
}

/// The library read where nothing lies. (With the checks of the compiler that is an abort, too.)
fn is_wild(run: &Run) -> bool {
    let signal = run.output.status.signal();
    signal == Some(libc::SIGSEGV)
        || signal == Some(libc::SIGABRT) && run.errors.contains("null pointer")
        || signal == Some(libc::SIGABRT) && run.errors.contains("NonNull")
}

/// Misuses, and their outcomes in the grades `cheap` and `full`.
const MISUSES: [(&str, Seen, Seen); 29] = [
    ("nothing", Lives, Lives),
    // Both are still in the magazine, at which nobody has looked again.
    ("free-twice-and-end", Lives, Twice),
    ("free-twice", Twice, Twice),
    ("free-twice-late", Twice, Twice),
    ("free-twice-there", Twice, Twice),
    ("free-late-there", Twice, Twice),
    ("free-there-then-here", Twice, Twice),
    ("free-twice-in-thread", Twice, Twice),
    ("free-large-twice", NoObject, NoObject),
    ("free-mapped-twice", Dies, Dies),
    ("free-stack", NoObject, NoObject),
    ("free-small-stack", Dies, Dies),
    ("free-static", NoObject, NoObject),
    ("free-small-static", Dies, Dies),
    ("free-mapping", NoObject, NoObject),
    ("free-null-and-8", Dies, Dies),
    ("free-middle", NoObject, NoObject),
    ("free-header", NoObject, NoObject),
    ("free-middle-there", NoObject, NoObject),
    ("free-large-middle", NoObject, NoObject),
    ("free-large-far", NoObject, NoObject),
    ("free-mapped-middle", NoObject, NoObject),
    ("resize-static", NoObject, NoObject),
    ("measure-static", NoObject, NoObject),
    ("write-behind", Lives, WrittenBehind),
    ("write-far-behind", Lives, WrittenBehind),
    ("write-behind-and-measure", Lives, WrittenBehind),
    ("write-freed", Lives, WrittenFreed),
    ("write-freed-end", Lives, WrittenFreed),
];

fn misuse() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile("misuse", &[]))
}

/// Does one misuse with a value of the variable, or without it.
fn done(what: &str, checks: Option<&str>) -> Run {
    let mut command = Command::new(misuse());
    preload(command.arg(what)).env_remove("LANEFS_ALLOC_CHECKS");
    run(match checks {
        Some(checks) => command.env("LANEFS_ALLOC_CHECKS", checks),
        None => &mut command,
    })
}

fn must_be(seen: Seen, what: &str, checks: Option<&str>) {
    let run = done(what, checks);
    assert!(seen.is(&run), "{what} with {checks:?} must come to {seen:?}: {}", run.describe());
}

#[test]
fn cheap_sees_foreign_addresses_at_once_and_others_when_a_magazine_overflows() {
    MISUSES.iter().for_each(|(what, cheap, _)| must_be(*cheap, what, Some("cheap")));
    must_be(Lives, "write-freed-there", Some("cheap"));
}

#[test]
fn cheap_is_what_there_is_without_the_variable() {
    for (checks, what) in [(None, "free-twice"), (Some(""), "free-twice"), (None, "free-static")] {
        let seen = if what == "free-twice" { Twice } else { NoObject };
        must_be(seen, what, checks);
    }
}

#[test]
fn full_sees_every_misuse() {
    MISUSES.iter().for_each(|(what, _, full)| must_be(*full, what, Some("full")));
    must_be(WrittenFreed, "write-freed-there", Some("full"));
    must_be(Twice, "resize-freed", Some("full"));
    must_be(NoObject, "free-forged", Some("full"));
}

#[test]
fn off_looks_at_nothing() {
    let quiet = [
        "nothing",
        "free-twice-and-end",
        "write-behind",
        "write-far-behind",
        "write-freed",
        "write-freed-end",
    ];
    quiet.iter().for_each(|what| must_be(Lives, what, Some("off")));
}

#[test]
fn a_value_that_means_nothing_is_named_once_and_the_default_stays() {
    let all = done("nothing", Some("fully"));
    let named: Vec<&str> = all.messages.lines().filter(|line| line.contains("LANEFS_ALLOC_CHECKS")).collect();
    assert_eq!(named.len(), 1, "{}", all.describe());
    assert!(named[0].ends_with("fully") && all.text() == "survived\n", "{}", all.describe());
    let caught = done("free-twice", Some("Full"));
    assert_eq!(caught.output.status.signal(), Some(libc::SIGABRT), "{}", caught.describe());
    assert!(caught.messages.contains("freed twice"), "{}", caught.describe());
    // A line has an end, whatever the value has.
    let long = done("nothing", Some(&"x".repeat(10_000)));
    assert_eq!(long.text(), "survived\n", "{}", long.describe());
    assert!(long.messages.lines().all(|line| line.len() < 256), "{}", long.describe());
}
