//! Declarations that Rust and GLSL share: structures, constants, the layout of columns, limits of a batch.
//!
//! Each is declared once; the shaders' headers are generated from it.

pub(crate) mod column_layout;
pub(crate) mod exported;
pub(crate) mod layout;
pub(crate) mod limits;
pub(crate) mod query;
pub(crate) mod structures;
pub(crate) mod tasks;
