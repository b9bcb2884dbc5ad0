//! The memory of blocks: reserved ranges, the state of each block, the words in one.
//!
//! It knows where a block lies in memory, and not when one comes or goes.

pub(crate) mod arena;
pub(crate) mod dirty;
pub(crate) mod epoch;
pub(crate) mod frames;
pub(crate) mod reserved;
pub(crate) mod slots;
pub(crate) mod state;
#[cfg(any(lanefs_planted = "race", lanefs_planted = "overrun", lanefs_planted = "alias"))]
mod undefined;
pub(crate) mod versions;
pub(crate) mod view;
