//! Answers to a batch of paths as columns: one array for each value that is asked for.
//!
//! A batch of a million answers of which one number is wanted each should write a million numbers. The caller
//! names the columns and owns their memory: [`Columns`] keeps it from batch to batch, and [`ColumnsMut`]
//! takes any slices, such as the arrays of another library.

use crate::error::{Error, Result};
use crate::types::{Attr, Ino, Resolution};
use lanefs_format::{Code, FileKind};

/// Receiver of the answers to a batch. Every row gets one answer, after any that a discarded attempt gave it.
pub trait Rows {
    /// Tells whether [`found`](Self::found) gets attributes.
    fn wants_attributes(&self) -> bool;

    /// The path of this row names an inode.
    fn found(&mut self, row: usize, ino: Ino, kind: FileKind, attr: Option<&Attr>);

    /// The path of this row names none.
    fn failed(&mut self, row: usize, code: Code);
}

/// Answers as [`Resolution`]s.
#[derive(Debug)]
pub struct Resolutions<'a> {
    /// One for each path.
    pub list: &'a mut [Resolution],
    /// Fill in [`Resolution::attr`].
    pub attributes: bool,
}

impl Rows for Resolutions<'_> {
    #[inline(always)]
    fn wants_attributes(&self) -> bool {
        self.attributes
    }

    #[inline(always)]
    fn found(&mut self, row: usize, ino: Ino, kind: FileKind, attr: Option<&Attr>) {
        self.list[row] =
            Resolution { code: Code::Success, ino: Some(ino), kind: Some(kind), attr: attr.copied() };
    }

    #[inline(always)]
    fn failed(&mut self, row: usize, code: Code) {
        self.list[row] = Resolution::failed(code);
    }
}

/// Declares the columns that hold attributes: name, variant of [`Column`], type, and value.
macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident $variant:ident $type:ty = $value:expr;)*) => {
        /// A value of each answer, which a caller may ask for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Column {
            /// A bit for each path: set where it names an inode.
            Exists,
            /// The number of the result code ([`Code::number`]); 0 is success.
            Code,
            /// The inode number; 0 without an inode.
            Ino,
            /// The type ([`FileKind`] as a number); 0 without an inode.
            Kind,
            $($(#[$doc])* $variant,)*
        }

        impl Column {
            /// All columns.
            pub const ALL: &[Column] =
                &[Column::Exists, Column::Code, Column::Ino, Column::Kind, $(Column::$variant,)*];
        }

        /// Columns whose memory the caller owns. A column that is not given is not written; all others have
        /// an element for each path, but `exists`, which has a word for each 64 of them. Where a path names
        /// no inode, the columns have zeros, and `code` tells why.
        #[derive(Debug, Default)]
        pub struct ColumnsMut<'a> {
            /// Bit `i % 64` of word `i / 64` is set where path `i` names an inode.
            pub exists: Option<&'a mut [u64]>,
            /// [`Code::number`] of each result.
            pub code: Option<&'a mut [u8]>,
            /// Inode numbers.
            pub ino: Option<&'a mut [u64]>,
            /// Types: [`FileKind`] as a number.
            pub kind: Option<&'a mut [u8]>,
            $($(#[$doc])* pub $name: Option<&'a mut [$type]>,)*
        }

        impl ColumnsMut<'_> {
            /// Checks that every column has an element for each of `paths` paths.
            ///
            /// # Errors
            /// [`Code::Invalid`], with the column's name.
            pub fn check(&self, paths: usize) -> Result<()> {
                let bits = self.exists.as_ref().map(|words| words.len().saturating_mul(64));
                let lengths = [
                    ("exists", bits),
                    ("code", self.code.as_ref().map(|column| column.len())),
                    ("ino", self.ino.as_ref().map(|column| column.len())),
                    ("kind", self.kind.as_ref().map(|column| column.len())),
                    $((stringify!($name), self.$name.as_ref().map(|column| column.len())),)*
                ];
                match lengths.iter().find(|(_, len)| len.is_some_and(|len| len < paths)) {
                    Some((name, _)) => {
                        let what = format!("the column {name} has no room for {paths} answers");
                        Err(Error::At { code: Code::Invalid, what })
                    }
                    None => Ok(()),
                }
            }

            #[inline(always)]
            fn put_attributes(&mut self, row: usize, attr: &Attr) {
                $(if let Some(column) = &mut self.$name {
                    column[row] = ($value)(attr);
                })*
            }

            #[inline(always)]
            fn clear_attributes(&mut self, row: usize) {
                $(if let Some(column) = &mut self.$name {
                    column[row] = 0;
                })*
            }

            fn has_attributes(&self) -> bool {
                [$(self.$name.is_some()),*].contains(&true)
            }
        }

        /// Columns that own their memory, which the next batch reuses.
        ///
        /// ```
        /// use lanefs::{Column, Columns, CreateOptions, PathSet, ResolveOptions, Volume};
        ///
        /// # fn main() -> lanefs::Result<()> {
        /// let volume = Volume::create_memory(&CreateOptions { size: 64 << 20, ..CreateOptions::default()
        /// })?; volume.write_file("/a", b"four")?;
        ///
        /// let paths: PathSet = ["/a", "/b"].into_iter().collect(); let mut answers =
        /// Columns::of(&[Column::Code, Column::Size]); let found =
        /// volume.resolve_into(&ResolveOptions::default(), &paths, &mut answers.rows(paths.len()))?;
        /// assert_eq!((found, answers.size()), (1, &[4, 0][..]));
        /// # Ok(())
        /// # }
        /// ```
        #[derive(Clone, Debug, Default)]
        pub struct Columns {
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
                ColumnsMut {
                    exists: self.exists.as_mut().map(|column| sized(column, paths.div_ceil(64))),
                    code: self.code.as_mut().map(|column| sized(column, paths)),
                    ino: self.ino.as_mut().map(|column| sized(column, paths)),
                    kind: self.kind.as_mut().map(|column| sized(column, paths)),
                    $($name: self.$name.as_mut().map(|column| sized(column, paths)),)*
                }
            }

            /// The column of bits; empty where it was not asked for.
            pub fn exists(&self) -> &[u64] {
                self.exists.as_deref().unwrap_or(&[])
            }

            /// The column of codes; empty where it was not asked for.
            pub fn code(&self) -> &[u8] {
                self.code.as_deref().unwrap_or(&[])
            }

            /// The column of inode numbers; empty where it was not asked for.
            pub fn ino(&self) -> &[u64] {
                self.ino.as_deref().unwrap_or(&[])
            }

            /// The column of types; empty where it was not asked for.
            pub fn kind(&self) -> &[u8] {
                self.kind.as_deref().unwrap_or(&[])
            }

            $($(#[$doc])* /// Empty where it was not asked for.
            pub fn $name(&self) -> &[$type] {
                self.$name.as_deref().unwrap_or(&[])
            })*
        }
    };
}

columns! {
    /// Type and permissions as in `st_mode`.
    mode Mode u16 = |attr: &Attr| attr.mode();
    /// Number of names.
    links Links u32 = |attr: &Attr| attr.links;
    /// Owner.
    uid Uid u32 = |attr: &Attr| attr.uid;
    /// Group.
    gid Gid u32 = |attr: &Attr| attr.gid;
    /// Size in bytes.
    size Size u64 = |attr: &Attr| attr.size;
    /// Number of blocks (4 KiB).
    blocks Blocks u64 = |attr: &Attr| attr.blocks;
    /// Device number of a character or block device.
    rdev Rdev u64 = |attr: &Attr| attr.rdev;
    /// Last change of the content, in nanoseconds since 1970.
    mtime Mtime i64 = |attr: &Attr| attr.mtime.0;
    /// Last change of the inode, in nanoseconds since 1970.
    ctime Ctime i64 = |attr: &Attr| attr.ctime.0;
    /// Last access, in nanoseconds since 1970.
    atime Atime i64 = |attr: &Attr| attr.atime.0;
    /// Creation, in nanoseconds since 1970.
    btime Btime i64 = |attr: &Attr| attr.btime.0;
    /// Generation of the inode number.
    generation Generation u32 = |attr: &Attr| attr.generation;
}

fn sized<T: Clone + Default>(column: &mut Vec<T>, len: usize) -> &mut [T] {
    column.resize(len, T::default());
    column
}

impl ColumnsMut<'_> {
    #[inline(always)]
    fn set(&mut self, row: usize, code: Code, ino: u64, kind: u8) {
        if let Some(words) = &mut self.exists {
            let bit = 1 << (row % 64);
            let word = &mut words[row / 64];
            *word = if code == Code::Success { *word | bit } else { *word & !bit };
        }
        if let Some(column) = &mut self.code {
            column[row] = code.number();
        }
        if let Some(column) = &mut self.ino {
            column[row] = ino;
        }
        if let Some(column) = &mut self.kind {
            column[row] = kind;
        }
    }
}

impl Rows for ColumnsMut<'_> {
    #[inline(always)]
    fn wants_attributes(&self) -> bool {
        self.has_attributes()
    }

    #[inline(always)]
    fn found(&mut self, row: usize, ino: Ino, kind: FileKind, attr: Option<&Attr>) {
        self.set(row, Code::Success, ino.0, kind as u8);
        if let Some(attr) = attr {
            self.put_attributes(row, attr);
        }
    }

    #[inline(always)]
    fn failed(&mut self, row: usize, code: Code) {
        self.set(row, code, 0, 0);
        self.clear_attributes(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Time;

    const ATTR: Attr = Attr {
        ino: Ino(9),
        kind: FileKind::File,
        perm: 0o640,
        links: 2,
        uid: 3,
        gid: 4,
        size: 5,
        blocks: 6,
        rdev: 7,
        mtime: Time(8),
        ctime: Time(9),
        atime: Time(10),
        btime: Time(11),
        generation: 12,
    };

    #[test]
    fn every_column_gets_its_value_and_zeros_without_an_inode() {
        let mut columns = Columns::of(Column::ALL);
        let mut rows = columns.rows(70);
        assert!(rows.wants_attributes());
        rows.found(1, Ino(9), FileKind::File, Some(&ATTR));
        rows.found(65, Ino(9), FileKind::File, Some(&ATTR));
        rows.found(3, Ino(9), FileKind::File, Some(&ATTR));
        rows.failed(3, Code::NotFound);
        assert_eq!(columns.exists(), [0b10, 0b10]);
        assert_eq!((columns.code()[1], columns.code()[3]), (0, Code::NotFound.number()));
        let numbers = |row: usize| {
            let (links, uid, gid) = (columns.links()[row], columns.uid()[row], columns.gid()[row]);
            let small = [links, uid, gid, columns.generation()[row]].map(i64::from);
            let times =
                [columns.mtime()[row], columns.ctime()[row], columns.atime()[row], columns.btime()[row]];
            let large = [columns.ino()[row], columns.size()[row], columns.blocks()[row], columns.rdev()[row]]
                .map(|n| n as i64);
            (columns.mode()[row], columns.kind()[row], small, times, large)
        };
        let kind = FileKind::File as u8;
        assert_eq!(numbers(1), (ATTR.mode(), kind, [2, 3, 4, 12], [8, 9, 10, 11], [9, 5, 6, 7]));
        assert_eq!(numbers(3), (0, 0, [0; 4], [0; 4], [0; 4]));
    }

    #[test]
    fn columns_that_are_not_wanted_are_empty_and_those_too_short_refused() {
        let mut columns = Columns::of(&[Column::Exists, Column::Size]);
        columns.rows(65).found(64, Ino(9), FileKind::File, Some(&ATTR));
        assert_eq!((columns.exists().len(), columns.size().len(), columns.ino().len()), (2, 65, 0));
        assert!(!Columns::of(&[Column::Exists]).rows(1).wants_attributes());
        let mut size = [0; 3];
        let rows = ColumnsMut { size: Some(&mut size), ..ColumnsMut::default() };
        rows.check(3).expect("room for three");
        let error = rows.check(4).expect_err("no room").to_string();
        assert!(error.contains("the column size has no room for 4 answers"), "{error}");
        let mut exists = [0; 1];
        let rows = ColumnsMut { exists: Some(&mut exists), ..ColumnsMut::default() };
        assert!(rows.check(64).is_ok() && rows.check(65).is_err());
    }
}
