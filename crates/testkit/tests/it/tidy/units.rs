//! A constant's name says its unit.
//!
//! `PIECE` is blocks in one module and bytes in another one, and both compile. So the name of a constant that
//! is an integer ends with the unit where
//!
//! * the first line of its doc comment gives one of [`UNITS`]: it begins with it (*Bytes of*, *Most blocks
//!   of*), or has *in bytes*;
//! * its name alone says nothing: it ends with a container, which has a size in several units
//!   ([`CONTAINERS`]), or is nothing but a bound ([`BOUNDS`]).
//!
//! Public constants keep their names, and state the unit in their doc comments.

use super::files::{is_source, lines_of_source, rust_files};

const UNITS: [&str; 6] = ["bytes", "blocks", "nanoseconds", "microseconds", "milliseconds", "seconds"];
/// Short forms of units in names.
const SHORT: [(&str, &str); 3] = [("nanoseconds", "NS"), ("microseconds", "US"), ("milliseconds", "MS")];
const CONTAINERS: [&str; 5] = ["BATCH", "CHUNK", "PAGE", "PIECE", "WINDOW"];
const BOUNDS: [&str; 5] = ["MAX", "MOST", "LEAST", "FEW", "MANY"];
/// Names that are units themselves: of the format, of devices and of memory.
const ARE_UNITS: [&str; 4] = ["BLOCK", "UNIT", "SECTOR", "WORD"];
/// Words before the unit at the beginning of a comment.
const BEFORE: [&str; 6] = ["Most ", "Fewest ", "Least ", "Maximum ", "Number of ", "First "];

/// Returns the name of a private constant that a line declares, if it is an integer.
fn constant(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let text = match text.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ")?.1,
        None => text,
    };
    let (name, rest) = text.strip_prefix("const ")?.split_once(": ")?;
    let (type_name, _) = rest.split_once(" =")?;
    let is_integer = ["usize", "u64", "u32", "u16", "u8", "i64", "i32"].contains(&type_name);
    is_integer.then_some(name)
}

/// Returns the unit that the first line of a comment gives.
fn unit_of(comment: &str) -> Option<&'static str> {
    let end = comment
        .match_indices(['.', ';', ':'])
        .find(|(at, _)| comment[at + 1..].is_empty() || comment[at + 1..].starts_with(' '));
    let clause = &comment[..end.map_or(comment.len(), |(at, _)| at)];
    let rest = BEFORE.iter().find_map(|before| clause.strip_prefix(before)).unwrap_or(clause);
    let first = rest.split([' ', ',']).next().unwrap_or_default().to_lowercase();
    let words: Vec<&str> = clause.split([' ', ',']).collect();
    UNITS.into_iter().find(|unit| first == *unit).or_else(|| {
        let pairs = words.windows(2);
        pairs.filter(|pair| pair[0] == "in").find_map(|pair| UNITS.into_iter().find(|unit| pair[1] == *unit))
    })
}

/// Returns the fault of a constant's name; `comment`: the first line above it.
fn fault(name: &str, comment: &str) -> Option<String> {
    if ARE_UNITS.contains(&name) {
        return None;
    }
    let words: Vec<&str> = name.split('_').collect();
    if let Some(unit) = unit_of(comment) {
        let short = SHORT.iter().find(|(of, _)| *of == unit).map(|(_, short)| *short);
        let has = words.iter().any(|word| word.eq_ignore_ascii_case(unit) || Some(*word) == short);
        return (!has).then(|| format!("{name} is in {unit}: let its name end with it"));
    }
    let is_container = words.last().is_some_and(|last| CONTAINERS.contains(last));
    (is_container || BOUNDS.contains(&name))
        .then(|| format!("{name} of which unit? Let its name end with it"))
}

/// Returns the faults of files, given by path and text.
fn faults(files: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| is_source(path)) {
        let lines = lines_of_source(text);
        for (at, line) in lines.iter().enumerate() {
            let Some(name) = constant(line) else { continue };
            let above = lines[..at].iter().rev().map(|line| line.trim_start());
            let above = above.take_while(|line| line.starts_with("///") || line.starts_with("#["));
            let comment = above.filter_map(|line| line.strip_prefix("///")).last().unwrap_or_default();
            found.extend(fault(name, comment.trim()).map(|fault| format!("{path}:{}: {fault}", at + 1)));
        }
    }
    found
}

#[test]
fn constants_say_their_units() {
    let files = rust_files();
    let all = files.iter().flat_map(|(_, text)| text.lines()).filter(|line| constant(line).is_some()).count();
    assert!(all > 1000, "only {all} constants");
    let found = faults(&files);
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn planted_names_without_their_unit_are_found() {
    let found = |text: &str| faults(&[("a/src/b.rs".to_owned(), text.to_owned())]);
    let sized = "/// Bytes of a request.\nconst REQUEST: u64 = 4;\n";
    assert_eq!(found(sized), ["a/src/b.rs:2: REQUEST is in bytes: let its name end with it"]);
    for faulty in [
        "    /// Most blocks of one write (1 MiB), as\n    /// a device takes them.\n    #[cfg(unix)]\n    const LONGEST: usize = 256;",
        "/// Longest name, in bytes.\npub(in crate::a) const NAME: u16 = 255;",
        "/// Nanoseconds of a wait.\npub(crate) const WAIT: u64 = 1;",
        "/// Entries of a read.\nconst PAGE: usize = 4096;",
        "const MOST: u32 = 1;",
        "const LARGE_BATCH: u32 = 1;",
    ] {
        assert_eq!(found(faulty).len(), 1, "{faulty}");
    }
    for sound in [
        "/// Bytes of a request.\nconst REQUEST_BYTES: u64 = 4;",
        "/// Milliseconds of a tick.\nconst TICK_MS: u64 = 4;",
        "/// Bytes of a file beside its content.\nconst BYTES_A_FILE: u64 = 16;",
        "/// Bytes of a page.\npub const PAGE: u64 = 4096;",
        "/// Time of a wait.\nconst WAIT: Duration = Duration::from_secs(1);",
        "/// Takes the snapshot; the answer is its size in bytes.\nconst TAKE: u8 = 1;",
        "/// Bytes of a block.\nconst BLOCK: u64 = 4096;",
        "#[cfg(test)]\nmod tests {\n    const MOST: u32 = 1;\n}",
    ] {
        assert_eq!(found(sound), [""; 0], "{sound}");
    }
}
