//! Rows of an inventory, column by column.

use crate::session::users;
use lanefs::{Attr, path};
use std::collections::HashMap;

/// Bytes of a block.
const BLOCK_BYTES: u64 = 4096;
/// Most rows that are written together. A group ends earlier once it has this many bytes of text.
const MAX_ROWS: usize = 1 << 17;
const MAX_TEXT_BYTES: usize = 32 << 20;

/// Texts, one after the other.
#[derive(Default)]
pub(super) struct Texts {
    /// All of them.
    pub(super) text: Vec<u8>,
    /// The end of each.
    pub(super) ends: Vec<usize>,
}

impl Texts {
    fn push(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
        self.ends.push(self.text.len());
    }
}

/// Texts that some rows lack.
#[derive(Default)]
pub(super) struct OptionalTexts {
    /// Those that are there.
    pub(super) texts: Texts,
    /// For each row, whether it has one.
    pub(super) is_there: Vec<bool>,
}

impl OptionalTexts {
    fn push(&mut self, text: Option<&str>) {
        self.is_there.push(text.is_some());
        if let Some(text) = text {
            self.texts.push(text);
        }
    }
}

/// Rows that are written together. Numbers are as Parquet has them: those without a sign by the same bits.
#[derive(Default)]
pub(super) struct Rows {
    /// Paths, parents and names: the nearest text.
    pub(super) path: Texts,
    /// The bytes of a path that is not UTF-8, in hexadecimal.
    pub(super) path_hex: OptionalTexts,
    /// The directory; none of the root directory.
    pub(super) parent: OptionalTexts,
    /// The last component; empty of the root directory.
    pub(super) name: Texts,
    /// Types in words.
    pub(super) kind: Texts,
    /// Owners by name, or number where the host knows none.
    pub(super) owner: Texts,
    /// Groups in the same form.
    pub(super) owner_group: Texts,
    /// Inode numbers, sizes in bytes, and bytes of blocks.
    pub(super) inode: Vec<i64>,
    pub(super) size: Vec<i64>,
    pub(super) allocated: Vec<i64>,
    /// Names of the inode, permission bits, numbers of owner and group.
    pub(super) links: Vec<i32>,
    pub(super) mode: Vec<i32>,
    pub(super) uid: Vec<i32>,
    pub(super) gid: Vec<i32>,
    /// Nanoseconds since 1970.
    pub(super) mtime: Vec<i64>,
    pub(super) ctime: Vec<i64>,
    pub(super) atime: Vec<i64>,
    pub(super) btime: Vec<i64>,
    /// Hashes of contents in hexadecimal.
    pub(super) digest: OptionalTexts,
}

/// Names of owners and groups by number.
#[derive(Default)]
pub(super) struct OwnerNames {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
}

impl Rows {
    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.inode.len()
    }

    /// True once the rows are to be written.
    pub(super) fn is_full(&self) -> bool {
        self.len() >= MAX_ROWS || self.path.text.len() >= MAX_TEXT_BYTES
    }

    /// Appends a row, without a hash.
    pub(super) fn push(&mut self, path: &[u8], attr: &Attr, names: &mut OwnerNames) {
        let text = String::from_utf8_lossy(path);
        self.path.push(&text);
        let hex = std::str::from_utf8(path).is_err().then(|| hex(path));
        self.path_hex.push(hex.as_deref());
        self.parent.push(path::parent(path).map(String::from_utf8_lossy).as_deref());
        self.name.push(&String::from_utf8_lossy(path::file_name(path).unwrap_or_default()));
        self.kind.push(attr.kind.word());
        self.owner.push(names.users.entry(attr.uid).or_insert_with(|| users::user(attr.uid)));
        self.owner_group.push(names.groups.entry(attr.gid).or_insert_with(|| users::group(attr.gid)));
        self.inode.push(attr.ino.0 as i64);
        self.size.push(attr.size as i64);
        self.allocated.push(attr.blocks.saturating_mul(BLOCK_BYTES) as i64);
        self.links.push(attr.links as i32);
        self.mode.push(attr.perm.into());
        self.uid.push(attr.uid as i32);
        self.gid.push(attr.gid as i32);
        self.mtime.push(attr.mtime.0);
        self.ctime.push(attr.ctime.0);
        self.atime.push(attr.atime.0);
        self.btime.push(attr.btime.0);
    }

    /// Appends the hash of the next row; none of a row that is not a file's.
    pub(super) fn push_digest(&mut self, hash: Option<&[u8; 32]>) {
        self.digest.push(hash.map(|hash| hex(hash)).as_deref());
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
