//! Circles among the modules of a folder.

use super::source::PathUse;
use super::tree::{Id, Tree};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;

/// One module uses another one of the same folder; all the paths by which it does.
type Edges = BTreeMap<Id, BTreeMap<Id, Vec<(Id, PathUse)>>>;

/// Describes each circle of a crate: its modules, and file and line of a use for each step of a shortest way
/// round.
pub(crate) fn circles(tree: &Tree) -> Vec<String> {
    let folders = folders(tree);
    folders
        .iter()
        .flat_map(|edges| knots(edges).into_iter().map(|knot| describe(tree, edges, &knot)))
        .collect()
}

/// The uses among the children of each module. A module and its own submodules are one unit to others.
fn folders(tree: &Tree) -> Vec<Edges> {
    let mut by_folder: BTreeMap<Id, Edges> = BTreeMap::new();
    for id in 0..tree.modules.len() {
        let from = tree.ancestors(id);
        for (target, path) in tree.references(id) {
            let to = tree.ancestors(target);
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            // One of them is inside the other one: no two siblings.
            let (Some(&user), Some(&used)) = (from.get(common), to.get(common)) else { continue };
            let edges = by_folder.entry(from[common - 1]).or_default();
            edges.entry(user).or_default().entry(used).or_default().push((id, path));
        }
    }
    by_folder.into_values().collect()
}

/// Sets of modules that all reach one another.
fn knots(edges: &Edges) -> Vec<BTreeSet<Id>> {
    let reached: BTreeMap<Id, BTreeSet<Id>> = edges.keys().map(|&id| (id, reach(edges, id))).collect();
    let mut knots: Vec<BTreeSet<Id>> = Vec::new();
    for (&id, all) in &reached {
        if all.contains(&id) && !knots.iter().any(|knot| knot.contains(&id)) {
            let both = all.iter().filter(|other| reached.get(other).is_some_and(|back| back.contains(&id)));
            knots.push(both.copied().collect());
        }
    }
    knots
}

/// All modules that a module uses, directly or not.
fn reach(edges: &Edges, from: Id) -> BTreeSet<Id> {
    let mut all = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(id) = waiting.pop() {
        let new = edges.get(&id).into_iter().flat_map(BTreeMap::keys).filter(|used| all.insert(**used));
        waiting.extend(new.copied());
    }
    all
}

/// A shortest way round in a knot.
fn way_round(edges: &Edges, knot: &BTreeSet<Id>) -> Vec<Id> {
    let ways = knot.iter().filter_map(|&start| {
        let mut before: BTreeMap<Id, Id> = BTreeMap::new();
        let mut waiting = VecDeque::from([start]);
        while let Some(id) = waiting.pop_front() {
            for &used in edges.get(&id).into_iter().flat_map(BTreeMap::keys) {
                if used == start {
                    let back = std::iter::successors(Some(id), |id| before.get(id).copied());
                    let mut way: Vec<Id> = back.collect();
                    way.reverse();
                    return Some(way);
                }
                if let Entry::Vacant(entry) = before.entry(used) {
                    entry.insert(id);
                    waiting.push_back(used);
                }
            }
        }
        None
    });
    ways.min_by_key(Vec::len).unwrap_or_default()
}

fn describe(tree: &Tree, edges: &Edges, knot: &BTreeSet<Id>) -> String {
    let names: Vec<String> = knot.iter().map(|&id| tree.name(id)).collect();
    let mut text = format!("circle of {} modules: {}\n", names.len(), names.join(", "));
    let way = way_round(edges, knot);
    for (at, &user) in way.iter().enumerate() {
        let used = way[(at + 1) % way.len()];
        let paths = &edges[&user][&used];
        let (module, path) = &paths[0];
        let file = tree.modules[*module].file.display();
        let more = if paths.len() > 1 { format!(", and {} more", paths.len() - 1) } else { String::new() };
        let (user, used, line) = (tree.name(user), tree.name(used), path.line);
        let _ = writeln!(text, "  {user} uses {used}: {file}:{line}: {}{more}", path.segments.join("::"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let read = |path: &Path| {
            files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| text.to_string())
        };
        circles(&Tree::load(Path::new("lib.rs"), &read).expect("all modules have files"))
    }

    #[test]
    fn modules_that_use_those_below_are_no_circle() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A; use b::B;"),
            ("a.rs", "mod c; mod d; use crate::b::B; pub struct A;"),
            // Parent and child are one unit.
            ("a/c.rs", "use super::A; use super::d;"),
            ("a/d.rs", "use crate::b::B;"),
            ("b.rs", "pub struct B; #[cfg(test)] mod tests { use crate::A; }"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn a_planted_circle_is_found_with_the_lines_of_its_uses() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "\nuse crate::b::B; pub struct A; use crate::d::D;"),
            ("b.rs", "pub struct B;\n\nfn f() { crate::c::g() }"),
            ("c.rs", "pub fn g() { let _: super::a::A; }"),
            ("d.rs", "pub struct D;"),
        ];
        let expected = "circle of 3 modules: crate::a, crate::b, crate::c\n  \
                        crate::a uses crate::b: a.rs:2: crate::b::B\n  \
                        crate::b uses crate::c: b.rs:3: crate::c::g\n  \
                        crate::c uses crate::a: c.rs:1: super::a::A\n";
        assert_eq!(found(&files), [expected]);
    }

    #[test]
    fn a_circle_through_a_re_export_and_one_inside_a_folder_are_found() {
        let through = [
            ("lib.rs", "mod a; mod b; pub use a::A;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use crate::A; pub struct B;"),
        ];
        assert_eq!(found(&through).len(), 1);
        let inside = [
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; mod c; use c::C;"),
            ("a/b.rs", "use super::C; pub struct B;"),
            ("a/c.rs", "pub struct C; fn f() { super::b::B }"),
        ];
        assert_eq!(found(&inside).len(), 1);
        assert!(
            found(&inside)[0].contains("crate::a::b uses crate::a::c: a/b.rs:1: super::C"),
            "{:?}",
            found(&inside)
        );
    }
}
