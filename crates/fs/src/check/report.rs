//! What a check tells its caller.

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Inodes in use.
    pub inodes: u64,
    /// Directories among them.
    pub directories: u64,
    /// Those without a name, which somebody held.
    pub orphans: u64,
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
