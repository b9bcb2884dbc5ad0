//! Recovers a volume that was not closed, with a journal that the input edits.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lanefs_fuzz::journal(data));
