//! The command line of LaneFS.
//!
//! [`cli`] defines the command tree, [`run`] executes it, [`terminal`] defines how it ends. Each module of
//! [`commands`] is one command: a function over an open volume, a working directory, parsed arguments and an
//! output. One-shot commands, the shell and commands on mounted volumes therefore run the same code. Commands
//! do not depend on the tree above them, nor on each other: [`common`] contains the code that they share.
//!
//! This crate does not know the format of a volume; it uses the [`lanefs`] API only.
//!
//! # Modules
//!
//! Each module refers to modules of the lines above it only, so this table is also an order to read them in.
//!
//! | module | what it knows |
//! |---|---|
//! | [`text`] | values as people write and read them: sizes, times, modes, escapes, JSON |
//! | [`terminal`] | output, progress, interrupts, failures, exit codes |
//! | [`session`] | the volume of a command: an image, a mount, a publication; what a command is |
//! | [`common`] | what several commands do: walks, transfers, the choice of an engine, searches |
//! | [`commands`] | one module each |
//! | [`cli`] | the tree of commands and their arguments |
//! | `mount_helper` | `mount.lanefs`, as mount(8) calls it |
//! | [`run`] | a run of the program, from its arguments to its exit code |

#![forbid(unsafe_code)]

pub mod cli;
pub mod commands;
pub mod common;
mod mount_helper;
pub mod run;
pub mod session;
pub mod terminal;
pub mod text;

pub use run::main;
