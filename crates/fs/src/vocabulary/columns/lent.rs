//! Columns in memory of the caller.

use super::block::AnswerBlock;
use super::column::{Column, ColumnSet};
use super::table::attribute_columns;
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::types::Attr;
use lanefs_format::Code;

/// Declares the columns in memory of the caller.
macro_rules! declare_lent {
    ($($(#[$doc:meta])* $name:ident $variant:ident $type:ident from $wire:ident = $value:expr;)*) => {
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
            /// Types: [`FileKind`](lanefs_format::FileKind) as a number.
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

            /// The same columns, for a shorter time.
            pub(super) fn reborrowed(&mut self) -> ColumnsMut<'_> {
                ColumnsMut {
                    exists: self.exists.as_deref_mut(),
                    code: self.code.as_deref_mut(),
                    ino: self.ino.as_deref_mut(),
                    kind: self.kind.as_deref_mut(),
                    $($name: self.$name.as_deref_mut(),)*
                }
            }

            #[inline(always)]
            pub(super) fn put_attributes(&mut self, row: usize, attr: &Attr) {
                $(if let Some(column) = &mut self.$name {
                    column[row] = ($value)(attr);
                })*
            }

            #[inline(always)]
            pub(super) fn clear_attributes(&mut self, row: usize) {
                $(if let Some(column) = &mut self.$name {
                    column[row] = 0;
                })*
            }

            /// Writes the attributes of a block, one column after the other.
            #[inline(always)]
            pub(super) fn put_block(&mut self, first: usize, answers: &AnswerBlock<'_>) {
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

            /// The columns that are there.
            #[inline(always)]
            pub(super) fn given(&self) -> ColumnSet {
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
    };
}

attribute_columns!(declare_lent);

/// Divides a column, if there is one. The first part of one that is too short has all of it.
fn split<T>(column: Option<&mut [T]>, at: usize) -> (Option<&mut [T]>, Option<&mut [T]>) {
    column.map(|column| column.split_at_mut(at.min(column.len()))).unzip()
}

impl ColumnsMut<'_> {
    /// Writes the columns that are not attributes.
    #[inline(always)]
    pub(super) fn set(&mut self, row: usize, code: Code, ino: u64, kind: u8) {
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

    /// Sets the bits of up to 64 rows.
    pub(super) fn put_bits(&mut self, first: usize, answers: &AnswerBlock<'_>) {
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
