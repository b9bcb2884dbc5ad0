//! Splits the input as a line of the shell, quotes and escapes it, and parses it as a command line.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lanefs_fuzz::words(data));
