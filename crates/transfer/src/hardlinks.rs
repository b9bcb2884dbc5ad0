//! Files with several names, met by several threads.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;

/// What is known of a file with several names.
struct Known<V, N> {
    /// Where its first name went.
    first: V,
    /// Names given while the content is still being copied: taken back should that fail. `None` once it is whole.
    unsure: Option<Vec<N>>,
}

/// For each source file with several names: its copy. `K` identifies the source, `V` the copy, `N` a further name.
pub(crate) struct HardLinks<K, V, N> {
    known: Mutex<HashMap<K, Known<V, N>>>,
}

impl<K: Hash + Eq, V: Clone, N> HardLinks<K, V, N> {
    pub(crate) fn new() -> Self {
        HardLinks { known: Mutex::new(HashMap::new()) }
    }

    /// For the first name of `key`: makes the copy with `make`, keeps what it gives and returns it as `Err`, for the
    /// caller to fill the copy and then call [`whole`](Self::whole) or [`failed`](Self::failed). For further ones:
    /// `link`s the name `name` to the copy. One lock spans both, so no second copy can be made.
    pub(crate) fn link_or_make<M, E>(
        &self,
        key: K,
        name: N,
        link: impl FnOnce(&V) -> Result<(), E>,
        make: impl FnOnce() -> Result<(V, M), E>,
    ) -> Result<Result<(), M>, E> {
        let mut known = self.known.lock();
        if let Some(entry) = known.get_mut(&key) {
            link(&entry.first)?;
            if let Some(unsure) = &mut entry.unsure {
                unsure.push(name);
            }
            return Ok(Ok(()));
        }
        let (first, made) = make()?;
        known.insert(key, Known { first, unsure: Some(Vec::new()) });
        Ok(Err(made))
    }

    /// The copy of `key` has all its content.
    pub(crate) fn whole(&self, key: &K) {
        if let Some(entry) = self.known.lock().get_mut(key) {
            entry.unsure = None;
        }
    }

    /// The copy of `key` failed and will be removed (after this call: nobody may link to what takes its place);
    /// returns the further names that it was given and that must go too.
    pub(crate) fn failed(&self, key: &K) -> Vec<N> {
        self.known.lock().remove(key).and_then(|entry| entry.unsure).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_makes_the_others_link_and_a_failure_takes_them_back() {
        let links: HardLinks<u32, &str, &str> = HardLinks::new();
        let no = |_: &&str| -> Result<(), ()> { panic!("nothing to link to") };
        assert_eq!(links.link_or_make(1, "a", no, || Ok(("A", 7))), Ok(Err(7)));
        let again = || -> Result<(&str, i32), ()> { panic!("made already") };
        assert_eq!(
            links.link_or_make(
                1,
                "b",
                |first| {
                    assert_eq!(*first, "A");
                    Ok(())
                },
                again
            ),
            Ok(Ok(()))
        );
        assert_eq!(links.failed(&1), ["b"]);
        assert_eq!(links.link_or_make(1, "c", no, || Ok(("C", 8))), Ok(Err(8)));
        links.whole(&1);
        assert_eq!(links.link_or_make(1, "d", |_| Ok(()), again), Ok(Ok(())));
        assert!(links.failed(&1).is_empty(), "a whole copy keeps its names");
    }
}
