//! Receives the input as a request to a mount's control socket.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lanefs_fuzz::control(data));
