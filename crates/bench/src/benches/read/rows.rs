//! The rows: how many threads read, and what is in memory before.

/// A row in which files are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadWork {
    pub(super) name: &'static str,
    pub(super) threads: usize,
    /// Files of one call of LaneFS.
    pub(super) batch: usize,
    /// Nothing is in memory before each run.
    pub(super) is_cold: bool,
    /// Peers, and times as fast as they are.
    pub(super) goals: &'static [(&'static str, f64)],
}

/// The row in which the files are made.
pub(super) const MAKE: &str = "write-many-1t";

const WARM: ReadWork = ReadWork {
    name: "read-warm-1t",
    threads: 1,
    batch: 256,
    is_cold: false,
    goals: &[("ext4", 4.0), ("tar", 1.0)],
};
const COLD: ReadWork = ReadWork {
    name: "read-cold-1t",
    threads: 1,
    batch: 1024,
    is_cold: true,
    goals: &[("ext4", 1.0), ("tar", 1.0)],
};

/// The rows in which files are read.
pub(super) const ROWS: &[ReadWork] = &[
    WARM,
    ReadWork { name: "read-warm-2t", threads: 2, ..WARM },
    COLD,
    ReadWork { name: "read-cold-2t", threads: 2, ..COLD },
];

/// Lists every row, in the order measured.
pub fn row_names() -> Vec<String> {
    std::iter::once(MAKE).chain(ROWS.iter().map(|work| work.name)).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::documented::assert_documented;

    #[test]
    fn the_documentation_names_every_row() {
        assert_documented(row_names());
    }
}
