//! A name belongs to one type.
//!
//! A reader of `State` in one module must not have to ask which of three it is. So no crate declares two
//! types of one name at the top of its modules, private ones included, and no two libraries export
//! one name. A name that is right for several types has a row in the glossary, which says how they differ.
//! `Error` and `Result` are those of their crate, as everywhere in Rust. Tests and examples do not count.
//! A private type may have the name of another crate's: no module sees both.

use super::files::{is_source, lines_of_source, rust_files};
use std::collections::{BTreeMap, BTreeSet};

const OF_EACH_CRATE: [&str; 2] = ["Error", "Result"];
const LIBRARIES: [&str; 11] =
    ["alloc", "format", "fs", "fuse", "gpu", "publish", "search", "serve", "store", "stores", "transfer"];

/// Returns the name of a type that a line declares at the top of a module.
fn declared(line: &str) -> Option<&str> {
    let rest = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let words = ["struct ", "enum ", "union ", "trait ", "type "];
    let name = words.iter().find_map(|word| rest.strip_prefix(word))?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    Some(&name[..end])
}

/// Returns the crate of a file; each program beside a library is one of its own.
fn crate_of(path: &str) -> &str {
    let folder = path.strip_prefix("crates/").unwrap_or(path);
    if path.contains("/src/bin/") { path } else { folder.split('/').next().unwrap_or(folder) }
}

/// Returns the names of types that the root file of a library exports.
fn exported(root: &str) -> BTreeSet<&str> {
    let uses = root.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next());
    let words = uses.flat_map(|text| text.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words.filter(|word| word.starts_with(char::is_uppercase)).collect()
}

/// Returns the names that the first column of a table of the glossary has between backticks.
fn in_glossary(glossary: &str) -> BTreeSet<&str> {
    let terms = glossary.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    terms.flat_map(|term| term.split('`').skip(1).step_by(2)).collect()
}

/// Returns the faults of files, given by path and text.
fn faults(files: &[(String, String)], glossary: &str) -> Vec<String> {
    let known = in_glossary(glossary);
    let mut places: BTreeMap<&str, Vec<(&str, String)>> = BTreeMap::new();
    let mut exports: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, text) in files.iter().filter(|(path, _)| is_source(path)) {
        for (at, line) in lines_of_source(text).into_iter().enumerate() {
            let Some(name) = declared(line) else { continue };
            if !known.contains(name) && !OF_EACH_CRATE.contains(&name) {
                places.entry(name).or_default().push((crate_of(path), format!("{path}:{}", at + 1)));
            }
        }
        if path.ends_with("/src/lib.rs") && LIBRARIES.contains(&crate_of(path)) {
            exports.insert(crate_of(path), exported(text));
        }
    }
    let mut found = Vec::new();
    for (name, places) in places {
        let is_export = |of: &str| exports.get(of).is_some_and(|names| names.contains(name));
        for (at, (of, place)) in places.iter().enumerate() {
            for (other, other_place) in &places[at + 1..] {
                if of == other || (is_export(of) && is_export(other)) {
                    found.push(format!("{name} stands twice: {place}, {other_place}: rename one, or say in the glossary how they differ"));
                }
            }
        }
    }
    found
}

#[test]
fn a_name_belongs_to_one_type() {
    let glossary = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/glossary.md");
    let glossary = std::fs::read_to_string(glossary).expect("the glossary");
    let files = rust_files();
    let all = files.iter().flat_map(|(_, text)| text.lines()).filter(|line| declared(line).is_some()).count();
    assert!(all > 1500, "only {all} types");
    let found = faults(&files, &glossary);
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn planted_names_of_two_types_are_found() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let one = file("crates/store/src/a.rs", "pub(crate) struct State<T> {\n}\n");
    let two = file("crates/store/src/b/c.rs", "\nenum State {\n}\n");
    let found = |files: &[(String, String)]| faults(files, "").len();
    let message = "State stands twice: crates/store/src/a.rs:1, crates/store/src/b/c.rs:2: \
                   rename one, or say in the glossary how they differ";
    assert_eq!(faults(&[one.clone(), two.clone()], ""), [message]);
    assert_eq!(faults(&[one.clone(), two], "| to be, `State` | one; another | |"), [""; 0]);
    for other in ["pub trait State: Sized {", "type State = u8;", "pub(in crate::b) union State {"] {
        assert_eq!(found(&[one.clone(), file("crates/store/src/d.rs", other)]), 1, "{other}");
    }
    for path in [
        "crates/store/tests/it.rs",
        "crates/store/examples/e.rs",
        "crates/store/src/bin/f.rs",
        "crates/gpu/src/a.rs",
    ] {
        assert_eq!(found(&[one.clone(), file(path, "struct State;")]), 0, "{path}");
    }
    // Names that libraries export.
    let root = |of: &str| file(&format!("crates/{of}/src/lib.rs"), "mod a;\npub use a::{B, State};\n");
    let private = file("crates/gpu/src/a.rs", "struct State;");
    assert_eq!(found(&[root("store"), one.clone(), private.clone()]), 0);
    assert_eq!(found(&[root("store"), root("gpu"), one, private]), 1);
}
