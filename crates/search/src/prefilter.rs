//! Another engine that looks at texts before the exact one does.

use crate::batch::{Candidate, LARGE};
use crate::error::MAX_LINE;
use crate::file::FileReader;
use lanefs::Volume;
use std::io::{ErrorKind, Read};

/// Looks for the sequences of a query in texts. It may err on one side only: in a text that it leaves out no
/// line matches. The exact engine searches in the others.
pub trait Prefilter: Sync {
    /// Returns for each text whether a line in it may match.
    fn may_match(&self, texts: &[&[u8]]) -> Vec<bool>;
}

/// Byte order marks. The engine converts such texts from UTF-16 before it searches in them.
const MARKS: [&[u8]; 3] = [b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"];

/// Tells for each text whether a line in it may match, as the engine would read it.
pub(crate) fn may_match(prefilter: &dyn Prefilter, texts: &[&[u8]]) -> Vec<bool> {
    let mut found = prefilter.may_match(texts);
    debug_assert_eq!(found.len(), texts.len(), "an answer for each text");
    for (found, text) in found.iter_mut().zip(texts) {
        *found |= MARKS.iter().any(|mark| text.starts_with(mark));
    }
    found
}

/// Bytes of a file that is looked at piece by piece, at most. A larger one may have a line that is an error,
/// whether or not it matches.
const MAX_PIECES: usize = MAX_LINE / 2;

/// Tells whether a line of a large file may match, or the exact engine must decide.
pub(crate) fn may_match_large(
    prefilter: &dyn Prefilter,
    volume: &Volume,
    file: &Candidate,
    stops: &dyn Fn() -> bool,
) -> bool {
    let mut reader = FileReader::new(volume, file.ino, stops);
    let mut piece = vec![0; LARGE as usize];
    let (mut begun, mut whole) = (0, 0);
    while file.size <= MAX_PIECES as u64 && whole <= MAX_PIECES {
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
        if may_match(prefilter, &[&text[..end]]) != [false] {
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
