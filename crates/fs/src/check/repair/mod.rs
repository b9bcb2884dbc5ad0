//! Repairs that make something again, once bitmaps and chunk tables are right.
pub(super) mod lost_and_found;
pub(super) mod rebuild;
