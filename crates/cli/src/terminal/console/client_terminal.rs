//! Standard error of a client, and the terminal for progress bars.

use indicatif::TermLike;
use lanefs_fuse::{ClientStreams, Stream};
use std::sync::Arc;
use std::{fmt, io};

/// Width of a terminal that does not tell its own, in columns.
const DEFAULT_COLUMNS: u16 = 80;

/// Standard error of a client, which is a terminal.
pub(super) struct ClientTerminal(pub(super) Arc<dyn ClientStreams>);

/// Writes to standard error of a client.
pub(super) fn write_errors(client: &dyn ClientStreams, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = client.write(Stream::Errors, bytes)?;
        bytes = bytes.get(written..).unwrap_or_default();
    }
    Ok(())
}

impl fmt::Debug for ClientTerminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientTerminal")
    }
}

impl ClientTerminal {
    /// Moves the cursor by a control sequence.
    fn moved(&self, count: usize, direction: char) -> io::Result<()> {
        if count == 0 { Ok(()) } else { self.write_str(&format!("\x1b[{count}{direction}")) }
    }
}

impl TermLike for ClientTerminal {
    fn width(&self) -> u16 {
        self.0.terminals().columns.unwrap_or(DEFAULT_COLUMNS)
    }

    fn move_cursor_up(&self, count: usize) -> io::Result<()> {
        self.moved(count, 'A')
    }

    fn move_cursor_down(&self, count: usize) -> io::Result<()> {
        self.moved(count, 'B')
    }

    fn move_cursor_right(&self, count: usize) -> io::Result<()> {
        self.moved(count, 'C')
    }

    fn move_cursor_left(&self, count: usize) -> io::Result<()> {
        self.moved(count, 'D')
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write_str(&format!("{text}\n"))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        write_errors(&*self.0, text.as_bytes())
    }

    fn clear_line(&self) -> io::Result<()> {
        self.write_str("\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}
