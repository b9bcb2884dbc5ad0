//! Objects of publications that a store gives.

use lanefs_publish::testing;

/// Parses the input as a root, also that of a join, and as a piece in frames.
pub fn publication(data: &[u8]) {
    testing::root(data);
    testing::frames(data);
}
