//! Roots and tags.

use super::facts::Facts;
use super::hash::Hash;
use super::join::Join;
use super::layout::{
    HASH_BYTES, JOIN, MAX_LEVEL, MAX_RANGES, MAX_ROOT_BYTES, MAX_TAG_ROOT_BYTES, ROOT_MAGIC, TAG_MAGIC,
    UNBOUND, VERSION, VOLUME, range, root, tag,
};
use super::packs::{self, PackList, PackRef};
use super::page::{self, PageRef, append_ref, parse_refs};
use super::words::{Bad, CUT_OFF, Input, append, check, get, uuid};
use std::sync::Arc;

/// Consecutive bytes of a pack that have metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) pack: PackRef,
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
}

/// The root of a version.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Root {
    /// Version of the format of the root and of its pages.
    pub(crate) format: u32,
    pub(crate) facts: Facts,
    /// Level of the pages.
    pub(crate) level: u32,
    pub(crate) pages: Vec<PageRef>,
    /// Metadata that a reader fetches with the pages.
    pub(crate) ranges: Vec<Range>,
    /// The shards of a join, which has no pages of its own.
    pub(crate) join: Option<Arc<Join>>,
}

/// Folder of the roots.
pub(crate) const FOLDER: &str = "versions";

/// Returns the name of a version's root.
pub(crate) fn object(version: &Hash) -> String {
    format!("{FOLDER}/{version}")
}

impl Root {
    /// Parses a root whose hash was verified.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Root, Bad> {
        if bytes.len() > MAX_ROOT_BYTES {
            return Err("is too large");
        }
        let mut input = Input(bytes);
        let head = input.take(root::SIZE)?;
        let format = check(head, ROOT_MAGIC, "is not a root of a publication")?;
        let facts = Facts::parse(head)?;
        match get(root::KIND, head)? {
            _ if format == UNBOUND => {}
            VOLUME => {}
            JOIN => {
                let join = Some(Arc::new(Join::parse(head, &mut input, &facts)?));
                return Ok(Root { format, facts, level: 0, pages: Vec::new(), ranges: Vec::new(), join });
            }
            _ => return Err("is not the root of one volume, but of a kind that this program does not know"),
        }
        let level = get(root::LEVEL, head)?;
        if level > MAX_LEVEL || level != page::top_level(facts.volume_bytes) {
            return Err("has an impossible level of pages");
        }
        let packs = packs::parse(&mut input, get(root::PACKS, head)?)?;
        let pages = parse_refs(&mut input, get(root::PAGES, head)?, format, &packs, 0)?;
        let ranges = parse_ranges(&mut input, get(root::RANGES, head)?, &packs)?;
        input.end()?;
        Ok(Root { format, facts, level, pages, ranges, join: None })
    }

    /// Returns the bytes of the root, in the version of this program.
    pub(crate) fn encode(&self) -> Vec<u8> {
        debug_assert_eq!(self.format, VERSION, "roots are written in one version");
        let (mut list, mut tail) = (PackList::default(), Vec::new());
        self.pages.iter().for_each(|page| append_ref(&mut tail, page, &mut list));
        self.ranges.iter().for_each(|range| append_range(&mut tail, range, &mut list));
        let mut bytes = Vec::new();
        append(&mut bytes, root::SIZE, |head| {
            root::MAGIC.write(head, ROOT_MAGIC);
            root::VERSION.write(head, VERSION);
            root::LEVEL.write(head, self.level);
            self.facts.write(head);
            root::PACKS.write(head, list.len());
            root::PAGES.write(head, self.pages.len() as u32);
            root::RANGES.write(head, self.ranges.len() as u32);
            root::KIND.write(head, if self.join.is_some() { JOIN } else { VOLUME });
        });
        list.append_to(&mut bytes);
        bytes.extend(tail);
        self.join.iter().for_each(|join| join.append_to(&mut bytes));
        bytes
    }
}

fn parse_ranges(input: &mut Input<'_>, count: u32, packs: &[PackRef]) -> Result<Vec<Range>, Bad> {
    if count as usize > MAX_RANGES {
        return Err("has too many ranges");
    }
    let parse = |bytes: &[u8]| {
        let range = Range {
            pack: *packs.get(get(range::PACK, bytes)? as usize).ok_or("names no pack")?,
            offset: get(range::OFFSET, bytes)?,
            bytes: get(range::BYTES, bytes)?,
        };
        range.pack.contains(range.offset, range.bytes)?;
        Ok(range)
    };
    input.list(count, range::SIZE)?.map(parse).collect()
}

fn append_range(out: &mut Vec<u8>, range: &Range, list: &mut PackList) {
    append(out, range::SIZE, |bytes| {
        range::PACK.write(bytes, list.index(range.pack));
        range::OFFSET.write(bytes, range.offset);
        range::BYTES.write(bytes, range.bytes);
    });
}

/// A version that is about to be opened.
pub(crate) struct Named {
    pub(crate) version: Hash,
    /// Bytes of its root at most.
    pub(crate) most: usize,
    /// Bytes that may be its root.
    pub(crate) root: Option<Vec<u8>>,
}

/// The content of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The version.
    pub version: Hash,
    /// Bytes of its root.
    pub(crate) root_bytes: u32,
    /// UUID of the volume.
    pub uuid: [u8; 16],
    /// Time of the publication, in nanoseconds since 1970.
    pub published: i64,
}

impl Tag {
    /// Bytes of an object of a tag at most.
    pub(crate) const MAX_BYTES: usize = tag::SIZE + MAX_TAG_ROOT_BYTES;

    /// Parses the object of a tag. Returns also the bytes of the root that it has; they are not verified.
    pub(crate) fn parse(bytes: &[u8]) -> Result<(Tag, Option<&[u8]>), Bad> {
        let (bytes, rest) = bytes.split_at_checked(tag::SIZE).ok_or("is not a tag of a publication")?;
        check(bytes, TAG_MAGIC, "is not a tag of a publication")?;
        if Hash::read(tag::CHECK, bytes) != Some(Hash::of(&bytes[..tag::SIZE - HASH_BYTES])) {
            return Err("is damaged: its hash differs");
        }
        let root_bytes = get(tag::ROOT_BYTES, bytes)?;
        if root_bytes as usize > MAX_ROOT_BYTES {
            return Err("names a root of an impossible size");
        }
        let root = (!rest.is_empty()).then_some(rest);
        if root.is_some_and(|root| root.len() != root_bytes as usize) {
            return Err("has more after it than the root that it names");
        }
        let tag = Tag {
            version: Hash::read(tag::ROOT, bytes).ok_or(CUT_OFF)?,
            root_bytes,
            uuid: uuid(tag::UUID.offset, bytes)?,
            published: get(tag::PUBLISHED, bytes)?,
        };
        Ok((tag, root))
    }

    /// Returns the bytes of the object: the tag, and its root where that is small.
    pub(crate) fn encode(&self, root: &[u8]) -> Vec<u8> {
        debug_assert_eq!(root.len(), self.root_bytes as usize, "the root of this tag");
        let mut bytes = vec![0; tag::SIZE];
        tag::MAGIC.write(&mut bytes, TAG_MAGIC);
        tag::VERSION.write(&mut bytes, VERSION);
        tag::ROOT_BYTES.write(&mut bytes, self.root_bytes);
        self.version.write(tag::ROOT, &mut bytes);
        bytes[tag::UUID.offset..][..16].copy_from_slice(&self.uuid);
        tag::PUBLISHED.write(&mut bytes, self.published);
        let check = Hash::of(&bytes[..tag::SIZE - HASH_BYTES]);
        check.write(tag::CHECK, &mut bytes);
        if root.len() <= MAX_TAG_ROOT_BYTES {
            bytes.extend_from_slice(root);
        }
        bytes
    }
}
