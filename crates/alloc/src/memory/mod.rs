//! Pages in regions, and the pool that hands them out in units.
//!
//! It knows runs of pages, and not what lies in them.

pub(crate) mod backend;
mod pool;
pub(crate) mod unit;
