//! Answers to a batch of paths as columns: one array for each value that is asked for.
//!
//! A batch of a million answers of which one number is wanted each should write a million numbers. The caller
//! names the columns and owns their memory: [`Columns`] keeps it from batch to batch, and [`ColumnsMut`]
//! takes any slices, such as the arrays of another library.

use super::error::{Error, Result};
use super::types::{Attr, Ino, Resolution, Time};
use lanefs_format::{Code, FileKind};

/// Receiver of the answers to a batch. Every row gets one answer, after any that a discarded attempt gave it.
pub trait Rows {
    /// Returns the values that the receiver uses. With [attributes](ColumnSet::attributes) among them
    /// [`found`](Self::found) gets all attributes; [`answered`](Self::answered) gets those that are wanted, and
    /// blocks [of bits](AnswerBlock::of_bits) where no more than existence is.
    fn wants(&self) -> ColumnSet;

    /// The path of this row names an inode.
    fn found(&mut self, row: usize, ino: Ino, kind: FileKind, attr: Option<&Attr>);

    /// The path of this row names none.
    fn failed(&mut self, row: usize, code: Code);

    /// The answers to the paths of several rows, from `first` on. Those that are [`Code::NotResident`] come
    /// later, by one of the calls above.
    fn answered(&mut self, first: usize, answers: &AnswerBlock<'_>) {
        for i in 0..answers.len {
            match (Code::from_number(answers.code[i]), FileKind::from_number(answers.kind[i])) {
                (Some(Code::Success), Some(kind)) => {
                    let attr = answers.attr(i);
                    self.found(first + i, Ino(answers.ino[i]), kind, attr.as_ref());
                }
                (Some(Code::NotResident), _) => {}
                (code, _) => self.failed(first + i, code.unwrap_or(Code::InvariantViolated)),
            }
        }
    }

    /// Returns the columns of a receiver that is nothing but columns. An engine may
    /// [divide](ColumnsMut::split_at_row) them, and have several threads write answers at a time.
    fn as_columns(&mut self) -> Option<ColumnsMut<'_>> {
        None
    }
}

/// A bit for each number that stands for a type.
const KINDS: u32 = {
    let (mut bits, mut number) = (0, 0);
    while number < 16 {
        bits |= (FileKind::from_number(number).is_some() as u32) << number;
        number += 1;
    }
    bits
};

const _: () = assert!(Code::Success.number() == 0, "a row of zeros is a success");

/// Rows of an [`AnswerBlock`] at most: one word of the column of bits.
pub const ANSWER_BLOCK: usize = 64;

/// Answers to some paths side by side, from an engine that has copies of inodes.
#[derive(Clone, Debug)]
pub struct AnswerBlock<'a> {
    code: [u8; ANSWER_BLOCK],
    kind: [u8; ANSWER_BLOCK],
    ino: [u64; ANSWER_BLOCK],
    attributes: AttributeBlock<'a>,
    len: usize,
    /// A bit for each row that names an inode, and for each that is open.
    found: u64,
    open: u64,
}

impl<'a> AnswerBlock<'a> {
    /// Returns answers to `len` paths, [`ANSWER_BLOCK`] at most, all of them open, with the attributes that
    /// are wanted: an element for each path, zeros where it names no inode.
    pub fn new(len: usize, attributes: AttributeBlock<'a>) -> Self {
        let code = [Code::NotResident.number(); ANSWER_BLOCK];
        let len = len.min(ANSWER_BLOCK);
        let (kind, ino) = ([0; ANSWER_BLOCK], [0; ANSWER_BLOCK]);
        let mut block = AnswerBlock { code, kind, ino, attributes, len, found: 0, open: 0 };
        block.open = block.mask();
        block
    }

    /// Returns answers to `len` paths, [`ANSWER_BLOCK`] at most, for a receiver that wants no more than
    /// existence: a bit for each path that names an inode, and for each that is open.
    pub fn of_bits(len: usize, found: u64, open: u64) -> Self {
        let mut block = AnswerBlock::new(len, AttributeBlock::default());
        // A path that is said to be both is open.
        (block.found, block.open) = (found & !open & block.mask(), open & block.mask());
        block
    }

    /// Fills in answers, by the numbers of their codes and types and by their inodes. One that makes no sense
    /// stays open, so that the host decides.
    #[inline(always)]
    pub fn fill(&mut self, answer: impl Fn(usize) -> (u8, u8, u64)) {
        let is_kind = |kind: u8| kind < 16 && KINDS >> kind & 1 != 0;
        for i in 0..self.len.min(ANSWER_BLOCK) {
            let (code, kind, ino) = answer(i);
            let is_found = code == 0 && is_kind(kind);
            let is_failure = code != 0 && usize::from(code) < Code::ALL.len();
            self.code[i] = if is_found || is_failure { code } else { Code::NotResident.number() };
            self.kind[i] = if is_found { kind } else { 0 };
            self.ino[i] = if is_found { ino } else { 0 };
        }
        (self.found, self.open) = (self.rows_with(Code::Success), self.rows_with(Code::NotResident));
    }

    /// A bit for each row with this code.
    #[inline(always)]
    fn rows_with(&self, code: Code) -> u64 {
        const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
        let pattern = u64::from(code.number()) * 0x0101_0101_0101_0101;
        let mut bits = 0;
        for (i, word) in self.code.as_chunks::<8>().0.iter().enumerate() {
            let differs = u64::from_le_bytes(*word) ^ pattern;
            // The highest bit of each byte that is zero, and then these eight bits side by side.
            let zeros = !(((differs & LOW) + LOW) | differs | LOW);
            bits |= ((zeros >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i);
        }
        bits & self.mask()
    }

    /// A bit for each row.
    #[inline(always)]
    fn mask(&self) -> u64 {
        if self.len == ANSWER_BLOCK { u64::MAX } else { (1 << self.len) - 1 }
    }

    /// Counts the paths that name an inode.
    pub fn found(&self) -> usize {
        self.found.count_ones() as usize
    }

    /// The rows that are open.
    pub fn open(&self) -> impl Iterator<Item = usize> {
        let mut bits = self.open;
        std::iter::from_fn(move || {
            let next = bits.trailing_zeros() as usize;
            bits &= bits.wrapping_sub(1);
            (next < ANSWER_BLOCK).then_some(next)
        })
    }

    /// The attributes of an inode that was found, where all are wanted.
    #[inline(always)]
    fn attr(&self, i: usize) -> Option<Attr> {
        let all = &self.attributes;
        let mode = all.mode(i)?;
        Some(Attr {
            ino: Ino(self.ino[i]),
            kind: FileKind::from_mode(mode)?,
            perm: mode & 0o7777,
            links: all.links(i)?,
            uid: all.uid(i)?,
            gid: all.gid(i)?,
            size: all.size(i)?,
            blocks: all.blocks(i)?,
            rdev: all.rdev(i)?,
            mtime: Time(all.mtime(i)?),
            ctime: Time(all.ctime(i)?),
            atime: Time(all.atime(i)?),
            btime: Time(all.btime(i)?),
            generation: all.generation(i)?,
        })
    }
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
    fn wants(&self) -> ColumnSet {
        if self.attributes { ColumnSet::ALL } else { ColumnSet::ENTRIES }
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

/// A set of columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ColumnSet(u32);

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

/// Declares the columns that hold attributes: name, variant of [`Column`], type, type of an element in an
/// [`AttributeBlock`], and value.
macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident $variant:ident $type:ident from $wire:ident = $value:expr;)*) => {
        /// A value of each answer, which a caller may ask for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
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

            /// Those that hold attributes, in the order of [`ALL`](Self::ALL).
            pub const ATTRIBUTES: &[Column] = &[$(Column::$variant,)*];

            /// Bytes of an element of this column in an [`AttributeBlock`]; 0 for one without an attribute.
            pub const fn width(self) -> usize {
                match self {
                    Column::Exists | Column::Code | Column::Ino | Column::Kind => 0,
                    $(Column::$variant => size_of::<$wire>(),)*
                }
            }
        }

        /// Attributes of the inodes in a block of answers, one column after the other, as an engine gives
        /// them: little-endian, and zeros where a path names no inode.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct AttributeBlock<'a> {
            $($name: &'a [[u8; size_of::<$wire>()]],)*
        }

        impl<'a> AttributeBlock<'a> {
            /// Returns the attributes of `wanted`, each from the bytes that `column` gives.
            #[inline(always)]
            pub fn of(wanted: ColumnSet, column: impl Fn(Column) -> &'a [u8]) -> Self {
                let bytes = |which| if wanted.contains(which) { column(which) } else { &[] };
                AttributeBlock { $($name: bytes(Column::$variant).as_chunks().0,)* }
            }

            $(
                #[inline(always)]
                fn $name(&self, row: usize) -> Option<$type> {
                    self.$name.get(row).map(|bytes| $wire::from_le_bytes(*bytes) as $type)
                }
            )*
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

            /// Divides the columns before a row. The second part begins with that row, so its rows are
            /// counted from there.
            ///
            /// # Panics
            /// The row is not a multiple of 64, the rows of a word of `exists`.
            pub fn split_at_row(self, row: usize) -> (Self, Self) {
                assert!(row.is_multiple_of(64), "row {row} is inside a word of the column of bits");
                let (exists, exists_after) = split(self.exists, row / 64);
                let (code, code_after) = split(self.code, row);
                let (ino, ino_after) = split(self.ino, row);
                let (kind, kind_after) = split(self.kind, row);
                $(let $name = split(self.$name, row);)*
                (
                    ColumnsMut { exists, code, ino, kind, $($name: $name.0,)* },
                    ColumnsMut {
                        exists: exists_after,
                        code: code_after,
                        ino: ino_after,
                        kind: kind_after,
                        $($name: $name.1,)*
                    },
                )
            }

            fn reborrowed(&mut self) -> ColumnsMut<'_> {
                ColumnsMut {
                    exists: self.exists.as_deref_mut(),
                    code: self.code.as_deref_mut(),
                    ino: self.ino.as_deref_mut(),
                    kind: self.kind.as_deref_mut(),
                    $($name: self.$name.as_deref_mut(),)*
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

            /// Writes one column after the other.
            #[inline(always)]
            fn put_block(&mut self, first: usize, answers: &AnswerBlock<'_>) {
                $(if let Some(column) = &mut self.$name {
                    let given = answers.attributes.$name;
                    let column = &mut column[first..first + answers.len];
                    let (there, none) = column.split_at_mut(given.len().min(answers.len));
                    for (value, bytes) in there.iter_mut().zip(given) {
                        *value = $wire::from_le_bytes(*bytes) as $type;
                    }
                    none.fill(0);
                })*
            }

            #[inline(always)]
            fn given(&self) -> ColumnSet {
                let given = |is_given: bool, column: Column| u32::from(is_given) << column as u32;
                ColumnSet(
                    given(self.exists.is_some(), Column::Exists)
                        | given(self.code.is_some(), Column::Code)
                        | given(self.ino.is_some(), Column::Ino)
                        | given(self.kind.is_some(), Column::Kind)
                        $(| given(self.$name.is_some(), Column::$variant))*
                )
            }
        }

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

columns! {
    /// Type and permissions as in `st_mode`.
    mode Mode u16 from u32 = |attr: &Attr| attr.mode();
    /// Number of names.
    links Links u32 from u32 = |attr: &Attr| attr.links;
    /// Owner.
    uid Uid u32 from u32 = |attr: &Attr| attr.uid;
    /// Group.
    gid Gid u32 from u32 = |attr: &Attr| attr.gid;
    /// Size in bytes.
    size Size u64 from u64 = |attr: &Attr| attr.size;
    /// Number of blocks (4 KiB).
    blocks Blocks u64 from u64 = |attr: &Attr| attr.blocks;
    /// Device number of a character or block device.
    rdev Rdev u64 from u64 = |attr: &Attr| attr.rdev;
    /// Last change of the content, in nanoseconds since 1970.
    mtime Mtime i64 from i64 = |attr: &Attr| attr.mtime.0;
    /// Last change of the inode, in nanoseconds since 1970.
    ctime Ctime i64 from i64 = |attr: &Attr| attr.ctime.0;
    /// Last access, in nanoseconds since 1970.
    atime Atime i64 from i64 = |attr: &Attr| attr.atime.0;
    /// Creation, in nanoseconds since 1970.
    btime Btime i64 from i64 = |attr: &Attr| attr.btime.0;
    /// Generation of the inode number.
    generation Generation u32 from u32 = |attr: &Attr| attr.generation;
}

/// The value of a column for a path.
fn value<T: Copy>(column: &Option<Vec<T>>, path: usize) -> Option<T> {
    column.as_ref()?.get(path).copied()
}

/// Divides a column, if there is one. The first part of one that is too short has all of it.
fn split<T>(column: Option<&mut [T]>, at: usize) -> (Option<&mut [T]>, Option<&mut [T]>) {
    column.map(|column| column.split_at_mut(at.min(column.len()))).unzip()
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

impl ColumnsMut<'_> {
    /// Sets the bits of up to 64 rows.
    fn put_bits(&mut self, first: usize, answers: &AnswerBlock<'_>) {
        let Some(words) = &mut self.exists else { return };
        let (bits, mask) = (answers.found, answers.mask());
        let (word, shift) = (first / 64, first % 64);
        words[word] = words[word] & !(mask << shift) | bits << shift;
        let rest = if shift == 0 { 0 } else { mask >> (64 - shift) };
        if rest != 0 {
            words[word + 1] = words[word + 1] & !rest | bits >> (64 - shift);
        }
    }
}

impl Rows for ColumnsMut<'_> {
    #[inline(always)]
    fn wants(&self) -> ColumnSet {
        self.given()
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

    fn answered(&mut self, first: usize, answers: &AnswerBlock<'_>) {
        let (len, rows) = (answers.len, first..first + answers.len);
        self.put_bits(first, answers);
        if let Some(column) = &mut self.code {
            column[rows.clone()].copy_from_slice(&answers.code[..len]);
        }
        if let Some(column) = &mut self.ino {
            column[rows.clone()].copy_from_slice(&answers.ino[..len]);
        }
        if let Some(column) = &mut self.kind {
            column[rows].copy_from_slice(&answers.kind[..len]);
        }
        self.put_block(first, answers);
    }

    fn as_columns(&mut self) -> Option<ColumnsMut<'_>> {
        Some(self.reborrowed())
    }
}

#[cfg(test)]
mod tests;
