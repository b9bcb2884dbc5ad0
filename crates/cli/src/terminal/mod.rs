//! The program and its user: output, progress, interrupts, failures, exit codes.
//!
//! It knows no command.

pub mod console;
pub(crate) mod ending;
pub mod exit;
pub mod failure;
pub mod input;
pub mod interrupt;
pub mod progress;
