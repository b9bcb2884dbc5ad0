//! Copies within a volume, as `copy_file_range(2)`.

use super::ops::regular;
use crate::files::data;
use crate::files::perm::{self, READ, WRITE, access};
use crate::running::volume::Volume;
use crate::vocabulary::error::{Outcome, Result};
use crate::vocabulary::notice::Changed;
use crate::vocabulary::types::{Allocate, Caller, Ino, Seek};
use lanefs_format::{BLOCK, Code, MAX_FILE_SIZE};
use lanefs_store::Fault;

/// Limits of one transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Bound {
    /// Bytes of data, which are in memory meanwhile.
    data: u64,
    /// Pieces: data or holes.
    pieces: usize,
}

/// Limits of a copy that is one transaction.
const TOGETHER: Bound = Bound { data: 16 << 20, pieces: 1024 };
/// Limits of a part of a copy that cannot be one transaction.
const PART: Bound = Bound { data: 1 << 20, pieces: 1 };
/// Bytes of a hole that one transaction copies: it may free as many in the target.
const HOLE_BYTES: u64 = 1 << 30;

/// The kind of the bytes at the start of a range, and their number.
enum Stretch {
    Data(u64),
    Hole(u64),
}

/// Consecutive bytes of a copy.
enum Piece {
    Data(Vec<u8>),
    Hole(u64),
}

impl Piece {
    fn len(&self) -> u64 {
        match self {
            Piece::Data(bytes) => bytes.len() as u64,
            Piece::Hole(bytes) => *bytes,
        }
    }
}

/// # Copies of ranges
impl Volume {
    /// Copies up to `len` bytes from one file to another, or within a file. Returns their number: it is
    /// smaller at the end of the source, or where an error follows the first bytes. Holes stay holes, in
    /// whole blocks.
    ///
    /// A copy of up to 16 MiB of data in up to 1,024 extents and holes is one transaction, if the volume and
    /// its journal have room for that. Each 16 MiB of a longer one are; otherwise each MiB and each hole.
    /// Other threads may change the source meanwhile.
    ///
    /// # Errors
    /// [`Code::Invalid`] for ranges of one file that overlap; [`Code::FileTooLarge`]; those of
    /// [`read`](Self::read) and [`write`](Self::write).
    pub fn copy_range(
        &self,
        caller: &Caller,
        from: Ino,
        from_offset: u64,
        to: Ino,
        to_offset: u64,
        len: u64,
    ) -> Result<u64> {
        let size = self.view(|core| {
            let (source, target) = (regular(core, from)?, regular(core, to)?);
            access(core, caller, &source, READ)?;
            access(core, caller, &target, WRITE)?;
            Ok(source.size())
        })?;
        let len = len.min(size.saturating_sub(from_offset));
        let too_far = to_offset.checked_add(len).is_none_or(|end| end > MAX_FILE_SIZE);
        if len > 0 && too_far {
            return Err(Code::FileTooLarge.into());
        }
        if from == to && len > from_offset.abs_diff(to_offset) {
            return Err(Code::Invalid.into());
        }
        let (mut done, mut bound) = (0, self.bound_of_copies());
        while done < len {
            let pieces = self.pieces(caller, from, from_offset + done, to_offset + done, len - done, bound);
            match pieces.and_then(|pieces| self.put_pieces(caller, to, to_offset + done, &pieces, bound)) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                // Smaller transactions may fit into the volume, or into its journal.
                Err(_) if bound != PART => bound = PART,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        debug_assert!(done <= len, "{done} bytes of {len}");
        if done > 0 {
            self.notify(&[Changed::Inode(to)]);
        }
        Ok(done)
    }

    /// The limits of a transaction: uncommitted data take a part of a small cache at most.
    fn bound_of_copies(&self) -> Bound {
        let cache = self.stats().blocks_allowed.saturating_mul(BLOCK);
        Bound { data: TOGETHER.data.min(cache / 8).max(PART.data), ..TOGETHER }
    }

    /// Reads the pieces at the start of a range, as many as one transaction may copy to byte `target`.
    fn pieces(
        &self,
        caller: &Caller,
        from: Ino,
        source: u64,
        target: u64,
        len: u64,
        bound: Bound,
    ) -> Result<Vec<Piece>> {
        let (mut pieces, mut done) = (Vec::new(), 0);
        // A transaction ends where a block of the target does.
        let (mut data, mut hole) = (bound.data - target % BLOCK, HOLE_BYTES);
        while done < len && data > 0 && hole > 0 && pieces.len() < bound.pieces {
            let piece = match self.stretch(from, source + done)? {
                Stretch::Hole(bytes) => Piece::Hole(bytes.min(len - done).min(hole)),
                Stretch::Data(bytes) => {
                    let mut buffer = vec![0; bytes.min(len - done).min(data) as usize];
                    let read = self.read(caller, from, source + done, &mut buffer)?;
                    buffer.truncate(read);
                    Piece::Data(buffer)
                }
            };
            match &piece {
                // The source has become shorter.
                piece if piece.len() == 0 => break,
                Piece::Data(bytes) => data -= bytes.len() as u64,
                Piece::Hole(bytes) => hole -= bytes,
            }
            done += piece.len();
            pieces.push(piece);
        }
        Ok(pieces)
    }

    /// Writes pieces in one transaction; returns the number of bytes. A transaction of several parts fails
    /// where it is too large for the journal, in which it is atomic.
    fn put_pieces(
        &self,
        caller: &Caller,
        to: Ino,
        target: u64,
        pieces: &[Piece],
        bound: Bound,
    ) -> Result<u64> {
        if pieces.is_empty() {
            return Ok(0);
        }
        self.change_data(|edit, plan| {
            let node = regular(edit.core, to)?;
            access(edit.core, caller, &node, WRITE)?;
            let mut at = target;
            for piece in pieces {
                match piece {
                    Piece::Data(bytes) => data::write(edit, node, at, bytes, plan)?,
                    Piece::Hole(bytes) => {
                        data::fallocate(edit, node, Allocate::PunchHole, at, *bytes, plan)?;
                        if at + bytes > node.size() {
                            data::truncate(edit, node, at + bytes, plan)?;
                        }
                    }
                }
                at += piece.len();
            }
            perm::drop_set_id(edit, caller, &node);
            match bound != PART && self.shared.state.store.room_for_changes() == 0 {
                true => Err(Code::NotResident.into()),
                false => Ok(at - target),
            }
        })
    }

    /// The kind of range at `offset`, and its length; 0 at the end of the file.
    fn stretch(&self, ino: Ino, offset: u64) -> Result<Stretch> {
        self.view(|core| {
            let node = regular(core, ino)?;
            let end = |found: Outcome<u64>| match found {
                Err(Fault::Code(Code::NoSuchRange)) => Ok(node.size().max(offset)),
                found => found,
            };
            let data = end(data::seek(core, node, offset, Seek::Data))?;
            if data > offset || data >= node.size() {
                return Ok(Stretch::Hole(data - offset));
            }
            Ok(Stretch::Data(end(data::seek(core, node, offset, Seek::Hole))? - offset))
        })
    }
}
