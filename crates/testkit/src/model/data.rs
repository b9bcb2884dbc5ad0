//! Reading, writing and shaping regular files.

use super::permission::{READ, WRITE, demand};
use super::{Body, Content, Model};
use crate::engine::{EngineResult, Handle, Stamp};
use lanefs::{Allocate, Caller, Seek};
use lanefs_format::{BLOCK, Code, MAX_FILE_SIZE};

impl Model {
    /// The file's content. A directory and other kinds have codes of their own.
    fn file(&mut self, caller: &Caller, handle: Handle, want: u16) -> EngineResult<&mut Content> {
        let node = self.node_mut(handle)?;
        match node.body {
            Body::Directory { .. } => Err(Code::IsDirectory.into()),
            Body::Link(_) | Body::Special => Err(Code::Invalid.into()),
            Body::File(_) => {
                demand(caller, node, want)?;
                match &mut node.body {
                    Body::File(content) => Ok(content),
                    _ => Err(Code::Invalid.into()),
                }
            }
        }
    }

    pub(super) fn read_data(
        &mut self,
        caller: &Caller,
        handle: Handle,
        offset: u64,
        buffer: &mut [u8],
    ) -> EngineResult<usize> {
        let n = self.file(caller, handle, READ)?.read(offset, buffer);
        // Engines may or may not keep times of access.
        self.node_mut(handle)?.atime = Stamp::UNKNOWN;
        Ok(n)
    }

    pub(super) fn write_data(
        &mut self,
        caller: &Caller,
        handle: Handle,
        offset: u64,
        data: &[u8],
    ) -> EngineResult<usize> {
        let content = self.file(caller, handle, WRITE)?;
        if data.is_empty() {
            return Ok(0);
        }
        if offset.checked_add(data.len() as u64).is_none_or(|end| end > MAX_FILE_SIZE) {
            return Err(Code::FileTooLarge.into());
        }
        content.write(offset, data);
        self.drop_set_ids_at_write(caller, handle)?;
        self.modified(handle);
        Ok(data.len())
    }

    pub(super) fn allocate(
        &mut self,
        caller: &Caller,
        handle: Handle,
        mode: Allocate,
        offset: u64,
        len: u64,
    ) -> EngineResult<()> {
        let content = self.file(caller, handle, WRITE)?;
        if len == 0 {
            return Err(Code::Invalid.into());
        }
        let end = offset.checked_add(len).filter(|end| *end <= MAX_FILE_SIZE).ok_or(Code::FileTooLarge)?;
        let size = content.size();
        let are_blocks = offset.is_multiple_of(BLOCK) && end.is_multiple_of(BLOCK);
        match mode {
            Allocate::Extend => content.extend(end),
            Allocate::KeepSize => {}
            Allocate::PunchHole => content.clear(offset, end),
            Allocate::ZeroRange => {
                content.clear(offset, end);
                content.extend(end);
            }
            Allocate::CollapseRange if are_blocks && end < size => content.move_tail(end, offset),
            Allocate::InsertRange if are_blocks && offset < size => {
                if size > MAX_FILE_SIZE - len {
                    return Err(Code::FileTooLarge.into());
                }
                content.move_tail(offset, end);
            }
            Allocate::CollapseRange | Allocate::InsertRange => return Err(Code::Invalid.into()),
        }
        self.drop_set_ids_at_write(caller, handle)?;
        let node = self.node_mut(handle)?;
        // Which times a fallocate moves differs from file system to file system.
        (node.mtime, node.ctime) = (Stamp::UNKNOWN, Stamp::UNKNOWN);
        Ok(())
    }

    /// One answer among those allowed; see [`Model::seek_is_sound`].
    pub(super) fn seek_data(&mut self, handle: Handle, offset: u64, what: Seek) -> EngineResult<u64> {
        let content = self.file(&Caller::OWNER, handle, 0)?;
        if offset >= content.size() {
            return Err(Code::NoSuchRange.into());
        }
        match what {
            Seek::Data => content.first_nonzero(offset).ok_or_else(|| Code::NoSuchRange.into()),
            Seek::Hole => Ok(content.size()),
        }
    }

    /// Whether an answer to a seek is one that POSIX allows for this content.
    ///
    /// Where holes begin and end is the engine's business: it may call zeros data (a file inside its inode is
    /// one piece of data; a 2 MiB block is data as a whole). It must not call a byte other than zero a hole,
    /// nor find data past the end, nor call a hole of which it cannot have a block data: 2 MiB to either
    /// side of anything ever written, and of the range that a fallocate gave.
    pub fn seek_is_sound(&self, handle: Handle, offset: u64, what: Seek, answer: &EngineResult<u64>) -> bool {
        let Some(content) = self.content(handle) else { return answer.is_err() };
        let size = content.size();
        match (what, answer) {
            (_, Err(error)) if offset >= size => error.code == Code::NoSuchRange,
            (_, Ok(_)) if offset >= size => false,
            (Seek::Data, Err(error)) => {
                error.code == Code::NoSuchRange && content.first_nonzero(offset).is_none()
            }
            (Seek::Data, Ok(at)) => {
                (offset..size).contains(at) && content.first_nonzero(offset).is_none_or(|first| first >= *at)
            }
            (Seek::Hole, Err(_)) => false,
            // A hole that began unaligned ends with its block at the latest.
            (Seek::Hole, Ok(at)) => {
                let end = (at / BLOCK + 1) * BLOCK;
                (offset..=size).contains(at)
                    && (*at == size || content.first_nonzero(*at).is_none_or(|first| first >= end.min(size)))
            }
        }
    }
}
