//! One planted fault for each invariant.

mod directories;
mod inodes;
mod places;
mod volume;

use crate::check::image::Image;

pub(crate) use places::{FixtureInodes, entry_of, extent_at, pointers};

pub(crate) type Fault = (&'static str, fn(&mut Image<'_>, &FixtureInodes));

/// Invariants, and a fault for each. Some appear twice, with the fault in another structure.
pub(crate) fn faults() -> impl Iterator<Item = &'static Fault> {
    [volume::FAULTS, inodes::FAULTS, directories::FAULTS].into_iter().flatten()
}
