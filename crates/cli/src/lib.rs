//! The command line of LaneFS: one function for each command, over an open volume, a working directory, parsed
//! arguments and an output, so that a one-shot command and the shell run the same code.
//!
//! [`cli`] defines what can be written, [`run`] does it, [`exit`] says what comes of it. What must never be known here
//! is the format of a volume: everything goes through the [`lanefs`] API.
#![forbid(unsafe_code)]

mod ahead;
pub mod bytes;
pub mod cli;
pub mod commands;
pub mod console;
pub mod context;
pub mod demo;
mod engine;
pub mod escape;
pub mod exit;
pub mod image;
pub mod import_export;
pub mod input;
pub mod interrupt;
mod maker;
pub mod metrics;
pub mod mode;
pub mod mounting;
pub mod progress;
pub mod run;
pub mod shell;
pub mod size;
pub mod time;
pub mod users;
pub mod walk;

pub use run::main;
