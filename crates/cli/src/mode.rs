//! Permissions as text: `drwxr-xr-x`, and what `chmod` is given.

use lanefs::FileKind;

/// Type and permissions as `ls -l` shows them.
pub fn text(kind: FileKind, perm: u16) -> String {
    let mut out = String::with_capacity(10);
    out.push(match kind {
        FileKind::Fifo => 'p',
        FileKind::CharDevice => 'c',
        FileKind::Directory => 'd',
        FileKind::BlockDevice => 'b',
        FileKind::File => '-',
        FileKind::Symlink => 'l',
        FileKind::Socket => 's',
    });
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = perm >> shift;
        out.push(if bits & 4 != 0 { 'r' } else { '-' });
        out.push(if bits & 2 != 0 { 'w' } else { '-' });
        out.push(match (bits & 1 != 0, perm & special != 0) {
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    out
}

/// A change of permissions: octal, or symbolic as chmod(1) takes it (`u+rw,go-x`, `a=rX`). Who is left out means `a`;
/// there is no umask inside a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeChange(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Set(u16),
    Symbolic { who: u16, op: u8, what: What },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Letters(String),
    CopyOf(u16),
}

const USER: u16 = 0o4700;
const GROUP: u16 = 0o2070;
const OTHER: u16 = 0o1007;

impl ModeChange {
    /// Parses octal or symbolic notation.
    ///
    /// # Errors
    /// Says how to write it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a mode; write it like 755, 0644 or u+rw,go-w");
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let octal = u16::from_str_radix(text, 8).ok().filter(|m| *m <= 0o7777).ok_or_else(bad)?;
            return Ok(ModeChange(vec![Step::Set(octal)]));
        }
        let mut steps = Vec::new();
        for clause in text.split(',') {
            let mut rest = clause.trim_start_matches(['u', 'g', 'o', 'a']);
            let who = clause[..clause.len() - rest.len()].chars().fold(0, |who, c| who | class(c));
            let who = if who == 0 { 0o7777 } else { who };
            if rest.is_empty() {
                return Err(bad());
            }
            while let [op @ (b'+' | b'-' | b'='), ..] = rest.as_bytes() {
                rest = &rest[1..];
                let end = rest.find(['+', '-', '=']).unwrap_or(rest.len());
                let (letters, next) = rest.split_at(end);
                let what = match letters {
                    "u" | "g" | "o" => What::CopyOf(class(letters.chars().next().unwrap_or('a'))),
                    _ if letters.chars().all(|c| "rwxXst".contains(c)) => What::Letters(letters.to_string()),
                    _ => return Err(bad()),
                };
                steps.push(Step::Symbolic { who, op: *op, what });
                rest = next;
            }
            if !rest.is_empty() {
                return Err(bad());
            }
        }
        Ok(ModeChange(steps))
    }

    /// The permissions that the change makes of `perm`.
    pub fn apply(&self, kind: FileKind, perm: u16) -> u16 {
        self.0.iter().fold(perm, |perm, step| match step {
            Step::Set(octal) => *octal,
            Step::Symbolic { who, op, what } => {
                let bits = who & what.bits(kind, perm);
                match op {
                    b'+' => perm | bits,
                    b'-' => perm & !bits,
                    _ => perm & !(who & clearable(kind)) | bits,
                }
            }
        })
    }
}

/// `g=rx` on a directory keeps its set-group-id bit, as chmod(1) does.
fn clearable(kind: FileKind) -> u16 {
    if kind == FileKind::Directory { 0o1777 } else { 0o7777 }
}

impl What {
    /// The bits for all three classes; the caller masks them.
    fn bits(&self, kind: FileKind, perm: u16) -> u16 {
        match self {
            What::CopyOf(class) => {
                let shift = match *class {
                    USER => 6,
                    GROUP => 3,
                    _ => 0,
                };
                (perm >> shift & 7) * 0o111
            }
            What::Letters(letters) => letters.chars().fold(0, |bits, c| {
                bits | match c {
                    'r' => 0o444,
                    'w' => 0o222,
                    'x' => 0o111,
                    'X' if kind == FileKind::Directory || perm & 0o111 != 0 => 0o111,
                    's' => 0o6000,
                    't' => 0o1000,
                    _ => 0,
                }
            }),
        }
    }
}

fn class(c: char) -> u16 {
    match c {
        'u' => USER,
        'g' => GROUP,
        'o' => OTHER,
        _ => 0o7777,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_what_ls_shows() {
        assert_eq!(text(FileKind::Directory, 0o755), "drwxr-xr-x");
        assert_eq!(text(FileKind::File, 0o6644), "-rwSr-Sr--");
        assert_eq!(text(FileKind::Directory, 0o1777), "drwxrwxrwt");
        assert_eq!(text(FileKind::CharDevice, 0o1000), "c--------T");
        assert_eq!(text(FileKind::File, 0o4711), "-rws--x--x");
    }

    #[test]
    fn changes_what_chmod_changes() {
        let apply = |change: &str, kind, perm| ModeChange::parse(change).unwrap().apply(kind, perm);
        let file = FileKind::File;
        assert_eq!(apply("755", file, 0), 0o755);
        assert_eq!(apply("u+x", file, 0o644), 0o744);
        assert_eq!(apply("go-rwx", file, 0o755), 0o700);
        assert_eq!(apply("a=r", file, 0o4755), 0o444);
        assert_eq!(apply("+X", file, 0o644), 0o644);
        assert_eq!(apply("+X", FileKind::Directory, 0o644), 0o755);
        assert_eq!(apply("u=rw,g=u,o=", file, 0o777), 0o660);
        assert_eq!(apply("u+s,+t", file, 0o755), 0o5755);
        assert_eq!(apply("g=rx", FileKind::Directory, 0o2777), 0o2757);
        assert_eq!(apply("u=rwx-w", file, 0), 0o500);
    }

    #[test]
    fn refuses_what_is_no_mode() {
        for text in ["", "8", "77777", "u", "u+q", "x+r", "u+r,", "+rw!", "ü"] {
            assert!(ModeChange::parse(text).is_err(), "{text}");
        }
    }
}
