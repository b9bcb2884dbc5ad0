//! A picker at work on the terminal.

use super::picker::{Picker, Step};
use super::screen;
use super::terminal::Terminal;
use crate::terminal::failure::Failure;
use crate::terminal::interrupt;
use crossterm::event::{Event, KeyEventKind};
use lanefs_search::fuzzy::Match;

/// The user's choice.
pub(super) enum Picked {
    Some(Vec<Match>),
    /// The user left.
    None,
}

/// Runs a picker on the terminal.
///
/// # Errors
/// The terminal's.
pub(super) fn run(mut picker: Picker<'_>) -> Result<Picked, Failure> {
    let mut terminal = Terminal::enter()?;
    loop {
        let (columns, rows) = terminal.size();
        let shown = screen::list_rows(rows);
        picker.scroll(shown);
        terminal.draw(&screen::frame(&picker, columns, rows))?;
        // All keys that are waiting count before the next search.
        let mut is_changed = false;
        let mut next = loop {
            match terminal.next_event()? {
                Some(event) => break Some(event),
                None if interrupt::raised() => return Ok(Picked::None),
                None => {}
            }
        };
        while let Some(event) = next {
            if let Event::Key(key) = event
                && key.kind != KeyEventKind::Release
            {
                match picker.key(key, shown) {
                    Step::Go => {}
                    Step::Search => is_changed = true,
                    Step::Accept => {
                        if is_changed {
                            picker.search();
                        }
                        if let Some(picked) = picker.accepted() {
                            return Ok(Picked::Some(picked));
                        }
                    }
                    Step::Leave => return Ok(Picked::None),
                }
            }
            next = terminal.waiting_event()?;
        }
        if is_changed {
            picker.search();
        }
    }
}
