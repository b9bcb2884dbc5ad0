//! A volume's bytes as a shared base and the pages that differ from it.
//!
//! A crash state differs from the initial image of a workload in a few dozen pages. Copying 8 MiB for each of
//! 100,000 states would be 800 GB of memory traffic; sharing equal pages leaves a few kilobytes.

use std::collections::HashMap;
use std::sync::Arc;

/// Unit in bytes that a medium writes as a whole.
pub(super) const SECTOR: usize = 512;
const PAGE: usize = 4096;

/// An image. Clones share all pages that neither of them has changed since.
#[derive(Clone)]
pub struct Image {
    base: Arc<Vec<u8>>,
    pages: HashMap<u64, Arc<[u8; PAGE]>>,
}

impl Image {
    /// An image that holds `bytes`.
    pub fn new(mut bytes: Vec<u8>) -> Self {
        bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
        Image { base: Arc::new(bytes), pages: HashMap::new() }
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
            let inside = here % PAGE;
            let n = (PAGE - inside).min(len - done);
            let bytes = match self.pages.get(&((here / PAGE) as u64)) {
                Some(page) => &page[inside..inside + n],
                None => &self.base[here..here + n],
            };
            let to = done;
            done += n;
            (n > 0).then_some((to, bytes))
        })
    }

    /// Writes `data` at byte `at`; false, and nothing written, where that goes past the end.
    pub fn write(&mut self, at: u64, data: &[u8]) -> bool {
        if !self.holds(at, data.len()) {
            return false;
        }
        let mut done = 0;
        while done < data.len() {
            let here = at as usize + done;
            let (start, inside) = (here / PAGE * PAGE, here % PAGE);
            let n = (PAGE - inside).min(data.len() - done);
            let base = &self.base;
            let page = self.pages.entry((here / PAGE) as u64).or_insert_with(|| {
                let mut page = [0; PAGE];
                page.copy_from_slice(&base[start..start + PAGE]);
                Arc::new(page)
            });
            Arc::make_mut(page)[inside..inside + n].copy_from_slice(&data[done..done + n]);
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
        let mut image = Image::new(plain.clone());
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
}
