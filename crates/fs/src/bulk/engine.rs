//! What a batch of changes asks of an engine: where names are, and how hash regions are to look afterwards.
//!
//! An engine only reads. It answers with words and where they belong, which the volume then writes in its transaction: fewer bytes than
//! the blocks would be, nothing to take back where the transaction fails, and a copy of the metadata that the engine has is never
//! ahead of the volume.

use crate::dir::{Batch, Built, Lookup};
use lanefs_store::{Store, Watched};

/// The engine cannot tell for certain: the volume makes these changes one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undecided;

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
pub struct LookupRequest<'n> {
    /// The directory's inode number; 0 for one that is still to be made, where only the hash is asked for.
    pub dir: u64,
    /// The name, 1 to 255 bytes.
    pub name: &'n [u8],
}

/// What became of the tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// 8 bytes and the position where they belong, each position once: links of entries and dummies, slots of index blocks, tags and
    /// units of small directories. What is the same as before may be left out.
    pub words: Vec<(u64, u64)>,
    /// Of each head.
    pub heads: Vec<Built>,
}

/// The volume while nobody changes it.
pub struct Frozen<'s> {
    pub(crate) store: &'s Store,
}

impl Frozen<'_> {
    /// As [`Watch::changes`](crate::Watch::changes), for who keeps the watch.
    pub fn changes(&self, take: &mut dyn FnMut(Watched<'_>)) {
        self.store.watched(take);
    }
}

/// An engine for the directories of one volume.
///
/// # Errors
/// [`Undecided`] from any of its calls: nothing of the batch has happened then, and the CPU engine makes the changes one by one.
#[expect(clippy::missing_errors_doc, reason = "said above")]
pub trait DirEngine {
    /// Nobody changes the volume from now on until the batch is over.
    fn begin(&mut self, still: &Frozen<'_>) -> Result<(), Undecided>;

    /// Looks names up; what they are now.
    fn seek(&mut self, names: &[LookupRequest<'_>]) -> Result<Vec<Lookup>, Undecided>;

    /// How regions are to look.
    fn rebuild(&mut self, batch: &Batch) -> Result<Rebuilt, Undecided>;
}
