//! The built program, run as a user runs it: every command, on good and bad input.

mod common;
mod files;
mod lookup;
mod shell;
mod volumes;
