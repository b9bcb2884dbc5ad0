//! The table of a program that was built without the feature `parquet`.

use crate::commands::inventory::rows::Rows;
use crate::terminal::exit;
use crate::terminal::failure::Failure;
use std::io::{self, Write};

/// There is none.
pub(in crate::commands::inventory) enum NoTable {}

impl NoTable {
    /// # Errors
    /// Says how to build a program that writes tables.
    pub(in crate::commands::inventory) fn create(_: Box<dyn Write + Send>, _: bool) -> Result<Self, Failure> {
        let what = "this program was built without tables";
        Err(Failure::new(exit::HOST, "inventory", what, "build it with the feature `parquet`"))
    }

    /// # Errors
    /// None.
    pub(in crate::commands::inventory) fn write(&mut self, _: Rows) -> io::Result<()> {
        match *self {}
    }

    /// # Errors
    /// None.
    pub(in crate::commands::inventory) fn finish(self) -> io::Result<()> {
        match self {}
    }
}
