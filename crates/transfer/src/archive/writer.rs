//! Writing of members, as POSIX pax.

use super::pax::Records;
use super::sparse::{self, Ranges};
use lanefs::{Attr, FileKind};
use std::io::{self, Write};
use tar::{EntryType, Header};

/// Largest numbers that fit the octal fields of the old header.
const SIZE_LIMIT: u64 = 0o777_7777_7777;
const ID_LIMIT: u32 = 0o777_7777;

/// A file to be written as a member.
pub(crate) struct NewMember<'a> {
    pub(crate) path: &'a [u8],
    pub(crate) attr: &'a Attr,
    /// Name of the first member with the same inode, for a hard link.
    pub(crate) link_to: Option<&'a [u8]>,
    /// Target of a symbolic link.
    pub(crate) target: &'a [u8],
    pub(crate) xattrs: &'a [(Vec<u8>, Vec<u8>)],
    /// Ranges of the file that hold data.
    pub(crate) ranges: &'a Ranges,
}

/// Writes the header of a member, and the map of one with holes. The caller then writes the content of the
/// ranges and calls [`pad`]. Returns the number of bytes of content to be written.
pub(crate) fn begin(output: &mut impl Write, member: &NewMember<'_>) -> io::Result<u64> {
    let attr = member.attr;
    let mut records = Records::default();
    records.push_time("mtime", attr.mtime);
    records.push_time("atime", attr.atime);
    for (name, value) in member.xattrs {
        records.push([b"SCHILY.xattr.", &name[..]].concat(), &value[..]);
    }
    let mut header = Header::new_ustar();
    let is_file = attr.kind == FileKind::File && member.link_to.is_none();
    let data: u64 = if is_file { member.ranges.iter().map(|(_, len)| len).sum() } else { 0 };
    let map =
        if is_file && data < attr.size { sparse::to_content(member.ranges, attr.size) } else { Vec::new() };
    if map.is_empty() {
        name_field(&mut header.as_old_mut().name, member.path, "path", &mut records);
    } else {
        records.push("GNU.sparse.major", "1");
        records.push("GNU.sparse.minor", "0");
        records.push("GNU.sparse.name", member.path);
        records.push("GNU.sparse.realsize", attr.size.to_string());
        // A reader that does not know the form creates this file, with the stored bytes.
        name_field(&mut header.as_old_mut().name, b"GNUSparseFile.0/sparse", "path", &mut records);
    }
    let link = member.link_to.unwrap_or(member.target);
    name_field(&mut header.as_old_mut().linkname, link, "linkpath", &mut records);
    let stored = data + map.len() as u64;
    header.set_size(stored.min(SIZE_LIMIT));
    if stored > SIZE_LIMIT {
        records.push("size", stored.to_string());
    }
    for (key, id) in [("uid", attr.uid), ("gid", attr.gid)] {
        if id > ID_LIMIT {
            records.push(key, id.to_string());
        }
    }
    header.set_uid(u64::from(attr.uid.min(ID_LIMIT)));
    header.set_gid(u64::from(attr.gid.min(ID_LIMIT)));
    header.set_mode(u32::from(attr.perm));
    header.set_mtime(u64::try_from(attr.mtime.seconds()).unwrap_or(0).min(SIZE_LIMIT));
    let kind = match (member.link_to, attr.kind) {
        (Some(_), _) => EntryType::Link,
        (None, FileKind::Directory) => EntryType::Directory,
        (None, FileKind::Symlink) => EntryType::Symlink,
        (None, FileKind::Fifo) => EntryType::Fifo,
        (None, FileKind::CharDevice) => EntryType::Char,
        (None, FileKind::BlockDevice) => EntryType::Block,
        (None, _) => EntryType::Regular,
    };
    header.set_entry_type(kind);
    if matches!(kind, EntryType::Char | EntryType::Block) {
        header.set_device_major(rustix::fs::major(attr.rdev as _))?;
        header.set_device_minor(rustix::fs::minor(attr.rdev as _))?;
    }
    write_records(output, &records)?;
    header.set_cksum();
    output.write_all(header.as_bytes())?;
    output.write_all(&map)?;
    Ok(data)
}

fn write_records(output: &mut impl Write, records: &Records) -> io::Result<()> {
    let data = records.encode();
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..12].copy_from_slice(b"PaxHeaders.0");
    header.set_entry_type(EntryType::XHeader);
    header.set_size(data.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    output.write_all(header.as_bytes())?;
    output.write_all(&data)?;
    pad(output, data.len() as u64)
}

/// Writes a name into its field, and into a record where the field is too short.
fn name_field(field: &mut [u8; 100], name: &[u8], key: &str, records: &mut Records) {
    let len = name.len().min(field.len());
    field[..len].copy_from_slice(&name[..len]);
    if len < name.len() {
        records.push(key, name);
    }
}

/// Pads `len` bytes of content with zeros to the next multiple of 512.
pub(crate) fn pad(output: &mut impl Write, len: u64) -> io::Result<()> {
    output.write_all(&[0; 512][..(len.next_multiple_of(512) - len) as usize])
}

/// Writes the two empty blocks that end an archive.
pub(crate) fn end(output: &mut impl Write) -> io::Result<()> {
    output.write_all(&[0; 1024])
}
