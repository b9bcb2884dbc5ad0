//! The best fuzzy match of a term, byte by byte.
//!
//! nucleo's score of a term is the best over all ways to place its bytes in the path, in their order. Its
//! matrix has a row for each byte of the term and a column for each byte of the path, and a column follows
//! from the one before. So [`State`] is the last column, and all paths in a directory continue from the
//! directory's state. The results are nucleo's to the bit, for ASCII paths as long as its matrix allows.

use super::bonus::{
    BONUS, BOUNDARY, CLASS, CONSECUTIVE, Class, FIRST, GAP_EXTENSION, GAP_START, INITIAL, MATCH, MAX_BONUS,
};
use super::names::bit;
use super::query::Term;

/// Most bytes of a term.
const MAX_BYTES: usize = 62;
/// Longest path: longer ones are for nucleo, which then may match greedily.
const MAX_PATH: usize = 2048;
/// Cells of nucleo's matrix.
const MAX_CELLS: usize = 100 * 1024;

/// A term in the form for columns.
pub(super) struct Needle {
    bytes: Vec<u8>,
    /// For each byte of a path the rows that it matches.
    rows: [u64; 256],
    /// Masks of the bytes from each one on.
    rest: Vec<u64>,
}

/// The last column, after some bytes of a path.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Bytes of the term that are matched in their order: rows that have a score.
    pub(super) reached: usize,
    /// Class of the last byte.
    before: Class,
    /// Columns after the one to which `cells` belong; no byte in them matched.
    skipped: u16,
    /// Best score of the whole term so far.
    best: u16,
    cells: Vec<Cell>,
}

/// A row of the column.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    /// Best score if this byte matches here; 0 if it does not.
    here: u16,
    /// Best score if it matches before, with the gap.
    before: u16,
    /// Bonus for the next byte, if it matches without a gap.
    consecutive: u8,
}

/// Upper bounds of the score of paths that continue from a state.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds(Vec<u16>);

impl Needle {
    /// Makes the form for columns, if the term has one.
    pub(super) fn new(term: &Term) -> Option<Needle> {
        let bytes = term.letters().filter(|bytes| bytes.len() <= MAX_BYTES)?.to_vec();
        let mut rows = [0; 256];
        for (row, byte) in bytes.iter().enumerate() {
            rows[usize::from(*byte)] |= 1 << row;
            if term.ignores_case {
                rows[usize::from(byte.to_ascii_uppercase())] |= 1 << row;
            }
        }
        let mut rest = vec![0; bytes.len() + 1];
        for (row, byte) in bytes.iter().enumerate().rev() {
            rest[row] = rest[row + 1] | bit(*byte);
        }
        Some(Needle { bytes, rows, rest })
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True for a path of this length that has nucleo's score here.
    pub(super) fn takes(&self, path_len: usize) -> bool {
        path_len <= MAX_PATH && path_len * self.len() <= MAX_CELLS
    }

    /// The state before the first byte of a path.
    pub(super) fn start(&self) -> State {
        let cells = vec![Cell::default(); self.len()];
        State { reached: 0, before: INITIAL, skipped: 0, best: 0, cells }
    }

    /// Continues with some bytes.
    pub(super) fn advance(&self, state: &mut State, text: &[u8]) {
        let mut before = state.before;
        for byte in text {
            let byte = usize::from(*byte);
            let matched = self.rows[byte] & ((2 << state.reached) - 1);
            if matched == 0 {
                state.skipped = state.skipped.saturating_add(1);
            } else {
                self.column(state, matched, BONUS[before as usize][byte]);
            }
            before = CLASS[byte];
        }
        state.before = before;
    }

    /// Adds the column of a byte that matches some rows.
    fn column(&self, state: &mut State, matched: u64, bonus: u8) {
        let skipped = std::mem::take(&mut state.skipped);
        let reached = state.reached;
        if skipped > 0 {
            for cell in &mut state.cells[..reached] {
                cell.before = cell.after_gap().saturating_sub((skipped - 1) * GAP_EXTENSION);
                cell.here = 0;
            }
        }
        let last = self.len() - 1;
        let mut row = reached.min(last);
        loop {
            let before = if row < reached { state.cells[row].after_gap() } else { 0 };
            let is_match = matched >> row & 1 != 0;
            state.cells[row] = match row.checked_sub(1) {
                _ if !is_match => Cell { here: 0, before, consecutive: 0 },
                None => {
                    let here = u16::from(bonus) * FIRST + MATCH;
                    Cell { here, before, consecutive: bonus }
                }
                Some(above) => Cell { before, ..state.cells[above].next(bonus) },
            };
            if row == 0 {
                break;
            }
            row -= 1;
        }
        if reached <= last && matched >> reached & 1 != 0 {
            state.reached += 1;
        }
        // As nucleo, which looks no further for a single byte once it has found one at a boundary.
        let is_decided = last == 0 && state.best >= u16::from(BOUNDARY) * FIRST + MATCH;
        if state.reached > last && !is_decided {
            state.best = state.best.max(state.cells[last].here);
        }
    }

    /// The score, if the term matches.
    pub(super) fn score(&self, state: &State) -> Option<u16> {
        (state.reached == self.len()).then_some(state.best)
    }

    /// True if a state that has reached a row gets to the end with some more bytes.
    pub(super) fn matches(&self, reached: usize, text: &[u8]) -> bool {
        let mut row = reached;
        if row == self.len() {
            return true;
        }
        for byte in text {
            row += (self.rows[usize::from(*byte)] >> row & 1) as usize;
            if row == self.len() {
                return true;
            }
        }
        false
    }

    /// True if the names with these bytes may end the term.
    pub(super) fn may_match(&self, reached: usize, mask: u64) -> bool {
        self.rest.get(reached).is_none_or(|rest| rest & !mask == 0)
    }

    /// The first row from which on the bytes of a name may match all others.
    pub(super) fn first_row(&self, mask: u64) -> usize {
        let missing = |rest: &u64| rest & !mask != 0;
        self.rest.partition_point(missing)
    }

    /// Upper bounds for paths that continue from a state.
    pub(super) fn bounds(&self, state: &State, bounds: &mut Bounds) {
        let most = MATCH + MAX_BONUS;
        let len = self.len();
        bounds.0.clear();
        bounds.0.resize(len + 1, state.best);
        for row in (0..len.min(state.reached + 1)).rev() {
            let so_far = match row.checked_sub(1) {
                None => MATCH + FIRST * MAX_BONUS - most,
                Some(above) => state.cells[above].here.max(state.cells[above].before),
            };
            let bound = so_far + most * (len - row) as u16;
            bounds.0[row] = bound.max(bounds.0[row + 1]);
        }
    }
}

impl Bounds {
    /// Upper bound if only rows from `row` on can still match.
    pub(super) fn below_row(&self, row: usize) -> u32 {
        self.0.get(row).copied().unwrap_or(0).into()
    }
}

impl State {
    /// Becomes a copy of another state of the same term.
    pub(super) fn copy_from(&mut self, other: &State) {
        let State { reached, before, skipped, best, cells } = other;
        (self.reached, self.before, self.skipped, self.best) = (*reached, *before, *skipped, *best);
        self.cells.copy_from_slice(cells);
    }
}

impl Cell {
    /// The best score if the byte matches before the next column.
    fn after_gap(self) -> u16 {
        self.here.saturating_sub(GAP_START).max(self.before.saturating_sub(GAP_EXTENSION))
    }

    /// The cell of the next row in the next column, where its byte matches.
    fn next(self, bonus: u8) -> Cell {
        let behind_gap = self.before + u16::from(bonus);
        if self.here != 0 {
            let mut consecutive = self.consecutive.max(CONSECUTIVE);
            if bonus >= BOUNDARY && bonus > consecutive {
                consecutive = bonus;
            }
            let without_gap = self.here + u16::from(consecutive.max(bonus));
            if without_gap > behind_gap {
                return Cell { here: without_gap + MATCH, before: 0, consecutive };
            }
        }
        Cell { here: behind_gap + MATCH, before: 0, consecutive: bonus }
    }
}
