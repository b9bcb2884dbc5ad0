//! The kernel's interface: numbers of requests, and words of requests and replies in the host's byte order
//! (`include/uapi/linux/fuse.h`, protocol 7.42).

use lanefs::format::BLOCK;
use lanefs::{FileKind, StatFs, Time};
use lanefs_serve::Entry;
use std::time::Duration;

/// Bytes of the header of an exchange, and the places of its parts: the header of a request or reply, the
/// first argument of a request, and the words about the exchange itself (`fuse_uring_req_header`).
pub(crate) const HEADER_BYTES: usize = 288;
pub(crate) const ARGUMENT_AT: usize = 128;
pub(crate) const COMMIT_ID_AT: usize = 264;
pub(crate) const PAYLOAD_BYTES_AT: usize = 272;

/// Bytes of the header of a reply.
pub(crate) const REPLY_HEADER_BYTES: u32 = 16;

/// Numbers of requests.
pub(crate) mod opcode {
    macro_rules! opcodes {
        ($($name:ident = $number:literal,)*) => { $(pub(crate) const $name: u32 = $number;)* };
    }

    opcodes! {
        LOOKUP = 1, FORGET = 2, GETATTR = 3, SETATTR = 4, READLINK = 5, SYMLINK = 6, MKNOD = 8, MKDIR = 9, UNLINK = 10,
        RMDIR = 11, RENAME = 12, LINK = 13, OPEN = 14, READ = 15, WRITE = 16, STATFS = 17, RELEASE = 18,
        FSYNC = 20, SETXATTR = 21, GETXATTR = 22, LISTXATTR = 23, REMOVEXATTR = 24, INIT = 26, OPENDIR = 27, READDIR = 28,
        RELEASEDIR = 29, FSYNCDIR = 30, CREATE = 35, DESTROY = 38, IOCTL = 39, BATCH_FORGET = 42, FALLOCATE = 43, READDIRPLUS = 44,
        RENAME2 = 45, LSEEK = 46, COPY_FILE_RANGE = 47, TMPFILE = 51,
    }
}

/// Attributes that a request sets.
pub(crate) mod valid {
    pub(crate) const MODE: u32 = 1 << 0;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
    /// Set-id bits and capabilities go. This is not an attribute.
    pub(crate) const KILL_PRIVILEGES: u32 = 1 << 11;
}

/// The page cache of a file, and of a directory's listing, stays when it is opened.
pub(crate) const KEEP_CACHE: u32 = 1 << 1;
pub(crate) const CACHE_DIR: u32 = 1 << 3;
/// A write takes set-id bits away.
pub(crate) const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// Setting an access control list takes the set-group-id bit away.
pub(crate) const SETXATTR_KILL_SETGID: u32 = 1;
/// A sync is of data alone.
pub(crate) const FSYNC_DATA: u32 = 1;

/// Returns the word at a place; 0 past the end.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// Returns the word at a place; 0 past the end.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

/// A reply that is being written. Bytes that do not fit are left out, and count as its length: the kernel
/// refuses a reply of another length than it expects.
pub(crate) struct Out<'b> {
    bytes: &'b mut [u8],
    len: usize,
}

impl<'b> Out<'b> {
    pub(crate) fn new(bytes: &'b mut [u8]) -> Self {
        Out { bytes, len: 0 }
    }

    /// Bytes that were written.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes for which there is room.
    pub(crate) fn room(&self) -> usize {
        self.bytes.len().saturating_sub(self.len)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            room.copy_from_slice(bytes);
        }
        self.len += bytes.len();
    }

    pub(crate) fn u32(&mut self, word: u32) {
        self.bytes(&word.to_ne_bytes());
    }

    pub(crate) fn u64(&mut self, word: u64) {
        self.bytes(&word.to_ne_bytes());
    }

    pub(crate) fn u32s(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.u32(*word));
    }

    pub(crate) fn u64s(&mut self, words: &[u64]) {
        words.iter().for_each(|word| self.u64(*word));
    }

    /// `fuse_entry_out`: a name's inode, and how long the kernel may believe that.
    pub(crate) fn entry(&mut self, entry: &Entry) {
        self.u64(entry.node.0);
        self.u64(u64::from(entry.attr.generation));
        self.validities(entry.validity);
        self.attributes(entry);
    }

    /// `fuse_entry_out` of a name that does not exist.
    pub(crate) fn missing(&mut self, validity: Duration) {
        const ATTRIBUTES_BYTES: usize = 88;
        self.u64s(&[0, 0]);
        self.validities(validity);
        self.bytes(&[0; ATTRIBUTES_BYTES]);
    }

    /// `fuse_attr_out`
    pub(crate) fn attribute_reply(&mut self, entry: &Entry) {
        self.u64(entry.validity.as_secs());
        self.u32(entry.validity.subsec_nanos());
        self.u32(0);
        self.attributes(entry);
    }

    /// Validity of a name and of its attributes.
    fn validities(&mut self, validity: Duration) {
        self.u64s(&[validity.as_secs(); 2]);
        self.u32s(&[validity.subsec_nanos(); 2]);
    }

    /// `fuse_attr`
    fn attributes(&mut self, entry: &Entry) {
        /// Bytes of the unit in which stat(2) counts blocks.
        const STAT_BLOCK_BYTES: u64 = 512;
        let attr = &entry.attr;
        let times = [attr.atime, attr.mtime, attr.ctime].map(parts);
        self.u64(entry.node.0);
        self.u64(attr.size);
        self.u64(attr.blocks.saturating_mul(BLOCK / STAT_BLOCK_BYTES));
        times.iter().for_each(|(seconds, _)| self.u64(*seconds as u64));
        times.iter().for_each(|(_, nanoseconds)| self.u32(*nanoseconds));
        self.u32(mode(attr.kind) | u32::from(attr.perm));
        // For numbers of devices of 32 bits, the C library and the kernel use the same encoding.
        self.u32s(&[attr.links, attr.uid, attr.gid, attr.rdev as u32, BLOCK as u32, 0]);
    }

    /// `fuse_open_out`: handles have no state.
    pub(crate) fn opened(&mut self, flags: u32) {
        self.u64(0);
        self.u32s(&[flags, 0]);
    }

    /// `fuse_statfs_out`
    pub(crate) fn counts(&mut self, s: &StatFs) {
        let inodes = s.inodes.saturating_add(s.free_inodes);
        self.u64s(&[s.blocks, s.free_blocks, s.free_blocks, inodes, s.free_inodes]);
        let size = s.block_size as u32;
        self.u32s(&[size, s.max_name, size, 0, 0, 0, 0, 0, 0, 0]);
    }

    /// `fuse_dirent`; false if it does not fit.
    pub(crate) fn name(&mut self, name: &[u8], next: u64, node: u64, kind: FileKind) -> bool {
        let fits = self.room() >= name_bytes(name);
        if fits {
            self.u64(node);
            self.u64(next);
            self.u32(name.len() as u32);
            self.u32(mode(kind) >> 12);
            self.bytes(name);
            self.bytes(&[0; 7][..name.len().next_multiple_of(8) - name.len()]);
        }
        fits
    }

    /// `fuse_direntplus`; false if it does not fit.
    pub(crate) fn name_with_attributes(&mut self, name: &[u8], next: u64, entry: &Entry) -> bool {
        const ENTRY_BYTES: usize = 128;
        let fits = self.room() >= ENTRY_BYTES + name_bytes(name);
        if fits {
            self.entry(entry);
            self.name(name, next, entry.node.0, entry.attr.kind);
        }
        fits
    }
}

/// Bytes of a name in a listing.
fn name_bytes(name: &[u8]) -> usize {
    const HEAD_BYTES: usize = 24;
    (HEAD_BYTES + name.len()).next_multiple_of(8)
}

/// Returns the bits of a mode that say the type of a file.
fn mode(kind: FileKind) -> u32 {
    match kind {
        FileKind::Fifo => 0o010_000,
        FileKind::CharDevice => 0o020_000,
        FileKind::Directory => 0o040_000,
        FileKind::BlockDevice => 0o060_000,
        FileKind::File => 0o100_000,
        FileKind::Symlink => 0o120_000,
        FileKind::Socket => 0o140_000,
    }
}

/// Divides a time into seconds, rounded down, and nanoseconds.
fn parts(time: Time) -> (i64, u32) {
    const SECOND: i64 = 1_000_000_000;
    (time.0.div_euclid(SECOND), time.0.rem_euclid(SECOND) as u32)
}
