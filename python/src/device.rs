//! The device that a volume was opened with, for its searches.

use crate::engine::OpenVolume;
use lanefs::Ino;
use lanefs_search::fuzzy::{Letters, Names, Ranked, Ranker};
use lanefs_search::{DeviceHash, DeviceRanks, DeviceSearch, Prefilter, QueryOptions, Text};
use std::mem::forget;
use std::sync::Arc;

/// Something that uses a device. A driver does not survive a fork, so a child neither uses nor drops it.
pub(crate) struct InThisProcess<T> {
    pid: u32,
    inner: Option<T>,
}

impl<T> InThisProcess<T> {
    pub(crate) fn new(inner: T) -> Self {
        InThisProcess { pid: std::process::id(), inner: Some(inner) }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.inner.as_ref().filter(|_| self.pid == std::process::id())
    }
}

impl<T> Drop for InThisProcess<T> {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            forget(self.inner.take());
        }
    }
}

impl Prefilter for InThisProcess<DeviceSearch> {
    fn may_match(&self, texts: &[Text<'_>]) -> Vec<bool> {
        self.get().map_or_else(|| vec![true; texts.len()], |device| device.may_match(texts))
    }

    fn known(&self, files: &[Ino]) -> Vec<Option<bool>> {
        self.get().map_or_else(|| vec![None; files.len()], |device| device.known(files))
    }
}

impl Ranker for InThisProcess<DeviceRanks> {
    fn most_letters(&self) -> usize {
        self.get().map_or(0, DeviceRanks::most_letters)
    }

    fn rank(&self, terms: &[Letters<'_>], limit: usize) -> Option<Ranked> {
        self.get()?.rank(terms, limit)
    }
}

/// Prepares the device of a volume for a query; `None` where it has no part in it.
pub(crate) fn searcher(open: &OpenVolume, query: &QueryOptions) -> Option<Arc<dyn Prefilter>> {
    let mut device = DeviceSearch::new(&open.gpu()?, query)?;
    if let Some(kept) = open.kept_texts() {
        device = device.with_kept(kept);
    }
    Some(Arc::new(InThisProcess::new(device)))
}

/// Copies the paths of names to the device of a volume; `None` where there is none, or too little memory.
pub(crate) fn ranker(open: &OpenVolume, names: &Names) -> Option<Arc<dyn Ranker>> {
    let ranks = DeviceRanks::new(&open.gpu()?, names).ok()?;
    Some(Arc::new(InThisProcess::new(ranks)))
}

/// Prepares the device of a volume to hash; `None` where there is none.
pub(crate) fn hasher(open: &OpenVolume) -> Option<DeviceHash> {
    open.gpu().map(|gpu| DeviceHash::new(&gpu))
}
