//! The kernels, one module for each (`shaders/NAME.comp`).

pub(crate) mod best;
pub(crate) mod build;
pub mod columns;
pub mod fill;
pub mod find;
pub(crate) mod gather;
pub(crate) mod hash_join;
pub(crate) mod hash_text;
pub mod learn;
pub mod leaves;
pub mod lookup;
pub(crate) mod merge;
pub mod pack;
pub mod scan;
pub(crate) mod score;
pub(crate) mod seek;
pub mod stat;
pub(crate) mod tally;
pub mod walk;
pub mod warm;
