//! Lines of the output. Formatted by hand for speed: a batch has millions of them.

use crate::escape::escape_into;
use crate::time;
use lanefs::{Attr, Code, Resolution, Time};
use std::io::Write;

/// Form of the lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineFormat {
    /// Adds mode, links, uid, gid and mtime.
    pub(super) stat: bool,
    /// JSON objects instead of columns.
    pub(super) json: bool,
}

impl LineFormat {
    /// Appends the line for one path.
    pub(super) fn push(self, out: &mut Vec<u8>, path: &[u8], answer: &Resolution) {
        if self.json { self.push_json(out, path, answer) } else { self.push_columns(out, path, answer) }
    }

    fn push_columns(self, out: &mut Vec<u8>, path: &[u8], answer: &Resolution) {
        push_number(out, u64::from(answer.code.number()));
        out.push(b'\t');
        let found = answer.code == Code::Success;
        match answer.ino.filter(|_| found) {
            Some(ino) => push_number(out, ino.0),
            None => out.push(b'-'),
        }
        out.push(b'\t');
        match answer.kind.filter(|_| found) {
            Some(kind) => out.extend_from_slice(kind.word().as_bytes()),
            None => out.push(b'-'),
        }
        out.push(b'\t');
        match answer.attr.filter(|_| found) {
            Some(attr) => {
                push_number(out, attr.size);
                if self.stat {
                    out.push(b'\t');
                    push_perm(out, attr.perm);
                    for number in [attr.links, attr.uid, attr.gid] {
                        out.push(b'\t');
                        push_number(out, u64::from(number));
                    }
                    out.push(b'\t');
                    push_time(out, attr.mtime);
                }
            }
            None => out.extend_from_slice(if self.stat { b"-\t-\t-\t-\t-\t-" } else { b"-" }),
        }
        out.push(b'\t');
        escape_into(out, path);
        out.push(b'\n');
    }

    fn push_json(self, out: &mut Vec<u8>, path: &[u8], answer: &Resolution) {
        let _ = write!(out, "{{\"code\":{}", answer.code.number());
        let found = answer.code == Code::Success;
        match (answer.ino, answer.kind) {
            (Some(ino), Some(kind)) if found => {
                let _ = write!(out, ",\"inode\":{ino},\"type\":\"{}\"", kind.word());
            }
            _ => out.extend_from_slice(b",\"inode\":null,\"type\":null"),
        }
        self.push_json_attributes(out, answer.attr.filter(|_| found));
        if !found {
            let _ = write!(out, ",\"error\":\"{}\"", answer.code.text());
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

    fn push_json_attributes(self, out: &mut Vec<u8>, attr: Option<Attr>) {
        match attr {
            Some(attr) => {
                let _ = write!(out, ",\"size\":{}", attr.size);
                if self.stat {
                    let (perm, time) = (attr.perm, time::decimal(attr.mtime));
                    let (links, uid, gid) = (attr.links, attr.uid, attr.gid);
                    let _ = write!(
                        out,
                        ",\"mode\":\"{perm:04o}\",\"links\":{links},\"uid\":{uid},\"gid\":{gid},\"mtime\":\"{time}\""
                    );
                }
            }
            None => {
                out.extend_from_slice(b",\"size\":null");
                if self.stat {
                    out.extend_from_slice(
                        b",\"mode\":null,\"links\":null,\"uid\":null,\"gid\":null,\"mtime\":null",
                    );
                }
            }
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
    use lanefs::{FileKind, Ino};

    fn line(format: LineFormat, path: &[u8], answer: &Resolution) -> String {
        let mut out = Vec::new();
        format.push(&mut out, path, answer);
        String::from_utf8(out).unwrap()
    }

    fn found() -> Resolution {
        let time = Time::from_parts(1_777_627_800, 5);
        let attr = Attr {
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
        };
        Resolution { code: Code::Success, ino: Some(attr.ino), kind: Some(attr.kind), attr: Some(attr) }
    }

    const MISSING: Resolution = Resolution { code: Code::NotFound, ino: None, kind: None, attr: None };

    #[test]
    fn columns_are_as_documented() {
        let plain = LineFormat { stat: false, json: false };
        let stat = LineFormat { stat: true, json: false };
        assert_eq!(line(plain, b"/a\tb\\\xff", &found()), "0\t9216\tfile\t1234\t/a\\x09b\\\\\\xff\n");
        assert_eq!(line(plain, b"", &MISSING), "4\t-\t-\t-\t\n");
        assert_eq!(
            line(stat, b"x y", &found()),
            "0\t9216\tfile\t1234\t4755\t2\t1000\t100\t1777627800.000000005\tx y\n"
        );
        assert_eq!(line(stat, b"x", &MISSING), "4\t-\t-\t-\t-\t-\t-\t-\t-\tx\n");
    }

    #[test]
    fn json_lines_parse() {
        let stat = LineFormat { stat: true, json: true };
        let object: serde_json::Value = serde_json::from_str(&line(stat, b"a\"\n", &found())).unwrap();
        assert_eq!(object["path"], "a\"\n");
        assert_eq!(object["mode"], "4755");
        assert_eq!(object["inode"], 9216);
        let object: serde_json::Value = serde_json::from_str(&line(stat, b"\xff", &MISSING)).unwrap();
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
