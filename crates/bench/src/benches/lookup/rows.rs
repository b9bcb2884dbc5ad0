//! The rows: which paths, in which order, by how many threads, with which answers.

use crate::systems::system::Expect;
use lanefs::Column;

/// Order of the paths, and whether they exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Shuffled,
    Sorted,
    Absent,
}

/// Events before and beside the lookups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    Nothing,
    /// The directory-path table is empty at the start.
    Cold,
    /// A directory is renamed once in so many lookups. No path of the row leads through it.
    Moves(usize),
    /// The same, and the table knows a path through it.
    KnownMoves(usize),
    /// The paths come one by one, so many of them in flight: a service gathers them.
    Gathered(usize),
}

/// A row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) name: &'static str,
    pub(super) order: Order,
    pub(super) threads: usize,
    pub(super) columns: &'static [Column],
    pub(super) beside: Beside,
    /// Goals: nanoseconds at most, and times as fast as ext4.
    pub(super) most: Option<f64>,
    pub(super) times_ext4: Option<f64>,
}

impl Work {
    pub(super) fn expect(&self) -> Expect {
        if self.order == Order::Absent { Expect::Absent } else { Expect::Found }
    }
}

/// The attributes for which a program that loads data asks.
const ATTRIBUTES: &[Column] = &[Column::Ino, Column::Mode, Column::Size, Column::Mtime];
const EXISTS: &[Column] = &[Column::Exists];

const ROW: Work = Work {
    name: "lookup-warm-1t",
    order: Order::Shuffled,
    threads: 1,
    columns: ATTRIBUTES,
    beside: Beside::Nothing,
    most: None,
    times_ext4: None,
};

/// All rows. Those of one order are measured together.
pub(super) const ROWS: &[Work] = &[
    Work { name: "lookup-cold-1t", beside: Beside::Cold, ..ROW },
    Work { most: Some(200.0), times_ext4: Some(14.0), ..ROW },
    Work { name: "lookup-warm-2t", threads: 2, ..ROW },
    Work { name: "lookup-exists-1t", columns: EXISTS, most: Some(200.0), ..ROW },
    Work { name: "lookup-moves-1t", beside: Beside::Moves(10_000), ..ROW },
    Work { name: "lookup-known-moves-1t", beside: Beside::KnownMoves(10_000), ..ROW },
    Work { name: "lookup-gathered-1t", beside: Beside::Gathered(1024), ..ROW },
    Work { name: "lookup-sorted-1t", order: Order::Sorted, ..ROW },
    Work { name: "lookup-absent-1t", order: Order::Absent, ..ROW },
];

/// Lists every row, in the order measured.
pub fn row_names() -> Vec<String> {
    ROWS.iter().map(|work| work.name.into()).collect()
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
