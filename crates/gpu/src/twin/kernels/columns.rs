//! Twin of `shaders/columns.comp`.

use crate::shared::column_layout::{AnswerRow, ColumnLayout};
use crate::shared::layout::{ANSWER_INO_SHIFT, ANSWER_KIND_SHIFT};
use crate::shared::query::PathResult;
use crate::twin::headers::memory::Memory;
use lanefs::Column;
use lanefs::format::{BLOCK, Code, Field, FileKind, InodeSize, Word, inode as f};

/// Returns the answers as the host gets them.
pub fn columns<M: Memory>(
    memory: &M,
    size: InodeSize,
    layout: &ColumnLayout,
    answers: &[PathResult],
) -> Vec<AnswerRow> {
    answers.iter().map(|answer| row(memory, size, layout, answer)).collect()
}

fn row<M: Memory>(memory: &M, size: InodeSize, layout: &ColumnLayout, answer: &PathResult) -> AnswerRow {
    let mut answer = *answer;
    if answer.ino >> (u64::BITS - ANSWER_INO_SHIFT) != 0 {
        answer = PathResult::failed(Code::NotResident);
    }
    let is_wanted = answer.code == Code::Success && !layout.wanted().is_empty();
    let inode = is_wanted.then(|| Inode::load(memory, answer.ino.wrapping_mul(size.bytes()))).flatten();
    if is_wanted && inode.is_none() {
        answer = PathResult::failed(Code::NotResident);
    }
    let wanted = Column::ATTRIBUTES.iter().filter(|column| layout.wanted().contains(**column));
    let attributes =
        wanted.map(|column| inode.as_ref().map_or(0, |inode| inode.attribute(*column))).collect();
    let code = u64::from(answer.code.number());
    let entry = code | u64::from(answer.kind) << ANSWER_KIND_SHIFT | answer.ino << ANSWER_INO_SHIFT;
    AnswerRow { entry, attributes }
}

/// An inode in use, in a memory.
struct Inode<'m, M> {
    memory: &'m M,
    at: u64,
    mode: u16,
    kind: FileKind,
}

impl<'m, M: Memory> Inode<'m, M> {
    fn load(memory: &'m M, at: u64) -> Option<Self> {
        let mode = memory.word(at)? as u16;
        Some(Inode { memory, at, mode, kind: FileKind::from_mode(mode)? })
    }

    fn word<T: Word>(&self, field: Field<T>) -> u64 {
        self.memory.word(self.at + field.offset as u64).unwrap_or(0).into()
    }

    fn quad<T: Word>(&self, field: Field<T>) -> u64 {
        self.memory.quad(self.at + field.offset as u64).unwrap_or(0)
    }

    fn size(&self) -> u64 {
        match self.kind {
            FileKind::Directory => self.quad(f::BLOCKS).saturating_mul(BLOCK),
            _ => self.quad(f::BYTES),
        }
    }

    fn rdev(&self) -> u64 {
        match self.kind {
            FileKind::CharDevice | FileKind::BlockDevice => self.quad(f::PARENT_OR_DEVICE),
            _ => 0,
        }
    }

    fn attribute(&self, column: Column) -> u64 {
        match column {
            Column::Mode => self.mode.into(),
            Column::Links => self.word(f::LINKS),
            Column::Uid => self.word(f::UID),
            Column::Gid => self.word(f::GID),
            Column::Size => self.size(),
            Column::Blocks => self.quad(f::BLOCKS),
            Column::Rdev => self.rdev(),
            Column::Mtime => self.quad(f::MTIME),
            Column::Ctime => self.quad(f::CTIME),
            Column::Atime => self.quad(f::ATIME),
            Column::Btime => self.quad(f::BTIME),
            Column::Generation => self.word(f::GENERATION),
            // Existence, code, inode and type are not attributes.
            _ => 0,
        }
    }
}

// A mode is in the first word of an inode, with flags above it.
const _: () = assert!(f::MODE.offset == 0);
