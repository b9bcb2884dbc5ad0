//! Columns that keep their memory from batch to batch.

use super::column::Column;
use super::lent::ColumnsMut;
use super::table::attribute_columns;
use crate::vocabulary::types::Ino;
use lanefs_format::{Code, FileKind};

/// Declares the columns that own their memory.
macro_rules! declare_owned {
    ($($(#[$doc:meta])* $name:ident $variant:ident $type:ident from $wire:ident = $value:expr;)*) => {
        /// Columns that own their memory, which the next batch reuses.
        ///
        /// ```
        /// use lanefs::{Code, Column, Columns, CreateOptions, PathSet, ResolveOptions, Volume};
        ///
        /// # fn main() -> lanefs::Result<()> {
        /// let options = CreateOptions { size: 64 << 20, ..CreateOptions::default() };
        /// let volume = Volume::create_memory(&options)?;
        /// volume.write_file("/a", b"four")?;
        ///
        /// let paths: PathSet = ["/a", "/b"].into_iter().collect();
        /// let mut answers = Columns::of(&[Column::Code, Column::Size]);
        /// let options = ResolveOptions::default();
        /// let found = volume.resolve_into(&options, &paths, &mut answers.rows(paths.len()))?;
        /// assert_eq!((found, answers.size()), (1, Some(&[4, 0][..])));
        /// assert_eq!(answers.row(1).and_then(|row| row.code), Some(Code::NotFound));
        /// # Ok(())
        /// # }
        /// ```
        #[derive(Clone, Debug, Default)]
        pub struct Columns {
            /// Paths of the last batch.
            paths: usize,
            exists: Option<Vec<u64>>,
            code: Option<Vec<u8>>,
            ino: Option<Vec<u64>>,
            kind: Option<Vec<u8>>,
            $($name: Option<Vec<$type>>,)*
        }

        impl Columns {
            /// Returns empty columns of these kinds.
            pub fn of(wanted: &[Column]) -> Columns {
                let mut columns = Columns::default();
                for column in wanted {
                    match column {
                        Column::Exists => columns.exists = Some(Vec::new()),
                        Column::Code => columns.code = Some(Vec::new()),
                        Column::Ino => columns.ino = Some(Vec::new()),
                        Column::Kind => columns.kind = Some(Vec::new()),
                        $(Column::$variant => columns.$name = Some(Vec::new()),)*
                    }
                }
                columns
            }

            /// Gives every column room for the answers to `paths` paths, and lends them to a batch.
            pub fn rows(&mut self, paths: usize) -> ColumnsMut<'_> {
                self.paths = paths;
                ColumnsMut {
                    exists: self.exists.as_mut().map(|column| sized(column, paths.div_ceil(64))),
                    code: self.code.as_mut().map(|column| sized(column, paths)),
                    ino: self.ino.as_mut().map(|column| sized(column, paths)),
                    kind: self.kind.as_mut().map(|column| sized(column, paths)),
                    $($name: self.$name.as_mut().map(|column| sized(column, paths)),)*
                }
            }

            /// Number of paths of the last batch.
            pub fn len(&self) -> usize {
                self.paths
            }

            /// True before the first batch, and after one without paths.
            pub fn is_empty(&self) -> bool {
                self.paths == 0
            }

            /// The answer to one path of the last batch; `None` after its end.
            pub fn row(&self, path: usize) -> Option<Row> {
                if path >= self.paths {
                    return None;
                }
                let is_set = |words: &Vec<u64>| words.get(path / 64).map(|word| word >> (path % 64) & 1 != 0);
                Some(Row {
                    exists: self.exists.as_ref().and_then(is_set),
                    code: value(&self.code, path).and_then(Code::from_number),
                    ino: value(&self.ino, path).filter(|ino| *ino != 0).map(Ino),
                    kind: value(&self.kind, path).and_then(FileKind::from_number),
                    $($name: value(&self.$name, path),)*
                })
            }

            /// The answers to the paths of the last batch, in their order.
            pub fn iter(&self) -> impl Iterator<Item = Row> {
                (0..self.paths).filter_map(|path| self.row(path))
            }

            /// The column of bits; `None` where it was not asked for.
            pub fn exists(&self) -> Option<&[u64]> {
                self.exists.as_deref()
            }

            /// The column of codes; `None` where it was not asked for.
            pub fn code(&self) -> Option<&[u8]> {
                self.code.as_deref()
            }

            /// The column of inode numbers; `None` where it was not asked for.
            pub fn ino(&self) -> Option<&[u64]> {
                self.ino.as_deref()
            }

            /// The column of types; `None` where it was not asked for.
            pub fn kind(&self) -> Option<&[u8]> {
                self.kind.as_deref()
            }

            $($(#[$doc])* /// `None` where it was not asked for.
            pub fn $name(&self) -> Option<&[$type]> {
                self.$name.as_deref()
            })*
        }

        /// The answer to one path, as [`Columns`] have it. A value is `None` where its column was not asked
        /// for; inode and type also where the path names no inode, and attributes are 0 then.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Row {
            /// True where the path names an inode.
            pub exists: Option<bool>,
            /// The result code.
            pub code: Option<Code>,
            /// The inode number.
            pub ino: Option<Ino>,
            /// The type.
            pub kind: Option<FileKind>,
            $($(#[$doc])* pub $name: Option<$type>,)*
        }
    };
}

attribute_columns!(declare_owned);

/// The value of a column for a path.
fn value<T: Copy>(column: &Option<Vec<T>>, path: usize) -> Option<T> {
    column.as_ref()?.get(path).copied()
}

fn sized<T: Clone + Default>(column: &mut Vec<T>, len: usize) -> &mut [T] {
    column.resize(len, T::default());
    column
}
