//! Imports the input as an archive: tar, plain, gzip or zstd.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lanefs_fuzz::archive(data));
