//! Searches: entries by name, type, size and time, all leaf blocks of a volume at once.

use super::mirrored::Mirrored;
use super::pending::IN_FLIGHT;
use crate::error::Result;
use crate::inputs::filter::Filter;
use crate::resident::mirror::Mirror;
use crate::resident::tables::{MirrorTables, PARAMETERS_BYTES};
use crate::shared::layout::{ENTRY_MATCHES, ENTRY_UNDECIDED, LEAF_UNDECIDED};
use crate::shared::query::LookupQuery;
use crate::shared::structures::{Field, FilterProgram, FindRecord, Parameters};
use crate::twin::kernels::find::{LeafSearch, Unit};
use crate::vulkan::{Commands, Direction, Staged};
use lanefs::format::dir::{LEAF_UNITS, entry, entry_units};
use lanefs::format::{FileKind, UNIT};
use lanefs::{BatchReport, DirEntry, Ino, ResolveOptions};
use std::collections::{BTreeSet, VecDeque};

/// Leaf blocks of one dispatch, and units of output at first: 4 MiB.
const LEAVES: usize = 1 << 16;
const ROOM: u64 = 1 << 18;

/// Bytes of a filter, as the kernel reads it.
const PROGRAM_BYTES: u64 = FilterProgram::SIZE as u64;

/// An entry that a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Its directory.
    pub dir: Ino,
    /// Inode number.
    pub ino: Ino,
    /// Type.
    pub kind: FileKind,
    /// Its cookie, as in [`lanefs::DirEntry`]: `readdir` gives entries in this order.
    pub cookie: u64,
    /// Name.
    pub name: Vec<u8>,
}

/// An entry, and whether it fulfils the conditions; else it is a directory on the way to one.
pub(crate) type Candidate = (Match, bool);

impl Mirrored<'_> {
    /// Finds entries of the whole volume, in the order of their directories' numbers and of their cookies.
    /// The host decides about blocks that the device does not have or cannot decide about, as they are
    /// then; the device sees one generation of the mirror. The report counts leaf blocks.
    ///
    /// Inodes without a name are not found. An entry whose attributes cannot be read is given: the caller
    /// gets the error when it reads them.
    ///
    /// # Errors
    /// An error of the volume.
    pub fn find(&self, filter: &Filter) -> lanefs::Result<(Vec<Match>, BatchReport)> {
        let (found, report) = self.candidates(filter, false)?;
        Ok((found.into_iter().map(|(entry, _)| entry).collect(), report))
    }

    /// Finds the entries that fulfil a filter, and all `directories` if wanted.
    pub(crate) fn candidates(
        &self,
        filter: &Filter,
        directories: bool,
    ) -> lanefs::Result<(Vec<Candidate>, BatchReport)> {
        let search = self.search(filter, directories);
        let on_device = self.on_device(|mirror| {
            let leaves: Vec<u64> = mirror.leaves.iter().copied().collect();
            Ok((self.records(mirror, &search, &leaves)?, leaves))
        });
        let ((records, leaves), copied) = on_device.unwrap_or_default();
        let mut decided: BTreeSet<u64> = leaves.into_iter().collect();
        let mut found = Vec::new();
        self.take(&records, &search, &mut found, &mut decided);
        let (by_device, mut by_host) = (decided.len() as u64, 0);
        self.volume().leaves(&|at| decided.contains(&at), &mut |dir, entries| {
            by_host += 1;
            if dir.0 == search.orphans {
                return;
            }
            for entry in entries {
                let is_match = filter.by_name(entry.kind, &entry.name)
                    && (!filter.asks_for_attributes() || self.fulfils(filter, entry.ino));
                if is_match || directories && entry.kind == FileKind::Directory {
                    let DirEntry { ino, kind, cookie, name } = entry;
                    found.push((Match { dir, ino, kind, cookie, name }, is_match));
                }
            }
        })?;
        found.sort_unstable_by_key(|(entry, _)| (entry.dir, entry.cookie));
        Ok((found, BatchReport { by_device, by_host, copied, ..BatchReport::default() }))
    }

    /// Returns the settings of a search.
    pub(crate) fn search<'f>(&self, filter: &'f Filter, directories: bool) -> LeafSearch<'f> {
        let superblock = self.volume().superblock();
        let LookupQuery { inode_size, fuel, .. } = self.query(&ResolveOptions::default());
        LeafSearch { filter, directories, orphans: superblock.orphans, inode_size, fuel }
    }

    /// Returns all entries of these leaf blocks, in any order, and the blocks that the host must decide
    /// about.
    pub(crate) fn entries(
        &self,
        mirror: &Mirror,
        everything: &Filter,
        leaves: &[u64],
    ) -> Result<(Vec<Match>, Vec<u64>)> {
        let search = LeafSearch { orphans: 0, ..self.search(everything, false) };
        let records = self.records(mirror, &search, leaves)?;
        let (mut found, mut decided) = (Vec::new(), leaves.iter().copied().collect());
        self.take(&records, &search, &mut found, &mut decided);
        let undecided = leaves.iter().copied().filter(|at| !decided.contains(at)).collect();
        Ok((found.into_iter().map(|(entry, _)| entry).collect(), undecided))
    }

    /// Asks the volume for the attributes. An inode that cannot be read counts as fulfilling.
    fn fulfils(&self, filter: &Filter, ino: Ino) -> bool {
        self.volume().getattr(ino).map_or(true, |attr| filter.by_attributes(&attr))
    }

    /// Returns the kernel's records of leaf blocks: entries of a block one after the other, blocks in any
    /// order.
    pub(crate) fn records(
        &self,
        mirror: &Mirror,
        search: &LeafSearch<'_>,
        leaves: &[u64],
    ) -> Result<Vec<Unit>> {
        self.records_in(mirror, search, leaves, (LEAVES, ROOM))
    }

    /// As above, with so many blocks in a dispatch and so many units of output at first.
    pub(crate) fn records_in(
        &self,
        mirror: &Mirror,
        search: &LeafSearch<'_>,
        leaves: &[u64],
        (at_once, mut room): (usize, u64),
    ) -> Result<Vec<Unit>> {
        let program = search.filter.program(search.directories);
        let mut records = Vec::new();
        let (mut waiting, mut on_device) = (leaves.chunks(at_once), VecDeque::new());
        loop {
            // The device has the next blocks while the host takes the records of some.
            while on_device.len() < IN_FLIGHT
                && let Some(some) = waiting.next()
            {
                on_device.push_back((some, self.dispatch(mirror, search, &program, some, room)?));
            }
            let Some((some, first)) = on_device.pop_front() else { return Ok(records) };
            let needed = first.take(&mut records)?;
            if needed > first.room {
                room = room.max(needed);
                on_device.push_front((some, self.dispatch(mirror, search, &program, some, needed)?));
            }
        }
    }

    /// Dispatches the kernel with so many units of room.
    fn dispatch(
        &self,
        mirror: &Mirror,
        search: &LeafSearch<'_>,
        program: &FilterProgram,
        leaves: &[u64],
        room: u64,
    ) -> Result<Dispatched> {
        let device = self.device();
        let list = leaves.len() as u64 * 8;
        let mut input = Staged::new(device, PARAMETERS_BYTES + PROGRAM_BYTES + list, Direction::ToDevice)?;
        // The count has a unit of its own.
        let output = Staged::new(device, (1 + room) * UNIT, Direction::ToHost)?;
        let address = input.address();
        let query =
            LookupQuery { root: search.orphans, fuel: search.fuel, ..self.query(&ResolveOptions::default()) };
        let parameters = Parameters {
            text: address + PARAMETERS_BYTES,
            starts: address + PARAMETERS_BYTES + PROGRAM_BYTES,
            count: leaves.len() as u32,
            answers: output.address(),
            room: room as u32,
            ..MirrorTables::of(mirror).parameters(&query, self.cache())
        };
        let (parameter_bytes, rest) = input.bytes_mut().split_at_mut(PARAMETERS_BYTES as usize);
        let (program_bytes, leaf_bytes) = rest.split_at_mut(PROGRAM_BYTES as usize);
        parameters.write(parameter_bytes);
        program.write(program_bytes);
        for (to, at) in leaf_bytes.as_chunks_mut::<8>().0.iter_mut().zip(leaves) {
            *to = at.to_le_bytes();
        }
        let mut work = Commands::new(device)?;
        work.record(|commands| {
            input.transfer(commands, input.len());
            output.clear(commands, UNIT);
            commands.dispatch(&self.kernels().find, address, leaves.len() as u64);
            output.transfer(commands, output.len());
        })?;
        work.submit()?;
        Ok(Dispatched { work, _input: input, output, room })
    }

    /// Reads the kernel's records. Decides about an entry that the kernel left open, and removes a leaf
    /// block that it left open from `decided`.
    fn take(
        &self,
        mut records: &[Unit],
        search: &LeafSearch<'_>,
        found: &mut Vec<Candidate>,
        decided: &mut BTreeSet<u64>,
    ) {
        while let Some((unit, rest)) = records.split_first() {
            let FindRecord { dir, order } = record_of(unit);
            if order & LEAF_UNDECIDED != 0 {
                decided.remove(&dir);
                records = rest;
                continue;
            }
            let Some((entry, rest)) = entry_of(Ino(dir), order >> 8, rest) else { break };
            records = rest;
            let is_match = order & ENTRY_MATCHES != 0
                || order & ENTRY_UNDECIDED != 0 && self.fulfils(search.filter, entry.ino);
            if is_match || search.directories && entry.kind == FileKind::Directory {
                found.push((entry, is_match));
            }
        }
    }
}

/// A dispatch of the kernel, with its buffers.
struct Dispatched {
    // Dropped first: it waits for its end before the buffers are freed.
    work: Commands,
    _input: Staged,
    output: Staged,
    /// Units of output that there is room for.
    room: u64,
}

impl Dispatched {
    /// Waits for its end. Adds its records, where they have room, and returns the units that they need.
    fn take(&self, records: &mut Vec<Unit>) -> Result<u64> {
        self.work.wait()?;
        let word = |four: &[u8; 4]| u32::from_le_bytes(*four);
        let (units, _) = self.output.bytes().as_chunks::<{ UNIT as usize }>();
        let mut units = units.iter().map(|unit| {
            let (words, _) = unit.as_chunks::<4>();
            [0, 1, 2, 3].map(|i| words.get(i).map_or(0, word))
        });
        let needed = u64::from(units.next().map_or(0, |unit: Unit| unit[0]));
        if needed <= self.room {
            records.extend(units.take(needed as usize));
        }
        Ok(needed)
    }
}

fn record_of(unit: &Unit) -> FindRecord {
    let mut bytes = [0; FindRecord::SIZE];
    unit.write(&mut bytes);
    FindRecord::read(&bytes)
}

/// Reads the entry after the first unit of a record; returns it with the remaining units.
fn entry_of(dir: Ino, order: u64, units: &[Unit]) -> Option<(Match, &[Unit])> {
    let [i0, i1, _, rest] = *units.first()?;
    let length = (rest & 0xff) as usize;
    let (own, behind) = units.split_at_checked(entry_units(length) - 1)?;
    let mut name: Vec<u8> = own.iter().skip(1).flatten().flat_map(|word| word.to_le_bytes()).collect();
    name.truncate(length);
    let ino = Ino(u64::from(i0) | u64::from(i1) << 32);
    let kind = FileKind::from_number((rest >> 8) as u8)?;
    Some((Match { dir, ino, kind, cookie: order + 1, name }, behind))
}

// The count has 32 bits; the first unit of a record takes the entry's bytes in front of the inode's number.
const _: () = assert!(LEAVES * LEAF_UNITS < 1 << 32 && entry::INODE.offset == UNIT as usize);
