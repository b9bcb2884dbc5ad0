//! The fuzz targets of LaneFS: each takes the fuzzer's bytes and gives them to code that reads foreign ones.
//!
//! Errors are fine. A panic, a hang, a memory error, or a repair that does not last is a finding.

mod answers;
mod archive;
mod control;
mod image;
mod input;
mod journal;
mod publication;
mod words;

pub use answers::answers;
pub use archive::archive;
pub use control::control;
pub use image::image;
pub use journal::journal;
pub use publication::publication;
pub use words::words;
