//! Who makes many files in one call.

use lanefs::Ino;
use lanefs::bulk::{Applied, Change};
use std::fmt;

/// Makes changes in a volume, in their order, with the answers of [`Volume::apply`](lanefs::Volume::apply): by an engine of the caller's.
pub trait Maker: Sync {
    /// Makes them; relative paths begin in the directory `base`.
    ///
    /// # Errors
    /// The volume's; what was made before stays.
    fn make(&self, base: Ino, changes: &[Change<'_>]) -> lanefs::Result<Vec<Applied>>;
}

impl fmt::Debug for dyn Maker + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Maker")
    }
}
