//! The view that one attempt of an operation has of a volume.

pub(crate) mod edit;
pub(crate) mod visited;

use crate::mounted::state::VolumeState;
use lanefs_format::HashSeed;
use lanefs_store::Reader;

/// View of the volume that every attempt of an operation reads through.
pub(crate) struct Core<'v> {
    pub(crate) store: Reader<'v>,
    pub(crate) seed: HashSeed,
    pub(crate) state: &'v VolumeState,
}

impl<'v> Core<'v> {
    pub(crate) fn new(state: &'v VolumeState, store: Reader<'v>) -> Self {
        Core { store, seed: state.seed, state }
    }

    /// Position of the group table.
    pub(crate) fn groups(&self) -> u64 {
        self.state.groups()
    }

    pub(crate) fn group_count(&self) -> u64 {
        self.state.group_count()
    }

    /// Moves the group table. The caller has exclusive access.
    pub(crate) fn set_groups(&self, at: u64, count: u64) {
        self.state.set_groups(at, count);
    }
}
