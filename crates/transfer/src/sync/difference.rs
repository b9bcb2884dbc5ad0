//! Differences between two trees, and the form in which rsync lists them.

use lanefs::FileKind;
use std::cmp::Ordering;
use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// Bytes of two paths that are compared in one step.
const SAME_BYTES: usize = 64;

/// A set of aspects in which two files of the same type differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aspects(u16);

impl Aspects {
    /// The content of a file, if it was compared; the target of a symbolic link; the number of a device.
    pub const CONTENT: Aspects = Aspects(1);
    /// The size of a file.
    pub const SIZE: Aspects = Aspects(1 << 1);
    /// The time of modification.
    pub const MTIME: Aspects = Aspects(1 << 2);
    /// The permission bits, with set-id and sticky bits.
    pub const MODE: Aspects = Aspects(1 << 3);
    /// The owner.
    pub const OWNER: Aspects = Aspects(1 << 4);
    /// The group.
    pub const GROUP: Aspects = Aspects(1 << 5);
    /// An access control list.
    pub const ACL: Aspects = Aspects(1 << 6);
    /// An extended attribute.
    pub const XATTR: Aspects = Aspects(1 << 7);
    /// The other names of the file (hard links).
    pub const LINKS: Aspects = Aspects(1 << 8);
    /// The aspects that have a letter: all but [`LINKS`](Self::LINKS).
    const LISTED: Aspects = Aspects((1 << 8) - 1);

    /// True for the empty set.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True where both sets have an aspect in common.
    #[must_use]
    pub fn has(self, other: Aspects) -> bool {
        self.0 & other.0 != 0
    }

    /// The set, if `is_in`.
    pub(super) fn when(self, is_in: bool) -> Aspects {
        if is_in { self } else { Aspects::default() }
    }

    /// The names of the aspects, as JSON output has them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        const NAMES: [&str; 9] =
            ["content", "size", "mtime", "mode", "owner", "group", "acl", "xattrs", "hard_links"];
        NAMES.into_iter().enumerate().filter(move |(bit, _)| self.0 & (1 << bit) != 0).map(|(_, name)| name)
    }
}

impl BitOr for Aspects {
    type Output = Aspects;

    fn bitor(self, other: Aspects) -> Aspects {
        Aspects(self.0 | other.0)
    }
}

impl BitOrAssign for Aspects {
    fn bitor_assign(&mut self, other: Aspects) {
        self.0 |= other.0;
    }
}

/// The kind of a difference, from the side of the tree that follows the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The tree lacks the name.
    Added,
    /// Only the tree has the name.
    Removed,
    /// The name is that of a file of another type.
    Type,
    /// The file is replaced as a whole.
    Replaced(Aspects),
    /// Only attributes of the file are set.
    Attributes(Aspects),
    /// The name becomes one more of a file that has other names.
    Linked(Aspects),
    /// The file had another name, [`Difference::from`], and gets this one.
    Renamed(Aspects),
}

impl Change {
    /// The aspects that differ; none where only one side has the name, or a file of another type.
    #[must_use]
    pub fn aspects(self) -> Aspects {
        match self {
            Change::Replaced(aspects)
            | Change::Attributes(aspects)
            | Change::Linked(aspects)
            | Change::Renamed(aspects) => aspects,
            Change::Added | Change::Removed | Change::Type => Aspects::default(),
        }
    }

    /// One word, as JSON output has it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Change::Added => "added",
            Change::Removed => "removed",
            Change::Type => "type",
            Change::Replaced(_) => "replaced",
            Change::Attributes(_) => "attributes",
            Change::Linked(_) => "linked",
            Change::Renamed(_) => "renamed",
        }
    }
}

/// A name that differs between two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The path below the top of both trees; empty for the top itself.
    pub path: Vec<u8>,
    /// The type of the file, of the tree that is followed where both have the name.
    pub kind: FileKind,
    /// The kind of the difference.
    pub change: Change,
    /// The path that the file had before, below the top, if it is renamed.
    pub from: Option<Vec<u8>>,
}

impl Difference {
    /// The order of paths name by name: what is below a directory follows it at once.
    #[must_use]
    pub fn by_path(&self, other: &Difference) -> Ordering {
        let (a, b) = (&self.path[..], &other.path[..]);
        // Paths of a deep chain have thousands of bytes in common: those are compared many at a time.
        let at = a.chunks(SAME_BYTES).zip(b.chunks(SAME_BYTES)).take_while(|(a, b)| a == b).count();
        let at = (at * SAME_BYTES).min(a.len()).min(b.len());
        let in_order = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
        a[at..].iter().map(in_order).cmp(b[at..].iter().map(in_order))
    }

    /// The eleven letters of `rsync --itemize-changes` for this difference.
    #[must_use]
    pub fn letters(&self) -> Letters {
        let kind = match self.kind {
            FileKind::File => b'f',
            FileKind::Directory => b'd',
            FileKind::Symlink => b'L',
            FileKind::CharDevice | FileKind::BlockDevice => b'D',
            FileKind::Fifo | FileKind::Socket => b'S',
        };
        let made = match self.kind {
            FileKind::File => b'>',
            _ => b'c',
        };
        let aspects = self.change.aspects();
        match self.change {
            Change::Removed => Letters(*b"*deleting  "),
            Change::Added | Change::Type => {
                Letters([&[made, kind][..], &[b'+'; 9]].concat().try_into().unwrap_or(*b"           "))
            }
            Change::Replaced(_) => Letters::new(made, kind, aspects),
            Change::Attributes(_) => Letters::new(b'.', kind, aspects),
            Change::Linked(_) => Letters::new(b'h', kind, aspects),
            Change::Renamed(_) => Letters::new(b'r', kind, aspects),
        }
    }
}

/// Eleven letters that say what differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Letters([u8; 11]);

impl Letters {
    fn new(update: u8, kind: u8, aspects: Aspects) -> Self {
        // A name that joins a file and is the same otherwise has blanks, as with rsync.
        if update == b'h' && !aspects.has(Aspects::LISTED) {
            return Letters([update, kind, b' ', b' ', b' ', b' ', b' ', b' ', b' ', b' ', b' ']);
        }
        let letter = |aspect: Aspects, letter: u8| if aspects.has(aspect) { letter } else { b'.' };
        Letters([
            update,
            kind,
            letter(Aspects::CONTENT, b'c'),
            letter(Aspects::SIZE, b's'),
            letter(Aspects::MTIME, b't'),
            letter(Aspects::MODE, b'p'),
            letter(Aspects::OWNER, b'o'),
            letter(Aspects::GROUP, b'g'),
            b'.',
            letter(Aspects::ACL, b'a'),
            letter(Aspects::XATTR, b'x'),
        ])
    }
}

impl fmt::Display for Letters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|letter| fmt::Write::write_char(f, char::from(*letter)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_in_the_order_of_their_names() {
        let long = "d/".repeat(200);
        let texts = ["", "a", "a/", "a/b", "a/b/c", "a.b", "a b", "a\u{1}", "ab", "b", "d", &long, "\u{ff}"];
        let mut paths: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        paths.extend(texts.iter().map(|text| format!("{long}{text}")));
        for a in &paths {
            for b in &paths {
                let difference = |path: &str| Difference {
                    path: path.into(),
                    kind: FileKind::File,
                    change: Change::Added,
                    from: None,
                };
                let by_names = a.split('/').map(str::as_bytes).cmp(b.split('/').map(str::as_bytes));
                assert_eq!(difference(a).by_path(&difference(b)), by_names, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn differences_have_the_letters_of_rsync() {
        let letters = |kind, change| {
            let from = matches!(change, Change::Renamed(_)).then(|| b"old".to_vec());
            Difference { path: Vec::new(), kind, change, from }.letters().to_string()
        };
        assert_eq!(letters(FileKind::File, Change::Added), ">f+++++++++");
        assert_eq!(letters(FileKind::Directory, Change::Added), "cd+++++++++");
        assert_eq!(letters(FileKind::Symlink, Change::Type), "cL+++++++++");
        assert_eq!(letters(FileKind::Fifo, Change::Removed), "*deleting  ");
        let both = Aspects::SIZE | Aspects::MTIME;
        assert_eq!(letters(FileKind::File, Change::Replaced(both)), ">f.st......");
        let all = Aspects(u16::MAX);
        assert_eq!(letters(FileKind::BlockDevice, Change::Attributes(all)), ".Dcstpog.ax");
        assert_eq!(letters(FileKind::File, Change::Linked(Aspects::LINKS)), "hf         ");
        assert_eq!(letters(FileKind::File, Change::Linked(Aspects::LINKS | both)), "hf.st......");
        assert_eq!(letters(FileKind::File, Change::Replaced(Aspects::LINKS)), ">f.........");
        assert_eq!(letters(FileKind::Directory, Change::Renamed(Aspects::MTIME)), "rd..t......");
        assert_eq!(all.names().count(), 9);
        assert_eq!(both.names().collect::<Vec<_>>(), ["size", "mtime"]);
    }
}
