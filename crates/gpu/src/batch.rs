//! A batch of paths: its buffers in device memory, and its commands. They are kept for the next batch of
//! about the same size.

use crate::cache::DirectoryCache;
use crate::error::Result;
use crate::kernels::Kernels;
use crate::layout::{FILLS, LEARNS, WALKS};
use crate::limits::MAX_PATH;
use crate::query::{LookupQuery, PathResult};
use crate::structures::{
    AnswersHeader, FillRequest, LearnRequest, ListHeader, LookupAnswer, Parameters, PathRange,
};
use crate::tables::{MirrorTables, PARAMETERS};
use crate::twin::walk::Requests;
use crate::vulkan::{Buffer, Commands, Device, Direction, MemoryLocation, Staged};
use lanefs::format::{Code, INODE_CORE};
use lanefs::{ANSWER_BLOCK, AnswerBlock, Paths};
use std::sync::Arc;

/// Bytes of the elements of a batch's lists.
const RANGE: u64 = PathRange::SIZE as u64;
const ANSWER: u64 = LookupAnswer::SIZE as u64;
const ANSWERS_HEADER: u64 = AnswersHeader::SIZE as u64;
const FILL: u64 = FillRequest::SIZE as u64;
const LEARN: u64 = LearnRequest::SIZE as u64;
const INDEX: u64 = size_of::<u32>() as u64;

/// Bytes of the header of a list, and of all of them.
const HEADER: u64 = ListHeader::SIZE as u64;
const HEADERS: u64 = 3 * HEADER;

/// Fill requests that there is room for at least.
const LEAST_FILLS: u64 = 256;

/// Size of a batch, rounded up so that many batches have the same shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchShape {
    paths: u64,
    /// Bytes of text.
    text: u64,
    attributes: bool,
}

impl BatchShape {
    pub(crate) fn of(paths: Paths<'_>, attributes: bool) -> BatchShape {
        let text = paths.text().len() as u64 + BEHIND;
        BatchShape { paths: rounded(paths.len() as u64), text: rounded(text), attributes }
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
        self.input() + self.answers() + self.lists() + self.cores()
    }

    /// Bytes of the answers, with their header.
    fn answers(self) -> u64 {
        ANSWERS_HEADER + self.paths * ANSWER
    }

    /// Bytes of the inodes that are wanted.
    fn cores(self) -> u64 {
        if self.attributes { self.paths * INODE_CORE as u64 } else { 0 }
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
    answers: Staged,
    cores: Option<Staged>,
    lists: Buffer,
    count: u32,
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
        let cores = shape.attributes.then(|| Staged::new(device, shape.cores(), Direction::ToHost));
        let mut batch = PathBatch {
            work: Commands::new(device)?,
            shape,
            input: Staged::new(device, shape.input(), Direction::ToDevice)?,
            answers: Staged::new(device, shape.answers(), Direction::ToHost)?,
            cores: cores.transpose()?,
            lists: Buffer::new(device, shape.lists(), MemoryLocation::Device)?,
            count: 0,
        };
        let PathBatch { work, input, answers, cores, lists, .. } = &mut batch;
        work.record(|commands| {
            input.transfer(commands, if stays_on_device { PARAMETERS } else { input.len() });
            commands.fill(lists, HEADERS, 0);
            answers.clear(commands, ANSWERS_HEADER);
            commands.dispatch(&kernels.lookup, input.address(), shape.paths);
            for (list, kernel) in [(WALKS, &kernels.walk), (FILLS, &kernels.fill), (LEARNS, &kernels.learn)] {
                commands.dispatch_indirect(kernel, input.address(), lists, list as u64 * HEADER);
            }
            if stays_on_device {
                return;
            }
            answers.transfer(commands, answers.len());
            if let Some(cores) = cores {
                cores.transfer(commands, cores.len());
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
            Direction::ToHost => {
                self.answers.transfer(commands, self.answers.len());
                if let Some(cores) = &self.cores {
                    cores.transfer(commands, cores.len());
                }
            }
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
        paths.each_range(|place| {
            // The kernel refuses a path that is too long.
            let bytes = place.len().min(MAX_PATH + 1);
            if let Some(range) = ranges.next() {
                PathRange { start: place.start as u32, bytes: bytes as u32 }.write(range);
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
        let address = self.input.address();
        let starts = address + PARAMETERS;
        let walks = self.lists.address + HEADERS;
        let fills = walks + (self.shape.paths * INDEX).next_multiple_of(HEADER);
        let parameters = Parameters {
            starts,
            text: starts + self.shape.paths * RANGE,
            count: self.count,
            answers: self.answers.address(),
            cores: self.cores.as_ref().map_or(0, Staged::address),
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
        AnswersHeader::read(self.answers.bytes()).unfinished > 0
    }

    /// Returns the kernel's result for a path.
    pub(crate) fn result(&self, i: usize) -> PathResult {
        let unknown = PathResult { code: Code::NotResident, kind: 0, ino: 0 };
        let Some(answer) = self.answers.bytes().get(AnswersHeader::SIZE + i * LookupAnswer::SIZE..) else {
            return unknown;
        };
        let LookupAnswer { code: number, kind, ino } = LookupAnswer::read(answer);
        // Codes are numbered as they are listed.
        let code = Code::ALL.get(number as usize).filter(|code| u32::from(code.number()) == number);
        let Some(code) = code else { return unknown };
        PathResult { code: *code, kind, ino }
    }

    /// Returns the answers to the next paths from `first` on.
    pub(crate) fn answers(&self, first: usize) -> AnswerBlock<'_> {
        let len = (self.count as usize).saturating_sub(first).min(ANSWER_BLOCK);
        let cores = self.cores.as_ref().map(|cores| {
            let all = cores.bytes().as_chunks::<INODE_CORE>().0;
            all.get(first..first + len).unwrap_or(&[])
        });
        let mut block = AnswerBlock::new(len, cores);
        let all = self.answers.bytes().get(AnswersHeader::SIZE..).unwrap_or(&[]);
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
