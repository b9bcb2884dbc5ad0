//! Permissions as text: `drwxr-xr-x`, and the argument of `chmod`.

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

/// Parses the permissions of a file of the host: octal, without set-id and sticky bits.
///
/// # Errors
/// Says how to write them.
pub fn parse_file_mode(text: &str) -> Result<u16, String> {
    let is_octal = !text.is_empty() && text.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    let mode = u16::from_str_radix(text, 8).ok().filter(|mode| is_octal && *mode <= 0o777);
    mode.ok_or_else(|| "give octal permissions of 777 at most, as 600 or 640".into())
}

/// Major and minor number of a device, as Linux packs them into `dev_t`.
pub fn device_numbers(rdev: u64) -> (u32, u32) {
    (rustix::fs::major(rdev), rustix::fs::minor(rdev))
}

/// A change of permissions: octal, or symbolic as in chmod(1) (`u+rw,go-x`, `a=rX`). A clause without
/// `u`, `g`, `o` or `a` changes all three; a volume has no umask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeChange(Vec<ModeClause>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum ModeClause {
    Set(u16),
    Symbolic { classes: u16, op: u8, bits: PermBits },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PermBits {
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
    /// Tells how to write it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a mode; write it like 755, 0644 or u+rw,go-w");
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let octal = u16::from_str_radix(text, 8).ok().filter(|m| *m <= 0o7777).ok_or_else(bad)?;
            return Ok(ModeChange(vec![ModeClause::Set(octal)]));
        }
        let mut clauses = Vec::new();
        for text in text.split(',') {
            parse_symbolic(text, &mut clauses).ok_or_else(bad)?;
        }
        Ok(ModeChange(clauses))
    }

    /// Applies the change to the permissions `perm`.
    pub fn apply(&self, kind: FileKind, perm: u16) -> u16 {
        self.0.iter().fold(perm, |perm, clause| match clause {
            ModeClause::Set(octal) => *octal,
            ModeClause::Symbolic { classes, op, bits } => {
                let bits = classes & bits.of(kind, perm);
                match op {
                    b'+' => perm | bits,
                    b'-' => perm & !bits,
                    _ => perm & !(classes & clearable(kind)) | bits,
                }
            }
        })
    }
}

/// Parses one clause such as `u+rw` or `g=u-w`; `None` if it is wrong.
fn parse_symbolic(text: &str, clauses: &mut Vec<ModeClause>) -> Option<()> {
    let mut rest = text.trim_start_matches(['u', 'g', 'o', 'a']);
    let classes = text[..text.len() - rest.len()].chars().fold(0, |classes, c| classes | class(c));
    let classes = if classes == 0 { 0o7777 } else { classes };
    if rest.is_empty() {
        return None;
    }
    while let [op @ (b'+' | b'-' | b'='), ..] = rest.as_bytes() {
        rest = &rest[1..];
        let end = rest.find(['+', '-', '=']).unwrap_or(rest.len());
        let (letters, next) = rest.split_at(end);
        let bits = match letters {
            "u" | "g" | "o" => PermBits::CopyOf(class(letters.chars().next().unwrap_or('a'))),
            _ if letters.chars().all(|c| "rwxXst".contains(c)) => PermBits::Letters(letters.to_string()),
            _ => return None,
        };
        clauses.push(ModeClause::Symbolic { classes, op: *op, bits });
        rest = next;
    }
    rest.is_empty().then_some(())
}

/// Bits that `=` clears. On a directory `g=rx` keeps the set-group-id bit, as chmod(1) does.
fn clearable(kind: FileKind) -> u16 {
    if kind == FileKind::Directory { 0o1777 } else { 0o7777 }
}

impl PermBits {
    /// Returns the bits for all three classes; the caller masks them.
    fn of(&self, kind: FileKind, perm: u16) -> u16 {
        match self {
            PermBits::CopyOf(class) => {
                let shift = match *class {
                    USER => 6,
                    GROUP => 3,
                    _ => 0,
                };
                (perm >> shift & 7) * 0o111
            }
            PermBits::Letters(letters) => letters.chars().fold(0, |bits, c| {
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
