//! Searches beside other programs and simple models.
//!
//! All tests are modules of one program: each program costs a link.

mod duplicates;
mod fuzzy;
mod prefilter;
