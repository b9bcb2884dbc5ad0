//! One file by itself: a large one in pieces, and one that changed since it was found.

use super::batch::FileBatch;
use super::contents::Late;
use super::planned::{PlannedFile, PlannedState, WantedFile};
use crate::attempt::Core;
use crate::by_inode::ops;
use crate::by_inode::pieces::{FileState, MAX_WHOLE_BYTES, in_one_state, read_state};
use crate::files::perm::{READ, access};
use crate::names::resolve::{self, Start};
use crate::vocabulary::error::{Error, Outcome, Result};
use crate::vocabulary::types::{Ino, ResolveOptions};
use lanefs_format::Code;

/// Reads one file of a batch.
pub(super) fn read_alone(batch: &FileBatch<'_>, file: &mut PlannedFile<'_>) {
    let mut own = Vec::new();
    let done = read(batch, file, &mut own);
    let late = |code, bytes| PlannedState::Late(Late { row: file.row, code, bytes });
    file.state = match done {
        Ok(true) => PlannedState::Done,
        Ok(false) => late(Code::Success, own),
        Err(error) => late(error.code(), Vec::new()),
    };
}

/// Reads a file into its part of the memory, and returns true; or, where its length is another, into `own`.
fn read(batch: &FileBatch<'_>, file: &mut PlannedFile<'_>, own: &mut Vec<u8>) -> Result<bool> {
    let shared = &batch.volume.shared;
    in_one_state(shared, |mode| {
        let (state, len) = mode.run(shared, |core| find(core, batch, &file.wanted))?;
        let is_same = len == file.out.len() as u64;
        let memory = if is_same { &mut *file.out } else { room(own, len)? };
        let is_read =
            read_state(shared, mode, &state, file.wanted.range.offset, memory, || batch.is_stopped())?;
        Ok(is_read.then_some(is_same))
    })
}

/// Finds a file by its path, or by its number where it has none: its state, and the bytes to read.
pub(super) fn find(
    core: &Core<'_>,
    batch: &FileBatch<'_>,
    file: &WantedFile<'_>,
) -> Outcome<(FileState, u64)> {
    let ResolveOptions { base, follow, caller, .. } = &batch.options.resolve;
    let ino = match file.path {
        None => file.ino,
        Some((path, _)) => {
            let root = batch.volume.root().0;
            let start = Start { root, base: base.map_or(root, |ino| ino.0), follow: *follow, caller };
            Ino(resolve::resolve(core, &start, path)?.0)
        }
    };
    let node = ops::regular(core, ino)?;
    access(core, caller, &node, READ)?;
    let len = file.range.within(node.size());
    if len > MAX_WHOLE_BYTES {
        return Err(Code::FileTooLarge.into());
    }
    Ok((FileState::of(core, ino, &node), len))
}

fn room(own: &mut Vec<u8>, len: u64) -> Result<&mut [u8]> {
    own.clear();
    own.try_reserve_exact(len as usize).map_err(|_| Error::Io {
        what: format!("memory for a file of {len} bytes"),
        source: std::io::ErrorKind::OutOfMemory.into(),
    })?;
    own.resize(len as usize, 0);
    Ok(own)
}
