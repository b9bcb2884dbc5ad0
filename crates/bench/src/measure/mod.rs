//! A measurement: repetition, values, reports, plots, and the machine that they were made on.
//!
//! It knows no file system.

#[cfg(test)]
pub(crate) mod documented;
pub mod machine;
pub mod plot;
pub(crate) mod progress;
pub mod report;
pub(crate) mod selection;
pub mod stop;
pub(crate) mod threads;
pub(crate) mod values;
