//! The order of names by their paths, found without the paths: a chain of directories makes one of a
//! megabyte, and each of many names below it would need its own.

use super::pair::Pair;
use super::tree::Tree;
use std::collections::HashMap;

/// A name in a directory: one that is sorted, or that of a directory on the way to some.
enum WalkStep<'n> {
    Item(&'n [u8], usize),
    Branch(&'n [u8], usize),
}

impl<'n> WalkStep<'n> {
    fn name(&self) -> &'n [u8] {
        match self {
            WalkStep::Item(name, _) | WalkStep::Branch(name, _) => name,
        }
    }
}

/// Sorts names by their paths, name by name: those below a directory follow it at once. `place` returns the
/// directory and the name in it. The memory goes with the directories on the way, each of which counts once.
pub(super) fn sort_by_path<A: Tree, B: Tree, T>(
    items: &mut Vec<T>,
    place: impl for<'i> Fn(&'i T) -> (&'i Pair<A, B>, &'i [u8]),
) {
    let order = order(items, place);
    let mut unsorted: Vec<Option<T>> = std::mem::take(items).into_iter().map(Some).collect();
    items.extend(order.into_iter().filter_map(|number| unsorted.get_mut(number)?.take()));
}

/// The numbers of the names in their order.
fn order<'i, A: Tree + 'i, B: Tree + 'i, T>(
    items: &'i [T],
    place: impl Fn(&'i T) -> (&'i Pair<A, B>, &'i [u8]),
) -> Vec<usize> {
    let mut branches: Vec<Vec<WalkStep<'i>>> = Vec::new();
    let mut known: HashMap<*const Pair<A, B>, usize> = HashMap::new();
    let mut tops = Vec::new();
    for (number, item) in items.iter().enumerate() {
        let (pair, name) = place(item);
        let (mut child, mut at) = (WalkStep::Item(name, number), Some(pair));
        while let Some(pair) = at.take() {
            let next = branches.len();
            let branch = *known.entry(std::ptr::from_ref(pair)).or_insert(next);
            if branch < next {
                branches[branch].push(child);
                break;
            }
            branches.push(vec![child]);
            child = WalkStep::Branch(&pair.name, branch);
            at = pair.parent.as_deref();
            if at.is_none() {
                tops.push(child);
                break;
            }
        }
    }
    let sorted = |mut children: Vec<WalkStep<'i>>| {
        children.sort_by_key(WalkStep::name);
        children.into_iter()
    };
    let (mut order, mut walk) = (Vec::with_capacity(items.len()), vec![sorted(tops)]);
    while let Some(here) = walk.last_mut() {
        match here.next() {
            None => _ = walk.pop(),
            Some(WalkStep::Item(_, number)) => order.push(number),
            Some(WalkStep::Branch(_, branch)) => walk.push(sorted(std::mem::take(&mut branches[branch]))),
        }
    }
    order
}
