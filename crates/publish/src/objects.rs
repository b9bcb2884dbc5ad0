//! Requests to a store whose failures name the object.

use crate::error::{Error, Result, StoreError};
use crate::format::hash::Hash;
use crate::format::pack::{Entry, parse_footer};
use crate::format::packs::PackRef;
use crate::format::words::Bad;
use crate::store::{Listed, Stamp, Store};
use std::sync::Arc;

/// The objects of a store.
#[derive(Clone)]
pub(crate) struct Objects {
    pub(crate) store: Arc<dyn Store>,
}

impl Objects {
    /// The name of an object for messages.
    pub(crate) fn shown(&self, object: &str) -> String {
        format!("{}/{object}", self.store.name())
    }

    /// The error for an object that contradicts the format.
    pub(crate) fn damaged(&self, object: &str, why: Bad) -> Error {
        Error::damaged(self.shown(object), why)
    }

    /// Adds the object to a failure of the store.
    pub(crate) fn failed(&self, object: &str, source: StoreError) -> Error {
        Error::store(self.shown(object), source)
    }

    /// Reads bytes of a pack.
    pub(crate) fn read_pack(&self, pack: &PackRef, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let object = pack.object();
        self.store.read(&object, offset..offset + bytes).map_err(|source| Error::Store {
            object: self.shown(&object),
            offset: Some(offset),
            source,
        })
    }

    /// Reads and verifies the footer of a pack.
    pub(crate) fn read_footer(&self, pack: &PackRef) -> Result<Vec<Entry>> {
        let footer = u64::from(pack.footer);
        let bytes = self.read_pack(pack, pack.bytes - footer, footer)?;
        let damaged = |why| self.damaged(&pack.object(), why);
        if Hash::of(&bytes) != pack.name {
            return Err(damaged("has another footer than its name promises"));
        }
        parse_footer(pack, &bytes).map_err(damaged)
    }

    /// Lists the objects of a folder.
    pub(crate) fn list(&self, folder: &str) -> Result<Vec<Listed>> {
        let listed = self.list_all(folder)?.into_iter();
        Ok(listed.filter(|entry| entry.is_object).collect())
    }

    /// Lists a folder, with what cannot be an object.
    pub(crate) fn list_all(&self, folder: &str) -> Result<Vec<Listed>> {
        self.store.list(folder).map_err(|error| self.failed(folder, error))
    }

    /// Reads an object that is named by its hash, and verifies it.
    pub(crate) fn read_named(&self, object: &str, hash: &Hash, most: u64) -> Result<Vec<u8>> {
        let read = self.store.read_all(object, most).map_err(|error| self.failed(object, error))?;
        match Hash::of(&read.0) == *hash {
            true => Ok(read.0),
            false => Err(self.damaged(object, "has other bytes than were published: their hash differs")),
        }
    }

    /// Reads a small object that changes; `None` where it is missing.
    pub(crate) fn read_small(&self, object: &str, most: u64) -> Result<Option<(Vec<u8>, Stamp)>> {
        match self.store.read_all(object, most) {
            Ok(read) => Ok(Some(read)),
            Err(StoreError::Missing) => Ok(None),
            Err(error) => Err(self.failed(object, error)),
        }
    }
}
