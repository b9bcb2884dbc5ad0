//! The report of a check.

/// The findings and counts of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// The findings.
    pub findings: Vec<Finding>,
    /// Repairs that could not be made: each names the file and what to do, for people. Empty unless a repair
    /// leaves findings.
    pub obstacles: Vec<String>,
    /// Observations that are not faults, for people: traces of a crash that every reader passes over.
    pub notes: Vec<String>,
    /// Inodes in use.
    pub inodes: u64,
    /// Directories among them.
    pub directories: u64,
    /// Inodes without a name, which a program held.
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
    /// The fault, for people.
    pub text: String,
    /// True once repaired.
    pub repaired: bool,
}
