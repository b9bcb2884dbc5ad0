//! Another engine that looks at texts before the exact one does.

use crate::batch::{Candidate, LARGE_BYTES};
use crate::error::MAX_LINE_BYTES;
use crate::file::FileReader;
use lanefs::{Ino, Volume};
use std::io::{ErrorKind, Read};

/// Looks for the sequences of a query in texts. It may err on one side only: in a text that it leaves out no
/// line matches. The exact engine searches in the others.
pub trait Prefilter: Send + Sync {
    /// Returns for each text whether a line in it may match.
    fn may_match(&self, texts: &[Text<'_>]) -> Vec<bool>;

    /// Returns the same for files whose contents the engine has kept from an earlier search: those in which
    /// no line matches are not even read. `None` for the others.
    fn known(&self, files: &[Ino]) -> Vec<Option<bool>> {
        vec![None; files.len()]
    }
}

/// A text to look at.
#[derive(Clone, Copy, Debug)]
pub struct Text<'t> {
    /// Its bytes.
    pub bytes: &'t [u8],
    /// The file that has these bytes and no others, if the engine may keep them for later searches.
    pub file: Option<Ino>,
}

/// Byte order marks. The engine converts such texts from UTF-16 before it searches in them.
const MARKS: [&[u8]; 3] = [b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"];

/// Tells for each text whether a line in it may match, as the exact engine would read it.
pub(crate) fn may_match(prefilter: &dyn Prefilter, mut texts: Vec<Text<'_>>) -> Vec<bool> {
    let has_mark = |text: &Text<'_>| MARKS.iter().any(|mark| text.bytes.starts_with(mark));
    // The exact engine searches in other bytes than the device would keep of such a text.
    texts.iter_mut().filter(|text| has_mark(text)).for_each(|text| text.file = None);
    let mut found = prefilter.may_match(&texts);
    debug_assert_eq!(found.len(), texts.len(), "an answer for each text");
    for (found, text) in found.iter_mut().zip(&texts) {
        *found |= has_mark(text);
    }
    found
}

/// Bytes of a file that is looked at piece by piece, at most. A larger one may have a line that is an error,
/// whether or not it matches.
const MAX_PIECEWISE_BYTES: usize = MAX_LINE_BYTES / 2;

/// Tells whether a line of a large file may match, or the exact engine must decide.
pub(crate) fn may_match_large(
    prefilter: &dyn Prefilter,
    volume: &Volume,
    file: &Candidate,
    stops: &dyn Fn() -> bool,
) -> bool {
    let mut reader = FileReader::new(volume, file.ino, stops);
    let mut piece = vec![0; LARGE_BYTES as usize];
    let (mut begun, mut whole) = (0, 0);
    while file.size <= MAX_PIECEWISE_BYTES as u64 && whole <= MAX_PIECEWISE_BYTES {
        let read = match read_full(&mut reader, &mut piece[begun..]) {
            Ok(read) => read,
            Err(_) => return true,
        };
        whole += read;
        let text = &piece[..begun + read];
        let is_last = text.len() < piece.len();
        // No match goes beyond a line, so the next piece begins with one.
        let end = match text.iter().rposition(|byte| *byte == b'\n') {
            _ if is_last => text.len(),
            Some(end) => end + 1,
            None => return true,
        };
        if may_match(prefilter, vec![Text { bytes: &text[..end], file: None }]) != [false] {
            return true;
        }
        if is_last {
            return false;
        }
        piece.copy_within(end.., 0);
        begun = piece.len() - end;
    }
    true
}

/// Reads until the memory is full or the file has ended.
fn read_full(reader: &mut FileReader<'_>, to: &mut [u8]) -> std::io::Result<usize> {
    let mut read = 0;
    while read < to.len() {
        match reader.read(&mut to[read..]) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
