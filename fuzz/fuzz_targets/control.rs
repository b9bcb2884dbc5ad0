//! Receives the input as messages to the server of a mount.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lanefs_fuzz::control(data));
