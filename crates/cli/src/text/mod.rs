//! Values as people write and read them: sizes, counts, times, modes, escapes, JSON.
//!
//! It knows neither volumes nor terminals.

pub mod bytes;
pub mod count;
pub mod escape;
pub mod identity;
pub mod json;
pub mod mode;
pub mod size;
pub mod time;
pub mod words;
