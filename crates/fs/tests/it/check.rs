//! The check: clean volumes are clean, and every planted fault is found by name and repaired.

mod clean;
mod faults;
mod fixture;
mod full;
mod image;
mod log_writer;
mod logs;
mod maps;
mod misplaced;
mod mutations;
mod planted;
mod transactions;

use lanefs::*;

fn names(report: &CheckReport) -> Vec<String> {
    report.findings.iter().map(|f| format!("{} at {:#x}: {}", f.invariant, f.at, f.text)).collect()
}

fn assert_clean(volume: &Volume, what: &str) {
    let report = volume.check(false, &|_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "{what}: {:#?}", names(&report));
}

/// A small generator, so that a seed gives the same image everywhere (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}
