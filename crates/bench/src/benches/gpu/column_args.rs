//! The rows of batches whose answers go to columns, and the arguments that choose among them.

use lanefs::Column;

/// The answers that a batch asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Answers {
    /// One bit a path
    Exists,
    /// The inode's number
    Ino,
    /// Inode, mode, size and time of the last change of content
    Attrs,
}

impl Answers {
    pub(super) fn columns(self) -> &'static [Column] {
        match self {
            Answers::Exists => &[Column::Exists],
            Answers::Ino => &[Column::Ino],
            Answers::Attrs => &[Column::Ino, Column::Mode, Column::Size, Column::Mtime],
        }
    }
}

/// The memory that has the paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Source {
    /// The host's: the paths go to the device with each batch
    Host,
    /// The device's: the paths were brought before
    Device,
}

/// The rows to measure, and their number of paths.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ColumnArgs {
    /// Files of the tree of paths [default: 1000000, with --quick 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub files: Option<u32>,
    /// Paths of a batch of columns: each file in random order, again from the first where they are more
    /// [default: one per file]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    pub paths: Option<u32>,
    /// Measure only rows of columns, and those with these answers
    #[arg(long, value_name = "ANSWERS", value_delimiter = ',')]
    pub columns: Vec<Answers>,
    /// Measure only rows of columns, and those with the paths in this memory
    #[arg(long, value_name = "MEMORY", value_delimiter = ',')]
    pub from: Vec<Source>,
}

impl ColumnArgs {
    /// Tells whether other rows are left out.
    pub(super) fn is_alone(&self) -> bool {
        !self.columns.is_empty() || !self.from.is_empty()
    }

    /// Returns the rows that were asked for.
    pub(super) fn rows(&self) -> impl Iterator<Item = &'static ColumnRow> {
        let has = |row: &&ColumnRow| {
            (self.columns.is_empty() || self.columns.contains(&row.answers))
                && (self.from.is_empty() || self.from.contains(&row.source))
        };
        ROWS.iter().filter(has)
    }
}

/// A row.
#[derive(Debug)]
pub(super) struct ColumnRow {
    pub(super) name: &'static str,
    pub(super) answers: Answers,
    pub(super) source: Source,
}

/// All rows.
pub(super) const ROWS: [ColumnRow; 6] = [
    ColumnRow { name: "gpu-exists-host", answers: Answers::Exists, source: Source::Host },
    ColumnRow { name: "gpu-ino-host", answers: Answers::Ino, source: Source::Host },
    ColumnRow { name: "gpu-attrs-host", answers: Answers::Attrs, source: Source::Host },
    ColumnRow { name: "gpu-exists-device", answers: Answers::Exists, source: Source::Device },
    ColumnRow { name: "gpu-ino-device", answers: Answers::Ino, source: Source::Device },
    ColumnRow { name: "gpu-attrs-device", answers: Answers::Attrs, source: Source::Device },
];
