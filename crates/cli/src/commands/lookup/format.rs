//! Lines of the output. Formatted by hand for speed: a batch has millions of them.

use crate::escape::escape_into;
use crate::time;
use lanefs::{Code, Column, Columns, FileKind, Time};
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

    /// Appends the line for one path, whose answer is in this row of the columns.
    pub(super) fn push(self, out: &mut Vec<u8>, path: &[u8], answers: &Columns, row: usize) {
        let code = answers.code()[row];
        let kind = FileKind::from_number(answers.kind()[row]).filter(|_| code == Code::Success.number());
        if self.json {
            self.push_json(out, path, answers, row, kind);
        } else {
            self.push_columns(out, path, answers, row, kind);
        }
    }

    fn push_columns(
        self,
        out: &mut Vec<u8>,
        path: &[u8],
        answers: &Columns,
        row: usize,
        kind: Option<FileKind>,
    ) {
        push_number(out, u64::from(answers.code()[row]));
        out.push(b'\t');
        match kind {
            Some(kind) => {
                push_number(out, answers.ino()[row]);
                out.push(b'\t');
                out.extend_from_slice(kind.word().as_bytes());
                out.push(b'\t');
                push_number(out, answers.size()[row]);
                if self.stat {
                    out.push(b'\t');
                    push_perm(out, answers.mode()[row]);
                    for column in [answers.links(), answers.uid(), answers.gid()] {
                        out.push(b'\t');
                        push_number(out, u64::from(column[row]));
                    }
                    out.push(b'\t');
                    push_time(out, Time(answers.mtime()[row]));
                }
            }
            None => out.extend_from_slice(if self.stat { b"-\t-\t-\t-\t-\t-\t-\t-" } else { b"-\t-\t-" }),
        }
        out.push(b'\t');
        escape_into(out, path);
        out.push(b'\n');
    }

    fn push_json(
        self,
        out: &mut Vec<u8>,
        path: &[u8],
        answers: &Columns,
        row: usize,
        kind: Option<FileKind>,
    ) {
        let code = code_of(answers.code()[row]);
        let _ = write!(out, "{{\"code\":{}", code.number());
        match kind {
            Some(kind) => {
                let _ = write!(out, ",\"inode\":{},\"type\":\"{}\"", answers.ino()[row], kind.word());
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
        push_json_text(out, &String::from_utf8_lossy(path));
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
        let _ = write!(out, ",\"size\":{}", answers.size()[row]);
        if self.stat {
            let (perm, time) = (answers.mode()[row] & 0o7777, time::decimal(Time(answers.mtime()[row])));
            let (links, uid, gid) = (answers.links()[row], answers.uid()[row], answers.gid()[row]);
            let _ = write!(
                out,
                ",\"mode\":\"{perm:04o}\",\"links\":{links},\"uid\":{uid},\"gid\":{gid},\"mtime\":\"{time}\""
            );
        }
    }
}

fn push_json_text(out: &mut Vec<u8>, text: &str) {
    // Writing to a vector cannot fail.
    let _ = serde_json::to_writer(out, text);
}

/// Permissions as four octal digits.
fn push_perm(out: &mut Vec<u8>, perm: u16) {
    out.extend([9, 6, 3, 0].map(|shift| b'0' + (perm >> shift & 7) as u8));
}

/// A time as [`time::decimal`] writes it.
fn push_time(out: &mut Vec<u8>, time: Time) {
    const SECOND: u64 = 1_000_000_000;
    if time.0 < 0 {
        out.push(b'-');
    }
    push_number(out, time.0.unsigned_abs() / SECOND);
    let point = out.len();
    // A one before the nine digits keeps their zeros; the point then overwrites it.
    push_number(out, SECOND + time.0.unsigned_abs() % SECOND);
    out[point] = b'.';
}

/// A decimal number, without the machinery of `write!`.
fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanefs::{Attr, Ino, Rows};

    fn line(format: LineFormat, path: &[u8], answer: Option<Attr>) -> String {
        let mut answers = Columns::of(format.columns());
        let mut rows = answers.rows(1);
        match answer {
            Some(attr) => rows.found(0, attr.ino, attr.kind, Some(&attr)),
            None => rows.failed(0, Code::NotFound),
        }
        let mut out = Vec::new();
        format.push(&mut out, path, &answers, 0);
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
            let mut out = Vec::new();
            push_time(&mut out, Time(n));
            assert_eq!(out, time::decimal(Time(n)).as_bytes());
        }
    }

    #[test]
    fn numbers_are_decimal() {
        for n in [0, 9, 10, 12345, u64::MAX] {
            let mut out = Vec::new();
            push_number(&mut out, n);
            assert_eq!(out, n.to_string().as_bytes());
        }
    }
}
