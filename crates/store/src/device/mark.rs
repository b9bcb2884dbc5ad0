//! Marks of open volumes: a number that a process shows to those that find the volume in use.
//!
//! A mark is a lock of one byte after any volume's end, whose position is the number. So it ends with the
//! process, at the same moment as the lock of the volume, and costs no byte of the image. As for the volume
//! itself, a writer's mark is one that only a file which is open for writing can have.

use super::ofd::{self, Kind, Range};
use super::{holder, lock};
use std::fs::File;
use std::io;

/// The byte of the mark 0. All volumes end before it.
const FIRST: i64 = 1 << 60;
/// Number of marks: one needs fewer than 56 bits.
const NUMBERS: u64 = 1 << 56;
/// Most marks that are looked at.
const MOST_MARKS: usize = 64;

/// The use of a volume by other open files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageUse {
    /// True where one of them has it open, for writing or for reading.
    pub is_open: bool,
    /// True where one of them has it open for writing.
    pub has_writer: bool,
    /// The processes that have it open, each once, as far as the host tells.
    pub processes: Vec<u32>,
    /// The marks of the writer, or of the readers where nobody writes.
    pub marks: Vec<u64>,
}

impl ImageUse {
    /// Looks at the locks of the volume in a file.
    ///
    /// # Errors
    /// The host's, such as that it has no locks of this kind.
    pub fn of(file: &File) -> io::Result<ImageUse> {
        let has_writer = lock::has_writer(file)?;
        // Readers can have marks beside those of a writer, which count for nothing.
        let kind = if has_writer { Kind::Shared } else { Kind::Alone };
        let is_open = has_writer || lock::has_reader(file)?;
        Ok(ImageUse {
            is_open,
            has_writer,
            processes: if is_open { holder::processes(file) } else { Vec::new() },
            marks: marks(file, kind)?,
        })
    }
}

/// Shows `number` as long as this file, which has the volume's lock, is open; `None` shows none. Nothing
/// happens where the host has no locks of this kind.
pub(super) fn show(file: &File, write: bool, number: Option<u64>) {
    let whole = Range { first: FIRST, bytes: NUMBERS as i64 };
    let _ = ofd::unlock(file, whole);
    if let Some(number) = number.filter(|number| *number < NUMBERS) {
        let kind = if write { Kind::Alone } else { Kind::Shared };
        let _ = ofd::try_lock(file, FIRST + number as i64, kind);
    }
}

/// Returns the marks of other open files of which a lock of `kind` would be in the way.
fn marks(file: &File, kind: Kind) -> io::Result<Vec<u64>> {
    let mut marks = Vec::new();
    let mut ranges = vec![Range { first: FIRST, bytes: NUMBERS as i64 }];
    while let Some(range) = ranges.pop().filter(|_| marks.len() < MOST_MARKS) {
        // The kernel tells one of several, in no order.
        let Some(found) = ofd::lock_in(file, range, kind)? else { continue };
        // A lock of more bytes is not one of ours, and hides others.
        let (end, next) = (range.first + range.bytes, found.first + 1);
        if found.bytes != 1 || !(range.first..end).contains(&found.first) {
            return Ok(Vec::new());
        }
        marks.push((found.first - FIRST) as u64);
        let parts = [(range.first, found.first), (next, end)];
        ranges.extend(
            parts
                .iter()
                .filter(|(first, end)| first < end)
                .map(|(first, end)| Range { first: *first, bytes: end - first }),
        );
    }
    Ok(marks)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file, and the same opened `count` times more.
    fn files(count: usize) -> (tempfile::NamedTempFile, Vec<File>) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let open = |_| File::options().read(true).write(true).open(file.path()).expect("the file");
        let files = (0..count).map(open).collect();
        (file, files)
    }

    #[test]
    fn marks_of_other_files_are_found_and_end_with_them() {
        let (file, mut others) = files(5);
        let numbers = [7, 0, NUMBERS - 1, 8, NUMBERS];
        for (other, number) in others.iter().zip(numbers) {
            lock::lock(other, false).expect("a reader");
            show(other, false, Some(number));
        }
        let mut found = ImageUse::of(file.as_file()).expect("locks");
        found.marks.sort_unstable();
        assert_eq!(found.marks, [0, 7, 8, NUMBERS - 1], "a number too large is not shown");
        assert!(found.is_open && found.processes.iter().all(|process| *process == std::process::id()));
        show(&others[0], false, Some(9));
        show(&others[1], false, None);
        others.truncate(2);
        assert_eq!(ImageUse::of(file.as_file()).expect("locks").marks, [9]);
        drop(others);
        assert_eq!(ImageUse::of(file.as_file()).expect("locks"), ImageUse::default());
    }

    #[test]
    fn the_mark_of_a_writer_is_not_that_of_a_reader() {
        let (file, others) = files(2);
        lock::lock(&others[0], true).expect("a writer");
        show(&others[0], true, Some(1));
        show(&others[1], false, Some(2));
        assert_eq!(ImageUse::of(file.as_file()).expect("locks").marks, [1]);
        // Nor do other locks of readers hide it.
        show(&others[1], false, None);
        ofd::lock_range(&others[1], Range { first: FIRST - 1, bytes: 2 }, Kind::Shared).expect("a lock");
        assert_eq!(ImageUse::of(file.as_file()).expect("locks").marks, [1]);
    }

    #[test]
    fn a_lock_that_is_not_a_mark_hides_all() {
        let (file, others) = files(1);
        show(&others[0], false, Some(1));
        ofd::lock_range(&others[0], Range { first: FIRST - 1, bytes: 3 }, Kind::Shared).expect("a lock");
        assert_eq!(ImageUse::of(file.as_file()).expect("locks").marks, [0_u64; 0]);
    }
}
