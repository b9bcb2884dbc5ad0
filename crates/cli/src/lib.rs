//! The command line of LaneFS.
//!
//! [`cli`] defines the command tree, [`run`] executes it, [`exit`] and [`failure`] define how it ends. Each
//! module of [`commands`] is one command: a function over an open volume, a working directory, parsed
//! arguments and an output. One-shot commands, the shell and commands on mounted volumes therefore run the
//! same code. Commands do not depend on the tree above them, nor on each other: the modules next to
//! [`commands`] contain the code that they share.
//!
//! This crate does not know the format of a volume; it uses the [`lanefs`] API only.
#![forbid(unsafe_code)]

pub mod bytes;
pub mod cli;
pub mod command;
pub mod commands;
pub mod console;
pub mod context;
mod ending;
pub mod engine;
pub mod escape;
pub mod exit;
pub mod expansion;
pub mod failure;
pub mod fuzzy_names;
pub mod identity;
pub mod image;
pub mod input;
pub mod interrupt;
pub mod json;
pub mod metrics;
pub mod mode;
mod mount_helper;
pub mod mount_options;
pub mod mounted;
pub mod new_file;
pub mod output_file;
pub mod progress;
pub mod publication;
pub mod run;
pub mod search_files;
pub mod set_attributes;
pub mod size;
pub mod time;
pub mod transfer;
pub mod usage;
pub mod users;
pub mod walk;
pub mod words;

pub use run::main;
