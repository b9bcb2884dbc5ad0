//! Copies within a volume, as `copy_file_range(2)`.

use crate::data;
use crate::error::Outcome;
use crate::error::Result;
use crate::notice::Changed;
use crate::ops::regular;
use crate::perm::{self, READ, WRITE, access};
use crate::types::{Allocate, Caller, Ino, Seek};
use crate::volume::Volume;
use lanefs_format::{BLOCK, Code, MAX_FILE_SIZE};
use lanefs_store::Fault;

/// Bytes that one transaction copies, which are all that is in memory at a time.
const PIECE: u64 = 1 << 20;
/// Bytes of a hole that one transaction copies: it may free as many in the target.
const HOLE_PIECE: u64 = 1 << 30;

/// The kind of the bytes at the start of a range, and their number.
enum Stretch {
    Data(u64),
    Hole(u64),
}

impl Volume {
    /// Copies up to `len` bytes from one file to another, or within a file. Returns their number: it is
    /// smaller at the end of the source, or where an error follows the first bytes. Holes stay holes, in
    /// whole blocks.
    ///
    /// The copy is not atomic: other threads may see a part of it.
    ///
    /// # Errors
    /// [`Code::Invalid`] for ranges of one file that overlap; [`Code::FileTooLarge`]; those of
    /// [`read`](Self::read) and [`write`](Self::write).
    pub fn copy_range(
        &self,
        who: &Caller,
        from: Ino,
        from_offset: u64,
        to: Ino,
        to_offset: u64,
        len: u64,
    ) -> Result<u64> {
        let size = self.view(|core| {
            let (source, target) = (regular(core, from)?, regular(core, to)?);
            access(who, &source, READ)?;
            access(who, &target, WRITE)?;
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
        let mut buffer = Vec::new();
        let mut done = 0;
        while done < len {
            let step = self.copy_piece(
                who,
                (from, from_offset + done),
                (to, to_offset + done),
                len - done,
                &mut buffer,
            );
            match step {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
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

    /// Copies the start of a range: data, or a hole.
    fn copy_piece(
        &self,
        who: &Caller,
        (from, source): (Ino, u64),
        (to, target): (Ino, u64),
        len: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<u64> {
        match self.stretch(from, source)? {
            Stretch::Hole(bytes) => {
                let bytes = bytes.min(len).min(HOLE_PIECE);
                if bytes == 0 {
                    return Ok(0);
                }
                self.change(|edit| {
                    let node = regular(edit.core, to)?;
                    access(who, &node, WRITE)?;
                    data::fallocate(edit, node, Allocate::PunchHole, target, bytes)?;
                    if target + bytes > node.size() {
                        data::truncate(edit, node, target + bytes)?;
                    }
                    perm::drop_set_id(edit, who, &node);
                    Ok(())
                })?;
                Ok(bytes)
            }
            Stretch::Data(bytes) => {
                // A piece ends where a block of the target does.
                let bytes = bytes.min(len).min(PIECE - target % BLOCK);
                buffer.resize(bytes as usize, 0);
                let read = self.read(who, from, source, buffer)?;
                self.write(who, to, target, &buffer[..read])?;
                Ok(read as u64)
            }
        }
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
