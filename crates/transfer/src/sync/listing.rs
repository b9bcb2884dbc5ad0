//! The names of one directory, with the files that have them on both sides, in little memory: a directory may
//! have millions of them.
//!
//! A name takes 23 bytes beside its own; 5 to 11 come on top while both sides are matched.
//! Only the names of one side are kept: those of the other one are looked up as they are listed.

use super::failure::Failure;
use super::node::{Name, Node};
use lanefs::FileKind;
use rustix::io::Errno;
use std::ffi::CStr;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

/// Most names of a segment. Its memory grows by copies, that of a listing does not.
const SEGMENT_NAMES: usize = 1 << 17;
/// Bytes of a name's record before the name: the numbers of the type on this side, and on the other one.
const HEAD_BYTES: usize = 2;

/// A name.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
struct Entry {
    ino: u64,
    /// Inode number on the other side, if it has the name.
    other: u64,
    /// Offset of the record in bytes: two types, the name, NUL.
    at: u32,
}

/// Some names of a directory.
#[derive(Default)]
pub(super) struct Segment {
    entries: Vec<Entry>,
    records: Vec<u8>,
    /// The files of names that were walked, by the offsets of their records. Most segments have none.
    files: Vec<(u32, Node)>,
}

impl Segment {
    fn push(&mut self, name: &CStr, kind: FileKind, ino: u64) {
        // A segment has less than 64 MiB of records.
        let at = self.records.len() as u32;
        // No type has the number 0.
        self.records.extend([kind as u8, 0]);
        self.records.extend(name.to_bytes_with_nul());
        self.entries.push(Entry { ino, other: 0, at });
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn record(&self, entry: Entry) -> &[u8] {
        self.records.get(entry.at as usize..).unwrap_or_default()
    }

    fn name(&self, entry: Entry) -> &CStr {
        let name = self.record(entry).get(HEAD_BYTES..).unwrap_or_default();
        CStr::from_bytes_until_nul(name).unwrap_or_default()
    }

    /// Sets the file that has a name on the other side. The first one counts.
    fn set_other(&mut self, at: usize, kind: FileKind, ino: u64) {
        let Some(entry) = self.entries.get_mut(at) else { return };
        if let Some(number) = self.records.get_mut(entry.at as usize + 1)
            && *number == 0
        {
            *number = kind as u8;
            entry.other = ino;
        }
    }

    /// Sorts by inode number, which is about the order on the disk.
    pub(super) fn sort(&mut self) {
        self.entries.sort_unstable_by_key(|entry| entry.ino);
    }

    /// Returns names of this side, each with the one of the other side.
    pub(super) fn names(&self, range: Range<usize>) -> impl Iterator<Item = (Name, Option<Name>)> {
        self.names_with_files(range).map(|(name, other, _)| (name, other))
    }

    /// Returns names of this side, each with the one of the other side, and the file on this side where it is
    /// known.
    pub(super) fn names_with_files(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = (Name, Option<Name>, Option<Box<Node>>)> {
        let entries = self.entries.get(range).unwrap_or_default();
        entries.iter().filter_map(|entry| {
            let (record, name) = (self.record(*entry), self.name(*entry).to_owned());
            let kind = |at: usize| record.get(at).copied().and_then(FileKind::from_number);
            let other = kind(1).map(|kind| Name { name: name.clone(), kind, ino: entry.other });
            let file = self.files.binary_search_by_key(&{ entry.at }, |(at, _)| *at).ok();
            let file = file.and_then(|at| self.files.get(at)).map(|(_, node)| Box::new(*node));
            Some((Name { kind: kind(0)?, name, ino: entry.ino }, other, file))
        })
    }
}

/// The names of a directory.
pub(super) struct Listing {
    segments: Vec<Segment>,
    /// Most names of one segment.
    segment_names: usize,
}

impl Default for Listing {
    fn default() -> Self {
        Listing { segments: Vec::new(), segment_names: SEGMENT_NAMES }
    }
}

impl Listing {
    pub(super) fn push(&mut self, name: &CStr, kind: FileKind, ino: u64) {
        self.open_segment().push(name, kind, ino);
    }

    /// Adds a name with its file, which nobody needs to read again, and the name of the other side where that
    /// is known.
    pub(super) fn push_with_file(&mut self, name: &CStr, node: &Node, other: Option<&Name>) {
        let segment = self.open_segment();
        segment.files.push((segment.records.len() as u32, *node));
        segment.push(name, node.meta.kind, node.meta.id.ino);
        if let Some(other) = other {
            segment.set_other(segment.len() - 1, other.kind, other.ino);
        }
    }

    /// The segment that takes the next name.
    fn open_segment(&mut self) -> &mut Segment {
        if self.segments.last().is_none_or(|last| last.len() >= self.segment_names) {
            self.segments.push(Segment::default());
        }
        let last = self.segments.len() - 1;
        &mut self.segments[last]
    }

    /// Returns the segments, which have all names together.
    pub(super) fn into_segments(self) -> Vec<Segment> {
        self.segments
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns names of this side one after the other.
    pub(super) fn into_names(self) -> impl Iterator<Item = Name> {
        self.segments.into_iter().flat_map(|segment| {
            (0..segment.len()).filter_map(move |at| segment.names(at..at + 1).next().map(|(name, _)| name))
        })
    }

    /// Prepares the listing for names of the other side.
    pub(super) fn matcher(self) -> Result<Matcher, Failure> {
        Matcher::new(self)
    }
}

/// A listing whose names are found by their hashes.
pub(super) struct Matcher {
    listing: Listing,
    /// Numbers of names, counted from one; 0 is free. At least a quarter is.
    places: Vec<u32>,
    /// Names that one who makes them chooses must not be those that take long.
    hasher: RandomState,
}

impl Matcher {
    fn new(listing: Listing) -> Result<Self, Failure> {
        let names: usize = listing.segments.iter().map(Segment::len).sum();
        let too_many = || Failure::Host(Errno::OVERFLOW);
        u32::try_from(names).ok().filter(|names| *names < u32::MAX).ok_or_else(too_many)?;
        let places = vec![0; (names + names / 3 + 1).next_power_of_two()];
        let mut matcher = Matcher { listing, places, hasher: RandomState::new() };
        for number in 1..=names {
            let place = matcher.name(number).map(|name| matcher.free_place(name));
            if let Some(place) = place.and_then(|place| matcher.places.get_mut(place)) {
                *place = number as u32;
            }
        }
        Ok(matcher)
    }

    fn place(&self, number: usize) -> (usize, usize) {
        ((number - 1) / self.listing.segment_names, (number - 1) % self.listing.segment_names)
    }

    fn name(&self, number: usize) -> Option<&CStr> {
        let (segment, at) = self.place(number);
        let segment = self.listing.segments.get(segment)?;
        segment.entries.get(at).map(|entry| segment.name(*entry))
    }

    /// The places in which a name may be, the best first.
    fn places_of(&self, name: &CStr) -> impl Iterator<Item = usize> {
        let (begin, mask) = (self.hasher.hash_one(name.to_bytes()) as usize, self.places.len() - 1);
        (0..self.places.len()).map(move |step| begin.wrapping_add(step) & mask)
    }

    fn free_place(&self, name: &CStr) -> usize {
        let is_free = |place: &usize| self.places.get(*place) == Some(&0);
        self.places_of(name).find(is_free).unwrap_or_default()
    }

    /// Gives a name of the other side to the same of this one; false where there is none.
    pub(super) fn give(&mut self, name: &CStr, kind: FileKind, ino: u64) -> bool {
        let numbers = self.places_of(name).map_while(|place| match self.places.get(place) {
            None | Some(0) => None,
            Some(number) => Some(*number as usize),
        });
        let Some(number) = numbers.into_iter().find(|number| self.name(*number) == Some(name)) else {
            return false;
        };
        let (segment, at) = self.place(number);
        if let Some(segment) = self.listing.segments.get_mut(segment) {
            segment.set_other(at, kind, ino);
        }
        true
    }

    /// Returns the listing, whose names are matched.
    pub(super) fn into_listing(self) -> Listing {
        self.listing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    fn listing(segment_names: usize, names: &[String]) -> Listing {
        let mut listing = Listing { segments: Vec::new(), segment_names };
        for (number, name) in names.iter().enumerate() {
            let kind = if number % 3 == 0 { FileKind::Directory } else { FileKind::File };
            listing.push(&CString::new(name.as_str()).unwrap(), kind, 1000 - number as u64);
        }
        listing
    }

    #[test]
    fn a_name_takes_20_bytes_and_three_beside_its_own() {
        assert_eq!(size_of::<Entry>(), 20);
        let names: Vec<String> = (0..100).map(|number| format!("{number:08}")).collect();
        let [segment] = listing(1000, &names).into_segments().try_into().ok().unwrap();
        assert_eq!((segment.entries.len(), segment.records.len()), (100, 100 * (8 + 3)));
    }

    #[test]
    fn names_are_matched_in_any_order() {
        for (segment_names, count) in [(1, 5), (3, 10), (7, 300), (1000, 300), (4, 0)] {
            let names: Vec<String> = (0..count).map(|number| format!("name {}", number * 7 % 307)).collect();
            let mut matcher = listing(segment_names, &names).matcher().unwrap();
            for (number, name) in names.iter().enumerate().rev().filter(|(number, _)| number % 2 == 0) {
                let name = CString::new(name.as_str()).unwrap();
                assert!(matcher.give(&name, FileKind::Symlink, number as u64));
                // A name that a damaged directory has once more changes nothing.
                assert!(matcher.give(&name, FileKind::Fifo, 5));
            }
            for name in ["", "name", "name 1000", "other"] {
                assert!(!matcher.give(&CString::new(name).unwrap(), FileKind::File, 1));
            }
            let mut found = Vec::new();
            for mut segment in matcher.into_listing().into_segments() {
                assert!(segment.len() <= segment_names);
                segment.sort();
                found.extend(segment.names(0..segment.len()));
            }
            assert_eq!(found.len(), count);
            for (name, other) in found {
                let number = 1000 - name.ino as usize;
                assert_eq!(name.name.to_str().unwrap(), names[number]);
                assert_eq!(name.is_dir(), number.is_multiple_of(3));
                assert_eq!(other.is_some(), number.is_multiple_of(2));
                if let Some(other) = other {
                    assert_eq!((other.kind, other.ino), (FileKind::Symlink, number as u64));
                    assert_eq!(other.name, name.name);
                }
            }
        }
    }
}
