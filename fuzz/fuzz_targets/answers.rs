//! Makes a batch of changes with an engine for directories, such as a GPU, whose answers the input chooses.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lanefs_fuzz::answers(data));
