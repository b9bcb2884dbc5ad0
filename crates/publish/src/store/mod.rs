//! Stores: folders of objects.

mod directory;

pub use directory::Directory;
pub(crate) use directory::{ENCODED, url_of};

use crate::error::StoreError;
use std::ops::Range;

/// Identifies the content of an object, for a conditional replacement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The entity tag, as HTTP has it.
    pub e_tag: Option<String>,
    /// The version or generation, where a store counts them.
    pub version: Option<String>,
}

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Name in its folder.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Time of its last change, in seconds since 1970 by the store's clock.
    pub modified: i64,
    /// False for what cannot be an object: a link, a directory or another special file of a directory.
    pub is_object: bool,
}

/// A store of objects. An object's name is `FOLDER/NAME`. All calls may come from many threads at once.
///
/// A store that fails for a short time tries again itself, with growing pauses, before it reports an error.
pub trait Store: Send + Sync {
    /// Returns the URL for messages, without anything secret.
    fn name(&self) -> String;

    /// Requests that may be under way at the same time, because the store does not answer each of them later
    /// for that.
    fn concurrency(&self) -> usize {
        32
    }

    /// Learns that so many requests follow the next read at the same time, beside one on its connection. A
    /// store that takes time to connect does it meanwhile, and asks for nothing by that.
    fn prepare(&self, _requests: usize) {}

    /// Reads bytes of an object; fewer where the object ends before.
    ///
    /// # Errors
    /// [`StoreError::Missing`] without such an object; the store's.
    fn read(&self, object: &str, range: Range<u64>) -> Result<Vec<u8>, StoreError>;

    /// Reads all of an object that has `most` bytes at most.
    ///
    /// # Errors
    /// As [`read`](Self::read); a larger object.
    fn read_all(&self, object: &str, most: u64) -> Result<(Vec<u8>, Stamp), StoreError>;

    /// Writes an object whose name follows from its content. It is durable and complete, or absent.
    ///
    /// # Errors
    /// The store's; `Unsupported` where the store cannot be written.
    fn write(&self, object: &str, bytes: Vec<u8>) -> Result<(), StoreError>;

    /// Replaces an object whose content is still that of `expected`, or makes one that is not there (`None`).
    ///
    /// # Errors
    /// [`StoreError::Changed`] where the object is another one by now; the store's.
    fn replace(&self, object: &str, expected: Option<&Stamp>, bytes: Vec<u8>) -> Result<(), StoreError>;

    /// Deletes an object. One that is not there is no error.
    ///
    /// # Errors
    /// The store's; `Unsupported` where the store cannot be written.
    fn delete(&self, object: &str) -> Result<(), StoreError>;

    /// Lists the objects of a folder, in any order; none of a folder that is not there.
    ///
    /// # Errors
    /// The store's; `Unsupported` where the store cannot list.
    fn list(&self, folder: &str) -> Result<Vec<Listed>, StoreError>;
}
