//! A directory: its attributes, its names on both sides, and the tasks that follow from them.

use super::{Both, Engine, Task, Waiting, WhichTree};
use crate::running::job::{TransferJob, count};
use crate::running::queue::Queue;
use crate::sync::difference::Change;
use crate::sync::effect::{Effect, There};
use crate::sync::failure::Failure;
use crate::sync::node::{Name, Node};
use crate::sync::pair::{Pair, Sides};
use crate::sync::tree::{Buffers, Tree};
use crate::vocabulary::name::shown;
use std::cmp::Ordering;
use std::sync::Arc;

/// Most names of one directory in one task; further ones become tasks for other threads.
pub(super) const TASK_NAMES: usize = 256;

/// Names of `a`, each with the same name of `b`, and the names that only `b` has.
type Matched = (Vec<Both>, Vec<Name>);

impl<A: Tree, B: Tree, E: Effect<A, B>> Engine<'_, A, B, E> {
    pub(super) fn directory(&self, queue: &Queue<Task<A, B>>, buffers: &mut Buffers, pair: &Arc<Pair<A, B>>) {
        count(&self.job.counters.compared);
        if let Err((side, failure)) = self.compare_directory(buffers, pair) {
            return self.failed(&pair.path(b""), side, failure);
        }
        if !pair.is_entered {
            return;
        }
        let (mut both, removed) = match self.matched(buffers, pair) {
            Ok(matched) => matched,
            Err((side, failure)) => return self.failed(&pair.path(b""), side, failure),
        };
        if self.finds_removed && let Some(dir) = &pair.b {
            for names in removed.chunks(TASK_NAMES) {
                self.remember(dir, names);
                for name in names {
                    if self.job.should_stop() {
                        return;
                    }
                    self.removed(buffers, pair, name);
                }
            }
        }
        // The order of inode numbers is that on the disk.
        both.sort_unstable_by_key(|both| both.a.ino);
        while both.len() > TASK_NAMES {
            let task = both.split_off(both.len() - TASK_NAMES);
            pair.tasks.add();
            queue.push(Task::Names(pair.clone(), task));
        }
        self.names(queue, buffers, pair, both);
    }

    /// Compares the attributes of the directories themselves.
    fn compare_directory(
        &self,
        buffers: &mut Buffers,
        pair: &Pair<A, B>,
    ) -> Result<(), (WhichTree, Failure)> {
        if let (Some(b), Some(old)) = (&pair.b, &pair.old) {
            let aspects = self.compare(buffers, (&pair.a.0, b), None, (&pair.a.1, old))?;
            let _ = pair.aspects.set(aspects);
        }
        Ok(())
    }

    fn matched(&self, buffers: &mut Buffers, pair: &Pair<A, B>) -> Result<Matched, (WhichTree, Failure)> {
        let in_a = names(self.job, self.a, buffers, &pair.a.0);
        let mut in_a = in_a.map_err(|failure| (WhichTree::A, failure))?;
        let mut in_b = match (&pair.b, &pair.old) {
            (Some(b), Some(_)) => {
                names(self.job, self.b, buffers, b).map_err(|failure| (WhichTree::B, failure))?
            }
            _ => Vec::new(),
        };
        if !self.options.filter.is_empty() {
            // Of a large directory the patterns take long.
            let stays = |name: &Name| {
                self.job.should_stop()
                    || !self.options.filter.leaves_out(&pair.path(name.name.to_bytes()), name.is_dir())
            };
            in_a.retain(stays);
            // A name of `b` that is left out stays for its partner, which may be of another type.
            let partners: std::collections::HashSet<&std::ffi::CStr> =
                in_a.iter().map(|name| name.name.as_c_str()).collect();
            in_b.retain(|name| partners.contains(name.name.as_c_str()) || stays(name));
        }
        match self.job.should_stop() {
            true => Err((WhichTree::A, Failure::Stopped)),
            false => Ok(merge(in_a, in_b)),
        }
    }

    pub(super) fn names(
        &self,
        queue: &Queue<Task<A, B>>,
        buffers: &mut Buffers,
        pair: &Arc<Pair<A, B>>,
        mut names: Vec<Both>,
    ) {
        if self.job.should_stop() {
            return;
        }
        self.describe(pair, &mut names);
        for both in names {
            if self.job.should_stop() {
                return;
            }
            self.name(queue, buffers, pair, both);
            self.effect.between();
        }
    }

    /// Finds the files of `b` for the names of a task, in one call. A file that makes it fail is named when
    /// it is its turn.
    fn describe(&self, pair: &Pair<A, B>, names: &mut [Both]) {
        let Some(dir) = &pair.b else { return };
        let there: Vec<&Name> = names.iter().filter_map(|both| both.b.as_ref()).collect();
        let Ok(nodes) = self.b.nodes(dir, &there) else { return };
        for (both, node) in names.iter_mut().filter(|both| both.b.is_some()).zip(nodes) {
            both.old = node.map(Box::new);
        }
    }

    /// The file of `b` that has a name, if it is not a directory, as it was before the sync.
    pub(super) fn there(&self, pair: &Pair<A, B>, both: &Both) -> Result<Option<Node>, Failure> {
        match (&both.b, &pair.b) {
            (Some(name), Some(dir)) if !name.is_dir() => {
                let old = self.old(dir, name, both)?;
                Ok(Some(if E::CHANGES { self.links.before(old) } else { old }))
            }
            _ => Ok(None),
        }
    }

    /// The file that has a name in `b`.
    fn old(&self, dir: &B::Dir, name: &Name, both: &Both) -> Result<Node, Failure> {
        both.old.as_deref().copied().map_or_else(|| self.b.node(dir, name), Ok)
    }

    fn name(&self, queue: &Queue<Task<A, B>>, buffers: &mut Buffers, pair: &Arc<Pair<A, B>>, both: Both) {
        let path = || pair.path(both.a.name.to_bytes());
        let node = match self.a.node(&pair.a.0, &both.a) {
            Ok(node) => node,
            Err(failure) => return self.failed(&path(), WhichTree::A, failure),
        };
        if self.options.skip.contains(&node.meta.id) {
            let path = shown(&self.a.path(&path()));
            return self.job.note(format!("{path}: left out, as it is the volume itself"));
        }
        if node.meta.kind == lanefs::FileKind::Directory {
            if let Some(below) = self.subdirectory(buffers, pair, &both, &node) {
                pair.tasks.add();
                queue.push(Task::Directory(below));
            }
            return;
        }
        count(&self.job.counters.compared);
        let has_others = |there: Node| there.meta.links > 1;
        let waits = self.options.in_order
            && (has_others(node) || self.there(pair, &both).is_ok_and(|there| there.is_some_and(has_others)));
        match waits {
            true => {
                pair.tasks.add();
                self.waiting.lock().push(Waiting { pair: pair.clone(), both, node });
            }
            false => self.file(buffers, pair, &both, &node),
        }
    }

    /// Makes or finds the directory of a name in `b`.
    fn subdirectory(
        &self,
        buffers: &mut Buffers,
        pair: &Arc<Pair<A, B>>,
        both: &Both,
        node: &Node,
    ) -> Option<Arc<Pair<A, B>>> {
        let name = both.a.name.to_bytes();
        let below = || pair.path(name);
        let a = match self.a.enter(&pair.a.0, &both.a, node) {
            Ok(dir) => (dir, *node),
            Err(failure) => {
                self.failed(&below(), WhichTree::A, failure);
                return None;
            }
        };
        let sides = match (&both.b, &pair.b) {
            (Some(there), Some(dir)) if there.is_dir() => {
                let entered =
                    self.old(dir, there, both).and_then(|old| Ok((self.b.enter(dir, there, &old)?, old)));
                match entered {
                    Ok((b, old)) => Sides { a, b: Some(b), old: Some(old), made: None },
                    Err(failure) => {
                        self.failed(&below(), WhichTree::B, failure);
                        return None;
                    }
                }
            }
            (there, _) => {
                let path = || self.a.path(&below());
                let found = self.found(&pair.a.0, &both.a, node, &path);
                let there = match there {
                    // Another name of the file must find how many it had.
                    Some(_) => self.there(pair, both).map(|_| (There::File, Change::Type)),
                    None => Ok((There::Nothing, Change::Added)),
                };
                let (there, change) = match there {
                    Ok(there) => there,
                    Err(failure) => {
                        self.failed(&below(), WhichTree::B, failure);
                        return None;
                    }
                };
                let made = self.effect.put(buffers, &found, pair.b.as_ref(), there)?;
                pair.touch();
                Sides { a, b: made.dir, old: None, made: Some(change) }
            }
        };
        let is_entered = !self.options.one_file_system || node.meta.id.dev == pair.a.1.meta.id.dev;
        Some(Pair::new(Some((pair.clone(), name.to_vec())), sides, is_entered))
    }
}

/// The names of a directory.
pub(super) fn names<T: Tree>(
    job: &TransferJob<'_>,
    tree: &T,
    buffers: &mut Buffers,
    dir: &T::Dir,
) -> Result<Vec<Name>, Failure> {
    let mut names = Vec::new();
    tree.names(job, buffers, dir, &mut |name, kind, ino| {
        names.push(Name { name: name.to_owned(), kind, ino });
    })?;
    Ok(names)
}

/// Matches the names of both sides.
fn merge(mut in_a: Vec<Name>, mut in_b: Vec<Name>) -> Matched {
    in_a.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    in_b.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let (mut both, mut removed) = (Vec::with_capacity(in_a.len()), Vec::new());
    let mut rest = in_b.into_iter().peekable();
    for a in in_a {
        let mut same = None;
        while let Some(b) = rest.peek() {
            match b.name.cmp(&a.name) {
                Ordering::Less => removed.extend(rest.next()),
                Ordering::Equal => {
                    same = rest.next();
                    break;
                }
                Ordering::Greater => break,
            }
        }
        both.push(Both { a, b: same, old: None });
    }
    removed.extend(rest);
    (both, removed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanefs::FileKind;
    use std::ffi::CString;

    #[test]
    fn names_are_matched_in_any_order() {
        let names = |text: &str| -> Vec<Name> {
            let name = |word: &str| Name { name: CString::new(word).unwrap(), kind: FileKind::File, ino: 0 };
            text.split_whitespace().map(name).collect()
        };
        let (both, removed) = merge(names("d b a ab"), names("c ab e a aa"));
        let shown: Vec<String> = both
            .iter()
            .map(|both| {
                format!("{}{}", both.a.name.to_str().unwrap(), if both.b.is_some() { "=" } else { "" })
            })
            .collect();
        assert_eq!(shown, ["a=", "ab=", "b", "d"]);
        let removed: Vec<&str> = removed.iter().map(|name| name.name.to_str().unwrap()).collect();
        assert_eq!(removed, ["aa", "c", "e"]);
    }
}
