//! The built program, run as a user runs it: every command, on good and bad input.

mod common;
mod files;
mod imports;
mod lookup;
mod mount;
mod mounted;
mod mounted_caches;
mod shell;
mod volumes;
