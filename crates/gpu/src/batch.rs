//! A batch of paths: its buffers in device memory, and its commands. They are kept for the next batch of
//! about the same size.

use crate::cache::DirectoryCache;
use crate::error::Result;
use crate::kernels::Kernels;
use crate::layout::{FILLS, LEARNS, WALKS};
use crate::limits::MAX_PATH;
use crate::query::{LookupQuery, PathResult};
use crate::structures::{
    AnswersHeader, FillRequest, LearnRequest, ListHeader, LookupAnswer, PackedAnswers, PackedHeader,
    Parameters, PathRange,
};
use crate::tables::{MirrorTables, PARAMETERS};
use crate::twin::pack::PACKED;
use crate::twin::walk::Requests;
use crate::vulkan::{Buffer, Commands, Device, Direction, MemoryLocation, Recording, Staged};
use lanefs::format::{Code, INODE_CORE};
use lanefs::{ANSWER_BLOCK, AnswerBlock, Paths, Rows};
use std::sync::Arc;

/// Bytes of the elements of a batch's lists.
const RANGE: u64 = PathRange::SIZE as u64;
const ANSWER: u64 = LookupAnswer::SIZE as u64;
const ANSWERS_HEADER: u64 = AnswersHeader::SIZE as u64;
const PACKED_ANSWERS: u64 = PackedAnswers::SIZE as u64;
const PACKED_HEADER: u64 = PackedHeader::SIZE as u64;
const FILL: u64 = FillRequest::SIZE as u64;
const LEARN: u64 = LearnRequest::SIZE as u64;
const INDEX: u64 = size_of::<u32>() as u64;

/// Bytes of the header of a list, and of all of them.
const HEADER: u64 = ListHeader::SIZE as u64;
const HEADERS: u64 = 3 * HEADER;

/// Fill requests that there is room for at least.
const LEAST_FILLS: u64 = 256;

/// Parts of the answers that the host wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A bit for each path: whether it names an inode.
    Existence,
    /// Code, inode number and type.
    Entries,
    /// Those, and the first bytes of the inode.
    Attributes,
}

impl Wanted {
    /// Returns the parts of lookups with or without attributes.
    pub(crate) fn entries(attributes: bool) -> Wanted {
        if attributes { Wanted::Attributes } else { Wanted::Entries }
    }

    /// Returns the parts that a receiver wants.
    pub(crate) fn by(rows: &impl Rows) -> Wanted {
        if rows.wants_entries() { Wanted::entries(rows.wants_attributes()) } else { Wanted::Existence }
    }
}

/// Size of a batch, rounded up so that many batches have the same shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchShape {
    paths: u64,
    /// Bytes of text.
    text: u64,
    wanted: Wanted,
}

impl BatchShape {
    pub(crate) fn of(paths: Paths<'_>, wanted: Wanted) -> BatchShape {
        let text = paths.text().len() as u64 + BEHIND;
        BatchShape { paths: rounded(paths.len() as u64), text: rounded(text), wanted }
    }

    /// Fill requests that there is room for.
    fn fills(self) -> u64 {
        (2 * self.paths).max(LEAST_FILLS)
    }

    /// Bytes of the lists that kernels fill: their headers, numbers of paths, fill requests, learn requests.
    fn lists(self) -> u64 {
        HEADERS + (self.paths * INDEX).next_multiple_of(HEADER) + self.fills() * FILL + self.paths * LEARN
    }

    /// Bytes of the input: parameters, ranges, text.
    fn input(self) -> u64 {
        PARAMETERS + self.paths * RANGE + self.text
    }

    /// Returns the bytes of all buffers.
    pub(crate) fn bytes(self) -> u64 {
        self.input() + self.answers() + self.lists() + self.cores() + self.packed()
    }

    /// Bytes of the answers, with their header.
    fn answers(self) -> u64 {
        ANSWERS_HEADER + self.paths * ANSWER
    }

    /// Bytes of the inodes that are wanted.
    fn cores(self) -> u64 {
        if self.wanted == Wanted::Attributes { self.paths * INODE_CORE as u64 } else { 0 }
    }

    /// Bytes of the answers as bits, with their header, where no more is wanted.
    fn packed(self) -> u64 {
        let bits = PACKED_HEADER + self.paths.div_ceil(PACKED as u64) * PACKED_ANSWERS;
        if self.wanted == Wanted::Existence { bits } else { 0 }
    }
}

/// Rounds up to the next eighth of a power of two.
fn rounded(number: u64) -> u64 {
    number.max(64).next_multiple_of(number.max(64).next_power_of_two() / 16)
}

/// Bytes behind the text that the kernels may read: they have the last name by 24 bytes and a word, the path
/// of a directory by 16.
const BEHIND: u64 = 32;

/// The buffers of a batch and its commands.
pub(crate) struct PathBatch {
    // Dropped first: it waits for its end before the buffers are freed.
    work: Commands,
    shape: BatchShape,
    input: Staged,
    output: Output,
    lists: Buffer,
    count: u32,
}

/// The answers on the device, and the part of them that comes to the host.
enum Output {
    /// All, with the inodes that are wanted.
    Entries { answers: Staged, cores: Option<Staged> },
    /// Bits only.
    Existence { answers: Buffer, packed: Staged },
}

impl Output {
    fn new(device: &Arc<Device>, shape: BatchShape) -> Result<Output> {
        let to_host = |len| Staged::new(device, len, Direction::ToHost);
        Ok(match shape.wanted {
            Wanted::Existence => Output::Existence {
                answers: Buffer::new(device, shape.answers(), MemoryLocation::Device)?,
                packed: to_host(shape.packed())?,
            },
            Wanted::Entries => Output::Entries { answers: to_host(shape.answers())?, cores: None },
            Wanted::Attributes => {
                Output::Entries { answers: to_host(shape.answers())?, cores: Some(to_host(shape.cores())?) }
            }
        })
    }

    /// Address of the answers on the device.
    fn address(&self) -> u64 {
        match self {
            Output::Entries { answers, .. } => answers.address(),
            Output::Existence { answers, .. } => answers.address,
        }
    }

    /// Zeroes the header of the answers.
    fn clear(&self, commands: &Recording<'_>) {
        match self {
            Output::Entries { answers, .. } => answers.clear(commands, ANSWERS_HEADER),
            Output::Existence { answers, .. } => commands.fill(answers, ANSWERS_HEADER, 0),
        }
    }

    /// Copies the part for the host.
    fn transfer(&self, commands: &Recording<'_>) {
        match self {
            Output::Entries { answers, cores } => {
                answers.transfer(commands, answers.len());
                if let Some(cores) = cores {
                    cores.transfer(commands, cores.len());
                }
            }
            Output::Existence { packed, .. } => packed.transfer(commands, packed.len()),
        }
    }
}

impl PathBatch {
    /// Makes the buffers and records the commands. With `stays_on_device` the paths are on the device
    /// already and the answers stay there; [`transfer`](Self::transfer) copies both.
    ///
    /// # Errors
    /// An error of the device, also for want of memory.
    pub(crate) fn new(
        device: &Arc<Device>,
        kernels: &Kernels,
        shape: BatchShape,
        stays_on_device: bool,
    ) -> Result<PathBatch> {
        let mut batch = PathBatch {
            work: Commands::new(device)?,
            shape,
            input: Staged::new(device, shape.input(), Direction::ToDevice)?,
            output: Output::new(device, shape)?,
            lists: Buffer::new(device, shape.lists(), MemoryLocation::Device)?,
            count: 0,
        };
        let PathBatch { work, input, output, lists, .. } = &mut batch;
        work.record(|commands| {
            input.transfer(commands, if stays_on_device { PARAMETERS } else { input.len() });
            commands.fill(lists, HEADERS, 0);
            output.clear(commands);
            commands.dispatch(&kernels.lookup, input.address(), shape.paths);
            for (list, kernel) in [(WALKS, &kernels.walk), (FILLS, &kernels.fill), (LEARNS, &kernels.learn)] {
                commands.dispatch_indirect(kernel, input.address(), lists, list as u64 * HEADER);
            }
            if let Output::Existence { .. } = output {
                commands.dispatch(&kernels.pack, input.address(), shape.paths.div_ceil(PACKED as u64));
            }
            if !stays_on_device {
                output.transfer(commands);
            }
        })?;
        Ok(batch)
    }

    /// Copies the input of a batch that stays on the device to the device, or its answers to the host.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn transfer(&self, device: &Arc<Device>, direction: Direction) -> Result<()> {
        let mut work = Commands::new(device)?;
        work.record(|commands| match direction {
            Direction::ToDevice => self.input.transfer(commands, self.input.len()),
            Direction::ToHost => self.output.transfer(commands),
        })?;
        work.submit()?;
        work.wait()
    }

    pub(crate) fn shape(&self) -> BatchShape {
        self.shape
    }

    /// Writes paths, which fit its shape, to the input: their text as it is, and where each begins.
    pub(crate) fn set_paths(&mut self, paths: Paths<'_>) {
        debug_assert!(paths.len() as u64 <= self.shape.paths, "more paths than the shape has");
        debug_assert!(paths.text().len() as u64 + BEHIND <= self.shape.text, "more text than the shape has");
        self.count = paths.len() as u32;
        let (_, rest) = self.input.bytes_mut().split_at_mut(PARAMETERS as usize);
        let (ranges, text) = rest.split_at_mut((self.shape.paths * RANGE) as usize);
        text[..paths.text().len()].copy_from_slice(paths.text());
        let mut ranges = ranges.chunks_exact_mut(PathRange::SIZE);
        paths.each_range(|path| {
            // The kernel refuses a path that is too long.
            let bytes = path.len().min(MAX_PATH + 1);
            if let Some(range) = ranges.next() {
                PathRange { start: path.start as u32, bytes: bytes as u32 }.write(range);
            }
        });
    }

    /// Submits the batch; returns the number of the submission. With `is_resumed` the kernel resumes the
    /// unfinished lookups only.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn submit(
        &mut self,
        tables: &MirrorTables,
        cache: &DirectoryCache,
        query: &LookupQuery,
        is_resumed: bool,
    ) -> Result<u64> {
        self.set_parameters(tables, cache, query, is_resumed);
        self.work.submit()
    }

    /// Writes the parameters of the dispatches to the input.
    fn set_parameters(
        &mut self,
        tables: &MirrorTables,
        cache: &DirectoryCache,
        query: &LookupQuery,
        is_resumed: bool,
    ) {
        let (cores, packed) = match &self.output {
            Output::Entries { cores, .. } => (cores.as_ref().map_or(0, Staged::address), 0),
            Output::Existence { packed, .. } => (0, packed.address()),
        };
        let address = self.input.address();
        let starts = address + PARAMETERS;
        let walks = self.lists.address + HEADERS;
        let fills = walks + (self.shape.paths * INDEX).next_multiple_of(HEADER);
        let parameters = Parameters {
            starts,
            text: starts + self.shape.paths * RANGE,
            count: self.count,
            answers: self.output.address(),
            cores,
            packed,
            lists: self.lists.address,
            walks,
            fills,
            learns: fills + self.shape.fills() * FILL,
            room: self.shape.fills() as u32,
            resume: is_resumed.into(),
            ..tables.parameters(query, cache)
        };
        parameters.write(&mut self.input.bytes_mut()[..PARAMETERS as usize]);
    }

    /// Tells whether another dispatch must resume some of the lookups: the kernel has counted them.
    pub(crate) fn is_unfinished(&self) -> bool {
        let unfinished = match &self.output {
            Output::Entries { answers, .. } => AnswersHeader::read(answers.bytes()).unfinished,
            Output::Existence { packed, .. } => PackedHeader::read(packed.bytes()).unfinished,
        };
        unfinished > 0
    }

    /// Returns the answers as bits, 32 in each element; none where more is wanted.
    pub(crate) fn packed(&self) -> Vec<PackedAnswers> {
        let Output::Existence { packed, .. } = &self.output else { return Vec::new() };
        let all = packed.bytes().get(PackedHeader::SIZE..).unwrap_or(&[]);
        PackedAnswers::read_all(all).take((self.count as usize).div_ceil(PACKED)).collect()
    }

    /// Returns the kernel's result for a path, where entries are wanted.
    pub(crate) fn result(&self, i: usize) -> PathResult {
        match &self.output {
            Output::Entries { answers, .. } => result_in(answers.bytes(), i),
            Output::Existence { .. } => PathResult::failed(Code::NotResident),
        }
    }

    /// Reads the kernel's results for all paths, of which only bits come to the host.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn results_on_device(&self, device: &Arc<Device>) -> Result<Vec<PathResult>> {
        let Output::Existence { answers, .. } = &self.output else { return Ok(Vec::new()) };
        let answers = answers.read(device)?;
        Ok((0..self.count as usize).map(|i| result_in(&answers, i)).collect())
    }

    /// Returns the answers to the next paths from `first` on.
    pub(crate) fn answers(&self, first: usize) -> AnswerBlock<'_> {
        let len = (self.count as usize).saturating_sub(first).min(ANSWER_BLOCK);
        let (answers, cores) = match &self.output {
            Output::Entries { answers, cores } => (answers, cores),
            Output::Existence { packed, .. } => return bits(packed.bytes(), first, len),
        };
        let cores = cores.as_ref().map(|cores| {
            let all = cores.bytes().as_chunks::<INODE_CORE>().0;
            all.get(first..first + len).unwrap_or(&[])
        });
        let mut block = AnswerBlock::new(len, cores);
        let all = answers.bytes().get(AnswersHeader::SIZE..).unwrap_or(&[]);
        let some = all.get(first * LookupAnswer::SIZE..).unwrap_or(&[]);
        let some = some.as_chunks::<{ LookupAnswer::SIZE }>().0;
        let open = (u32::from(Code::NotResident.number()), 0, 0);
        block.fill(|i| match some.get(i).map(|answer| LookupAnswer::read(answer)) {
            Some(LookupAnswer { code, kind, ino }) => (code, kind, ino),
            None => open,
        });
        block
    }

    /// Reads the work that the lookups of the last dispatch left to later kernels.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn requests(&self, device: &Arc<Device>) -> Result<Requests> {
        let host = self.lists.read(device)?;
        let rest = |at: u64| host.get(at as usize..).unwrap_or(&[]);
        let count = |list: usize| ListHeader::read(rest(list as u64 * HEADER)).count as usize;
        let fills = HEADERS + (self.shape.paths * INDEX).next_multiple_of(HEADER);
        let learns = fills + self.shape.fills() * FILL;
        let of_fills = rest(fills).get(..(learns - fills) as usize).unwrap_or(&[]);
        Ok(Requests {
            path: 0,
            walks: count(WALKS),
            fills: FillRequest::read_all(of_fills).take(count(FILLS)).collect(),
            learns: LearnRequest::read_all(rest(learns)).take(count(LEARNS)).collect(),
        })
    }
}

/// Returns a kernel's result for a path, from the answers to all.
fn result_in(answers: &[u8], i: usize) -> PathResult {
    let unknown = PathResult::failed(Code::NotResident);
    let Some(answer) = answers.get(AnswersHeader::SIZE + i * LookupAnswer::SIZE..) else { return unknown };
    let LookupAnswer { code: number, kind, ino } = LookupAnswer::read(answer);
    // Codes are numbered as they are listed.
    let code = Code::ALL.get(number as usize).filter(|code| u32::from(code.number()) == number);
    let Some(code) = code else { return unknown };
    PathResult { code: *code, kind, ino }
}

const _: () = assert!(ANSWER_BLOCK == 2 * PACKED);

/// Reads the answers to `len` paths from `first` on, a multiple of [`ANSWER_BLOCK`], from the bits of all.
fn bits<'a>(packed: &[u8], first: usize, len: usize) -> AnswerBlock<'a> {
    debug_assert!(first.is_multiple_of(ANSWER_BLOCK), "a block of answers begins with a word");
    let at = PackedHeader::SIZE + first / PACKED * PackedAnswers::SIZE;
    let some = packed.get(at..).unwrap_or(&[]);
    let [low, high] = [0, 1].map(|half| match some.get(half * PackedAnswers::SIZE..) {
        Some(some) if some.len() >= PackedAnswers::SIZE => PackedAnswers::read(some),
        // There is no second half where the paths are few.
        _ => PackedAnswers { found: 0, open: u32::MAX },
    });
    let both = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
    AnswerBlock::of_bits(len, both(low.found, high.found), both(low.open, high.open))
}
