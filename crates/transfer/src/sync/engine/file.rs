//! One name of the tree that is followed which is not a directory.

use super::{Both, Engine, WhichTree};
use crate::sync::difference::{Aspects, Change};
use crate::sync::effect::{Effect, Found, There};
use crate::sync::failure::Failure;
use crate::sync::fingerprint::Fingerprint;
use crate::sync::links::First;
use crate::sync::node::{Name, Node};
use crate::sync::pair::Pair;
use crate::sync::tree::{Buffers, Tree};
use lanefs::FileKind;

/// The holder of a name in `b`, once the way is free.
enum Place {
    Free(There),
    /// A file of the same type, with its attributes.
    Same(Node),
    /// The failure is reported.
    Blocked,
}

impl<A: Tree, B: Tree, E: Effect<A, B>> Engine<'_, A, B, E> {
    /// Compares a name, and makes it the same.
    pub(super) fn file(&self, buffers: &mut Buffers, pair: &Pair<A, B>, both: &Both<A>, node: &Node) {
        let there = match self.there(pair, both) {
            Ok(there) => there,
            Err(failure) => {
                self.failed(&pair.path(both.a.name.to_bytes()), WhichTree::B, failure);
                return self.drop_doubtful(buffers, pair, both);
            }
        };
        if let Some(there) = &there {
            self.compare_numbers_of_names(pair, node, there);
        }
        let place = self.place(buffers, pair, both, node, there);
        let is_done = if node.meta.links > 1 {
            let group = self.links.group(node.meta.id);
            let mut first = group.lock();
            match &*first {
                Some(first) => self.further_name(buffers, pair, both, node, place, first),
                None => {
                    *first = self.own_file(buffers, pair, both, node, place);
                    first.is_some()
                }
            }
        } else {
            self.own_file(buffers, pair, both, node, place).is_some()
        };
        if !is_done {
            self.drop_doubtful(buffers, pair, both);
        }
    }

    /// Compares how many names the files have. Where these numbers differ, a name that is not looked at now
    /// may have joined or left the file, and nothing else tells that.
    fn compare_numbers_of_names(&self, pair: &Pair<A, B>, node: &Node, there: &Node) {
        let unequal = self.options.unequal_links.as_deref();
        if node.meta.links == there.meta.links {
            return;
        }
        // Each sync of the whole tree is to find that.
        pair.with_fingerprint(Fingerprint::spoil);
        match unequal {
            Some(unequal) if self.options.scope.is_whole() => unequal.add(node, there),
            Some(unequal) if unequal.has(node, there) => {}
            _ => self.tally.meet_links(),
        }
    }

    /// Finds what has the name in `b`. A directory in the way is removed where the caller wants that, and has
    /// to be empty otherwise.
    fn place(
        &self,
        buffers: &mut Buffers,
        pair: &Pair<A, B>,
        both: &Both<A>,
        node: &Node,
        there: Option<Node>,
    ) -> Place {
        match (&both.b, there) {
            (None, _) => Place::Free(There::Nothing),
            (Some(_), Some(there)) if there.meta.kind == node.meta.kind => Place::Same(there),
            (Some(name), _) if name.is_dir() => match self.make_way(buffers, pair, name) {
                true => Place::Free(There::EmptyDirectory),
                false => Place::Blocked,
            },
            (Some(_), _) => Place::Free(There::File),
        }
    }

    /// Makes the name in `b` that of a file of its own. Returns that file; `None` after a failure.
    fn own_file(
        &self,
        buffers: &mut Buffers,
        pair: &Pair<A, B>,
        both: &Both<A>,
        node: &Node,
        place: Place,
    ) -> Option<First> {
        let (old, there) = match place {
            Place::Blocked => return None,
            Place::Free(there) => (None, there),
            Place::Same(old) => (Some(old), There::File),
        };
        let change = match (&old, there) {
            (None, There::Nothing) => Change::Added,
            (None, _) => Change::Type,
            (Some(old), _) => {
                let aspects = self.aspects(buffers, pair, both, node, old)?;
                let aspects = aspects | Aspects::LINKS.when(!self.keeps(node, old));
                if aspects.is_empty() {
                    return Some(First { id: Some(old.meta.id), set: aspects });
                }
                // Attributes that are set in place reach all names of the file.
                if self.needs_copy(node.meta.kind, aspects) || old.meta.links > node.meta.links {
                    self.links.give_up(old.meta.id, node.meta.id);
                    Change::Replaced(aspects)
                } else {
                    return self.set(buffers, pair, both, (node, old), aspects);
                }
            }
        };
        let name = both.a.name.to_bytes();
        let path = || self.a.path(&pair.path(name));
        let found = Found { file: both.open.as_ref(), ..self.found(&pair.a.0, &both.a, node, &path) };
        let made = self.effect.put(buffers, &found, pair.b.as_ref(), there, &self.room())?;
        pair.touch();
        self.file_differs(pair.path(name), node, change);
        Some(First { id: made.id, set: Aspects::default() })
    }

    /// The aspects in which a name differs from a file of the same type.
    fn aspects(
        &self,
        buffers: &mut Buffers,
        pair: &Pair<A, B>,
        both: &Both<A>,
        node: &Node,
        old: &Node,
    ) -> Option<Aspects> {
        let name = &both.a.name;
        let dirs = (&pair.a.0, pair.b.as_ref()?);
        match self.compare(buffers, dirs, Some((name, name)), (node, old), pair.reads_content) {
            Ok(aspects) => Some(aspects),
            Err((side, failure)) => {
                self.failed(&pair.path(name.to_bytes()), side, failure);
                None
            }
        }
    }

    /// True where the file of `b` is kept for this one, and not for the file of another one of its names.
    fn keeps(&self, node: &Node, old: &Node) -> bool {
        let has_one_name = node.meta.links < 2 && old.meta.links < 2;
        has_one_name || self.links.claim(old.meta.id, node.meta.id)
    }

    /// Sets attributes in place.
    fn set(
        &self,
        buffers: &mut Buffers,
        pair: &Pair<A, B>,
        both: &Both<A>,
        (node, old): (&Node, &Node),
        aspects: Aspects,
    ) -> Option<First> {
        let name = both.a.name.to_bytes();
        let path = || self.a.path(&pair.path(name));
        let found = self.found(&pair.a.0, &both.a, node, &path);
        let dir = pair.b.as_ref()?;
        if let Err(failure) = self.keep_attributes(buffers, dir, &both.a, old, aspects) {
            self.failed(&pair.path(name), WhichTree::B, failure);
            return None;
        }
        if !self.effect.set(buffers, &found, dir, old, aspects) {
            return None;
        }
        self.file_differs(pair.path(name), node, Change::Attributes(aspects));
        Some(First { id: Some(old.meta.id), set: aspects })
    }

    /// Keeps the attributes of a file with several names for the others of them.
    fn keep_attributes(
        &self,
        buffers: &mut Buffers,
        dir: &B::Dir,
        name: &Name,
        old: &Node,
        aspects: Aspects,
    ) -> Result<(), Failure> {
        if E::CHANGES && old.meta.links > 1 {
            let xattrs = match aspects.has(Aspects::ACL | Aspects::XATTR) {
                true => Some(self.b.xattrs(buffers, dir, Some(&name.name), old)?),
                false => None,
            };
            self.links.keep_attributes(old, xattrs);
        }
        Ok(())
    }

    /// Makes a name one more of a file whose first name is done; false after a failure.
    fn further_name(
        &self,
        buffers: &mut Buffers,
        pair: &Pair<A, B>,
        both: &Both<A>,
        node: &Node,
        place: Place,
        first: &First,
    ) -> bool {
        let name = both.a.name.to_bytes();
        let (there, change) = match place {
            Place::Blocked => return false,
            Place::Free(There::Nothing) => (There::Nothing, Change::Added),
            Place::Free(there) => (there, Change::Type),
            Place::Same(old) if first.id == Some(old.meta.id) => {
                if !first.set.is_empty() {
                    self.file_differs(pair.path(name), node, Change::Attributes(first.set));
                }
                return true;
            }
            Place::Same(old) => {
                let Some(aspects) = self.aspects(buffers, pair, both, node, &old) else { return false };
                (There::File, Change::Linked(aspects | Aspects::LINKS))
            }
        };
        let path = || self.a.path(&pair.path(name));
        let found = self.found(&pair.a.0, &both.a, node, &path);
        let is_linked = self.effect.link(&found, pair.b.as_ref(), first.id, there);
        if is_linked {
            pair.touch();
            self.file_differs(pair.path(name), node, change);
        }
        is_linked
    }

    /// Empties the directory of a name in `b`, so that another file can have the name; false where it has to
    /// stay, which is reported.
    fn make_way(&self, buffers: &mut Buffers, pair: &Pair<A, B>, name: &Name) -> bool {
        debug_assert_eq!(name.kind, FileKind::Directory);
        let path = pair.path(name.name.to_bytes());
        let is_empty = match self.finds_removed {
            true => self.emptied(buffers, pair, name),
            false => self.is_empty(buffers, pair, name),
        };
        match is_empty {
            Ok(true) => true,
            Ok(false) => {
                let advice = match self.finds_removed {
                    true => "a directory of that name is in the way, with names that are left out",
                    false => {
                        "a directory of that name is in the way, and has names (the option delete removes it)"
                    }
                };
                self.job.problem(self.a.path(&path), advice);
                false
            }
            Err(failure) => {
                self.failed(&path, WhichTree::B, failure);
                false
            }
        }
    }
}
