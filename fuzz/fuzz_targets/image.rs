//! Opens, walks, checks, repairs and changes a small volume whose metadata the input edits.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lanefs_fuzz::image(data));
