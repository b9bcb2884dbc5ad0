//! The misuses that each grade of checks finds: the program ends by SIGABRT, and a line on standard error
//! names the misuse. A misuse that a grade does not find is tested where the program can be expected to
//! survive.

mod support;

use Misuse::{Dies, Lives, NoObject, Twice, WrittenBehind, WrittenFreed};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use support::{Outcome, compile, preload, run};

/// Result of a misuse.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Misuse {
    /// The program ends with the message of each.
    Twice,
    NoObject,
    WrittenBehind,
    WrittenFreed,
    /// Nothing is found, and the program continues.
    Lives,
    /// The heap reads a header where no memory may be mapped: the program ends by SIGSEGV, or as with
    /// [`NoObject`].
    Dies,
}

impl Misuse {
    fn message(self) -> Option<&'static str> {
        match self {
            Twice => Some("lanefs-alloc: memory was freed twice at 0x"),
            NoObject | Dies => {
                Some("lanefs-alloc: there is no object in use at an address that was freed or resized, at 0x")
            }
            WrittenBehind => Some("lanefs-alloc: memory was written to past the end of an object at 0x"),
            WrittenFreed => Some("lanefs-alloc: memory was written to after it was freed at 0x"),
            Lives => None,
        }
    }

    fn is(self, outcome: &Outcome) -> bool {
        let status = outcome.output.status;
        if self == Lives {
            return status.success()
                && outcome.text() == "survived\n"
                && outcome.messages.lines().count() == 1;
        }
        let has_message = outcome.messages.lines().count() == 1
            && self.message().is_some_and(|message| outcome.messages.starts_with(message));
        let is_aborted = status.signal() == Some(libc::SIGABRT) && has_message;
        is_aborted || self == Dies && is_wild(outcome)
    }
}

/// Returns true if the library read where no memory is mapped. (The checks of the compiler may turn that into
/// an abort.)
fn is_wild(outcome: &Outcome) -> bool {
    let signal = outcome.output.status.signal();
    signal == Some(libc::SIGSEGV)
        || signal == Some(libc::SIGABRT) && outcome.errors.contains("null pointer")
        || signal == Some(libc::SIGABRT) && outcome.errors.contains("NonNull")
}

/// Misuses, and their results in the grades `cheap` and `full`.
const MISUSES: [(&str, Misuse, Misuse); 29] = [
    ("nothing", Lives, Lives),
    // Both are still in the magazine, which is not searched.
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

/// Runs one misuse with a value of the variable, or without it.
fn misused(what: &str, checks: Option<&str>) -> Outcome {
    let mut command = Command::new(misuse());
    preload(command.arg(what)).env_remove("LANEFS_ALLOC_CHECKS");
    run(match checks {
        Some(checks) => command.env("LANEFS_ALLOC_CHECKS", checks),
        None => &mut command,
    })
}

fn expect(result: Misuse, what: &str, checks: Option<&str>) {
    let outcome = misused(what, checks);
    assert!(result.is(&outcome), "{what} with {checks:?} must end as {result:?}: {}", outcome.describe());
}

#[test]
fn cheap_finds_foreign_addresses_at_once_and_others_when_a_magazine_overflows() {
    MISUSES.iter().for_each(|(what, cheap, _)| expect(*cheap, what, Some("cheap")));
    expect(Lives, "write-freed-there", Some("cheap"));
}

#[test]
fn cheap_is_the_default() {
    for (checks, what) in [(None, "free-twice"), (Some(""), "free-twice"), (None, "free-static")] {
        let result = if what == "free-twice" { Twice } else { NoObject };
        expect(result, what, checks);
    }
}

#[test]
fn full_finds_every_misuse() {
    MISUSES.iter().for_each(|(what, _, full)| expect(*full, what, Some("full")));
    expect(WrittenFreed, "write-freed-there", Some("full"));
    expect(Twice, "resize-freed", Some("full"));
    expect(NoObject, "free-forged", Some("full"));
}

#[test]
fn off_checks_nothing() {
    let quiet = [
        "nothing",
        "free-twice-and-end",
        "write-behind",
        "write-far-behind",
        "write-freed",
        "write-freed-end",
    ];
    quiet.iter().for_each(|what| expect(Lives, what, Some("off")));
}

#[test]
fn an_unknown_value_is_named_once_and_the_default_stays() {
    let all = misused("nothing", Some("fully"));
    let named: Vec<&str> = all.messages.lines().filter(|line| line.contains("LANEFS_ALLOC_CHECKS")).collect();
    assert_eq!(named.len(), 1, "{}", all.describe());
    assert!(named[0].ends_with("fully") && all.text() == "survived\n", "{}", all.describe());
    let caught = misused("free-twice", Some("Full"));
    assert_eq!(caught.output.status.signal(), Some(libc::SIGABRT), "{}", caught.describe());
    assert!(caught.messages.contains("freed twice"), "{}", caught.describe());
    // A line has an end, however long the value is.
    let long = misused("nothing", Some(&"x".repeat(10_000)));
    assert_eq!(long.text(), "survived\n", "{}", long.describe());
    assert!(long.messages.lines().all(|line| line.len() < 256), "{}", long.describe());
}
