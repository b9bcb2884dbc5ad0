//! Twin of `shaders/scan.comp`.

use crate::shared::layout::{MACHINES, RUN_ON_WORDS, STRIP_WORDS};
use crate::shared::structures::ScanProgram;
use crate::twin::headers::fuel::Fuel;
use crate::twin::headers::woven::{WovenText, woven};

/// Returns a bit for each word of each strip in which a match ends, or may end.
pub(crate) fn scan(program: &ScanProgram, text: &WovenText<'_>, fuel: u32) -> Vec<u32> {
    (0..text.words() / STRIP_WORDS).map(|strip| scan_strip(program, text, strip, fuel)).collect()
}

fn behind(m: &ScanProgram, k: usize, states: u64, byte: u8, begin: u64) -> u64 {
    let leads = m.leads[k * 256 + usize::from(byte)];
    let next = (states << 1 | begin & m.starts[k] | states & m.repeats[k]) & leads;
    let rows = next | m.last[k];
    next | m.optional[k] & (!rows.wrapping_sub(m.before[k]) ^ rows)
}

fn scan_strip(m: &ScanProgram, text: &WovenText<'_>, strip: usize, fuel: u32) -> u32 {
    let fuel = Fuel::new(fuel);
    let mut states = [0; MACHINES];
    let (mut begin, mut found) = (u64::MAX, 0);
    let mut w = 0;
    while w < STRIP_WORDS + RUN_ON_WORDS && fuel.burn() {
        if w >= STRIP_WORDS {
            begin = 0;
            let goes_on = states != [0; MACHINES] && (strip + 1) * STRIP_WORDS < text.words();
            if !goes_on || found >> (STRIP_WORDS - 1) != 0 {
                break;
            }
        }
        let word = text.word(woven(strip + w / STRIP_WORDS, w % STRIP_WORDS, STRIP_WORDS));
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
