//! The picture of a picker.

use super::picker::Picker;
use crossterm::cursor::MoveTo;
use crossterm::queue;
use crossterm::style::{Attribute, Color, Print, ResetColor, SetAttribute, SetForegroundColor};
use crossterm::terminal::{BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate};
use lanefs::escape::is_harmful;
use lanefs_search::fuzzy::highlights;
use std::io;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Rows above the list.
const HEAD: usize = 2;
const PROMPT: &str = "> ";

/// Rows of the list on a screen of so many rows.
pub(super) fn list_rows(rows: usize) -> usize {
    rows.saturating_sub(HEAD).max(1)
}

/// Draws a picker in the bytes for a terminal.
pub(super) fn frame(picker: &Picker<'_>, columns: usize, rows: usize) -> Vec<u8> {
    let mut out = Vec::new();
    // Writing to memory does not fail.
    let _ = write_frame(&mut out, picker, columns, rows);
    out
}

fn write_frame(out: &mut Vec<u8>, picker: &Picker<'_>, columns: usize, rows: usize) -> io::Result<()> {
    queue!(out, BeginSynchronizedUpdate)?;
    for index in 0..list_rows(rows) {
        let Some(row) = row_number(HEAD + index) else { break };
        queue!(out, MoveTo(0, row), ResetColor, SetAttribute(Attribute::Reset))?;
        write_match(out, picker, picker.top + index, columns)?;
        queue!(out, SetAttribute(Attribute::Reset), Clear(ClearType::UntilNewLine))?;
    }
    let (count, all) = (picker.count, picker.finder.names().len());
    let marked = match picker.marked.len() {
        0 => String::new(),
        marked => format!(" ({marked})"),
    };
    let counts = fit(&format!("  {count}/{all}{marked}"), columns, false);
    queue!(out, MoveTo(0, 1), SetForegroundColor(Color::DarkGrey), Print(counts), ResetColor)?;
    queue!(out, Clear(ClearType::UntilNewLine), MoveTo(0, 0))?;
    let (before, behind) = picker.line.parts();
    let (before, behind) = (printable(&before), printable(&behind));
    let room = columns.saturating_sub(PROMPT.len() + 1);
    let before = fit(&before, room, true);
    let behind = fit(&behind, room.saturating_sub(before.width()), false);
    queue!(out, SetAttribute(Attribute::Bold), Print(PROMPT), SetAttribute(Attribute::Reset))?;
    queue!(out, Print(&before), Print(behind), Clear(ClearType::UntilNewLine))?;
    let cursor = row_number(PROMPT.len() + before.width()).unwrap_or(0);
    queue!(out, MoveTo(cursor, 0), EndSynchronizedUpdate)
}

/// A number of a row or column, if a terminal can have it.
fn row_number(number: usize) -> Option<u16> {
    u16::try_from(number).ok()
}

fn write_match(out: &mut Vec<u8>, picker: &Picker<'_>, index: usize, columns: usize) -> io::Result<()> {
    let Some(found) = picker.matches.get(index) else { return Ok(()) };
    let path = picker.finder.names().path(found.id);
    let matched = highlights(&picker.query, &path);
    let is_selected = index == picker.selected;
    let mark = if picker.marked.contains_key(&found.id) { "*" } else { " " };
    if is_selected {
        queue!(out, SetAttribute(Attribute::Reverse))?;
    }
    queue!(out, Print(if is_selected { ">" } else { " " }), Print(mark))?;
    let mut is_lit = false;
    for (text, lit) in pieces(&path, &matched, columns.saturating_sub(2)) {
        if lit != is_lit {
            is_lit = lit;
            if lit {
                queue!(out, SetAttribute(Attribute::Bold), SetForegroundColor(Color::Green))?;
            } else {
                queue!(out, SetAttribute(Attribute::NormalIntensity), SetForegroundColor(Color::Reset))?;
            }
        }
        queue!(out, Print(text))?;
    }
    queue!(out, ResetColor)
}

/// The characters of a path as they are shown, each with true if it matches. A path that is too long loses
/// its beginning.
fn pieces(path: &[u8], matched: &[u32], columns: usize) -> Vec<(String, bool)> {
    let text = String::from_utf8_lossy(path);
    let mut pieces: Vec<(String, bool)> = Vec::new();
    let mut matched = matched.iter().peekable();
    for (index, c) in text.chars().enumerate() {
        let lit = matched.next_if(|next| **next as usize == index).is_some();
        pieces.push((printable_char(c), lit));
    }
    let (mut width, mut first) = (0, pieces.len());
    while let Some(before) = first.checked_sub(1) {
        let more = pieces[before].0.width();
        if width + more > columns {
            // One more column for the sign.
            while first < pieces.len() && width + 1 > columns {
                width -= pieces[first].0.width();
                first += 1;
            }
            pieces.drain(..first);
            pieces.insert(0, ("…".to_string(), false));
            return if columns == 0 { Vec::new() } else { pieces };
        }
        width += more;
        first = before;
    }
    pieces
}

/// Text within a number of columns: its end, or its beginning.
fn fit(text: &str, columns: usize, keeps_end: bool) -> String {
    let mut width = 0;
    let mut fits = |c: &char| {
        width += c.width().unwrap_or(0);
        width <= columns
    };
    match keeps_end {
        true => {
            let kept: Vec<char> = text.chars().rev().take_while(&mut fits).collect();
            kept.into_iter().rev().collect()
        }
        false => text.chars().take_while(&mut fits).collect(),
    }
}

fn printable(text: &str) -> String {
    text.chars().map(printable_char).collect()
}

/// A character that does nothing to a terminal.
fn printable_char(c: char) -> String {
    match c {
        c if c.is_ascii_control() => format!("\\x{:02x}", c as u32),
        c if is_harmful(c) => char::REPLACEMENT_CHARACTER.to_string(),
        c => c.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &[u8], columns: usize) -> String {
        pieces(path, &[0], columns)
            .into_iter()
            .map(|(text, lit)| if lit { format!("[{text}]") } else { text })
            .collect()
    }

    #[test]
    fn a_path_that_is_too_long_loses_its_beginning() {
        assert_eq!(shown(b"/abc", 4), "[/]abc");
        assert_eq!(shown(b"/abcd", 4), "…bcd");
        assert_eq!(shown("/日本".as_bytes(), 5), "[/]日本");
        assert_eq!(shown("/日本".as_bytes(), 4), "…本");
        assert_eq!(shown("/日本".as_bytes(), 1), "…");
        assert_eq!(shown(b"/abc", 0), "");
    }

    #[test]
    fn nothing_of_a_name_reaches_the_terminal_as_a_command() {
        assert_eq!(
            shown(b"a\x1b[2J\xff\x7f\xc2\x9b\xe2\x80\xae", 100),
            "[a]\\x1b[2J\u{fffd}\\x7f\u{fffd}\u{fffd}"
        );
        assert_eq!(fit("abc", 2, true), "bc");
        assert_eq!(fit("abc", 2, false), "ab");
    }
}
