//! The interface between a batch of changes and an engine: lookups of names, and the new form of hash
//! regions.
//!
//! An engine only reads. It answers with words and their positions, which the volume then writes in its
//! transaction. These are fewer bytes than the blocks would be, there is nothing to roll back where the
//! transaction fails, and the engine's copy of the metadata is never ahead of the volume.

use crate::names::dir::{Batch, Built, Lookup};
use lanefs_store::{Store, Watched};

/// The engine cannot decide: the volume makes these changes one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undecided;

/// A name to look up in a directory.
#[derive(Clone, Copy, Debug)]
pub struct LookupRequest<'n> {
    /// The directory's inode number; 0 for a directory that is not created yet, where only the hash is
    /// wanted.
    pub dir: u64,
    /// The name, 1 to 255 bytes.
    pub name: &'n [u8],
}

/// The result of the tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Words of 8 bytes with their positions, each position once: links of entries and dummies, slots of
    /// index blocks, tags and units of small directories. Unchanged words may be left out.
    pub words: Vec<(u64, u64)>,
    /// The result of each head.
    pub heads: Vec<Built>,
}

/// The volume while no thread changes it.
pub struct Frozen<'s> {
    pub(crate) store: &'s Store,
    /// Moves of directories so far.
    pub(crate) moves: u64,
}

impl Frozen<'_> {
    /// Passes on the changes as [`Watch::changes`](crate::Watch::changes), for the owner of the watch.
    pub fn changes(&self, take: &mut dyn FnMut(Watched<'_>)) -> u64 {
        self.store.watched(take);
        self.moves
    }
}

/// An engine for the directories of one volume.
///
/// # Errors
/// [`Undecided`] from any of its calls: nothing of the batch has happened then, and the CPU engine makes the
/// changes one by one.
#[expect(clippy::missing_errors_doc, reason = "said above")]
pub trait DirEngine {
    /// Starts a batch: no thread changes the volume from now on until the batch is over.
    fn begin(&mut self, still: &Frozen<'_>) -> Result<(), Undecided>;

    /// Looks names up in the current state.
    fn seek(&mut self, names: &[LookupRequest<'_>]) -> Result<Vec<Lookup>, Undecided>;

    /// Computes the new form of regions.
    fn rebuild(&mut self, batch: &Batch) -> Result<Rebuilt, Undecided>;
}
