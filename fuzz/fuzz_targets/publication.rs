//! Parses the input as a root, also that of a join, and as a piece in frames.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lanefs_fuzz::publication(data));
