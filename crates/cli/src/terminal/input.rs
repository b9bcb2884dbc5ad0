//! Standard input that Ctrl-C can end.

use super::{console, interrupt};
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Standard input, without a buffer. Reads end soon after the user asked to stop.
#[derive(Debug, Default)]
pub struct Input {
    stop: Arc<AtomicBool>,
}

impl Input {
    /// A flag that ends reads as if the user had asked to stop, for a reader whose results are no longer
    /// needed.
    pub fn stopper(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let is_over = || interrupt::raised() || self.stop.load(Ordering::Relaxed);
        console::read_input(buffer, &is_over)
    }
}
