//! No crate has a circle of modules, at its top or inside a folder: data and calls flow one way. The table in
//! the head of each crate lists its modules from the ground up, and code names the module that it uses.
//!
//! The test reads `use` declarations and paths that begin with `crate`, `self` or `super`, and follows
//! re-exported names to the module that defines them. It does not see a method that one module calls on a
//! value of another one's type without naming it; code of tests does not count.

mod circles;
mod layers;
mod source;
mod tree;

use circles::circles;
use layers::{faults_of_table, imports_through_the_root, order};
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

/// The libraries of the workspace, each with its root file and its modules.
fn libraries() -> Vec<(String, String, Tree)> {
    let roots = roots().into_iter().filter_map(|(name, files)| Some((name, files.into_iter().next()?)));
    let libraries = roots.filter(|(_, file)| file.ends_with("src/lib.rs"));
    libraries
        .map(|(name, file)| {
            let tree = Tree::load(&file, &read).expect("every module can be read");
            (name, read(&file).expect("a root file"), tree)
        })
        .collect()
}

#[test]
fn each_crate_lists_its_modules_from_the_ground_up() {
    let mut found = String::new();
    // A crate of one file has nothing to list.
    for (name, text, tree) in libraries().iter().filter(|(_, _, tree)| tree.modules.len() > 1) {
        for fault in faults_of_table(tree, text) {
            found += &format!("{name}: {fault}\n");
        }
    }
    assert!(found.is_empty(), "\n{found}");
}

#[test]
fn the_architecture_has_the_same_lists() {
    let text = read(Path::new("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    for (name, root, tree) in libraries().iter().filter(|(_, _, tree)| tree.modules.len() > 1) {
        let short = name.strip_prefix("crates/").unwrap_or(name);
        let modules: Vec<String> = order(tree, root).iter().map(|module| format!("`{module}`")).collect();
        let row = format!("| `{short}` | {} |", modules.join(", "));
        assert!(text.contains(&row), "ARCHITECTURE.md, \"Modules\", lacks this line:\n{row}");
    }
}

#[test]
fn no_module_imports_through_the_root_of_its_crate() {
    let found: Vec<String> =
        libraries().iter().flat_map(|(_, _, tree)| imports_through_the_root(tree)).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}
