//! A volume's bytes as a shared base and the pages that differ from it.
//!
//! A crash state differs from the initial image of a workload in a few dozen pages. Copying 8 MiB for each of
//! 100,000 states would be 800 GB of memory traffic; sharing equal pages leaves a few kilobytes.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// Unit in bytes that a medium writes as a whole.
pub(super) const SECTOR: usize = 512;
const PAGE_BYTES: usize = 4096;

/// An image. Clones share all pages that neither of them has changed since.
#[derive(Clone)]
pub struct CrashImage {
    base: Arc<Vec<u8>>,
    pages: HashMap<u64, Arc<ImagePage>>,
}

/// A page that was written.
#[derive(Clone)]
struct ImagePage {
    bytes: [u8; PAGE_BYTES],
    /// Set by the first question, and unset by a write.
    fingerprint: OnceLock<u64>,
}

impl ImagePage {
    /// Returns a number of the page's content at a place of an image whose page there began as `base`: 0 for
    /// what it was.
    fn fingerprint(&self, number: u64, base: &[u8]) -> u64 {
        *self.fingerprint.get_or_init(|| {
            let mut hasher = DefaultHasher::new();
            (number, &self.bytes).hash(&mut hasher);
            if self.bytes == base { 0 } else { hasher.finish() }
        })
    }
}

impl CrashImage {
    /// An image that holds `bytes`.
    pub fn new(mut bytes: Vec<u8>) -> Self {
        bytes.resize(bytes.len().next_multiple_of(PAGE_BYTES), 0);
        CrashImage { base: Arc::new(bytes), pages: HashMap::new() }
    }

    /// Size in bytes, a multiple of 4096.
    pub fn len(&self) -> u64 {
        self.base.len() as u64
    }

    /// True for an image without bytes.
    pub fn is_empty(&self) -> bool {
        self.base.is_empty()
    }

    fn holds(&self, at: u64, len: usize) -> bool {
        at.checked_add(len as u64).is_some_and(|end| end <= self.len())
    }

    /// Fills `buffer` from byte `at` on; false, and nothing filled, where that goes past the end.
    pub fn read(&self, at: u64, buffer: &mut [u8]) -> bool {
        if !self.holds(at, buffer.len()) {
            return false;
        }
        for (to, bytes) in self.parts(at, buffer.len()) {
            buffer[to..to + bytes.len()].copy_from_slice(bytes);
        }
        true
    }

    /// Calls `f` with the offset from `at`, and the bytes, of each part of a range; false, and no call, where
    /// that goes past the end. It saves a copy in between.
    pub(super) fn each_part(&self, at: u64, len: usize, mut f: impl FnMut(usize, &[u8])) -> bool {
        if !self.holds(at, len) {
            return false;
        }
        self.parts(at, len).for_each(|(to, bytes)| f(to, bytes));
        true
    }

    /// Returns the pages of a range that is inside, each with its offset from `at`.
    fn parts(&self, at: u64, len: usize) -> impl Iterator<Item = (usize, &[u8])> {
        let mut done = 0;
        std::iter::from_fn(move || {
            let here = at as usize + done;
            let inside = here % PAGE_BYTES;
            let n = (PAGE_BYTES - inside).min(len - done);
            let bytes = match self.pages.get(&((here / PAGE_BYTES) as u64)) {
                Some(page) => &page.bytes[inside..inside + n],
                None => &self.base[here..here + n],
            };
            let to = done;
            done += n;
            (n > 0).then_some((to, bytes))
        })
    }

    /// Returns a number of the content: images of one base with the same bytes have the same number.
    pub(super) fn fingerprint(&self) -> u64 {
        let pages = self.pages.iter().map(|(number, page)| {
            let at = *number as usize * PAGE_BYTES;
            page.fingerprint(*number, &self.base[at..at + PAGE_BYTES])
        });
        pages.fold(0, |all, page| all ^ page)
    }

    /// Writes `data` at byte `at`; false, and nothing written, where that goes past the end.
    pub fn write(&mut self, at: u64, data: &[u8]) -> bool {
        if !self.holds(at, data.len()) {
            return false;
        }
        let mut done = 0;
        while done < data.len() {
            let here = at as usize + done;
            let (start, inside) = (here / PAGE_BYTES * PAGE_BYTES, here % PAGE_BYTES);
            let n = (PAGE_BYTES - inside).min(data.len() - done);
            let base = &self.base;
            let page = self.pages.entry((here / PAGE_BYTES) as u64).or_insert_with(|| {
                let mut bytes = [0; PAGE_BYTES];
                bytes.copy_from_slice(&base[start..start + PAGE_BYTES]);
                Arc::new(ImagePage { bytes, fingerprint: OnceLock::new() })
            });
            let page = Arc::make_mut(page);
            page.bytes[inside..inside + n].copy_from_slice(&data[done..done + n]);
            page.fingerprint.take();
            done += n;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeded::Seeded;

    #[test]
    fn an_image_agrees_with_plain_bytes_and_its_clones_do_not_see_later_writes() {
        let mut numbers = Seeded::new(3);
        let mut plain: Vec<u8> = (0..40_960).map(|_| numbers.bits() as u8).collect();
        let mut image = CrashImage::new(plain.clone());
        for round in 0..500u32 {
            let (before, bytes) = (image.clone(), plain.clone());
            let at = numbers.below(plain.len() as u64) as usize;
            let len = numbers.below((plain.len() - at) as u64 + 1) as usize;
            let data = vec![round as u8; len.min(9000)];
            assert!(image.write(at as u64, &data));
            plain[at..at + data.len()].copy_from_slice(&data);
            for (image, bytes) in [(&image, &plain), (&before, &bytes)] {
                let mut seen = vec![0; bytes.len()];
                assert!(image.read(0, &mut seen));
                assert!(seen == *bytes, "round {round}");
            }
        }
        assert!(!image.write(40_960, &[1]) && !image.read(40_000, &mut [0; 961]));
    }

    #[test]
    fn the_fingerprint_tells_contents_apart_and_not_the_ways_to_them() {
        let base = CrashImage::new(vec![7; 3 * PAGE_BYTES]);
        let [mut a, mut b] = [base.clone(), base.clone()];
        a.write(100, &[1; 5000]);
        b.write(4096, &[1; 1004]);
        assert_ne!(a.fingerprint(), b.fingerprint());
        b.write(8192, &[7; 10]);
        b.write(100, &[1; 3996]);
        assert_eq!(a.fingerprint(), b.fingerprint());
        a.write(0, &vec![7; 3 * PAGE_BYTES]);
        assert_eq!(a.fingerprint(), base.fingerprint());
        // The same bytes in another place are another content.
        let [mut first, mut second] = [base.clone(), base];
        first.write(0, &[2; PAGE_BYTES]);
        second.write(PAGE_BYTES as u64, &[2; PAGE_BYTES]);
        assert_ne!(first.fingerprint(), second.fingerprint());
    }
}
