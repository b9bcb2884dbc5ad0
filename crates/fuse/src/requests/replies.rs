//! Answers of the service, sent as the library's replies.

use super::convert::{NO_ATTRIBUTES, attributes, errno, generation, kind, number};
use fuser::{
    FileHandle, FopenFlags, Generation, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyStatfs, ReplyWrite, ReplyXattr,
};
use lanefs::{FileKind, StatFs};
use lanefs_serve::{Entry, EntrySink, Errno, Lookup, NameSink, NodeId, Reply, Room};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// A reply of the library that sends one kind of answer, or its error.
pub(crate) trait Answer<T> {
    fn answer(self, answer: Reply<T>);
}

/// Says for each kind of reply how it sends an answer.
macro_rules! replies {
    ($($reply:ty, $answer:ty: |$to:ident, $value:pat_param| $send:expr;)*) => {$(
        impl Answer<$answer> for $reply {
            fn answer(self, answer: Reply<$answer>) {
                let $to = self;
                match answer {
                    Ok($value) => $send,
                    Err(error) => $to.error(errno(error)),
                }
            }
        }
    )*};
}

replies! {
    ReplyEmpty, (): |to, ()| to.ok();
    ReplyAttr, Entry: |to, entry| to.attr(&entry.validity, &attributes(&entry));
    ReplyEntry, Entry: |to, entry| to.entry(&entry.validity, &attributes(&entry), generation(&entry));
    ReplyEntry, Lookup: |to, found| match found {
        Lookup::Found(entry) => to.answer(Ok(entry)),
        Lookup::Missing(validity) => to.entry(&validity, &NO_ATTRIBUTES, Generation(0)),
    };
    ReplyCreate, Entry: |to, entry| {
        let (attr, generation) = (attributes(&entry), generation(&entry));
        to.created(&entry.validity, &attr, generation, FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    };
    ReplyData, Vec<u8>: |to, bytes| to.data(&bytes);
    ReplyDirectory, (): |to, ()| to.ok();
    ReplyDirectoryPlus, (): |to, ()| to.ok();
    ReplyIoctl, Vec<u8>: |to, bytes| to.ioctl(0, &bytes);
    ReplyLseek, i64: |to, offset| to.offset(offset);
    ReplyStatfs, StatFs: |to, s| {
        let (inodes, size) = (s.inodes.saturating_add(s.free_inodes), s.block_size as u32);
        to.statfs(s.blocks, s.free_blocks, s.free_blocks, inodes, s.free_inodes, size, s.max_name, size);
    };
    ReplyWrite, usize: |to, bytes| to.written(bytes as u32);
}

/// Sends a value, or its size where the kernel requests only that by a `size` of 0.
pub(crate) fn answer_sized(to: ReplyXattr, size: u32, value: Reply<Vec<u8>>) {
    match value {
        Ok(value) if size == 0 => to.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => to.error(errno(Errno::ERANGE)),
        Ok(value) => to.data(&value),
        Err(error) => to.error(errno(error)),
    }
}

fn room(is_full: bool) -> Room {
    if is_full { Room::Full } else { Room::Taken }
}

/// A listing of names.
pub(crate) struct Names(pub(crate) ReplyDirectory);

impl NameSink for Names {
    fn add(&mut self, name: &[u8], next: u64, node: NodeId, of: FileKind) -> Room {
        room(self.0.add(number(node), next, kind(of), OsStr::from_bytes(name)))
    }
}

/// A listing with attributes.
pub(crate) struct Entries(pub(crate) ReplyDirectoryPlus);

impl EntrySink for Entries {
    fn add(&mut self, name: &[u8], next: u64, entry: &Entry) -> Room {
        let (name, attr) = (OsStr::from_bytes(name), attributes(entry));
        room(self.0.add(attr.ino, next, name, &entry.validity, &attr, generation(entry)))
    }
}
