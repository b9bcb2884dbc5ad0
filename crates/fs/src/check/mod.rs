//! Checking a volume, and mending it.

use crate::{Result, Volume};

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Inodes in use.
    pub inodes: u64,
    /// Directories among them.
    pub directories: u64,
    /// Blocks in use.
    pub blocks: u64,
}

/// One fault.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Byte position.
    pub at: u64,
    /// Stable name of the invariant in kebab-case, such as `link-count`.
    pub invariant: &'static str,
    /// What is wrong, for people.
    pub text: String,
    /// True once mended.
    pub repaired: bool,
}

impl Volume {
    /// Stub.
    ///
    /// # Errors
    /// None.
    pub fn check(&self, _repair: bool, _progress: &(dyn Fn(u64, u64) + Sync)) -> Result<CheckReport> {
        Ok(CheckReport::default())
    }
}
