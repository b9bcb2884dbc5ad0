//! Lines of the output. Formatted by hand for speed: a batch has millions of them.

use crate::text::escape::{self, escape_into};
use crate::text::{json, time};
use lanefs::{Code, Column, Columns, FileKind, Paths, Time};
use std::io::Write;

/// Form of the lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineFormat {
    /// Adds mode, links, uid, gid and mtime.
    pub(super) stat: bool,
    /// JSON objects instead of columns.
    pub(super) json: bool,
}

/// The result code of a number in a column.
pub(super) fn code_of(number: u8) -> Code {
    Code::from_number(number).unwrap_or(Code::InvariantViolated)
}

/// The value of a path in a column that was asked for.
#[inline(always)]
fn at<T: Copy + Default>(column: Option<&[T]>, row: usize) -> T {
    column.and_then(|column| column.get(row)).copied().unwrap_or_default()
}

impl LineFormat {
    /// The columns that the lines need.
    pub(super) fn columns(self) -> &'static [Column] {
        const PLAIN: &[Column] = &[Column::Code, Column::Ino, Column::Kind, Column::Size];
        const STAT: &[Column] = &[
            Column::Code,
            Column::Ino,
            Column::Kind,
            Column::Size,
            Column::Mode,
            Column::Links,
            Column::Uid,
            Column::Gid,
            Column::Mtime,
        ];
        if self.stat { STAT } else { PLAIN }
    }

    /// Appends the lines for paths, whose answers are in the rows of the columns. `delimiter` is the byte
    /// between the paths in their text.
    pub(super) fn push_all(self, out: &mut Vec<u8>, paths: Paths<'_>, delimiter: u8, answers: &Columns) {
        // One look at all of the text, in place of one at each path.
        let is_plain = escape::is_plain_but(paths.text(), delimiter);
        for (row, path) in paths.iter().enumerate() {
            let code = at(answers.code(), row);
            let kind =
                FileKind::from_number(at(answers.kind(), row)).filter(|_| code == Code::Success.number());
            if self.json {
                self.push_json(out, path, answers, row, kind);
                continue;
            }
            out.extend_from_slice(self.columns_of(answers, row, kind).text());
            if is_plain {
                out.extend_from_slice(path);
            } else {
                escape_into(out, path);
            }
            out.push(b'\n');
        }
    }

    /// Returns the columns of a line before the path.
    #[inline]
    fn columns_of(self, answers: &Columns, row: usize, kind: Option<FileKind>) -> Head {
        let mut head = Head::new();
        head.number(u64::from(at(answers.code(), row)));
        head.tab();
        match kind {
            Some(kind) => {
                head.number(at(answers.ino(), row));
                head.tab();
                head.put(kind.word().as_bytes());
                head.tab();
                head.number(at(answers.size(), row));
                if self.stat {
                    head.tab();
                    head.perm(at(answers.mode(), row));
                    for column in [answers.links(), answers.uid(), answers.gid()] {
                        head.tab();
                        head.number(u64::from(at(column, row)));
                    }
                    head.tab();
                    head.time(Time(at(answers.mtime(), row)));
                }
            }
            None => head.put(if self.stat { b"-\t-\t-\t-\t-\t-\t-\t-" } else { b"-\t-\t-" }),
        }
        head.tab();
        head
    }

    fn push_json(
        self,
        out: &mut Vec<u8>,
        path: &[u8],
        answers: &Columns,
        row: usize,
        kind: Option<FileKind>,
    ) {
        let code = code_of(at(answers.code(), row));
        let _ = write!(out, "{{\"code\":{}", code.number());
        match kind {
            Some(kind) => {
                let _ = write!(out, ",\"inode\":{},\"type\":\"{}\"", at(answers.ino(), row), kind.word());
                self.push_json_attributes(out, answers, row);
            }
            None => {
                out.extend_from_slice(b",\"inode\":null,\"type\":null,\"size\":null");
                if self.stat {
                    out.extend_from_slice(
                        b",\"mode\":null,\"links\":null,\"uid\":null,\"gid\":null,\"mtime\":null",
                    );
                }
                let _ = write!(out, ",\"error\":\"{}\"", code.text());
            }
        }
        out.extend_from_slice(b",\"path\":");
        json::append(out, &String::from_utf8_lossy(path));
        if std::str::from_utf8(path).is_err() {
            out.extend_from_slice(b",\"path_hex\":\"");
            for byte in path {
                let _ = write!(out, "{byte:02x}");
            }
            out.push(b'"');
        }
        out.extend_from_slice(b"}\n");
    }

    fn push_json_attributes(self, out: &mut Vec<u8>, answers: &Columns, row: usize) {
        let _ = write!(out, ",\"size\":{}", at(answers.size(), row));
        if self.stat {
            let (perm, time) =
                (at(answers.mode(), row) & 0o7777, time::decimal(Time(at(answers.mtime(), row))));
            let (links, uid, gid) =
                (at(answers.links(), row), at(answers.uid(), row), at(answers.gid(), row));
            let _ = write!(
                out,
                ",\"mode\":\"{perm:04o}\",\"links\":{links},\"uid\":{uid},\"gid\":{gid},\"mtime\":\"{time}\""
            );
        }
    }
}

/// The columns before the path of a line: no vector that must have room is in the way of each.
struct Head {
    text: [u8; Head::MOST_BYTES],
    len: usize,
}

impl Head {
    /// Bytes of the longest columns: with their tabs a code (4), an inode number (21), a type (8), a size
    /// (21), a mode (5), links, uid and gid (11 each), and a time (22).
    const MOST_BYTES: usize = 128;

    #[inline]
    fn new() -> Head {
        Head { text: [0; Head::MOST_BYTES], len: 0 }
    }

    #[inline]
    fn text(&self) -> &[u8] {
        &self.text[..self.len]
    }

    #[inline]
    fn put(&mut self, text: &[u8]) {
        self.text[self.len..self.len + text.len()].copy_from_slice(text);
        self.len += text.len();
    }

    #[inline]
    fn tab(&mut self) {
        self.text[self.len] = b'\t';
        self.len += 1;
    }

    /// A decimal number, without the machinery of `write!`.
    #[inline]
    fn number(&mut self, mut number: u64) {
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        let out = &mut self.text[self.len..self.len + digits];
        self.len += digits;
        let mut end = digits;
        while end >= 2 {
            let pair = (number % 100) as usize;
            out[end - 2..end].copy_from_slice(&PAIRS[pair]);
            number /= 100;
            end -= 2;
        }
        if end == 1 {
            out[0] = b'0' + (number % 10) as u8;
        }
    }

    /// Permissions as four octal digits.
    fn perm(&mut self, perm: u16) {
        self.put(&[9, 6, 3, 0].map(|shift| b'0' + (perm >> shift & 7) as u8));
    }

    /// A time as [`time::decimal`] writes it.
    fn time(&mut self, time: Time) {
        const SECOND: u64 = 1_000_000_000;
        if time.0 < 0 {
            self.put(b"-");
        }
        self.number(time.0.unsigned_abs() / SECOND);
        let point = self.len;
        // A one before the nine digits keeps their zeros; the point then overwrites it.
        self.number(SECOND + time.0.unsigned_abs() % SECOND);
        self.text[point] = b'.';
    }
}

/// The decimal digits of the numbers below 100.
const PAIRS: [[u8; 2]; 100] = {
    let (mut pairs, mut number) = ([[b'0'; 2]; 100], 0);
    while number < 100 {
        pairs[number] = [b'0' + number as u8 / 10, b'0' + number as u8 % 10];
        number += 1;
    }
    pairs
};

#[cfg(test)]
mod tests {
    use super::*;
    use lanefs::{Attr, Ino, PathSet, Rows};

    fn line(format: LineFormat, path: &[u8], answer: Option<Attr>) -> String {
        let mut answers = Columns::of(format.columns());
        let mut rows = answers.rows(1);
        match answer {
            Some(attr) => rows.found(0, attr.ino, attr.kind, Some(&attr)),
            None => rows.failed(0, Code::NotFound),
        }
        let mut out = Vec::new();
        let paths = [path].into_iter().collect::<PathSet>();
        format.push_all(&mut out, paths.view(), b'\n', &answers);
        String::from_utf8(out).unwrap()
    }

    fn found() -> Option<Attr> {
        let time = Time::from_parts(1_777_627_800, 5);
        Some(Attr {
            ino: Ino(9216),
            kind: FileKind::File,
            perm: 0o4755,
            links: 2,
            uid: 1000,
            gid: 100,
            size: 1234,
            blocks: 1,
            rdev: 0,
            mtime: time,
            ctime: time,
            atime: time,
            btime: time,
            generation: 1,
        })
    }

    #[test]
    fn columns_are_as_documented() {
        let plain = LineFormat { stat: false, json: false };
        let stat = LineFormat { stat: true, json: false };
        assert_eq!(line(plain, b"/a\tb\\\xff", found()), "0\t9216\tfile\t1234\t/a\\x09b\\\\\\xff\n");
        assert_eq!(line(plain, b"", None), "4\t-\t-\t-\t\n");
        assert_eq!(
            line(stat, b"x y", found()),
            "0\t9216\tfile\t1234\t4755\t2\t1000\t100\t1777627800.000000005\tx y\n"
        );
        assert_eq!(line(stat, b"x", None), "4\t-\t-\t-\t-\t-\t-\t-\t-\tx\n");
    }

    #[test]
    fn the_longest_columns_have_room() {
        let longest = Attr {
            ino: Ino(u64::MAX),
            kind: FileKind::Symlink,
            perm: 0o7777,
            links: u32::MAX,
            uid: u32::MAX,
            gid: u32::MAX,
            size: u64::MAX,
            mtime: Time(i64::MIN),
            ..found().unwrap()
        };
        let stat = LineFormat { stat: true, json: false };
        let expected = format!(
            "0\t{0}\tsymlink\t{0}\t7777\t{1}\t{1}\t{1}\t-9223372036.854775808\tx\n",
            u64::MAX,
            u32::MAX
        );
        assert_eq!(line(stat, b"x", Some(longest)), expected);
    }

    #[test]
    fn one_odd_path_does_not_change_its_neighbours() {
        let plain = LineFormat { stat: false, json: false };
        for (delimiter, between) in [(b'\n', "\n"), (0, "\0")] {
            let paths = ["/a/b", "/c\\", "/d\te", "/f"];
            for some in [&paths[..], &paths[..1], &paths[3..]] {
                let set = PathSet::split(some.join(between).into(), delimiter);
                let mut answers = Columns::of(plain.columns());
                let mut rows = answers.rows(set.len());
                (0..set.len()).for_each(|row| rows.failed(row, Code::NotFound));
                let mut out = Vec::new();
                plain.push_all(&mut out, set.view(), delimiter, &answers);
                let expected: String = some
                    .iter()
                    .map(|path| format!("4\t-\t-\t-\t{}\n", escape::escape(path.as_bytes())))
                    .collect();
                assert_eq!(String::from_utf8(out).unwrap(), expected);
            }
        }
    }

    #[test]
    fn json_lines_parse() {
        let stat = LineFormat { stat: true, json: true };
        let object: serde_json::Value = serde_json::from_str(&line(stat, b"a\"\n", found())).unwrap();
        assert_eq!(object["path"], "a\"\n");
        assert_eq!(object["mode"], "4755");
        assert_eq!(object["inode"], 9216);
        let object: serde_json::Value = serde_json::from_str(&line(stat, b"\xff", None)).unwrap();
        assert_eq!(object["path_hex"], "ff");
        assert_eq!(object["error"], "not found");
        assert!(object["size"].is_null());
    }

    #[test]
    fn times_are_decimal() {
        for n in [0, 1, -1, 999_999_999, -1_000_000_000, 1_777_627_800_000_000_500, i64::MAX, i64::MIN] {
            let mut head = Head::new();
            head.time(Time(n));
            assert_eq!(head.text(), time::decimal(Time(n)).as_bytes());
        }
    }

    #[test]
    fn numbers_are_decimal() {
        let powers = (0..20).map(|exponent| 10_u64.pow(exponent));
        for n in powers.flat_map(|n| [n - 1, n, n + 1, n / 7 * 9]).chain([12345, u64::MAX]) {
            let mut head = Head::new();
            head.number(n);
            assert_eq!(head.text(), n.to_string().as_bytes());
        }
    }
}
