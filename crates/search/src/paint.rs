//! Outputs with or without colours.

use std::io::{Error, Result, Write};
use termcolor::{Ansi, ColorSpec, WriteColor};

/// An output whose colours are ANSI sequences, or left out.
pub(crate) struct Paint<W> {
    pub(crate) out: W,
    pub(crate) is_colored: bool,
}

impl<W: Write> Write for Paint<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.out.flush()
    }
}

impl<W: Write> WriteColor for Paint<W> {
    fn supports_color(&self) -> bool {
        self.is_colored
    }

    fn set_color(&mut self, spec: &ColorSpec) -> Result<()> {
        if self.is_colored { Ansi::new(&mut self.out).set_color(spec) } else { Ok(()) }
    }

    fn reset(&mut self) -> Result<()> {
        if self.is_colored { Ansi::new(&mut self.out).reset() } else { Ok(()) }
    }
}

/// Memory that takes a limited number of bytes.
pub(crate) struct Bounded {
    pub(crate) bytes: Vec<u8>,
    limit: usize,
    /// A write was refused.
    pub(crate) is_full: bool,
}

impl Bounded {
    pub(crate) fn new(limit: usize) -> Self {
        Bounded { bytes: Vec::new(), limit, is_full: false }
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        if self.bytes.len().saturating_add(bytes.len()) > self.limit {
            self.is_full = true;
            return Err(Error::other("the buffer is full"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
