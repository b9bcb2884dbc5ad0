//! The names of a directory that was walked with its files: who compares it then reads none of them again.

use super::fingerprint::{Fingerprint, MOST_WALKED, NameParts};
use super::node::Node;
use crate::on_host::hostdir::FileId;
use std::ffi::CStr;

/// Names with their files, in the order in which they came: [`MOST_WALKED`] at most, some 150 bytes each.
#[derive(Default)]
pub(crate) struct WalkedNames {
    /// The directory.
    of: Option<FileId>,
    /// The names one after the other, each with its NUL.
    names: Vec<u8>,
    /// The file of each name, and the offset of the name in bytes.
    files: Vec<(usize, Node)>,
    has_too_many: bool,
    /// The fingerprint that has all these names.
    fingerprint: Option<Fingerprint>,
    /// The parts in which names have changed since the last sync, if only files have.
    changed: Option<NameParts>,
}

impl WalkedNames {
    /// Begins with a directory.
    pub(crate) fn begin(&mut self, of: FileId) {
        self.clear();
        self.of = Some(of);
    }

    /// Forgets all names.
    pub(crate) fn clear(&mut self) {
        self.of = None;
        self.names.clear();
        self.files.clear();
        self.has_too_many = false;
        self.fingerprint = None;
        self.changed = None;
    }

    pub(crate) fn push(&mut self, name: &CStr, node: &Node) {
        if self.files.len() < MOST_WALKED {
            self.files.push((self.names.len(), *node));
            self.names.extend_from_slice(name.to_bytes_with_nul());
        } else {
            self.has_too_many = true;
        }
    }

    /// Ends the walk of a directory that is compared next, or forgets all names if some could not be kept.
    pub(super) fn end(&mut self, mut fingerprint: Fingerprint, changed: Option<NameParts>) {
        if self.has_too_many {
            return self.clear();
        }
        fingerprint.end();
        (self.fingerprint, self.changed) = (Some(fingerprint), changed);
    }

    /// Takes the fingerprint of a directory, if it was walked.
    pub(super) fn take_fingerprint(&mut self, dir: FileId) -> Option<Fingerprint> {
        if self.is_of(dir) { self.fingerprint.take() } else { None }
    }

    /// The parts in which names have changed; `None` where the names on both sides have to be matched.
    pub(super) fn changed(&self) -> Option<NameParts> {
        self.changed
    }

    /// True where these are all names of a directory.
    pub(crate) fn is_of(&self, dir: FileId) -> bool {
        self.of == Some(dir)
    }

    /// Number of names.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&CStr, &Node)> {
        self.files.iter().map(|(at, node)| {
            let name = self.names.get(*at..).unwrap_or_default();
            (CStr::from_bytes_until_nul(name).unwrap_or_default(), node)
        })
    }
}
