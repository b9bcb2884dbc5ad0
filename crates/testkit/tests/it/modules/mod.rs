//! No crate has a circle of modules, at its top or inside a folder: data and calls flow one way.
//!
//! The test reads `use` declarations and paths that begin with `crate`, `self` or `super`, and follows
//! re-exported names to the module that defines them. It does not see a method that one module calls on a
//! value of another one's type without naming it; code of tests does not count.

mod circles;
mod source;
mod tree;

use circles::circles;
use std::path::{Path, PathBuf};
use tree::Tree;

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(workspace().join(path)).ok()
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The crates of the workspace, by their folders, each with its root files.
fn roots() -> Vec<(String, Vec<PathBuf>)> {
    let mut all = Vec::new();
    let crates = std::fs::read_dir(workspace().join("crates")).expect("the folder of all crates");
    let folders = crates.map(|entry| Path::new("crates").join(entry.expect("an entry").file_name()));
    for folder in folders.chain([PathBuf::from("python")]) {
        let files = ["lib.rs", "main.rs"].map(|file| folder.join("src").join(file));
        let files: Vec<PathBuf> = files.into_iter().filter(|file| read(file).is_some()).collect();
        let name = folder.into_os_string().into_string().expect("a name in UTF-8");
        assert!(!files.is_empty(), "{name} has neither src/lib.rs nor src/main.rs");
        all.push((name, files));
    }
    all.sort();
    all
}

fn circles_of(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Vec<String> {
    circles(&Tree::load(root, read).expect("every module can be read"))
}

#[test]
fn no_crate_has_a_circle_of_modules() {
    let mut found = String::new();
    for (name, files) in roots() {
        for circle in files.iter().flat_map(|file| circles_of(file, &read)) {
            found += &format!("{name}: {circle}");
        }
    }
    assert!(found.is_empty(), "\n{found}");
}

#[test]
fn canary_a_circle_planted_in_a_crate_is_found() {
    let planted = |path: &Path| {
        let text = read(path)?;
        // `layout` is below all structures.
        let is_leaf = path.ends_with("format/src/layout.rs");
        Some(if is_leaf { text + "\nuse crate::superblock::Superblock;\n" } else { text })
    };
    let root = Path::new("crates/format/src/lib.rs");
    assert_eq!(circles_of(root, &read), [""; 0]);
    let found = circles_of(root, &planted);
    assert!(found.len() == 1 && found[0].contains("crate::superblock::Superblock"), "{found:?}");
}
