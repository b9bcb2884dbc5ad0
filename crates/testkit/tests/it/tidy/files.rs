//! The Rust files of the workspace.

use std::path::{Path, PathBuf};

/// Returns path and text of each file of Rust, without those that were built.
pub(crate) fn rust_files() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for folder in ["crates", "python/src", "fuzz"] {
        read_all(Path::new(folder), &mut files);
    }
    assert!(files.len() > 500, "only {} files of Rust", files.len());
    files
}

/// Returns whether a file, given by its path, has code that ships, or that others build on: not a test, and
/// not an example.
pub(crate) fn is_source(path: &str) -> bool {
    let is_example = path.contains("/examples/");
    !path.contains("/tests/") && !path.ends_with("tests.rs") && !is_example
}

/// Returns the lines of a file before the tests that stand in it.
pub(crate) fn lines_of_source(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let begins_tests =
        |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{');
    let end = lines.windows(2).position(begins_tests).unwrap_or(lines.len());
    lines[..end].to_vec()
}

fn read_all(folder: &Path, into: &mut Vec<(String, String)>) {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let entries = std::fs::read_dir(workspace.join(folder)).expect("a folder of the workspace");
    let mut names: Vec<PathBuf> =
        entries.map(|entry| folder.join(entry.expect("an entry").file_name())).collect();
    names.sort();
    for name in names {
        let path = workspace.join(&name);
        if path.is_dir() && !name.ends_with("target") {
            read_all(&name, into);
        } else if name.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a file of the workspace");
            into.push((name.to_str().expect("a name in UTF-8").to_owned(), text));
        }
    }
}
