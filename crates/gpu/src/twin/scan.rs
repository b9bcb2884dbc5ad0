//! Twin of `shaders/scan.comp`.

use super::fuel::Fuel;
use crate::layout::{MACHINES, RUN_ON_WORDS, STRIP_WORDS, TEXT_WORD, WOVEN_STRIPS};
use crate::structures::ScanProgram;
use std::cell::Cell;

/// Texts on the device, woven, and a count of the words that were loaded.
pub struct WovenText<'t> {
    bytes: &'t [u8],
    loads: Cell<u64>,
}

impl<'t> WovenText<'t> {
    /// Texts in memory as they lie on the device.
    pub fn new(bytes: &'t [u8]) -> Self {
        WovenText { bytes, loads: Cell::new(0) }
    }

    /// Returns the bytes that were loaded.
    pub fn loaded(&self) -> u64 {
        self.loads.get() * TEXT_WORD as u64
    }

    /// Returns the number of strips.
    pub fn strips(&self) -> usize {
        self.bytes.len() / (STRIP_WORDS * TEXT_WORD)
    }

    fn word(&self, at: usize) -> [u8; TEXT_WORD] {
        self.loads.set(self.loads.get() + 1);
        self.bytes.as_chunks().0.get(at).copied().unwrap_or_default()
    }
}

/// Returns a bit for each word of each strip in which a match ends, or may end.
pub(crate) fn scan(program: &ScanProgram, text: &WovenText<'_>, fuel: u32) -> Vec<u32> {
    (0..text.strips()).map(|strip| scan_strip(program, text, strip, fuel)).collect()
}

fn behind(m: &ScanProgram, k: usize, states: u64, byte: u8, begin: u64) -> u64 {
    let leads = m.leads[k * 256 + usize::from(byte)];
    let next = (states << 1 | begin & m.starts[k] | states & m.repeats[k]) & leads;
    let rows = next | m.last[k];
    next | m.optional[k] & (!rows.wrapping_sub(m.before[k]) ^ rows)
}

/// Returns the place of a word of a strip among the words of all.
pub(crate) fn woven(strip: usize, word: usize) -> usize {
    strip / WOVEN_STRIPS * (WOVEN_STRIPS * STRIP_WORDS) + word * WOVEN_STRIPS + strip % WOVEN_STRIPS
}

fn scan_strip(m: &ScanProgram, text: &WovenText<'_>, strip: usize, fuel: u32) -> u32 {
    let fuel = Fuel::new(fuel);
    let mut states = [0; MACHINES];
    let (mut begin, mut found) = (u64::MAX, 0);
    let mut w = 0;
    while w < STRIP_WORDS + RUN_ON_WORDS && fuel.burn() {
        if w >= STRIP_WORDS {
            begin = 0;
            let goes_on = states != [0; MACHINES] && strip + 1 < text.strips();
            if !goes_on || found >> (STRIP_WORDS - 1) != 0 {
                break;
            }
        }
        let word = text.word(woven(strip + w / STRIP_WORDS, w % STRIP_WORDS));
        let mut hits = 0;
        for quarter in word.as_chunks::<4>().0 {
            if !fuel.burn() {
                break;
            }
            for byte in quarter {
                for (k, states) in states.iter_mut().enumerate().take(m.count as usize) {
                    *states = behind(m, k, *states, *byte, begin);
                    hits |= *states & m.ends[k];
                }
            }
        }
        found |= u32::from(hits != 0) << w.min(STRIP_WORDS - 1);
        w += 1;
    }
    found |= u32::from(states != [0; MACHINES]) << (STRIP_WORDS - 1);
    if fuel.left() == 0 { u32::MAX } else { found }
}
