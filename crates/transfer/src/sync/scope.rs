//! The part of a tree to which a comparison is limited.

use std::collections::BTreeMap;
use std::ops::Bound;

/// The part of a tree that a comparison or a sync looks at; the rest counts as unchanged. Paths are below the
/// top, without a slash in front; the top is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope(Limit);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Limit {
    #[default]
    None,
    Directories(BTreeMap<Vec<u8>, Depth>),
}

/// The depth to which a directory is in a scope. A deeper one has all of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Its attributes, its names and their files, but of directories in it the attributes alone.
    Names,
    /// All that is below it.
    Below,
}

/// The part of a directory that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComparedPart {
    /// All that is below it.
    All,
    /// Its names; directories in it where the scope has them.
    Names,
    /// Only directories in it that are in the scope, or lead to it.
    Way,
    /// Only the directory itself.
    Itself,
}

impl Scope {
    /// A scope that has nothing yet. The default one has the whole tree.
    #[must_use]
    pub fn empty() -> Scope {
        Scope(Limit::Directories(BTreeMap::new()))
    }

    /// True where it has nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Limit::Directories(dirs) if dirs.is_empty())
    }

    /// True where it has the whole tree.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.0 == Limit::None
    }

    /// Adds a directory; one that is not there any more, or outside a limit that was set otherwise, does no
    /// harm.
    pub fn add(&mut self, dir: &[u8], depth: Depth) {
        if let Limit::Directories(dirs) = &mut self.0 {
            let has = dirs.entry(dir.to_vec()).or_insert(depth);
            *has = depth.max(*has);
        }
    }

    /// Adds all that another scope has.
    pub fn extend(&mut self, other: Scope) {
        match other.0 {
            Limit::None => *self = Scope(Limit::None),
            Limit::Directories(dirs) => dirs.into_iter().for_each(|(dir, depth)| self.add(&dir, depth)),
        }
    }

    /// The part of a directory that is compared where the one above it is compared by its names, or is on the
    /// way.
    pub(super) fn part(&self, dir: &[u8]) -> ComparedPart {
        let Limit::Directories(dirs) = &self.0 else { return ComparedPart::All };
        match dirs.get(dir) {
            Some(Depth::Below) => ComparedPart::All,
            Some(Depth::Names) => ComparedPart::Names,
            None if leads_on(dirs, dir) => ComparedPart::Way,
            None => ComparedPart::Itself,
        }
    }
}

/// True where one of the directories is below `dir`.
fn leads_on(dirs: &BTreeMap<Vec<u8>, Depth>, dir: &[u8]) -> bool {
    if dir.is_empty() {
        return !dirs.is_empty();
    }
    let first = [dir, b"/"].concat();
    let mut below = dirs.range::<[u8], _>((Bound::Included(&first[..]), Bound::Unbounded));
    below.next().is_some_and(|(path, _)| path.starts_with(&first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_has_directories_and_the_way_to_them() {
        let mut scope = Scope::empty();
        assert!(scope.is_empty() && !scope.is_whole() && scope.part(b"") == ComparedPart::Itself);
        scope.add(b"a/b", Depth::Names);
        scope.add(b"a/b/c/d", Depth::Below);
        scope.add(b"a/b/c/d", Depth::Names);
        scope.add(b"a.b", Depth::Names);
        for (dir, part) in [
            (&b""[..], ComparedPart::Way),
            (b"a", ComparedPart::Way),
            (b"a/b", ComparedPart::Names),
            (b"a/b/c", ComparedPart::Way),
            (b"a/b/c/d", ComparedPart::All),
            (b"a/bc", ComparedPart::Itself),
            (b"a.b", ComparedPart::Names),
            (b"a.", ComparedPart::Itself),
            (b"b", ComparedPart::Itself),
        ] {
            assert_eq!(scope.part(dir), part, "{}", String::from_utf8_lossy(dir));
        }
        let mut other = Scope::empty();
        other.add(b"b", Depth::Below);
        other.extend(scope.clone());
        assert_eq!((other.part(b"b"), other.part(b"a/b")), (ComparedPart::All, ComparedPart::Names));
        other.extend(Scope::default());
        assert!(other.is_whole());
        let mut whole = Scope::default();
        whole.add(b"a", Depth::Names);
        assert!(whole.is_whole() && whole.part(b"b") == ComparedPart::All);
    }
}
