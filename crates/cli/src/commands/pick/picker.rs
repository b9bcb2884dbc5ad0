//! The picker: the query, the matches that are shown, and the keys.

use super::line_editor::LineEditor;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use lanefs_search::fuzzy::{EntryId, Finder, MAX_QUERY_CHARS, Match, Query};
use std::collections::BTreeMap;

/// Matches that a search returns at first.
const FIRST_LIMIT: usize = 256;

/// The state of a picker.
pub(super) struct Picker<'n> {
    pub(super) finder: Finder<'n>,
    pub(super) line: LineEditor,
    pub(super) query: Query,
    pub(super) matches: Vec<Match>,
    /// All that match, of which `matches` are the best.
    pub(super) count: usize,
    limit: usize,
    /// Index of the chosen match.
    pub(super) selected: usize,
    /// Index of the first match on the screen.
    pub(super) top: usize,
    /// Marked entries, in the order of the names.
    pub(super) marked: BTreeMap<EntryId, Match>,
}

/// The work that follows from a key.
pub(super) enum Step {
    Go,
    Search,
    Accept,
    Leave,
}

impl<'n> Picker<'n> {
    pub(super) fn new(finder: Finder<'n>, query: &str) -> Self {
        let mut picker = Picker {
            finder,
            line: LineEditor::new(query),
            query: Query::default(),
            matches: Vec::new(),
            count: 0,
            limit: FIRST_LIMIT,
            selected: 0,
            top: 0,
            marked: BTreeMap::new(),
        };
        picker.search();
        picker
    }

    /// Searches for the query of the line.
    pub(super) fn search(&mut self) {
        let text: String = self.line.text().chars().take(MAX_QUERY_CHARS).collect();
        self.query = Query::parse(&text);
        (self.limit, self.selected, self.top) = (FIRST_LIMIT, 0, 0);
        (self.matches, self.count) = self.finder.search(&self.query, self.limit);
    }

    /// Applies a key. `shown` is the number of matches on the screen.
    pub(super) fn key(&mut self, key: KeyEvent, shown: usize) -> Step {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc => return Step::Leave,
            KeyCode::Char('c' | 'g') if has_control => return Step::Leave,
            KeyCode::Char('d') if has_control && self.line.text().is_empty() => return Step::Leave,
            KeyCode::Enter => return Step::Accept,
            KeyCode::Up => self.step(-1),
            KeyCode::Down => self.step(1),
            KeyCode::Char('p' | 'k') if has_control => self.step(-1),
            KeyCode::Char('n' | 'j') if has_control => self.step(1),
            KeyCode::PageUp => self.step(-(shown as isize)),
            KeyCode::PageDown => self.step(shown as isize),
            KeyCode::Tab => self.mark(1),
            KeyCode::BackTab => self.mark(-1),
            _ => {
                let before = self.line.text();
                self.line.key(key);
                return if self.line.text() == before { Step::Go } else { Step::Search };
            }
        }
        Step::Go
    }

    /// Chooses another match.
    fn step(&mut self, by: isize) {
        let wanted = self.selected.saturating_add_signed(by).min(self.count.saturating_sub(1));
        if wanted >= self.matches.len() && self.matches.len() < self.count {
            self.limit = self.limit.saturating_mul(4).max(wanted + 1);
            (self.matches, self.count) = self.finder.search(&self.query, self.limit);
        }
        self.selected = wanted.min(self.matches.len().saturating_sub(1));
    }

    /// Marks the chosen match, or unmarks it.
    fn mark(&mut self, by: isize) {
        if let Some(found) = self.matches.get(self.selected)
            && self.marked.remove(&found.id).is_none()
        {
            self.marked.insert(found.id, *found);
        }
        self.step(by);
    }

    /// The marked matches, or else the chosen one.
    pub(super) fn accepted(&self) -> Option<Vec<Match>> {
        match self.marked.is_empty() {
            true => self.matches.get(self.selected).map(|found| vec![*found]),
            false => Some(self.marked.values().copied().collect()),
        }
    }

    /// Moves the list so that the chosen match is among so many that are shown.
    pub(super) fn scroll(&mut self, shown: usize) {
        self.top = self.top.min(self.selected).max((self.selected + 1).saturating_sub(shown));
    }
}
