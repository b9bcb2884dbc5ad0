//! Answers to a batch of paths as columns: one array for each value that is asked for.
//!
//! A batch of a million answers of which one number is wanted each should write a million numbers. The caller
//! names the columns and owns their memory: [`Columns`] keeps it from batch to batch, and [`ColumnsMut`]
//! takes any slices, such as the arrays of another library.

use crate::error::{Error, Result};
use crate::types::{Attr, Ino, Resolution};
use lanefs_format::{BLOCK, Code, Field, FileKind, INODE_CORE, Word, inode as f};

/// Receiver of the answers to a batch. Every row gets one answer, after any that a discarded attempt gave it.
pub trait Rows {
    /// Tells whether [`found`](Self::found) gets attributes.
    fn wants_attributes(&self) -> bool;

    /// Tells whether code, inode and type are wanted, and not only which paths name an inode. Where they are
    /// not, [`answered`](Self::answered) may get blocks [of bits](AnswerBlock::of_bits).
    fn wants_entries(&self) -> bool {
        true
    }

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
    /// The first bytes of each inode, where attributes are wanted.
    cores: Option<&'a [[u8; INODE_CORE]]>,
    len: usize,
    /// A bit for each row that names an inode, and for each that is open.
    found: u64,
    open: u64,
}

impl<'a> AnswerBlock<'a> {
    /// Returns answers to `len` paths, [`ANSWER_BLOCK`] at most, all of them open; `cores` are copies of the
    /// inodes, one for each path.
    pub fn new(len: usize, cores: Option<&'a [[u8; INODE_CORE]]>) -> Self {
        let code = [Code::NotResident.number(); ANSWER_BLOCK];
        let len = len.min(ANSWER_BLOCK).min(cores.map_or(ANSWER_BLOCK, <[_]>::len));
        let (kind, ino) = ([0; ANSWER_BLOCK], [0; ANSWER_BLOCK]);
        let mut block = AnswerBlock { code, kind, ino, cores, len, found: 0, open: 0 };
        block.open = block.mask();
        block
    }

    /// Returns answers to `len` paths, [`ANSWER_BLOCK`] at most, for a receiver that
    /// [wants no entries](Rows::wants_entries): a bit for each path that names an inode, and for each that is
    /// open.
    pub fn of_bits(len: usize, found: u64, open: u64) -> Self {
        let mut block = AnswerBlock::new(len, None);
        // A path that is said to be both is open.
        (block.found, block.open) = (found & !open & block.mask(), open & block.mask());
        block
    }

    /// Fills in answers, by the numbers of their codes and types and by their inodes. One that makes no sense
    /// stays open, so that the host decides.
    #[inline(always)]
    pub fn fill(&mut self, answer: impl Fn(usize) -> (u32, u32, u64)) {
        match self.cores {
            // An inode in use has a type.
            Some(cores) => self.fill_by(answer, |i, _| cores.get(i).map_or(0, kind_of).into()),
            None => self.fill_by(answer, |_, kind| kind),
        }
    }

    /// `kind_of`: the type of the inode in a row whose entry has this type.
    #[inline(always)]
    fn fill_by(&mut self, answer: impl Fn(usize) -> (u32, u32, u64), kind_of: impl Fn(usize, u32) -> u32) {
        let is_kind = |kind: u32| kind < 16 && KINDS >> kind & 1 != 0;
        for i in 0..self.len.min(ANSWER_BLOCK) {
            let (code, kind, ino) = answer(i);
            let is_found = code == 0 && is_kind(kind) && is_kind(kind_of(i, kind));
            let is_failure = code != 0 && code < Code::ALL.len() as u32;
            self.code[i] = if is_found || is_failure { code as u8 } else { Code::NotResident.number() };
            self.kind[i] = if is_found { kind as u8 } else { 0 };
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

    /// The attributes of an inode that was found.
    #[inline(always)]
    fn attr(&self, i: usize) -> Option<Attr> {
        Attr::of_core(Ino(self.ino[i]), self.cores?.get(i)?)
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
    ($($(#[$doc:meta])* $name:ident $variant:ident $type:ty = $value:expr, $of_core:expr;)*) => {
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

            /// Writes one column after the other: the loop of each reads no more of an inode than it needs.
            #[inline(always)]
            fn put_block(&mut self, first: usize, answers: &AnswerBlock<'_>) {
                $(if let Some(column) = &mut self.$name {
                    let column = &mut column[first..first + answers.len];
                    let rows = answers.code.iter().zip(answers.cores.unwrap_or(&[]));
                    for (value, (code, core)) in column.iter_mut().zip(rows) {
                        let there: $type = ($of_core)(core);
                        *value = if *code == Code::Success.number() { there } else { 0 };
                    }
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
        /// let options = CreateOptions { size: 64 << 20, ..CreateOptions::default() };
        /// let volume = Volume::create_memory(&options)?;
        /// volume.write_file("/a", b"four")?;
        ///
        /// let paths: PathSet = ["/a", "/b"].into_iter().collect();
        /// let mut answers = Columns::of(&[Column::Code, Column::Size]);
        /// let options = ResolveOptions::default();
        /// let found = volume.resolve_into(&options, &paths, &mut answers.rows(paths.len()))?;
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
    mode Mode u16 = |attr: &Attr| attr.mode(), |core| field(core, f::MODE);
    /// Number of names.
    links Links u32 = |attr: &Attr| attr.links, |core| field(core, f::LINKS);
    /// Owner.
    uid Uid u32 = |attr: &Attr| attr.uid, |core| field(core, f::UID);
    /// Group.
    gid Gid u32 = |attr: &Attr| attr.gid, |core| field(core, f::GID);
    /// Size in bytes.
    size Size u64 = |attr: &Attr| attr.size, size_of;
    /// Number of blocks (4 KiB).
    blocks Blocks u64 = |attr: &Attr| attr.blocks, |core| field(core, f::BLOCKS);
    /// Device number of a character or block device.
    rdev Rdev u64 = |attr: &Attr| attr.rdev, rdev_of;
    /// Last change of the content, in nanoseconds since 1970.
    mtime Mtime i64 = |attr: &Attr| attr.mtime.0, |core| field(core, f::MTIME);
    /// Last change of the inode, in nanoseconds since 1970.
    ctime Ctime i64 = |attr: &Attr| attr.ctime.0, |core| field(core, f::CTIME);
    /// Last access, in nanoseconds since 1970.
    atime Atime i64 = |attr: &Attr| attr.atime.0, |core| field(core, f::ATIME);
    /// Creation, in nanoseconds since 1970.
    btime Btime i64 = |attr: &Attr| attr.btime.0, |core| field(core, f::BTIME);
    /// Generation of the inode number.
    generation Generation u32 = |attr: &Attr| attr.generation, |core| field(core, f::GENERATION);
}

/// A field in a copy of an inode.
#[inline(always)]
fn field<T: Word>(core: &[u8; INODE_CORE], field: Field<T>) -> T {
    field.read(core).unwrap_or(T::from_bits(0))
}

/// The number of the type in a copy of an inode.
#[inline(always)]
fn kind_of(core: &[u8; INODE_CORE]) -> u16 {
    field(core, f::MODE) >> 12
}

/// As [`Attr::size`].
#[inline(always)]
fn size_of(core: &[u8; INODE_CORE]) -> u64 {
    let blocks = field(core, f::BLOCKS).saturating_mul(BLOCK);
    if kind_of(core) == FileKind::Directory as u16 { blocks } else { field(core, f::BYTES) }
}

/// As [`Attr::rdev`].
#[inline(always)]
fn rdev_of(core: &[u8; INODE_CORE]) -> u64 {
    let is_device = [FileKind::CharDevice as u16, FileKind::BlockDevice as u16].contains(&kind_of(core));
    if is_device { field(core, f::PARENT_OR_DEVICE) } else { 0 }
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
    fn wants_attributes(&self) -> bool {
        self.has_attributes()
    }

    #[inline(always)]
    fn wants_entries(&self) -> bool {
        self.code.is_some() || self.ino.is_some() || self.kind.is_some() || self.has_attributes()
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
}

#[cfg(test)]
mod tests;
