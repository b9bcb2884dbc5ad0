//! The table of modules of each crate, and the way in which its code names other modules.
//!
//! The head of each crate's root file lists its modules from the ground up. `ARCHITECTURE.md` has the same
//! lists.

use super::tree::{Id, ROOT, Tree};

/// Returns the modules that the table in the head of a root file names, by its lines. Other words between
/// backticks do not count.
fn table(text: &str, declared: &[&str]) -> Vec<Vec<String>> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! |"));
    rows.map(|row| {
        // An odd number of backticks stands before each word.
        let words = row.split('`').skip(1).step_by(2);
        words.filter(|word| declared.contains(word)).map(str::to_owned).collect::<Vec<_>>()
    })
    .filter(|names| !names.is_empty())
    .collect()
}

/// Returns the faults of the table in the head of a crate's root file.
pub(crate) fn faults_of_table(tree: &Tree, text: &str) -> Vec<String> {
    let declared: Vec<&str> = tree.modules[ROOT].children.keys().map(String::as_str).collect();
    let rows = table(text, &declared);
    let line = |name: &str| rows.iter().position(|row| row.iter().any(|of| of == name));
    let mut found = Vec::new();
    for name in &declared {
        match rows.iter().flatten().filter(|of| of == name).count() {
            0 => found.push(format!("the table of modules lacks `{name}`")),
            1 => (),
            _ => found.push(format!("the table of modules has `{name}` twice")),
        }
    }
    for id in 0..tree.modules.len() {
        let Some(user) = top(tree, id) else { continue };
        for (target, path) in tree.references(id) {
            let Some(used) = top(tree, target).filter(|used| *used != user) else { continue };
            if let (Some(at), Some(of)) = (line(&user), line(&used))
                && of > at
            {
                let (file, path_line) = (tree.modules[id].file.display(), path.line);
                let path = path.segments.join("::");
                found.push(format!(
                    "`{user}` uses `{used}`, which the table has below it: {file}:{path_line}: {path}"
                ));
            }
        }
    }
    found
}

/// Returns the modules of a crate in the order of its table.
pub(crate) fn order(tree: &Tree, text: &str) -> Vec<String> {
    let declared: Vec<&str> = tree.modules[ROOT].children.keys().map(String::as_str).collect();
    table(text, &declared).into_iter().flatten().collect()
}

/// Name of the crate's module that has a module; `None`: the crate itself.
fn top(tree: &Tree, id: Id) -> Option<String> {
    tree.ancestors(id).get(1).map(|&top| tree.modules[top].name.clone())
}

/// Returns the imports that name something by the crate's own re-export, and not by the module that has it:
/// `use crate::Store` hides which room the code depends on.
pub(crate) fn imports_through_the_root(tree: &Tree) -> Vec<String> {
    let root = &tree.modules[ROOT];
    let mut found = Vec::new();
    for module in tree.modules.iter().skip(1) {
        for import in &module.source.imports {
            let [first, second, ..] = import.path.segments.as_slice() else { continue };
            let is_reexported = root.source.imports.iter().any(|of| of.bound.as_ref() == Some(second));
            if first == "crate" && !root.children.contains_key(second) && is_reexported {
                let path = import.path.segments.join("::");
                found.push(format!("{}:{}: {path}", module.file.display(), import.path.line));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const HEAD: &str =
        "//! | module | |\n//! |---|---|\n//! | `a` | words |\n//! | [`b`], `c` | uses `d` |\n";

    fn tree(files: &[(&str, &str)]) -> Tree {
        let read = |path: &Path| {
            files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| text.to_string())
        };
        Tree::load(Path::new("lib.rs"), &read).expect("all modules have files")
    }

    #[test]
    fn a_table_that_fits_has_no_fault() {
        let root = "mod a; mod b; mod c; pub use a::A;";
        let files = [("lib.rs", root), ("a.rs", "pub struct A;"), ("b.rs", "use crate::a::A;"), ("c.rs", "")];
        let tree = tree(&files);
        assert_eq!(faults_of_table(&tree, HEAD), [""; 0]);
        assert_eq!(order(&tree, HEAD), ["a", "b", "c"]);
        assert_eq!(imports_through_the_root(&tree), [""; 0]);
    }

    #[test]
    fn planted_faults_are_found() {
        let root = "mod a; mod b; mod c; mod e; pub use b::B;";
        let files = [
            ("lib.rs", root),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "pub struct B;"),
            ("c.rs", "use crate::B;"),
            ("e.rs", ""),
        ];
        let tree = tree(&files);
        let faults = faults_of_table(&tree, &(HEAD.to_owned() + "//! | `c` | again |\n"));
        let expected = [
            "the table of modules has `c` twice",
            "the table of modules lacks `e`",
            "`a` uses `b`, which the table has below it: a.rs:1: crate::b::B",
        ];
        assert_eq!(faults, expected);
        assert_eq!(imports_through_the_root(&tree), ["c.rs:1: crate::B"]);
    }
}
