//! Classes of bytes, and the bonus of a match at their borders. The values are nucleo's for paths.

/// Score of a byte that matches.
pub(super) const MATCH: u16 = 16;
/// Cost of a gap's first byte.
pub(super) const GAP_START: u16 = 3;
/// Cost of each further byte of a gap.
pub(super) const GAP_EXTENSION: u16 = 1;
/// Bonus at the beginning of a word.
pub(super) const BOUNDARY: u8 = 8;
/// Bonus after a slash.
const AFTER_SLASH: u8 = BOUNDARY + 1;
/// Bonus at a capital or digit inside a word.
const CAMEL: u8 = BOUNDARY - 3;
/// Least bonus of a byte that follows another match without a gap.
pub(super) const CONSECUTIVE: u8 = 4;
/// Factor for the bonus of the first byte.
pub(super) const FIRST: u16 = 2;
/// Greatest bonus of one byte.
pub(super) const MAX_BONUS: u16 = AFTER_SLASH as u16;

/// Class of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    White,
    NonWord,
    Slash,
    Lower,
    Upper,
    Letter,
    Digit,
}

const CLASSES: usize = 8;

/// The class before the first byte of a path.
pub(super) const INITIAL: Class = Class::Slash;

/// Class of an ASCII byte.
pub(super) const fn class(byte: u8) -> Class {
    match byte {
        b'a'..=b'z' => Class::Lower,
        b'A'..=b'Z' => Class::Upper,
        b'0'..=b'9' => Class::Digit,
        b'/' => Class::Slash,
        _ if byte.is_ascii_whitespace() => Class::White,
        _ => Class::NonWord,
    }
}

/// Class of a character.
pub(super) fn class_of_char(c: char) -> Class {
    match c {
        _ if c.is_ascii() => class(c as u8),
        _ if c.is_lowercase() => Class::Lower,
        _ if nucleo_matcher::chars::is_upper_case(c) => Class::Upper,
        _ if c.is_numeric() => Class::Digit,
        _ if c.is_alphabetic() => Class::Letter,
        _ if c.is_whitespace() => Class::White,
        _ => Class::NonWord,
    }
}

/// Bonus of a match between two characters of these classes.
pub(super) const fn bonus(before: Class, here: Class) -> u8 {
    match (before, here) {
        (Class::White | Class::NonWord, Class::Lower | Class::Upper | Class::Letter | Class::Digit) => {
            BOUNDARY
        }
        (Class::Slash, Class::Lower | Class::Upper | Class::Letter | Class::Digit) => AFTER_SLASH,
        (Class::Lower, Class::Upper) => CAMEL,
        (Class::Digit, Class::Digit) => 0,
        (_, Class::Digit) => CAMEL,
        (_, Class::White | Class::NonWord) => BOUNDARY,
        _ => 0,
    }
}

/// [`bonus`] for all bytes: `BONUS[class of the byte before][byte]`.
pub(super) static BONUS: [[u8; 256]; CLASSES] = {
    let classes =
        [Class::White, Class::NonWord, Class::Slash, Class::Lower, Class::Upper, Class::Letter, Class::Digit];
    let mut table = [[0; 256]; CLASSES];
    let mut before = 0;
    while before < classes.len() {
        let mut byte = 0;
        while byte < 256 {
            table[before][byte] = bonus(classes[before], class(byte as u8));
            byte += 1;
        }
        before += 1;
    }
    table
};

/// [`class`] for all bytes.
pub(super) static CLASS: [Class; 256] = {
    let mut table = [Class::NonWord; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = class(byte as u8);
        byte += 1;
    }
    table
};
