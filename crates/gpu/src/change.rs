//! Changes of directories: where names are, and how hash regions are to look, for the volume's batches of changes.

use crate::batch::Tables;
use crate::engine::{Mirrored, State};
use crate::error;
use crate::kernels::PARAMETERS;
use crate::layout::{FORM_REGION, FORM_SMALL};
use crate::mirror::Mirror;
use crate::tasks::{Part, Tasks};
use crate::vulkan::{Buffer, Commands, Direction, Place, Staged};
use lanefs::bulk::{
    Applied, Batch, Built, Change, DirEngine, Home, Rebuilt, Seen, Shares, Sought, Source, Still, Unable,
};
use lanefs::format::{BLOCK, FileKind, MAX_NAME};
use lanefs::{Ino, ResolveOptions};
use std::sync::MutexGuard;

/// Names of one dispatch.
const NAMES: usize = 1 << 16;

/// Quads of what is known of a name, of the list of lists, and bytes of a word with its position.
const SEEN: usize = 6;
const CHANGE: u64 = 12;
const WORD: u64 = 16;

/// A device as an engine for the directories of its volume. Meanwhile nobody else can ask it for anything: whoever has this must not,
/// and other threads wait.
pub struct Changes<'m, 'g, 'v> {
    mirrored: &'m Mirrored<'g, 'v>,
    // Taken before the volume stands still, never then: who has it may be waiting for the volume to go on.
    state: MutexGuard<'m, State<'v>>,
    /// Words that there is room for at first, where not as many as are to be expected.
    room: Option<u64>,
}

impl<'g, 'v> Mirrored<'g, 'v> {
    /// The device as an engine for the volume's batches of changes. Where it fails, [`failure`](Self::failure) tells why.
    pub fn changes(&self) -> Changes<'_, 'g, 'v> {
        Changes { mirrored: self, state: self.state(), room: None }
    }

    /// Makes changes as [`Volume::apply`](lanefs::Volume::apply) does and with the same answers, together as far as the device can. What it
    /// cannot, and all of it where it fails, is made one by one.
    ///
    /// # Errors
    /// The volume's.
    pub fn apply(&self, base: Ino, changes: &[Change<'_>]) -> lanefs::Result<(Vec<Applied>, Shares)> {
        self.volume().apply_with(&mut self.changes(), base, changes)
    }
}

impl DirEngine for Changes<'_, '_, '_> {
    fn begin(&mut self, still: &Still<'_>) -> Result<(), Unable> {
        self.state.attempt(|mirror, _| mirror.refresh(|take| still.changes(take))).ok_or(Unable)
    }

    fn seek(&mut self, names: &[Sought<'_>]) -> Result<Vec<Seen>, Unable> {
        self.seen(names)?.into_iter().collect::<Option<_>>().ok_or(Unable)
    }

    fn rebuild(&mut self, batch: &Batch) -> Result<Rebuilt, Unable> {
        let (mirrored, room) = (self.mirrored, self.room);
        let tasks = Tasks::of(batch)?;
        if tasks.parts.is_empty() {
            return Ok(Rebuilt::default());
        }
        self.state.attempt(|mirror, _| mirrored.rebuild(mirror, &tasks, room)).flatten().ok_or(Unable)
    }
}

impl Changes<'_, '_, '_> {
    /// What the kernel `seek` answers; `None` for names of which it is not certain.
    ///
    /// # Errors
    /// [`Unable`] where the device failed, or one of the names is none.
    pub fn seen(&mut self, names: &[Sought<'_>]) -> Result<Vec<Option<Seen>>, Unable> {
        let mirrored = self.mirrored;
        let mut seen = Vec::with_capacity(names.len());
        for some in names.chunks(NAMES) {
            if some.iter().any(|sought| sought.name.is_empty() || sought.name.len() > MAX_NAME) {
                return Err(Unable);
            }
            seen.extend(self.state.attempt(|mirror, _| mirrored.seek(mirror, some)).ok_or(Unable)?);
        }
        Ok(seen)
    }

    /// With room for so many words at first, instead of as many as are to be expected.
    #[must_use]
    pub fn with_room(mut self, words: u64) -> Self {
        self.room = Some(words);
        self
    }

    /// As [`begin`](DirEngine::begin), where nobody changes the volume anyway.
    ///
    /// # Errors
    /// [`Unable`] where the device failed.
    pub fn look(&mut self) -> Result<(), Unable> {
        let refresh =
            |mirror: &mut Mirror, watch: &mut lanefs::Watch<'_>| mirror.refresh(|take| watch.changes(take));
        self.state.attempt(refresh).ok_or(Unable)
    }
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Writes quads one behind the other.
fn write(to: &mut [u8], quads: impl IntoIterator<Item = u64>) {
    for (to, quad) in to.as_chunks_mut::<8>().0.iter_mut().zip(quads) {
        *to = quad.to_le_bytes();
    }
}

fn read(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.as_chunks::<8>().0.iter().map(|quad| u64::from_le_bytes(*quad))
}

impl Mirrored<'_, '_> {
    /// What the kernel `seek` answers; `None` for names of which it is not certain.
    fn seek(&self, mirror: &Mirror, names: &[Sought<'_>]) -> error::Result<Vec<Option<Seen>>> {
        let list = names.len() as u64 * 16;
        let text: u64 = names.iter().map(|sought| sought.name.len().next_multiple_of(4) as u64).sum();
        let mut input = Staged::new(self.device(), PARAMETERS + list + text, Direction::In)?;
        let output = Staged::new(self.device(), names.len() as u64 * SEEN as u64 * 8, Direction::Out)?;
        let here = input.address();
        let question = self.question(&ResolveOptions::default());
        let mut parameters = Tables::of(mirror).parameters(&question, self.cache());
        parameters.starts = here + PARAMETERS;
        parameters.text = here + PARAMETERS + list;
        parameters.count = names.len() as u32;
        parameters.answers = output.address();
        let (told, rest) = input.bytes_mut().split_at_mut(PARAMETERS as usize);
        let (records, text) = rest.split_at_mut(list as usize);
        parameters.write(told);
        let mut at = 0;
        for (sought, record) in names.iter().zip(records.as_chunks_mut::<16>().0) {
            let len = sought.name.len();
            write(record, [sought.dir, pair(at as u32, len as u32)]);
            text[at..at + len].copy_from_slice(sought.name);
            at += len.next_multiple_of(4);
        }
        let mut work = Commands::new(self.device())?;
        work.record(|commands| {
            input.bring(commands, input.len());
            commands.run(&self.gpu().kernels().seek, here, names.len() as u64);
            output.bring(commands, output.len());
        })?;
        work.submit()?;
        work.wait()?;
        let quads: Vec<u64> = read(output.bytes()).collect();
        Ok(quads.as_chunks::<SEEN>().0.iter().take(names.len()).map(seen_of).collect())
    }

    /// What the kernels `gather`, `merge` and `build` answer; `None` where they are not certain of one of the tasks.
    fn rebuild(
        &self,
        mirror: &Mirror,
        tasks: &Tasks<'_>,
        room: Option<u64>,
    ) -> error::Result<Option<Rebuilt>> {
        let most = tasks.most_words();
        // The kernels count them in 32 bits.
        if most > u64::from(u32::MAX) {
            return Ok(None);
        }
        let mut room = room.unwrap_or_else(|| tasks.parts.iter().map(expected).sum()).min(most);
        loop {
            match self.attempt_rebuild(mirror, tasks, room)? {
                Answer::Unable => return Ok(None),
                Answer::Rebuilt(rebuilt) => return Ok(Some(rebuilt)),
                Answer::Needs(more) => room = more,
            }
        }
    }

    /// With room for so many words.
    fn attempt_rebuild(&self, mirror: &Mirror, tasks: &Tasks<'_>, room: u64) -> error::Result<Answer> {
        let device = self.device();
        let (lists, starts) = lists_of(tasks);
        let mut input = Staged::new(device, PARAMETERS + (CHANGE + lists.len() as u64) * 8, Direction::In)?;
        let made = |count: u32, bytes: u64| Buffer::new(device, u64::from(count) * bytes, Place::Device);
        let (items, merged) = (made(tasks.items, 16)?, made(tasks.merged, 16)?);
        let (task_count, head_count) = (tasks.parts.len() as u32, tasks.batch.heads.len() as u32);
        let ends = made(task_count, 8)?;
        // A count and a flag, the words, and what there is of each head.
        let heads_at = WORD + room * WORD;
        let output = Staged::new(device, heads_at + u64::from(head_count) * 8, Direction::Out)?;
        let here = input.address();
        let question = self.question(&ResolveOptions::default());
        let mut parameters = Tables::of(mirror).parameters(&question, self.cache());
        parameters.text = here + PARAMETERS;
        let (told, rest) = input.bytes_mut().split_at_mut(PARAMETERS as usize);
        parameters.write(told);
        let lists_at = here + PARAMETERS + CHANGE * 8;
        let change = starts.iter().map(|start| lists_at + start * 8).chain([
            items.address,
            merged.address,
            ends.address,
            output.address() + heads_at,
            output.address(),
            pair(task_count, head_count),
            pair(tasks.merged, room as u32),
        ]);
        write(rest, change.chain(lists));
        let mut work = Commands::new(device)?;
        let kernels = self.gpu().kernels();
        work.record(|commands| {
            input.bring(commands, input.len());
            output.clear(commands, WORD);
            commands.run_groups(&kernels.gather, here, task_count.into());
            commands.run(&kernels.merge, here, tasks.merged.into());
            commands.run_groups(&kernels.build, here, head_count.into());
            output.bring(commands, output.len());
        })?;
        work.submit()?;
        work.wait()?;
        let bytes = output.bytes();
        let (words, heads) = bytes.split_at(bytes.len().min(heads_at as usize));
        let words: Vec<u64> = read(words).collect();
        let (count, is_bad) =
            words.first().map_or((0, true), |first| (first & 0xffff_ffff, first >> 32 != 0));
        if is_bad {
            return Ok(Answer::Unable);
        }
        if count > room {
            return Ok(Answer::Needs(count));
        }
        let words = words.get(2..).unwrap_or(&[]).as_chunks::<2>().0.iter().take(count as usize);
        let built = |quad| Built { lowest: quad as u32, count: (quad >> 32) as u32 };
        Ok(Answer::Rebuilt(Rebuilt {
            words: words.map(|[at, value]| (*at, *value)).collect(),
            heads: read(heads).map(built).take(head_count as usize).collect(),
        }))
    }
}

/// What came of a submission.
enum Answer {
    Unable,
    /// There was no room for so many words.
    Needs(u64),
    Rebuilt(Rebuilt),
}

/// What `seek` wrote of a name.
fn seen_of(&[home, dummy, at, ino, first, second]: &[u64; SEEN]) -> Option<Seen> {
    let (hash, count) = (first as u32, (first >> 32) as u32);
    let (kind, is_certain) = (second as u32, second >> 32 != 0);
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
    is_certain.then_some(Seen { hash, home, dummy, count, entry })
}

/// The lists of a batch as the kernels read them, and where in it each begins.
fn lists_of(tasks: &Tasks<'_>) -> (Vec<u64>, [u64; 5]) {
    let (mut lists, mut starts) = (Vec::new(), [0; 5]);
    let batch = tasks.batch;
    for part in &tasks.parts {
        let of = &part.ranges;
        let ranges =
            [&of.sources, &of.removed, &of.added, &of.heads].map(|range| pair(range.start, range.end));
        lists.push(part.inode);
        lists.extend(ranges);
        lists.extend([pair(of.items.start, of.merged.start), pair(part.stay, part.lowest)]);
    }
    starts[1] = lists.len() as u64;
    lists.extend(batch.sources.iter().map(|source| match source {
        Source::Small(at) => at + FORM_SMALL,
        Source::Region(at) => at + FORM_REGION,
    }));
    starts[2] = lists.len() as u64;
    lists.extend(&batch.removed);
    starts[3] = lists.len() as u64;
    lists.extend(batch.added.iter().flat_map(|added| [added.at, added.hash.into()]));
    starts[4] = lists.len() as u64;
    lists.extend(
        batch
            .heads
            .iter()
            .flat_map(|head| [head.dummy, head.index, pair(head.task, head.number), head.is_new.into()]),
    );
    (lists, starts)
}

/// Words that a task takes in most cases: two links and a slot for each entry that comes or goes, or for all where all is made anew.
fn expected(part: &Part<'_>) -> u64 {
    let is_new = part.heads.len() > 1 || part.heads.iter().any(|head| head.is_new);
    let written = if is_new { part.ranges.merged.len() } else { part.added.len() };
    3 * (written + part.removed.len()) as u64 + 16
}
