//! The line of the query.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Text with a cursor.
#[derive(Debug, Default)]
pub(super) struct LineEditor {
    text: Vec<char>,
    cursor: usize,
}

impl LineEditor {
    pub(super) fn new(text: &str) -> Self {
        let text: Vec<char> = text.chars().collect();
        LineEditor { cursor: text.len(), text }
    }

    pub(super) fn text(&self) -> String {
        self.text.iter().collect()
    }

    /// The text before the cursor, and the text after it.
    pub(super) fn parts(&self) -> (String, String) {
        let (before, behind) = self.text.split_at(self.cursor);
        (before.iter().collect(), behind.iter().collect())
    }

    /// Applies a key. False if it is not a key of an editor.
    pub(super) fn key(&mut self, key: KeyEvent) -> bool {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        let len = self.text.len();
        match key.code {
            KeyCode::Char('a') if has_control => self.cursor = 0,
            KeyCode::Char('e') if has_control => self.cursor = len,
            KeyCode::Char('b') if has_control => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::Char('f') if has_control => self.cursor = len.min(self.cursor + 1),
            KeyCode::Char('u') if has_control => self.remove(0),
            KeyCode::Char('w') if has_control => self.remove(self.word()),
            KeyCode::Char('h') if has_control => self.remove(self.cursor.saturating_sub(1)),
            KeyCode::Char(c) if !has_control && !key.modifiers.contains(KeyModifiers::ALT) => {
                self.text.insert(self.cursor, c);
                self.cursor += 1;
            }
            KeyCode::Backspace if key.modifiers.contains(KeyModifiers::ALT) => self.remove(self.word()),
            KeyCode::Backspace => self.remove(self.cursor.saturating_sub(1)),
            KeyCode::Delete if self.cursor < len => drop(self.text.remove(self.cursor)),
            KeyCode::Delete => {}
            KeyCode::Left => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::Right => self.cursor = len.min(self.cursor + 1),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = len,
            _ => return false,
        }
        true
    }

    /// Removes the text between an earlier index and the cursor.
    fn remove(&mut self, from: usize) {
        self.text.drain(from..self.cursor);
        self.cursor = from;
    }

    /// The beginning of the word before the cursor.
    fn word(&self) -> usize {
        let before = &self.text[..self.cursor];
        let end = before.iter().rposition(|c| !c.is_whitespace()).map_or(0, |at| at + 1);
        before[..end].iter().rposition(|c| c.is_whitespace()).map_or(0, |at| at + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_edit_the_line() {
        let mut line = LineEditor::new("one two  ");
        let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
        let plain = |code| KeyEvent::new(code, KeyModifiers::NONE);
        for (key, before, behind) in [
            (control('w'), "one ", ""),
            (plain(KeyCode::Char('é')), "one é", ""),
            (plain(KeyCode::Left), "one ", "é"),
            (plain(KeyCode::Backspace), "one", "é"),
            (control('a'), "", "oneé"),
            (plain(KeyCode::Delete), "", "neé"),
            (plain(KeyCode::Backspace), "", "neé"),
            (control('e'), "neé", ""),
            (plain(KeyCode::Delete), "neé", ""),
            (plain(KeyCode::Right), "neé", ""),
            (control('u'), "", ""),
            (control('w'), "", ""),
        ] {
            assert!(line.key(key));
            assert_eq!(line.parts(), (before.into(), behind.into()), "{key:?}");
        }
        assert!(!line.key(plain(KeyCode::Up)) && !line.key(control('c')) && line.text().is_empty());
    }
}
