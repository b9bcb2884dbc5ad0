//! File data that a change writes: planned while it runs, written at its end.
//!
//! Data cannot be rolled back. So they are written once all else is done and nothing can fail any more: the
//! change is validated, and all blocks are at hand. A change that conflicts, or finds the volume full, has
//! written no byte that a reader sees.

use super::inode::Inode;
use crate::attempt::edit::Edit;
use crate::mounted::writer::Freed;
use crate::vocabulary::error::Outcome;
use lanefs_format::{BLOCK, INODE_NO_DATA_CHECKSUMS};
use lanefs_store::DataWrite;
use smallvec::SmallVec;
use std::borrow::Cow;

/// Size from which on a write that ends inside a block is copied to be padded, so that it reaches the device
/// in one piece. Only the last block of a shorter one is.
const IN_ONE_PIECE_BYTES: usize = 128 << 10;

/// The file data of one change, in the order in which they are written.
#[derive(Default)]
pub(crate) struct WritePlan<'d> {
    parts: Vec<PlannedWrite<'d>>,
    /// The volume is full: nothing takes a block to clear bytes that no reader sees.
    keeps_rests: bool,
}

struct PlannedWrite<'d> {
    /// Position on the volume.
    at: u64,
    data: Cow<'d, [u8]>,
    /// The blocks were allocated for this data.
    is_new: bool,
    /// The file's data have checksums.
    summed: bool,
}

impl PlannedWrite<'_> {
    fn end(&self) -> u64 {
        self.at + self.data.len() as u64
    }

    fn meets(&self, other: &PlannedWrite<'_>) -> bool {
        self.at < other.end() && other.at < self.end()
    }

    fn covers(&self, at: u64, end: u64) -> bool {
        self.at <= at && end <= self.end()
    }
}

fn is_summed(node: &Inode<'_>) -> bool {
    node.flags() & INODE_NO_DATA_CHECKSUMS == 0
}

impl<'d> WritePlan<'d> {
    /// Makes a truncation on a full volume do without a new block for the file's last one.
    pub(crate) fn keep_rests(&mut self) {
        self.keeps_rests = true;
    }

    /// Returns whether the bytes that a truncation cuts off may stay in the file's last block.
    pub(crate) fn keeps_rests(&self) -> bool {
        self.keeps_rests
    }

    /// Adds data of file `node`, whose inode the change has locked.
    pub(crate) fn add(&mut self, node: &Inode<'_>, at: u64, data: Cow<'d, [u8]>, is_new: bool) {
        self.parts.push(PlannedWrite { at, data, is_new, summed: is_summed(node) });
    }

    /// Adds data, and zeros up to the end of their last block.
    pub(crate) fn add_blocks(&mut self, node: &Inode<'_>, at: u64, data: Cow<'d, [u8]>, is_new: bool) {
        let whole = data.len() & !(BLOCK as usize - 1);
        let padded = |part: &[u8]| {
            let len = part.len().next_multiple_of(BLOCK as usize);
            let mut padded = Vec::with_capacity(len);
            padded.extend_from_slice(part);
            padded.resize(len, 0);
            Cow::Owned(padded)
        };
        match data {
            data if whole == data.len() => self.add(node, at, data, is_new),
            Cow::Borrowed(data) if data.len() < IN_ONE_PIECE_BYTES => {
                let (whole, last) = data.split_at(whole);
                if !whole.is_empty() {
                    self.add(node, at, Cow::Borrowed(whole), is_new);
                }
                self.add(node, at + whole.len() as u64, padded(last), is_new);
            }
            data => self.add(node, at, padded(&data), is_new),
        }
    }

    /// Returns whether the block at `at` of file `node` can be written where it is, and of how many blocks
    /// from there on, `most` at most, the same is true.
    pub(crate) fn may_overwrite(&self, edit: &Edit<'_>, node: &Inode<'_>, at: u64, most: u64) -> (bool, u64) {
        if !is_summed(node) {
            return (true, most);
        }
        // This plan has allocated the block.
        match self.parts.iter().find(|part| part.covers(at, at + BLOCK)) {
            Some(part) => (true, most.min((part.end() - at) / BLOCK)),
            None => edit.store().may_overwrite(at, most),
        }
    }

    /// Leaves out data whose blocks a later step of the same change has freed again.
    pub(crate) fn forget(&mut self, freed: &[Freed]) {
        let extents = freed.iter().filter_map(|freed| match freed {
            Freed::Extent(extent) => Some((extent.first, extent.first + extent.count)),
            _ => None,
        });
        let mut free: Vec<(u64, u64)> = extents.collect();
        free.sort_unstable();
        let is_free = |block: u64| {
            let next = free.partition_point(|(first, _)| *first <= block);
            next > 0 && block < free[next - 1].1
        };
        // A change frees a file's blocks as a whole, or those past its end.
        self.parts.retain(|part| !(part.at / BLOCK..part.end().div_ceil(BLOCK)).all(is_free));
    }

    /// Returns true where nothing is to be written.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns true where all data go to blocks that no reader sees before the change ends.
    pub(crate) fn is_new(&self) -> bool {
        self.parts.iter().all(|part| part.is_new)
    }

    /// Validates the change, and writes the data. It then takes effect as soon as it ends, and must read
    /// nothing more.
    ///
    /// # Errors
    /// As any change; no data have changed that a reader sees.
    pub(crate) fn carry_out(self, edit: &mut Edit<'_>) -> Outcome<()> {
        // A part of a block that an earlier write covers as a whole need not be fetched.
        let is_covered = |i: usize| {
            let part = &self.parts[i];
            self.parts[..i].iter().any(|whole| whole.covers(part.at, part.end()))
        };
        for (i, part) in self.parts.iter().enumerate() {
            if !is_covered(i) {
                edit.tx.prepare_data(part.at, part.data.len())?;
            }
        }
        // The positions are valid from here on, and stay so.
        edit.tx.validate()?;
        // New data that nothing is written over come first: this may fail, and no reader sees them.
        let is_final = |i: usize| {
            let part = &self.parts[i];
            part.is_new && !self.parts[i + 1..].iter().any(|later| part.meets(later))
        };
        let mut rest: SmallVec<[DataWrite<'_>; 4]> = SmallVec::new();
        for (i, part) in self.parts.iter().enumerate() {
            match is_final(i) {
                true => edit.tx.write_new_data(part.at, &part.data, part.summed)?,
                false => rest.push(DataWrite { at: part.at, data: &part.data, summed: part.summed }),
            }
        }
        if rest.is_empty() { Ok(()) } else { edit.tx.write_data_parts(&rest) }
    }
}

#[cfg(test)]
mod tests {
    use crate::files::data;
    use crate::files::inode::Inode;
    use crate::running::volume::Volume;
    use crate::vocabulary::error::Outcome;
    use crate::vocabulary::options::{Access, CreateOptions, OpenOptions};
    use crate::vocabulary::types::{Caller, Ino, SetAttr};
    use lanefs_format::{BLOCK, Code};

    const LEN: usize = 3 * BLOCK as usize;

    /// Volumes in memory and in a file, each with a file of ones whose blocks may be overwritten.
    fn volumes(dir: &tempfile::TempDir) -> [(Volume, Ino); 2] {
        let options = CreateOptions { size: 64 << 20, ..CreateOptions::default() };
        let path = dir.path().join("volume.lane");
        Volume::create(&path, &options).expect("create").close().expect("close");
        let on_file = Volume::open(&path, OpenOptions::from(Access::Write)).expect("open");
        [Volume::create_memory(&options).expect("create"), on_file].map(|volume| {
            let ino = volume.write_file("/a", [1; LEN]).expect("write").ino;
            (volume, ino)
        })
    }

    fn content(volume: &Volume, ino: Ino) -> Vec<u8> {
        let mut bytes = vec![0; LEN];
        let len = volume.read(&Caller::OWNER, ino, 0, &mut bytes).expect("read");
        bytes.truncate(len);
        bytes
    }

    #[test]
    fn a_change_that_fails_has_written_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        for (volume, ino) in volumes(&dir) {
            let failed = volume.change_data(|edit, plan| -> Outcome<()> {
                let node = Inode::load(edit.core, ino.0)?;
                data::write(edit, node, 100, &[2; LEN], plan)?;
                data::truncate(edit, node, 5000, plan)?;
                Err(Code::NoSpace.into())
            });
            assert_eq!(failed.expect_err("full").code(), Code::NoSpace);
            assert_eq!(content(&volume, ino), [1; LEN]);
        }
    }

    #[test]
    fn a_change_that_conflicts_has_written_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        for (volume, ino) in volumes(&dir) {
            let other = volume.write_file("/b", b"other").expect("write").ino;
            let mut attempts = 0;
            let changed = volume.change_data(|edit, plan| {
                attempts += 1;
                Inode::load(edit.core, other.0)?;
                let node = Inode::load(edit.core, ino.0)?;
                let mut bytes = vec![0; LEN];
                data::read(edit.core, node, 0, &mut bytes)?;
                assert_eq!(bytes, [1; LEN], "attempt {attempts}");
                data::write(edit, node, 100, &[2; LEN - 100], plan)?;
                if attempts == 1 {
                    // Another writer changes what this attempt has read.
                    let set = SetAttr { perm: Some(0o600), ..SetAttr::default() };
                    std::thread::scope(|scope| {
                        scope.spawn(|| volume.setattr(&Caller::OWNER, other, &set).expect("chmod"));
                    });
                }
                Ok(())
            });
            changed.expect("written");
            assert_eq!(attempts, 2);
            assert_eq!(content(&volume, ino), [[1; 100].as_slice(), &[2; LEN - 100]].concat());
        }
    }
}
