//! Changes of directories: names found, and hash regions rebuilt, for the volume's batches of changes.

use crate::error::Result;
use crate::lookups::mirrored::{EngineState, Mirrored, refresh};
use crate::resident::mirror::Mirror;
use crate::resident::tables::{MirrorTables, PARAMETERS_BYTES};
use crate::shared::layout::{FORM_REGION, FORM_SMALL};
use crate::shared::structures::{
    BuiltRecord, ChangeLists, ChangedWord, EntryRecord, HeadRecord, Parameters, SeekAnswer, SeekRequest,
    TaskRecord, WordsHeader,
};
use crate::shared::tasks::{TaskView, Tasks};
use crate::vulkan::{Buffer, Commands, Direction, MemoryLocation, Staged};
use lanefs::bulk::{
    Applied, Batch, Built, Change, DirEngine, Frozen, Head, Home, Lookup, LookupRequest, Rebuilt, Shares,
    Source, Undecided,
};
use lanefs::format::{BLOCK, FileKind, MAX_NAME};
use lanefs::{Ino, ResolveOptions};
use lanefs_sync::lock::MutexGuard;

/// Names of one dispatch at most.
const NAMES: usize = 1 << 16;

/// Bytes of the words' header, and of a word with its position.
const HEADER_BYTES: u64 = WordsHeader::SIZE as u64;
const WORD: u64 = ChangedWord::SIZE as u64;

/// A device as an engine for the directories of its volume. It has the device for itself: other threads
/// wait, and the thread that owns it must not use the device in another way.
pub struct Changes<'m, 'v> {
    mirrored: &'m Mirrored<'v>,
    // Locked before the volume is frozen, never while it is: the owner of the lock may be waiting for the
    // volume.
    state: MutexGuard<'m, EngineState<'v>>,
    /// Room for words at first; `None`: for as many as are to be expected.
    room: Option<u64>,
}

impl<'v> Mirrored<'v> {
    /// Returns the device as an engine for the volume's batches of changes. Where it fails,
    /// [`failure`](Self::failure) says why.
    pub fn changes(&self) -> Changes<'_, 'v> {
        Changes { mirrored: self, state: self.state(), room: None }
    }

    /// Makes changes as [`Volume::apply`](lanefs::Volume::apply) does and with the same answers, together
    /// as far as the device can. The others, and all of them where the device fails, are made one by one.
    ///
    /// # Errors
    /// An error of the volume.
    pub fn apply(&self, base: Ino, changes: &[Change<'_>]) -> lanefs::Result<(Vec<Applied>, Shares)> {
        self.volume().apply_with(&mut self.changes(), base, changes)
    }
}

impl DirEngine for Changes<'_, '_> {
    fn begin(&mut self, frozen: &Frozen<'_>) -> std::result::Result<(), Undecided> {
        self.state.attempt(|mirror, _| mirror.refresh(|take| frozen.changes(take))).ok_or(Undecided)
    }

    fn seek(&mut self, names: &[LookupRequest<'_>]) -> std::result::Result<Vec<Lookup>, Undecided> {
        self.seek_each(names)?.into_iter().collect::<Option<_>>().ok_or(Undecided)
    }

    fn rebuild(&mut self, batch: &Batch) -> std::result::Result<Rebuilt, Undecided> {
        let (mirrored, room) = (self.mirrored, self.room);
        let tasks = Tasks::of(batch)?;
        if tasks.parts.is_empty() {
            return Ok(Rebuilt::default());
        }
        self.state.attempt(|mirror, _| mirrored.rebuild(mirror, &tasks, room)).flatten().ok_or(Undecided)
    }
}

impl Changes<'_, '_> {
    /// Returns the results of the kernel `seek`; `None` for a name that it cannot decide.
    ///
    /// # Errors
    /// [`Undecided`] where the device failed, or one of the names is none.
    pub fn seek_each(
        &mut self,
        names: &[LookupRequest<'_>],
    ) -> std::result::Result<Vec<Option<Lookup>>, Undecided> {
        let mirrored = self.mirrored;
        let mut lookups = Vec::with_capacity(names.len());
        for some in names.chunks(NAMES) {
            if some.iter().any(|request| request.name.is_empty() || request.name.len() > MAX_NAME) {
                return Err(Undecided);
            }
            lookups.extend(self.state.attempt(|mirror, _| mirrored.seek(mirror, some)).ok_or(Undecided)?);
        }
        Ok(lookups)
    }

    /// Reserves room for so many words at first, in place of as many as are to be expected.
    #[must_use]
    pub fn with_room(mut self, words: u64) -> Self {
        self.room = Some(words);
        self
    }

    /// Refreshes the copy as [`begin`](DirEngine::begin) does, on a volume that no thread changes.
    ///
    /// # Errors
    /// [`Undecided`] where the device failed.
    pub fn refresh(&mut self) -> std::result::Result<(), Undecided> {
        self.state.attempt(|mirror, watch| refresh(mirror, watch)).ok_or(Undecided)
    }
}

impl Mirrored<'_> {
    /// Returns the results of the kernel `seek`; `None` for a name that it cannot decide.
    fn seek(&self, mirror: &Mirror, names: &[LookupRequest<'_>]) -> Result<Vec<Option<Lookup>>> {
        let list = (names.len() * SeekRequest::SIZE) as u64;
        let text: u64 = names.iter().map(|request| request.name.len().next_multiple_of(4) as u64).sum();
        let mut input = Staged::new(self.device(), PARAMETERS_BYTES + list + text, Direction::ToDevice)?;
        let output = Staged::new(self.device(), (names.len() * SeekAnswer::SIZE) as u64, Direction::ToHost)?;
        let address = input.address();
        let query = self.query(&ResolveOptions::default());
        let parameters = Parameters {
            starts: address + PARAMETERS_BYTES,
            text: address + PARAMETERS_BYTES + list,
            count: names.len() as u32,
            answers: output.address(),
            ..MirrorTables::of(mirror).parameters(&query, self.cache())
        };
        let (parameter_bytes, rest) = input.bytes_mut().split_at_mut(PARAMETERS_BYTES as usize);
        let (records, text) = rest.split_at_mut(list as usize);
        parameters.write(parameter_bytes);
        let mut at = 0;
        for (request, record) in names.iter().zip(records.chunks_exact_mut(SeekRequest::SIZE)) {
            let len = request.name.len();
            SeekRequest { dir: request.dir, start: at as u32, bytes: len as u32 }.write(record);
            text[at..at + len].copy_from_slice(request.name);
            at += len.next_multiple_of(4);
        }
        let mut work = Commands::new(self.device())?;
        work.record(|commands| {
            input.transfer(commands, input.len());
            commands.dispatch(&self.kernels().seek, address, names.len() as u64);
            output.transfer(commands, output.len());
        })?;
        work.submit()?;
        work.wait()?;
        Ok(SeekAnswer::read_all(output.bytes()).take(names.len()).map(lookup_of).collect())
    }

    /// Returns the results of the kernels `gather`, `merge` and `build`; `None` where they cannot decide
    /// one of the tasks.
    fn rebuild(&self, mirror: &Mirror, tasks: &Tasks<'_>, room: Option<u64>) -> Result<Option<Rebuilt>> {
        let most = tasks.most_words();
        // The kernels count them in 32 bits.
        if most > u64::from(u32::MAX) {
            return Ok(None);
        }
        let mut room = room.unwrap_or_else(|| tasks.parts.iter().map(expected).sum()).min(most);
        loop {
            match self.attempt_rebuild(mirror, tasks, room)? {
                RebuildOutcome::Undecided => return Ok(None),
                RebuildOutcome::Rebuilt(rebuilt) => return Ok(Some(rebuilt)),
                RebuildOutcome::Needs(more) => room = more,
            }
        }
    }

    /// Rebuilds with room for so many words.
    fn attempt_rebuild(&self, mirror: &Mirror, tasks: &Tasks<'_>, room: u64) -> Result<RebuildOutcome> {
        let device = self.device();
        let lists = Lists::of(tasks);
        let mut input =
            Staged::new(device, PARAMETERS_BYTES + lists.bytes.len() as u64, Direction::ToDevice)?;
        let made = |count: u32, bytes: usize| {
            Buffer::new(device, u64::from(count) * bytes as u64, MemoryLocation::Device)
        };
        let (items, merged) = (made(tasks.items, EntryRecord::SIZE)?, made(tasks.merged, EntryRecord::SIZE)?);
        let (task_count, head_count) = (tasks.parts.len() as u32, tasks.batch.heads.len() as u32);
        let ends = made(task_count, size_of::<u64>())?;
        // The header, the words, and the facts about each new region.
        let heads_at = HEADER_BYTES + room * WORD;
        let output = Staged::new(
            device,
            heads_at + (head_count as usize * BuiltRecord::SIZE) as u64,
            Direction::ToHost,
        )?;
        let address = input.address();
        let query = self.query(&ResolveOptions::default());
        let parameters = Parameters {
            text: address + PARAMETERS_BYTES,
            ..MirrorTables::of(mirror).parameters(&query, self.cache())
        };
        let (parameter_bytes, rest) = input.bytes_mut().split_at_mut(PARAMETERS_BYTES as usize);
        parameters.write(parameter_bytes);
        rest[..lists.bytes.len()].copy_from_slice(&lists.bytes);
        let change = ChangeLists {
            items: items.address,
            merged: merged.address,
            ends: ends.address,
            built: output.address() + heads_at,
            words: output.address(),
            task_count,
            head_count,
            merged_count: tasks.merged,
            room: room as u32,
            ..lists.at(address + PARAMETERS_BYTES)
        };
        change.write(rest);
        let mut work = Commands::new(device)?;
        let kernels = self.kernels();
        work.record(|commands| {
            input.transfer(commands, input.len());
            output.clear(commands, HEADER_BYTES);
            commands.dispatch_groups(&kernels.gather, address, task_count.into());
            commands.dispatch(&kernels.merge, address, tasks.merged.into());
            commands.dispatch_groups(&kernels.build, address, head_count.into());
            output.transfer(commands, output.len());
        })?;
        work.submit()?;
        work.wait()?;
        let bytes = output.bytes();
        let (words, heads) = bytes.split_at(bytes.len().min(heads_at as usize));
        let WordsHeader { count, is_bad, .. } = WordsHeader::read(words);
        if is_bad != 0 || words.len() < WordsHeader::SIZE {
            return Ok(RebuildOutcome::Undecided);
        }
        if u64::from(count) > room {
            return Ok(RebuildOutcome::Needs(count.into()));
        }
        let words = ChangedWord::read_all(&words[WordsHeader::SIZE..]).take(count as usize);
        let heads = BuiltRecord::read_all(heads).take(head_count as usize);
        Ok(RebuildOutcome::Rebuilt(Rebuilt {
            words: words.map(|word| (word.at, word.value)).collect(),
            heads: heads.map(|BuiltRecord { lowest, count }| Built { lowest, count }).collect(),
        }))
    }
}

/// Outcome of a submission.
enum RebuildOutcome {
    Undecided,
    /// Words that there must be room for.
    Needs(u64),
    Rebuilt(Rebuilt),
}

/// Converts the answer of `seek` for a name; `None` where it could not decide.
fn lookup_of(answer: SeekAnswer) -> Option<Lookup> {
    let SeekAnswer { home, dummy, at, ino, hash, count, kind, is_certain } = answer;
    let (block, form) = (home - home % BLOCK, home % BLOCK);
    let home = match form {
        _ if home == 0 => Home::Empty,
        FORM_SMALL => Home::Small(block),
        FORM_REGION => Home::Region(block),
        _ => return None,
    };
    let entry = match at {
        0 => None,
        _ => Some((at, ino, FileKind::from_number(u8::try_from(kind).ok()?)?)),
    };
    (is_certain != 0).then_some(Lookup { hash, home, dummy, count, entry })
}

/// The lists of a batch as the kernels read them, after room for [`ChangeLists`].
struct Lists {
    bytes: Vec<u8>,
    /// Offset of each list.
    offsets: ChangeLists,
}

impl Lists {
    fn of(tasks: &Tasks<'_>) -> Lists {
        let batch = tasks.batch;
        let mut lists = Lists { bytes: vec![0; ChangeLists::SIZE], offsets: ChangeLists::default() };
        lists.offsets.tasks = lists.push(tasks.parts.len(), TaskRecord::SIZE, |to| {
            let records: Vec<TaskRecord> = tasks.parts.iter().map(task_record).collect();
            TaskRecord::write_all(to, &records);
        });
        lists.offsets.sources = lists.push(batch.sources.len(), size_of::<u64>(), |to| {
            write_quads(to, batch.sources.iter().map(source_word));
        });
        lists.offsets.removed = lists.push(batch.removed.len(), size_of::<u64>(), |to| {
            write_quads(to, batch.removed.iter().copied());
        });
        lists.offsets.added = lists.push(batch.added.len(), EntryRecord::SIZE, |to| {
            for (to, added) in to.chunks_exact_mut(EntryRecord::SIZE).zip(&batch.added) {
                EntryRecord { at: added.at, hash: added.hash, spare: 0 }.write(to);
            }
        });
        lists.offsets.heads = lists.push(batch.heads.len(), HeadRecord::SIZE, |to| {
            for (to, head) in to.chunks_exact_mut(HeadRecord::SIZE).zip(&batch.heads) {
                let Head { task, number, dummy, index, is_new } = *head;
                HeadRecord { dummy, index, task, number, is_new: is_new.into(), spare: 0 }.write(to);
            }
        });
        lists
    }

    /// Adds a list; returns its offset.
    fn push(&mut self, count: usize, size: usize, write: impl FnOnce(&mut [u8])) -> u64 {
        let from = self.bytes.len();
        debug_assert!(from.is_multiple_of(8), "a list that begins between two quads");
        self.bytes.resize(from + count * size, 0);
        write(&mut self.bytes[from..]);
        from as u64
    }

    /// Returns the addresses of the lists, with their bytes at this address.
    fn at(&self, address: u64) -> ChangeLists {
        let ChangeLists { tasks, sources, removed, added, heads, .. } = self.offsets;
        let [tasks, sources, removed, added, heads] =
            [tasks, sources, removed, added, heads].map(|offset| address + offset);
        ChangeLists { tasks, sources, removed, added, heads, ..ChangeLists::default() }
    }
}

fn task_record(part: &TaskView<'_>) -> TaskRecord {
    let of = &part.ranges;
    TaskRecord {
        inode: part.inode,
        sources: of.sources.start,
        sources_end: of.sources.end,
        removed: of.removed.start,
        removed_end: of.removed.end,
        added: of.added.start,
        added_end: of.added.end,
        heads: of.heads.start,
        heads_end: of.heads.end,
        items: of.items.start,
        merged: of.merged.start,
        stay: part.stay,
        lowest: part.lowest,
    }
}

fn source_word(source: &Source) -> u64 {
    match source {
        Source::Small(at) => at + FORM_SMALL,
        Source::Region(at) => at + FORM_REGION,
    }
}

/// Writes quads one after the other.
fn write_quads(to: &mut [u8], quads: impl Iterator<Item = u64>) {
    for (to, quad) in to.as_chunks_mut::<8>().0.iter_mut().zip(quads) {
        *to = quad.to_le_bytes();
    }
}

/// Returns the words that a task takes in most cases: two links and a slot for each entry that comes or
/// goes, or for all entries of a region that is cut again.
fn expected(part: &TaskView<'_>) -> u64 {
    let is_new = part.heads.len() > 1 || part.heads.iter().any(|head| head.is_new);
    let written = if is_new { part.ranges.merged.len() } else { part.added.len() };
    3 * (written + part.removed.len()) as u64 + 16
}
