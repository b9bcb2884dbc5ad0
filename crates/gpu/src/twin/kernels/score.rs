//! Twin of `shaders/score.comp`.

use crate::inputs::path_bundles::PathBundles;
use crate::shared::layout::{
    BONUS_BITS, BOUNDARY, BUNDLE_PATHS, CELL_MOST_SHIFT, CELL_RUN_BITS, CELL_SCORE_BITS, CLASS_SHIFT,
    CLASS_SLASH, CONSECUTIVE, GAP_START, MAX_RANKED_PATH, MAX_ROWS, SCORE_FIRST, SCORE_MATCH,
    SCORE_UNDECIDED, TEXT_WORD,
};
use crate::shared::structures::RankProgram;
use crate::twin::headers::fuel::Fuel;

/// State of an invocation between two bytes.
struct Rows<'r> {
    r: &'r RankProgram,
    cells: [u32; MAX_ROWS],
    /// Rows that have matched, and those that the byte before matched.
    seen: u32,
    was: u32,
    /// Rows that count no more.
    closed: u32,
}

/// Returns the score of each path.
pub(crate) fn score(program: &RankProgram, paths: &PathBundles, fuel: u32) -> Vec<u32> {
    (0..paths.count()).map(|path| score_path(program, paths, path, fuel)).collect()
}

fn score_path(r: &RankProgram, paths: &PathBundles, path: usize, fuel: u32) -> u32 {
    let (bundle, words) = paths.path(path);
    let lane = path % BUNDLE_PATHS;
    let length = bundle.lengths[lane];
    if length > MAX_RANKED_PATH as u32 {
        return SCORE_UNDECIDED;
    }
    let fuel = Fuel::new(fuel);
    let mut rows = Rows { r, cells: [0; MAX_ROWS], seen: 0, was: 0, closed: 0 };
    let mut before = CLASS_SLASH;
    let mut at = 0;
    while at < length && fuel.burn() {
        let number = at as usize / TEXT_WORD * BUNDLE_PATHS + lane;
        let byte = words.get(number).map_or(0, |word| word[at as usize % TEXT_WORD]);
        let letter = r.letters[usize::from(byte)];
        let bonus = (letter >> u32::BITS) as u32 >> (before * BONUS_BITS) & ((1 << BONUS_BITS) - 1);
        before = (letter >> CLASS_SHIFT) as u32;
        let matched = letter as u32 & (r.starts | rows.seen << 1) & !rows.closed;
        let mut left = matched;
        while left != 0 && fuel.burn() {
            let row = left.ilog2();
            left ^= 1 << row;
            rows.take(row, at, bonus);
        }
        rows.seen |= matched;
        rows.was = matched;
        at += 1;
    }
    let (mut ends, mut sum) = (r.ends, 0);
    if rows.seen & ends != ends {
        return if fuel.left() == 0 { SCORE_UNDECIDED } else { 0 };
    }
    while ends != 0 && fuel.burn() {
        sum += score_of(rows.cells[ends.trailing_zeros() as usize]);
        ends &= ends - 1;
    }
    if fuel.left() == 0 { SCORE_UNDECIDED } else { sum }
}

impl Rows<'_> {
    fn take(&mut self, row: u32, at: u32, bonus: u32) {
        let bit = 1 << row;
        let is_first = self.r.starts & bit != 0;
        let is_last = self.r.ends & bit != 0;
        let above = self.cells[if is_first { row } else { row - 1 } as usize];
        let most = above >> CELL_MOST_SHIFT;
        let mut run = bonus;
        let mut here =
            if is_first { bonus * SCORE_FIRST } else { bonus + most.saturating_sub(at + GAP_START - 2) };
        if !is_first && self.was & bit >> 1 != 0 {
            let mut goes_on = (above & ((1 << CELL_RUN_BITS) - 1)).max(CONSECUTIVE);
            if bonus >= BOUNDARY {
                goes_on = goes_on.max(bonus);
            }
            let without_gap = score_of(above) + goes_on.max(bonus);
            if without_gap > here {
                here = without_gap;
                run = goes_on;
            }
        }
        here += SCORE_MATCH;
        let old = if self.seen & bit != 0 { self.cells[row as usize] } else { 0 };
        let potential = (old >> CELL_MOST_SHIFT).max(here + at);
        if is_last {
            here = here.max(score_of(old));
        }
        self.cells[row as usize] = potential << CELL_MOST_SHIFT | here << CELL_RUN_BITS | run;
        // As nucleo, which looks no further for a single letter once it has found one at a boundary.
        if is_first && is_last && here >= BOUNDARY * SCORE_FIRST + SCORE_MATCH {
            self.closed |= bit;
        }
    }
}

fn score_of(cell: u32) -> u32 {
    cell >> CELL_RUN_BITS & ((1 << CELL_SCORE_BITS) - 1)
}
