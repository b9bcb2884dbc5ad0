//! Reading of the members of an archive, one after another.

use super::acl_text;
use super::pax::{GlobalRecords, Records};
use super::sparse::{self, MAX_RANGES, Ranges};
use crate::vocabulary::error::{Error, Result};
use crate::vocabulary::name::shown;
use lanefs::{FileKind, Time};
use std::io::{self, Read};
use tar::{EntryType, GnuExtSparseHeader, Header};

/// Largest accepted set of records, in bytes. Records of five bytes take twenty times as much memory. All
/// attributes of a file of a volume have a quarter of it at most.
const MAX_RECORDS_BYTES: u64 = 1 << 20;
/// Longest accepted name or target, in bytes.
const MAX_NAME_BYTES: u64 = 1 << 20;

const LONG_NAME: &str = "a name or target is longer than 1 MiB";
const LARGE_RECORDS: &str = "the names and attributes of one of its members take more than 1 MiB";
const TOO_MANY_GLOBAL: &str = "the attributes for all of its members take more than 1 MiB";

/// Kind of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MemberKind {
    /// A file with content and attributes of its own.
    Own(FileKind),
    /// A further name of the member with this name.
    HardLink(Vec<u8>),
}

/// Names and values of attributes.
pub(crate) type NamedValues = Vec<(Vec<u8>, Vec<u8>)>;

/// A member without its content.
#[derive(Clone, Debug)]
pub(crate) struct ArchiveMember {
    /// Path as the archive has it.
    pub(crate) path: Vec<u8>,
    pub(crate) kind: MemberKind,
    /// Target of a symbolic link.
    pub(crate) target: Vec<u8>,
    pub(crate) perm: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: Time,
    pub(crate) atime: Time,
    pub(crate) rdev: u64,
    /// Size of the file, including holes.
    pub(crate) size: u64,
    /// Ranges of the file that the content fills, in the order in which [`Reader::content`] returns them.
    pub(crate) ranges: Ranges,
    pub(crate) xattrs: NamedValues,
    /// Access control lists in text form, with the names of the attributes that have them.
    pub(crate) lists: NamedValues,
}

impl ArchiveMember {
    /// True where a time is the end of what a volume holds: the archive has one beyond it.
    pub(crate) fn has_far_time(&self) -> bool {
        [self.mtime, self.atime].iter().any(|time| time.0 == i64::MAX || time.0 <= -i64::MAX)
    }
}

/// The next part of an archive.
pub(crate) enum Part {
    Member(Box<ArchiveMember>),
    /// Damage, and the number of bytes that were skipped to the next valid header.
    Damage(Error, u64),
    End,
}

/// Reader of an archive.
pub(crate) struct Reader<R> {
    input: R,
    /// Name of the archive in messages.
    what: String,
    /// Damage is skipped, and does not end the archive.
    ignore_damage: bool,
    /// The input cannot be read any further.
    ended: bool,
    /// A block that was read to see whether it is a header.
    ahead: Option<Header>,
    /// Bytes read so far, and where the part that is being read begins.
    position: u64,
    begin: u64,
    /// Unread bytes of the current member, and the padding to a multiple of 512 after them.
    remaining: u64,
    padding: u64,
    global: GlobalRecords,
    members: u64,
    /// A block of zeros has ended the archive, and not the end of its input.
    is_complete: bool,
}

impl<R: Read> Reader<R> {
    pub(crate) fn new(what: String, input: R, ignore_damage: bool) -> Self {
        Reader {
            input,
            what,
            ignore_damage,
            ended: false,
            ahead: None,
            position: 0,
            begin: 0,
            remaining: 0,
            padding: 0,
            global: GlobalRecords::default(),
            members: 0,
            is_complete: false,
        }
    }

    /// Returns the input, after the end of the archive.
    /// True once a whole archive was read that has members. One that was cut off between two members has all
    /// of them but the last ones.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete && self.members > 0
    }

    pub(crate) fn into_input(self) -> R {
        self.input
    }

    fn damaged(&self, why: impl Into<String>) -> Error {
        Error::Archive { what: self.what.clone(), why: why.into() }
    }

    /// The input has ended, or failed: nothing more can be read.
    fn end(&mut self, why: impl Into<String>) -> Error {
        self.ended = true;
        self.damaged(why)
    }

    fn exact(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.input.read_exact(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.end("the archive ends within a member"),
            _ => self.end(error.to_string()),
        })?;
        self.position += buffer.len() as u64;
        Ok(())
    }

    /// Reads the next bytes of the current member's content: fills `buffer`, or returns the rest.
    pub(crate) fn content(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let len = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(buffer.len());
        self.exact(&mut buffer[..len])?;
        self.remaining -= len as u64;
        Ok(len)
    }

    fn skip(&mut self, count: u64) -> Result<()> {
        let ahead = if count > 0 && self.ahead.take().is_some() { 512 } else { 0 };
        let count = count.saturating_sub(ahead);
        let skipped = io::copy(&mut self.input.by_ref().take(count), &mut io::sink());
        match skipped {
            Ok(skipped) if skipped == count => {
                self.position += skipped;
                Ok(())
            }
            Ok(_) => Err(self.end("the archive ends within a member")),
            Err(error) => Err(self.end(error.to_string())),
        }
    }

    /// Reads a block where a header may be; `None` at the end of the input.
    fn block(&mut self) -> Result<Option<Header>> {
        if let Some(header) = self.ahead.take() {
            return Ok(Some(header));
        }
        let mut header = Header::new_old();
        let bytes = header.as_mut_bytes();
        let mut len = 0;
        while len < bytes.len() {
            match self.input.read(&mut bytes[len..]) {
                Ok(0) => break,
                Ok(count) => len += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(self.end(error.to_string())),
            }
        }
        if len == bytes.len() {
            self.position += 512;
            return Ok(Some(header));
        }
        match (len, self.members) {
            (_, 0) => Err(self.end("is not a tar archive")),
            (0, _) => Ok(None),
            _ => Err(self.end("ends within a header")),
        }
    }

    /// Reads the next header and verifies its checksum; `None` at the end.
    fn header(&mut self) -> Result<Option<Header>> {
        let header = match self.block()? {
            Some(header) if !is_zero(&header) => header,
            end => {
                self.is_complete = end.is_some();
                return Ok(None);
            }
        };
        if !is_valid(&header) {
            return Err(self.damaged(if self.members == 0 {
                "is not a tar archive"
            } else {
                "a header's checksum is wrong"
            }));
        }
        self.members += 1;
        Ok(Some(header))
    }

    /// Goes on at the next valid header.
    fn resume(&mut self, damage: Error) -> Result<Part> {
        (self.remaining, self.padding) = (0, 0);
        let mut end = self.position;
        while let Some(block) = self.block()? {
            if is_valid(&block) {
                self.ahead = Some(block);
                break;
            }
            end = self.position;
        }
        Ok(Part::Damage(damage, end - self.begin))
    }

    /// Reads the content of a header that describes the next one.
    fn records(&mut self, header: &Header) -> Result<Vec<u8>> {
        let size = header.entry_size().map_err(|e| self.damaged(e.to_string()))?;
        if size > MAX_RECORDS_BYTES {
            return Err(self.damaged(LARGE_RECORDS));
        }
        let mut data = vec![0; size as usize];
        self.exact(&mut data)?;
        self.skip(size.next_multiple_of(512) - size)?;
        Ok(data)
    }

    /// Reads the content of a header that is the name or target of the next one.
    fn name(&mut self, header: &Header) -> Result<Vec<u8>> {
        // A size that is damaged is named there.
        match header.entry_size() {
            Ok(size) if size > MAX_NAME_BYTES => Err(self.damaged(LONG_NAME)),
            _ => self.records(header),
        }
    }

    /// Returns the next part; skips the rest of the member before.
    pub(crate) fn next(&mut self) -> Result<Part> {
        match self.next_member() {
            Ok(member) => Ok(member.map_or(Part::End, |member| Part::Member(Box::new(member)))),
            Err(damage) if self.ended => Err(damage),
            Err(damage) if self.ignore_damage => self.resume(damage),
            Err(Error::Archive { what, why }) if self.members > 0 => {
                let why = format!("{why} (the option ignore-damage goes on at the next member)");
                Err(Error::Archive { what, why })
            }
            Err(error) => Err(error),
        }
    }

    fn next_member(&mut self) -> Result<Option<ArchiveMember>> {
        self.skip(self.remaining + self.padding)?;
        (self.remaining, self.padding) = (0, 0);
        self.begin = self.position - if self.ahead.is_some() { 512 } else { 0 };
        let (mut records, mut long_name, mut long_link) = (Records::default(), None, None);
        loop {
            let Some(header) = self.header()? else { return Ok(None) };
            match header.entry_type() {
                EntryType::XHeader => {
                    let data = self.records(&header)?;
                    records = Records::parse(&data).ok_or_else(|| self.damaged("a pax header is damaged"))?;
                }
                EntryType::XGlobalHeader => {
                    let data = self.records(&header)?;
                    let global =
                        Records::parse(&data).ok_or_else(|| self.damaged("a pax header is damaged"))?;
                    self.global.add(global).ok_or_else(|| self.damaged(TOO_MANY_GLOBAL))?;
                }
                EntryType::GNULongName => long_name = Some(until_nul(self.name(&header)?)),
                EntryType::GNULongLink => long_link = Some(until_nul(self.name(&header)?)),
                // GNU's volume label, and the continuation of a member from another volume, are not files.
                kind if matches!(kind.as_byte(), b'V' | b'M') => {
                    let size = header.entry_size().map_err(|e| self.damaged(e.to_string()))?;
                    let size = size.checked_next_multiple_of(512);
                    self.skip(size.ok_or_else(|| self.damaged("its size exceeds 64 bits"))?)?;
                }
                _ => return self.member(&header, records, long_name, long_link).map(Some),
            }
        }
    }

    fn member(
        &mut self,
        header: &Header,
        records: Records,
        long_name: Option<Vec<u8>>,
        long_link: Option<Vec<u8>>,
    ) -> Result<ArchiveMember> {
        let records = records.with_global(&self.global);
        let has_records = !records.is_empty();
        let bytes = |key| records.get(key).map(<[u8]>::to_vec);
        let path = bytes("GNU.sparse.name")
            .or_else(|| bytes("path"))
            .or(long_name)
            .unwrap_or_else(|| header.path_bytes().into_owned());
        let target = bytes("linkpath")
            .or(long_link)
            .unwrap_or_else(|| header.link_name_bytes().map_or_else(Vec::new, |target| target.into_owned()));
        let name = shown(&path);
        let what = format!("{}: member '{name}'", self.what);
        let bad = |why: &str| Error::Archive { what: what.clone(), why: why.into() };
        let entry_type = header.entry_type();
        let kind = match entry_type {
            EntryType::Link => MemberKind::HardLink(target.clone()),
            EntryType::Symlink => MemberKind::Own(FileKind::Symlink),
            EntryType::Char => MemberKind::Own(FileKind::CharDevice),
            EntryType::Block => MemberKind::Own(FileKind::BlockDevice),
            EntryType::Fifo => MemberKind::Own(FileKind::Fifo),
            EntryType::Directory => MemberKind::Own(FileKind::Directory),
            // Old archives have no type for directories: a slash at the end marks one.
            EntryType::Regular if path.ends_with(b"/") => MemberKind::Own(FileKind::Directory),
            _ => MemberKind::Own(FileKind::File),
        };
        let number = |key, field: io::Result<u64>| {
            records.number(key).map_or_else(|| field.map_err(|e| bad(&e.to_string())), Ok)
        };
        let id = |key, field| u32::try_from(number(key, field)?).map_err(|_| bad("an owner beyond 32 bits"));
        let (uid, gid) = (id("uid", header.uid())?, id("gid", header.gid())?);
        let stored = match entry_type {
            EntryType::Link => {
                let size = number("size", header.entry_size())?;
                self.content_of_link(size, has_records)?
            }
            // Some writers give a link the size of its target; no content follows.
            EntryType::Symlink | EntryType::Directory => 0,
            _ => number("size", header.entry_size())?,
        };
        let seconds = header.mtime().map_err(|e| bad(&e.to_string()))?;
        // GNU tar has times before 1970 as two's complement.
        let seconds = seconds.cast_signed();
        let mtime = records.time("mtime").unwrap_or(Time::from_parts(seconds, 0));
        let device = |field: io::Result<Option<u32>>| field.ok().flatten().unwrap_or(0);
        let xattrs = xattrs(&records);
        let mut member = ArchiveMember {
            kind,
            target,
            perm: (header.mode().map_err(|e| bad(&e.to_string()))? & 0o7777) as u16,
            uid,
            gid,
            mtime,
            atime: records.time("atime").unwrap_or(mtime),
            rdev: rustix::fs::makedev(device(header.device_major()), device(header.device_minor())),
            size: stored,
            ranges: vec![(0, stored)],
            lists: lists(&records, &xattrs),
            xattrs,
            path,
        };
        self.remaining = stored;
        self.padding =
            stored.checked_next_multiple_of(512).ok_or_else(|| bad("its size exceeds 64 bits"))? - stored;
        self.sparse(header, &records, &mut member)?;
        Ok(member)
    }

    /// Returns the bytes of content after the header of a hard link. POSIX pax allows it to carry that of its
    /// file. Older writers give it the size of its file, and no content: then a header or the end follows.
    fn content_of_link(&mut self, size: u64, has_records: bool) -> Result<u64> {
        if size == 0 || has_records {
            return Ok(size);
        }
        self.ahead = self.block()?;
        let follows = self.ahead.as_ref().is_some_and(|block| !is_zero(block) && !is_valid(block));
        Ok(if follows { size } else { 0 })
    }

    /// Reads the map of a sparse member, in any form.
    fn sparse(&mut self, header: &Header, records: &Records, member: &mut ArchiveMember) -> Result<()> {
        let what = format!("{}: member '{}'", self.what, shown(&member.path));
        let bad = || Error::Archive { what: what.clone(), why: "its map of holes is damaged".into() };
        if header.entry_type().is_gnu_sparse() {
            let gnu = header.as_gnu().ok_or_else(bad)?;
            member.ranges = Vec::new();
            for range in gnu.sparse.iter().filter(|range| !range.is_empty()) {
                member.ranges.push((range.offset().map_err(|_| bad())?, range.length().map_err(|_| bad())?));
            }
            let mut more = gnu.is_extended();
            while more && member.ranges.len() <= MAX_RANGES {
                let mut block = GnuExtSparseHeader::new();
                self.exact(block.as_mut_bytes())?;
                for range in block.sparse().iter().filter(|range| !range.is_empty()) {
                    member
                        .ranges
                        .push((range.offset().map_err(|_| bad())?, range.length().map_err(|_| bad())?));
                }
                more = block.is_extended();
            }
            member.size = gnu.real_size().map_err(|_| bad())?;
        } else if records.number("GNU.sparse.major") == Some(1) {
            let before = self.remaining;
            let map = sparse::from_content(|block| match self.content(block)? {
                512 => Ok(()),
                _ => Err(bad()),
            })?;
            member.ranges = map.ok_or_else(bad)?;
            debug_assert!(self.remaining <= before);
            member.size = records.number("GNU.sparse.realsize").ok_or_else(bad)?;
        } else if let Some(ranges) = sparse::from_records(records) {
            member.ranges = ranges;
            member.size = records
                .number("GNU.sparse.size")
                .or(records.number("GNU.sparse.realsize"))
                .ok_or_else(bad)?;
        }
        if member.ranges.len() > MAX_RANGES {
            let why = format!("its map of holes has more than {MAX_RANGES} ranges");
            return Err(Error::Archive { what: what.clone(), why });
        }
        let stored: u64 = member.ranges.iter().fold(0, |sum, (_, len)| sum.saturating_add(*len));
        if !sparse::is_map(&member.ranges, member.size) || stored > self.remaining {
            return Err(bad());
        }
        Ok(())
    }
}

/// True for a block of zeros, which ends an archive.
fn is_zero(block: &Header) -> bool {
    block.as_bytes().iter().all(|byte| *byte == 0)
}

/// True for a header with the right checksum. It counts its own eight bytes as blanks.
fn is_valid(block: &Header) -> bool {
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    let bytes = block.as_bytes();
    let expected = sum(bytes) - sum(&bytes[148..156]) + 8 * u32::from(b' ');
    block.cksum().ok() == Some(expected)
}

fn until_nul(mut name: Vec<u8>) -> Vec<u8> {
    name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
    name
}

/// Returns the extended attributes in the records of GNU tar, star and bsdtar's compatible form.
fn xattrs(records: &Records) -> NamedValues {
    let named = records.all().filter_map(|(key, value)| {
        let name = key.strip_prefix(b"SCHILY.xattr.")?;
        Some((name.to_vec(), value.clone()))
    });
    named.collect()
}

/// Returns the access control lists in text form, as far as the records do not have the attributes, too. A
/// list of another kind (NFSv4's) has an empty name.
fn lists(records: &Records, xattrs: &NamedValues) -> NamedValues {
    let all = records.all().filter(|(key, _)| key.starts_with(b"SCHILY.acl."));
    let named = all.map(|(key, text)| (acl_text::attribute(key).unwrap_or_default().to_vec(), text.clone()));
    named.filter(|(name, _)| xattrs.iter().all(|(other, _)| other != name)).collect()
}
