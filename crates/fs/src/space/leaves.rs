//! Which leaf a writer puts a directory's new entries in.

/// Directories that are remembered.
const PLACES: usize = 16;

/// For some directories, the leaf in which this writer found room last. It may be full or gone by now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeafHints {
    places: [(u64, u64); PLACES],
}

impl LeafHints {
    /// Position of the leaf, 0 for none.
    #[inline(always)]
    pub(crate) fn get(&self, directory: u64) -> u64 {
        let (owner, leaf) = self.places[directory as usize % PLACES];
        if owner == directory { leaf } else { 0 }
    }

    pub(crate) fn set(&mut self, directory: u64, leaf: u64) {
        self.places[directory as usize % PLACES] = (directory, leaf);
    }
}
