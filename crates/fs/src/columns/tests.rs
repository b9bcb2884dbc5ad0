//! Columns beside rows that are written one by one.

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
        let times = [columns.mtime()[row], columns.ctime()[row], columns.atime()[row], columns.btime()[row]];
        let large = [columns.ino()[row], columns.size()[row], columns.blocks()[row], columns.rdev()[row]]
            .map(|n| n as i64);
        (columns.mode()[row], columns.kind()[row], small, times, large)
    };
    let kind = FileKind::File as u8;
    assert_eq!(numbers(1), (ATTR.mode(), kind, [2, 3, 4, 12], [8, 9, 10, 11], [9, 5, 6, 7]));
    assert_eq!(numbers(3), (0, 0, [0; 4], [0; 4], [0; 4]));
}

/// A copy of an inode, as an engine has it.
fn core_of(mode: u16, size: u64) -> [u8; INODE_CORE] {
    let mut core = [0; INODE_CORE];
    f::MODE.write(&mut core, mode);
    f::BYTES.write(&mut core, size);
    f::UID.write(&mut core, 77);
    core
}

#[test]
fn a_block_of_answers_gives_the_same_as_its_rows_one_by_one() {
    let file = FileKind::File as u32;
    let cores: Vec<_> = (0..64).map(|i| core_of(if i == 9 { 0 } else { ATTR.mode() }, i * 10)).collect();
    for (first, len) in [(0, 64), (64, 64), (0, 1), (1, 64), (63, 2), (70, 50), (3, 0)] {
        let mut block = AnswerBlock::new(len, Some(&cores));
        let number = |i: usize| match i % 5 {
            1 => u32::from(Code::NotFound.number()),
            2 => u32::from(Code::NotResident.number()),
            3 if i > 40 => 0x0101_00ff,
            _ => 0,
        };
        block.fill(|i| (number(i), if i == 20 { 3 } else { file }, 100 + i as u64));
        let open: Vec<usize> = block.open().collect();
        let expected = |i: &usize| i % 5 == 2 || i % 5 == 3 && *i > 40 || *i == 9 || *i == 20;
        assert_eq!(open, (0..len).filter(expected).collect::<Vec<_>>());
        let (mut at_once, mut one_by_one) = (Columns::of(Column::ALL), Columns::of(Column::ALL));
        for (columns, block_of) in [(&mut at_once, true), (&mut one_by_one, false)] {
            let mut rows = columns.rows(200);
            for row in 0..200 {
                rows.found(row, Ino(9), FileKind::File, Some(&ATTR));
            }
            if block_of {
                rows.answered(first, &block);
            } else {
                struct Rowwise<'r, 'c>(&'r mut ColumnsMut<'c>);
                impl Rows for Rowwise<'_, '_> {
                    fn wants_attributes(&self) -> bool {
                        true
                    }
                    fn found(&mut self, row: usize, ino: Ino, kind: FileKind, attr: Option<&Attr>) {
                        self.0.found(row, ino, kind, attr);
                    }
                    fn failed(&mut self, row: usize, code: Code) {
                        self.0.failed(row, code);
                    }
                }
                Rowwise(&mut rows).answered(first, &block);
            }
            // The host answers those that stay open.
            open.iter().for_each(|i| rows.failed(first + i, Code::Io));
        }
        assert_eq!(format!("{at_once:?}"), format!("{one_by_one:?}"), "{len} rows from {first}");
        assert_eq!(block.found(), (0..len).filter(|i| i % 5 != 1 && !expected(i)).count());
    }
}

#[test]
fn a_block_of_bits_fills_the_column_of_bits_and_leaves_open_what_it_does_not_know() {
    for (first, len) in [(0, 64), (64, 30), (1, 64), (63, 2), (70, 50), (3, 0)] {
        let (found, open) = (0xdead_beef_0123_4567, 0x8000_0f00_0000_0003);
        let block = AnswerBlock::of_bits(len, found, open);
        let bits = |word: u64| (0..len).filter(move |i| word >> i & 1 == 1);
        assert!(block.open().eq(bits(open)), "{len} rows from {first}");
        assert_eq!(block.found(), bits(found & !open).count());
        let mut columns = Columns::of(&[Column::Exists]);
        let mut rows = columns.rows(200);
        assert!(!rows.wants_entries());
        (0..200).for_each(|row| rows.found(row, Ino(9), FileKind::File, None));
        rows.answered(first, &block);
        let is_set = |row: usize| columns.exists()[row / 64] >> (row % 64) & 1 == 1;
        for row in 0..200 {
            let is_in = (first..first + len).contains(&row);
            assert_eq!(is_set(row), !is_in || (found & !open) >> (row - first) & 1 == 1, "row {row}");
        }
    }
    for column in Column::ALL {
        let mut columns = Columns::of(&[Column::Exists, *column]);
        assert_eq!(columns.rows(1).wants_entries(), *column != Column::Exists);
    }
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
