//! Copies of files with several names, which several threads may reach at the same time.

use lanefs_sync::lock::Mutex;
use std::collections::HashMap;
use std::hash::Hash;

/// The copy of a file with several names.
struct LinkedFile<V, N> {
    /// Location of the copy under its first name.
    first: V,
    /// Names linked while the content is still being copied; they are removed if that fails. `None` once the
    /// copy is complete.
    provisional: Option<Vec<N>>,
}

/// The copy of each source file with several names. `K` identifies the source, `V` the copy, `N` a further
/// name.
pub(crate) struct HardLinks<K, V, N> {
    files: Mutex<HashMap<K, LinkedFile<V, N>>>,
}

impl<K: Hash + Eq, V: Clone, N> HardLinks<K, V, N> {
    pub(crate) fn new() -> Self {
        HardLinks { files: Mutex::new(HashMap::new()) }
    }

    /// Makes or links the copy of `key`.
    ///
    /// For the first name, makes the copy with `make` and returns its result as `Err`: the caller fills the
    /// copy and then calls [`completed`](Self::completed) or [`failed`](Self::failed). For a further name,
    /// links `name` to the copy with `link`. One lock spans both, so no thread can make a second copy.
    pub(crate) fn link_or_make<M, E>(
        &self,
        key: K,
        name: N,
        link: impl FnOnce(&V) -> Result<(), E>,
        make: impl FnOnce() -> Result<(V, M), E>,
    ) -> Result<Result<(), M>, E> {
        let mut files = self.files.lock();
        if let Some(file) = files.get_mut(&key) {
            link(&file.first)?;
            if let Some(provisional) = &mut file.provisional {
                provisional.push(name);
            }
            return Ok(Ok(()));
        }
        let (first, made) = make()?;
        files.insert(key, LinkedFile { first, provisional: Some(Vec::new()) });
        Ok(Err(made))
    }

    /// Marks the copy of `key` as complete: its names stay.
    pub(crate) fn completed(&self, key: &K) {
        let mut files = self.files.lock();
        let file = files.get_mut(key);
        debug_assert!(
            file.as_ref().is_some_and(|file| file.provisional.is_some()),
            "a copy is completed once, after it was made"
        );
        if let Some(file) = file {
            file.provisional = None;
        }
    }

    /// Forgets the copy of `key`, which failed, and returns its further names, which the caller must remove
    /// as well. The caller removes the copy after this call, so that no thread links a name to another file
    /// in its stead.
    pub(crate) fn failed(&self, key: &K) -> Vec<N> {
        let file = self.files.lock().remove(key);
        debug_assert!(
            file.as_ref().is_some_and(|file| file.provisional.is_some()),
            "only an incomplete copy fails, and once"
        );
        file.and_then(|file| file.provisional).unwrap_or_default()
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
        links.completed(&1);
        assert_eq!(links.link_or_make(1, "d", |_| Ok(()), again), Ok(Ok(())));
        assert!(links.files.lock()[&1].provisional.is_none(), "a complete copy keeps its names");
    }
}
