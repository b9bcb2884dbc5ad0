//! The terminal of a picker: standard error, with keys from standard input.

use crate::terminal::failure::Failure;
use crate::terminal::{exit, interrupt};
use crossterm::cursor::Show;
use crossterm::event::{self, Event};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use lanefs::host_text;
use std::io::{self, Write};
use std::panic::{self, PanicHookInfo};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest wait for a key before the program checks again whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Size of a terminal that does not tell its own.
const DEFAULT_SIZE: (usize, usize) = (80, 24);

/// The terminal is in the picker's mode.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

type Hook = dyn Fn(&PanicHookInfo<'_>) + Send + Sync;

/// A terminal in the picker's mode, until it is dropped.
pub(super) struct Terminal {
    /// The reporter of panics before this one.
    hook: Arc<Hook>,
}

impl Terminal {
    /// Changes the terminal's mode.
    ///
    /// # Errors
    /// The terminal's.
    pub(super) fn enter() -> Result<Terminal, Failure> {
        interrupt::before_exit(restore);
        let hook: Arc<Hook> = panic::take_hook().into();
        let terminal = Terminal { hook: hook.clone() };
        panic::set_hook(Box::new(move |info| {
            restore();
            hook(info);
        }));
        IS_TAKEN.store(true, Ordering::SeqCst);
        enable_raw_mode().map_err(failure)?;
        execute!(io::stderr(), EnterAlternateScreen).map_err(failure)?;
        Ok(terminal)
    }

    /// Columns and rows.
    pub(super) fn size(&self) -> (usize, usize) {
        match rustix::termios::tcgetwinsize(io::stderr()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => DEFAULT_SIZE,
        }
    }

    /// # Errors
    /// The terminal's.
    pub(super) fn draw(&mut self, frame: &[u8]) -> Result<(), Failure> {
        let mut errors = io::stderr().lock();
        errors.write_all(frame).and_then(|()| errors.flush()).map_err(failure)
    }

    /// Waits for an event; `None` after a while.
    ///
    /// # Errors
    /// The terminal's.
    pub(super) fn next_event(&mut self) -> Result<Option<Event>, Failure> {
        event_within(POLL_INTERVAL)
    }

    /// An event that has happened already.
    ///
    /// # Errors
    /// The terminal's.
    pub(super) fn waiting_event(&mut self) -> Result<Option<Event>, Failure> {
        event_within(Duration::ZERO)
    }
}

fn event_within(time: Duration) -> Result<Option<Event>, Failure> {
    match event::poll(time).map_err(failure)? {
        true => event::read().map(Some).map_err(failure),
        false => Ok(None),
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
        // A panicking thread may not change the hook.
        if !std::thread::panicking() {
            let hook = self.hook.clone();
            panic::set_hook(Box::new(move |info| hook(info)));
        }
    }
}

/// Gives the terminal back its mode.
fn restore() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        // A terminal that is gone needs nothing.
        let _ = execute!(io::stderr(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

fn failure(error: io::Error) -> Failure {
    Failure::new(exit::HOST, "terminal", &host_text(&error), "use --filter")
}
