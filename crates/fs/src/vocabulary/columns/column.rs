//! The columns, and sets of them.

use super::table::attribute_columns;

/// Declares the columns.
macro_rules! declare_columns {
    ($($(#[$doc:meta])* $name:ident $variant:ident $type:ident from $wire:ident = $value:expr;)*) => {
        /// A value of each answer, which a caller may ask for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Column {
            /// A bit for each path: set where it names an inode.
            Exists,
            /// The number of the result code ([`Code::number`](lanefs_format::Code::number)); 0 is success.
            Code,
            /// The inode number; 0 without an inode.
            Ino,
            /// The type ([`FileKind`](lanefs_format::FileKind) as a number); 0 without an inode.
            Kind,
            $($(#[$doc])* $variant,)*
        }

        impl Column {
            /// All columns.
            pub const ALL: &[Column] =
                &[Column::Exists, Column::Code, Column::Ino, Column::Kind, $(Column::$variant,)*];

            /// Those that hold attributes, in the order of [`ALL`](Self::ALL).
            pub const ATTRIBUTES: &[Column] = &[$(Column::$variant,)*];

            /// Bytes of an element of this column in an [`AttributeBlock`](super::block::AttributeBlock); 0 for
            /// one without an attribute.
            pub const fn width(self) -> usize {
                match self {
                    Column::Exists | Column::Code | Column::Ino | Column::Kind => 0,
                    $(Column::$variant => size_of::<$wire>(),)*
                }
            }
        }
    };
}

attribute_columns!(declare_columns);

/// A set of columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ColumnSet(pub(super) u32);

impl ColumnSet {
    /// Code, inode and type.
    pub const ENTRIES: ColumnSet = ColumnSet::of(&[Column::Code, Column::Ino, Column::Kind]);

    /// All columns.
    pub const ALL: ColumnSet = ColumnSet::of(Column::ALL);

    /// Returns the set of these columns.
    pub const fn of(columns: &[Column]) -> ColumnSet {
        let (mut bits, mut i) = (0, 0);
        while i < columns.len() {
            bits |= 1 << columns[i] as u32;
            i += 1;
        }
        ColumnSet(bits)
    }

    /// Tells whether a column is in the set.
    pub const fn contains(self, column: Column) -> bool {
        self.0 >> column as u32 & 1 != 0
    }

    /// Returns the attributes in the set: all but existence, code, inode and type.
    pub const fn attributes(self) -> ColumnSet {
        ColumnSet(self.0 & ColumnSet::of(Column::ATTRIBUTES).0)
    }

    /// Tells whether the set has no column.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Tells whether no more is wanted than which paths name an inode.
    pub const fn is_existence(self) -> bool {
        self.0 & !ColumnSet::of(&[Column::Exists]).0 == 0
    }

    /// A bit for each column, by its place in [`Column::ALL`].
    pub const fn bits(self) -> u32 {
        self.0
    }
}
