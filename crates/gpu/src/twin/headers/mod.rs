//! The functions that kernels share, one module for each header of the shaders (`shaders/NAME.glsl`).

pub(crate) mod blake3;
pub mod cache;
pub mod dir_table;
pub(crate) mod directory;
pub(crate) mod fuel;
pub(crate) mod hash;
pub(crate) mod links;
pub(crate) mod memory;
pub(crate) mod name;
pub(crate) mod settings;
pub mod woven;
