//! The fuzzy terms of a query, as rows for the kernel that scores paths.

use crate::shared::layout::{BONUS_BITS, BOUNDARY, CLASS_SHIFT, CLASS_SLASH, MAX_BONUS, MAX_ROWS};
use crate::shared::structures::RankProgram;

/// Classes of ASCII characters; [`CLASS_SLASH`] is that of a slash, and of the beginning of a path.
const WHITE: u32 = 0;
const OTHER: u32 = 1;
const LOWER: u32 = 3;
const UPPER: u32 = 4;
const DIGIT: u32 = 5;
const CLASSES: u32 = 6;

/// Bonuses of nucleo for paths: after a slash, and at a capital or a digit inside a word.
const AFTER_SLASH: u32 = BOUNDARY + 1;
const CAMEL: u32 = BOUNDARY - 3;

/// Fuzzy terms, which a path must all match: a row for each letter. The score of a path is the sum of the
/// scores that the crate `nucleo-matcher` gives for the terms with its settings for paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needles {
    program: RankProgram,
    /// Rows in use.
    rows: usize,
}

impl Default for Needles {
    /// No term: every path matches, with the score 0.
    fn default() -> Self {
        let mut program = RankProgram::default();
        for (byte, letter) in (0..=u8::MAX).zip(&mut program.letters) {
            let bonuses =
                (0..CLASSES).map(|before| u64::from(bonus(before, class(byte))) << (before * BONUS_BITS));
            let bonuses = bonuses.fold(0, |all, one| all | one);
            *letter = u64::from(class(byte)) << CLASS_SHIFT | bonuses << u32::BITS;
        }
        Needles { program, rows: 0 }
    }
}

impl Needles {
    /// Most letters of all terms together.
    pub const MOST_LETTERS: usize = MAX_ROWS;

    /// Adds a term. Returns false, and changes nothing, where there is no room for it, or where it is empty
    /// or not ASCII. `ignores_case`: its letters, which are small ones then, match capitals too.
    #[must_use]
    pub fn and(&mut self, letters: &[u8], ignores_case: bool) -> bool {
        if letters.is_empty() || !letters.is_ascii() || letters.len() > MAX_ROWS - self.rows {
            return false;
        }
        self.program.starts |= 1 << self.rows;
        for letter in letters {
            let row = 1 << self.rows;
            self.program.letters[usize::from(*letter)] |= row;
            if ignores_case {
                self.program.letters[usize::from(letter.to_ascii_uppercase())] |= row;
            }
            self.rows += 1;
        }
        self.program.ends |= 1 << (self.rows - 1);
        true
    }

    pub(crate) fn program(&self) -> &RankProgram {
        &self.program
    }
}

fn class(byte: u8) -> u32 {
    match byte {
        b'a'..=b'z' => LOWER,
        b'A'..=b'Z' => UPPER,
        b'0'..=b'9' => DIGIT,
        b'/' => CLASS_SLASH,
        _ if byte.is_ascii_whitespace() => WHITE,
        _ => OTHER,
    }
}

/// Bonus of a match between two characters of these classes.
fn bonus(before: u32, here: u32) -> u32 {
    match (before, here) {
        (WHITE | OTHER, LOWER | UPPER | DIGIT) => BOUNDARY,
        (CLASS_SLASH, LOWER | UPPER | DIGIT) => AFTER_SLASH,
        (LOWER, UPPER) => CAMEL,
        (DIGIT, DIGIT) => 0,
        (_, DIGIT) => CAMEL,
        (_, WHITE | OTHER) => BOUNDARY,
        _ => 0,
    }
}

// A letter has its rows in the low word, and in the high one a bonus for each class before it, and its class.
const _: () = {
    assert!(MAX_ROWS == u32::BITS as usize && AFTER_SLASH == MAX_BONUS && MAX_BONUS < 1 << BONUS_BITS);
    assert!(u32::BITS + CLASSES * BONUS_BITS <= CLASS_SHIFT && CLASSES <= 1 << (u64::BITS - CLASS_SHIFT));
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut needles = Needles::default();
        for no in [&b""[..], b"\xc3\xa9", &[b'x'; 33]] {
            assert!(!needles.and(no, true), "{}", no.escape_ascii());
        }
        assert_eq!(needles, Needles::default());
        assert!(needles.and(&[b'x'; 30], true));
        let full = needles.clone();
        assert!(!needles.and(b"abc", false));
        assert_eq!(needles, full);
        assert!(needles.and(b"ab", false));
        assert!(!needles.and(b"c", false));
    }
}
