//! The receivers of the answers to a batch.

use super::block::AnswerBlock;
use super::column::ColumnSet;
use super::lent::ColumnsMut;
use crate::vocabulary::types::{Attr, Ino, Resolution};
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
