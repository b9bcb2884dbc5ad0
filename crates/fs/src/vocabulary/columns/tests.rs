//! Columns beside rows that are written one by one.

use super::*;
use crate::vocabulary::types::{Attr, Ino, Time};
use lanefs_format::{Code, FileKind};

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
    assert_eq!(rows.wants(), ColumnSet::ALL);
    rows.found(1, Ino(9), FileKind::File, Some(&ATTR));
    rows.found(65, Ino(9), FileKind::File, Some(&ATTR));
    rows.found(3, Ino(9), FileKind::File, Some(&ATTR));
    rows.failed(3, Code::NotFound);
    assert_eq!(columns.exists().expect("a column"), [0b10, 0b10]);
    assert_eq!(
        (columns.code().expect("a column")[1], columns.code().expect("a column")[3]),
        (0, Code::NotFound.number())
    );
    let numbers = |row: usize| {
        let (links, uid, gid) = (
            columns.links().expect("a column")[row],
            columns.uid().expect("a column")[row],
            columns.gid().expect("a column")[row],
        );
        let small = [links, uid, gid, columns.generation().expect("a column")[row]].map(i64::from);
        let times = [
            columns.mtime().expect("a column")[row],
            columns.ctime().expect("a column")[row],
            columns.atime().expect("a column")[row],
            columns.btime().expect("a column")[row],
        ];
        let large = [
            columns.ino().expect("a column")[row],
            columns.size().expect("a column")[row],
            columns.blocks().expect("a column")[row],
            columns.rdev().expect("a column")[row],
        ]
        .map(|n| n as i64);
        (columns.mode().expect("a column")[row], columns.kind().expect("a column")[row], small, times, large)
    };
    let kind = FileKind::File as u8;
    assert_eq!(numbers(1), (ATTR.mode(), kind, [2, 3, 4, 12], [8, 9, 10, 11], [9, 5, 6, 7]));
    assert_eq!(numbers(3), (0, 0, [0; 4], [0; 4], [0; 4]));
}

/// A column of 64 elements as an engine gives it, with zeros in some rows.
fn given(column: Column, is_there: impl Fn(usize) -> bool) -> Vec<u8> {
    let number = |row: usize| match column {
        Column::Mode => u64::from(ATTR.mode()),
        _ => (column as u64) << 24 | row as u64,
    };
    let bytes = |row| if is_there(row) { number(row) } else { 0 }.to_le_bytes();
    (0..64).flat_map(|row| bytes(row)[..column.width()].to_vec()).collect()
}

#[test]
fn a_block_of_answers_gives_the_same_as_its_rows_one_by_one() {
    let file = FileKind::File as u8;
    let columns: Vec<Vec<u8>> =
        Column::ALL.iter().map(|column| given(*column, |i| i % 5 == 0 || i % 5 > 2)).collect();
    for (first, len) in [(0, 64), (64, 64), (0, 1), (1, 64), (63, 2), (70, 50), (3, 0)] {
        let of = |column| columns[column as usize].as_slice();
        let mut block = AnswerBlock::new(len, AttributeBlock::of(ColumnSet::ALL, of));
        let number = |i: usize| match i % 5 {
            1 => Code::NotFound.number(),
            2 => Code::NotResident.number(),
            3 if i > 40 => 0xff,
            _ => 0,
        };
        block.fill(|i| (number(i), if i == 20 { 3 } else { file }, 100 + i as u64));
        let open: Vec<usize> = block.open().collect();
        let expected = |i: &usize| i % 5 == 2 || i % 5 == 3 && *i > 40 || *i == 20;
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
                    fn wants(&self) -> ColumnSet {
                        self.0.wants()
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
        assert!(rows.wants().is_existence());
        (0..200).for_each(|row| rows.found(row, Ino(9), FileKind::File, None));
        rows.answered(first, &block);
        let is_set = |row: usize| columns.exists().expect("a column")[row / 64] >> (row % 64) & 1 == 1;
        for row in 0..200 {
            let is_in = (first..first + len).contains(&row);
            assert_eq!(is_set(row), !is_in || (found & !open) >> (row - first) & 1 == 1, "row {row}");
        }
    }
    for column in Column::ALL {
        let mut columns = Columns::of(&[Column::Exists, *column]);
        let wanted = columns.rows(1).wants();
        assert_eq!(wanted, ColumnSet::of(&[Column::Exists, *column]));
        assert_eq!(wanted.is_existence(), *column == Column::Exists);
        assert_eq!(wanted.attributes().is_empty(), !Column::ATTRIBUTES.contains(column));
    }
}

#[test]
fn columns_that_are_not_wanted_are_not_there_and_those_too_short_refused() {
    let mut columns = Columns::of(&[Column::Exists, Column::Size]);
    columns.rows(65).found(64, Ino(9), FileKind::File, Some(&ATTR));
    assert_eq!(
        (columns.exists().expect("a column").len(), columns.size().expect("a column").len(), columns.ino()),
        (2, 65, None)
    );
    let row = columns.row(64).expect("a row");
    assert_eq!((row.exists, row.size, row.ino, row.code), (Some(true), Some(ATTR.size), None, None));
    assert_eq!((columns.len(), columns.iter().count(), columns.row(65)), (65, 65, None));
    assert!(Columns::of(&[]).rows(1).wants().is_empty());
    let mut size = [0; 3];
    let rows = ColumnsMut { size: Some(&mut size), ..ColumnsMut::default() };
    rows.check(3).expect("room for three");
    let error = rows.check(4).expect_err("no room").to_string();
    assert!(error.contains("the column size has no room for 4 answers"), "{error}");
    let mut exists = [0; 1];
    let rows = ColumnsMut { exists: Some(&mut exists), ..ColumnsMut::default() };
    assert!(rows.check(64).is_ok() && rows.check(65).is_err());
}

#[test]
fn columns_divided_among_threads_are_those_of_one() {
    let write = |mut rows: ColumnsMut<'_>, numbers: std::ops::Range<usize>| {
        for (row, number) in numbers.enumerate() {
            let attr = Attr { size: number as u64, ..ATTR };
            match number % 3 {
                0 => rows.failed(row, Code::NotFound),
                _ => rows.found(row, Ino(number as u64), FileKind::File, Some(&attr)),
            }
        }
    };
    for wanted in [Column::ALL, &[Column::Exists], &[Column::Size]] {
        let (mut whole, mut parts) = (Columns::of(wanted), Columns::of(wanted));
        write(whole.rows(200), 0..200);
        let mut rows = parts.rows(200);
        let (first, rest) = rows.as_columns().expect("columns").split_at_row(64);
        let (second, third) = rest.split_at_row(64);
        write(first, 0..64);
        write(third, 128..200);
        write(second, 64..128);
        // Beyond the end there is nothing.
        let (_, none) = rows.as_columns().expect("columns").split_at_row(640);
        assert!(none.check(0).is_ok() && none.check(1).is_err());
        assert_eq!(format!("{whole:?}"), format!("{parts:?}"));
    }
}
