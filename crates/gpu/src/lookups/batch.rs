//! A batch of paths: its buffers in device memory, and its commands. They are kept for the next batch of
//! about the same size.

use super::input::BatchInput;
use super::output::Output;
use super::packing::Packers;
use crate::error::Result;
use crate::kernels::Kernels;
use crate::resident::cache::DirectoryCache;
use crate::resident::tables::{MirrorTables, PARAMETERS_BYTES};
use crate::shared::layout::{FILLS, LEARNS, WALKS};
use crate::shared::limits::MAX_PATH_BYTES;
use crate::shared::query::{LookupQuery, PathResult};
use crate::shared::structures::{
    AnswersHeader, FillRequest, LearnRequest, ListHeader, LookupAnswer, Parameters, PathRange,
};
use crate::twin::kernels::walk::Requests;
use crate::vulkan::{Buffer, Commands, Device, Direction, MemoryLocation, Staged};
use lanefs::format::Code;
use lanefs::{ANSWER_BLOCK, AnswerBlock, ColumnSet, NamesUnder, Paths};
use std::sync::Arc;

/// Bytes of the elements of a batch's lists.
const RANGE_BYTES: u64 = PathRange::SIZE as u64;
const ANSWER: u64 = LookupAnswer::SIZE as u64;
const ANSWERS_HEADER: u64 = AnswersHeader::SIZE as u64;
const FILL_BYTES: u64 = FillRequest::SIZE as u64;
const LEARN_BYTES: u64 = LearnRequest::SIZE as u64;
const INDEX_BYTES: u64 = size_of::<u32>() as u64;
const INO_BYTES: u64 = size_of::<u64>() as u64;

/// Length of a text about which the kernels leave the decision to the host.
const OPEN_BYTES: u32 = MAX_PATH_BYTES as u32 + 1;

/// Bytes of the header of a list, and of all of them.
const HEADER_BYTES: u64 = ListHeader::SIZE as u64;
const HEADERS_BYTES: u64 = 3 * HEADER_BYTES;

/// Fill requests that there is room for at least.
const LEAST_FILLS: u64 = 256;

/// Size of a batch, rounded up so that many batches have the same shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchShape {
    paths: u64,
    /// Bytes of text.
    text: u64,
    /// Directories of names; 0 for whole paths.
    directories: u64,
}

impl BatchShape {
    pub(crate) fn of(paths: Paths<'_>) -> BatchShape {
        let text = paths.text().len() as u64 + AFTER_TEXT_BYTES;
        BatchShape { paths: rounded(paths.len() as u64), text: rounded(text), directories: 0 }
    }

    /// Returns the shape of a batch of names under so many directories.
    pub(crate) fn of_names(names: Paths<'_>, directories: usize) -> BatchShape {
        BatchShape { directories: rounded(directories as u64), ..BatchShape::of(names) }
    }

    /// Tells whether a batch of that shape fits buffers of this one, and would not copy an eighth more.
    pub(crate) fn fits(self, batch: BatchShape) -> bool {
        let fits = |room: u64, need: u64| need <= room && room <= need + need / 8;
        fits(self.paths, batch.paths)
            && fits(self.text, batch.text)
            && fits(self.directories, batch.directories)
    }

    /// Fill requests that there is room for.
    fn fills(self) -> u64 {
        (2 * self.paths).max(LEAST_FILLS)
    }

    /// Bytes of the lists that kernels fill: their headers, numbers of paths, fill requests, learn requests.
    fn lists(self) -> u64 {
        HEADERS_BYTES
            + (self.paths * INDEX_BYTES).next_multiple_of(HEADER_BYTES)
            + self.fills() * FILL_BYTES
            + self.paths * LEARN_BYTES
    }

    /// Bytes of the numbers of the directories of names; none for whole paths.
    fn numbers(self) -> u64 {
        if self.directories == 0 { 0 } else { self.paths * INDEX_BYTES }
    }

    /// Bytes of the input before the text: ranges, and of names the numbers of their directories and these.
    fn before_text(self) -> u64 {
        self.paths * RANGE_BYTES + self.numbers() + self.directories * INO_BYTES
    }

    /// Bytes of the input.
    fn input(self) -> u64 {
        self.before_text() + self.text
    }

    /// Bytes of all buffers but that of what comes to the host.
    fn bytes(self) -> u64 {
        PARAMETERS_BYTES + self.input() + self.answers() + self.lists()
    }

    /// Bytes of the answers, with their header.
    fn answers(self) -> u64 {
        ANSWERS_HEADER + self.paths * ANSWER
    }
}

/// Rounds up to the next eighth of a power of two: a multiple of 4, so that lists of numbers of 4 bytes end
/// where those of 8 may begin.
fn rounded(number: u64) -> u64 {
    number.max(64).next_multiple_of(number.max(64).next_power_of_two() / 16)
}

/// Bytes after the text that the kernels may read: they load a last name 24 bytes and a word at a time, and
/// the path of a directory 16 bytes at a time, so the last load may go past the end.
const AFTER_TEXT_BYTES: u64 = 32;

/// The buffers of a batch and its commands.
pub(crate) struct PathBatch {
    // Dropped first: it waits for its end before the buffers are freed.
    work: Commands,
    recorded: Recorded,
    shape: BatchShape,
    /// The parameters of the next dispatches, which their commands copy to the device.
    parameters: Staged,
    input: BatchInput,
    answers: Buffer,
    lists: Buffer,
    count: u32,
    /// The texts are names in one directory, so that none has a number.
    is_in_one: bool,
}

/// The work of a batch's commands.
#[expect(clippy::large_enum_variant, reason = "nearly all batches have the large one")]
enum Recorded {
    /// Nothing that may be submitted: their recording failed, or has not begun.
    Nothing,
    /// They leave the answers on the device.
    ToDevice,
    /// They bring these columns to the host.
    ToHost(ColumnSet, Output),
}

impl PathBatch {
    /// Makes the buffers and records the commands.
    ///
    /// # Errors
    /// An error of the device, also for want of memory.
    pub(crate) fn new(
        device: &Arc<Device>,
        kernels: &Kernels,
        shape: BatchShape,
        wanted: ColumnSet,
    ) -> Result<PathBatch> {
        let mut batch = PathBatch::empty(device, shape)?;
        batch.input.go_beside(device)?;
        batch.want(device, kernels, Some(wanted))?;
        Ok(batch)
    }

    /// Makes the buffers of a batch whose paths stay on the device, and copies them there. The answers stay
    /// there, too, until some are [wanted](Self::want).
    ///
    /// # Errors
    /// An error of the device, also for want of memory.
    pub(crate) fn kept(
        device: &Arc<Device>,
        kernels: &Kernels,
        packers: &Packers,
        paths: Paths<'_>,
    ) -> Result<PathBatch> {
        let mut batch = PathBatch::empty(device, BatchShape::of(paths))?;
        batch.set_paths(paths, packers)?;
        batch.input.keep(device)?;
        batch.want(device, kernels, None)?;
        Ok(batch)
    }

    fn empty(device: &Arc<Device>, shape: BatchShape) -> Result<PathBatch> {
        Ok(PathBatch {
            work: Commands::new(device)?,
            recorded: Recorded::Nothing,
            shape,
            parameters: Staged::new(device, PARAMETERS_BYTES, Direction::ToDevice)?,
            input: BatchInput::new(device, shape.input())?,
            answers: Buffer::new(device, shape.answers(), MemoryLocation::Device)?,
            lists: Buffer::new(device, shape.lists(), MemoryLocation::Device)?,
            count: 0,
            is_in_one: false,
        })
    }

    /// Waits for the last submission. For other columns than before, makes room and records the commands
    /// again.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub(crate) fn want(
        &mut self,
        device: &Arc<Device>,
        kernels: &Kernels,
        wanted: Option<ColumnSet>,
    ) -> Result<()> {
        // The recorded commands use the old room. After a failure some may be in flight that nobody waited
        // for, and the caller is about to write their parameters.
        self.work.wait()?;
        let is_recorded = match (&self.recorded, wanted) {
            (Recorded::Nothing, _) => false,
            (Recorded::ToDevice, wanted) => wanted.is_none(),
            (Recorded::ToHost(columns, _), wanted) => wanted == Some(*columns),
        };
        if !is_recorded {
            // Until both are there, what was recorded before must not be submitted.
            self.recorded = Recorded::Nothing;
            let output = wanted.map(|wanted| Output::new(device, wanted, self.shape.paths)).transpose()?;
            self.record(kernels, output.as_ref())?;
            self.recorded = match wanted.zip(output) {
                Some((columns, output)) => Recorded::ToHost(columns, output),
                None => Recorded::ToDevice,
            };
        }
        Ok(())
    }

    fn record(&mut self, kernels: &Kernels, output: Option<&Output>) -> Result<()> {
        let PathBatch { work, shape, parameters, input, answers, lists, .. } = self;
        let at = parameters.address();
        work.record(|commands| {
            commands.beside(|| {
                parameters.transfer(commands, parameters.len());
                input.record(commands);
                commands.fill(lists, HEADERS_BYTES, 0);
                commands.fill(answers, ANSWERS_HEADER, 0);
            });
            commands.dispatch(&kernels.lookup, at, shape.paths);
            for (list, kernel) in [(WALKS, &kernels.walk), (FILLS, &kernels.fill), (LEARNS, &kernels.learn)] {
                commands.dispatch_indirect(kernel, at, lists, list as u64 * HEADER_BYTES);
            }
            if let Some(output) = output {
                output.record(commands, kernels, at, shape.paths);
            }
        })
    }

    pub(crate) fn shape(&self) -> BatchShape {
        self.shape
    }

    /// Returns the columns that come to the host.
    pub(crate) fn wanted(&self) -> Option<ColumnSet> {
        match &self.recorded {
            Recorded::ToHost(columns, _) => Some(*columns),
            Recorded::Nothing | Recorded::ToDevice => None,
        }
    }

    /// Returns the bytes of all buffers on the device.
    pub(crate) fn bytes(&self) -> u64 {
        self.shape.bytes() + self.output().map_or(0, Output::len)
    }

    /// Returns the bytes that a batch of this shape has, which brings these columns to the host.
    pub(crate) fn bytes_of(shape: BatchShape, wanted: ColumnSet) -> u64 {
        shape.bytes() + Output::bytes_of(wanted, shape.paths)
    }

    /// Writes paths, which fit its shape, to the input: their text as it is, and where each begins. No work
    /// on the batch may be in flight but an upload.
    ///
    /// # Errors
    /// An error of the device: an upload may be in flight.
    pub(crate) fn set_paths(&mut self, paths: Paths<'_>, packers: &Packers) -> Result<()> {
        debug_assert_eq!(self.shape.directories, 0, "a batch of names");
        self.check_fits(paths);
        self.count = paths.len() as u32;
        let (ranges, text) = self.input.bytes_mut()?.split_at_mut(self.shape.before_text() as usize);
        packers.pack(paths, 0, ranges, text);
        Ok(())
    }

    /// Writes names under directories, which fit its shape, to the input. `directories` has the inode number
    /// of each directory, 0 for one whose names are the host's. No work on the batch may be in flight but an
    /// upload.
    ///
    /// # Errors
    /// As [`set_paths`](Self::set_paths).
    pub(crate) fn set_names(
        &mut self,
        names: NamesUnder<'_>,
        directories: &[u64],
        packers: &Packers,
    ) -> Result<()> {
        debug_assert!(
            directories.len() as u64 <= self.shape.directories,
            "more directories than the shape has"
        );
        self.check_fits(names.names());
        self.count = names.len() as u32;
        self.is_in_one = directories.len() == 1;
        let shape = self.shape;
        let (before, text) = self.input.bytes_mut()?.split_at_mut(shape.before_text() as usize);
        let (ranges, rest) = before.split_at_mut((shape.paths * RANGE_BYTES) as usize);
        let (numbers, inos) = rest.split_at_mut(shape.numbers() as usize);
        // The path of an empty name ends with a slash, which says more than the name.
        packers.pack(names.names(), OPEN_BYTES, ranges, text);
        for (to, ino) in inos.as_chunks_mut().0.iter_mut().zip(directories) {
            *to = ino.to_le_bytes();
        }
        if !self.is_in_one {
            let mut numbers = numbers.as_chunks_mut().0.iter_mut();
            names.each_number(|number| {
                if let Some(to) = numbers.next() {
                    *to = number.to_le_bytes();
                }
            });
        }
        if directories.contains(&0) {
            let ranges = ranges.chunks_exact_mut(PathRange::SIZE).take(names.len());
            for (index, range) in ranges.enumerate() {
                let ino = names.number(index).and_then(|number| directories.get(number));
                if ino.is_none_or(|ino| *ino == 0) {
                    PathRange { start: 0, bytes: OPEN_BYTES }.write(range);
                }
            }
        }
        Ok(())
    }

    fn check_fits(&self, texts: Paths<'_>) {
        debug_assert!(texts.len() as u64 <= self.shape.paths, "more paths than the shape has");
        debug_assert!(
            texts.text().len() as u64 + AFTER_TEXT_BYTES <= self.shape.text,
            "more text than the shape has"
        );
    }

    /// Begins to copy the input to the device, where a queue of its own does that; else
    /// [`submit`](Self::submit) does. Needs neither the mirror nor its lock.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn begin_upload(&mut self) -> Result<()> {
        self.input.begin().map(drop)
    }

    /// Submits the batch; returns the number of the submission. With `is_resumed` the kernel resumes the
    /// unfinished lookups only, and the input is there already. Else the kernels wait for an upload, which
    /// begins now if it has not.
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
        debug_assert!(!matches!(self.recorded, Recorded::Nothing), "commands that were not recorded");
        let upload = if is_resumed { None } else { self.input.begin()? };
        self.set_parameters(tables, cache, query, is_resumed);
        self.work.submit_after(upload)
    }

    /// Writes the parameters of the dispatches.
    fn set_parameters(
        &mut self,
        tables: &MirrorTables,
        cache: &DirectoryCache,
        query: &LookupQuery,
        is_resumed: bool,
    ) {
        let starts = self.input.address();
        let (numbers, is_named) = (starts + self.shape.paths * RANGE_BYTES, self.shape.directories != 0);
        let walks = self.lists.address + HEADERS_BYTES;
        let fills = walks + (self.shape.paths * INDEX_BYTES).next_multiple_of(HEADER_BYTES);
        let parameters = Parameters {
            starts,
            text: starts + self.shape.before_text(),
            dirs: if is_named { numbers + self.shape.numbers() } else { 0 },
            dir_of: if is_named && !self.is_in_one { numbers } else { 0 },
            count: self.count,
            answers: self.answers.address,
            for_host: self.output().map_or(0, Output::address),
            wanted: self.output().map_or(0, Output::attributes),
            stride: self.shape.paths as u32,
            lists: self.lists.address,
            walks,
            fills,
            learns: fills + self.shape.fills() * FILL_BYTES,
            room: self.shape.fills() as u32,
            resume: is_resumed.into(),
            ..tables.parameters(query, cache)
        };
        parameters.write(self.parameters.bytes_mut());
    }

    /// Tells whether another dispatch must resume some of the lookups: the kernel has counted them, for a
    /// host that wants answers.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.output().is_some_and(|output| output.unfinished() > 0)
    }

    /// Returns the answers to the next paths from `first` on, a multiple of [`ANSWER_BLOCK`]. All are open
    /// where none are wanted.
    pub(crate) fn answers(&self, first: usize) -> AnswerBlock<'_> {
        let len = (self.count as usize).saturating_sub(first).min(ANSWER_BLOCK);
        match self.output() {
            Some(output) => output.answers(first, len),
            None => AnswerBlock::of_bits(len, 0, u64::MAX),
        }
    }

    /// Returns what the host gets.
    pub(crate) fn output(&self) -> Option<&Output> {
        match &self.recorded {
            Recorded::ToHost(_, output) => Some(output),
            Recorded::Nothing | Recorded::ToDevice => None,
        }
    }

    /// Reads the kernels' results from the device.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn results(&self, device: &Arc<Device>) -> Result<Vec<PathResult>> {
        let answers = self.answers.read(device)?;
        Ok((0..self.count as usize).map(|i| result_in(&answers, i)).collect())
    }

    /// Reads the work that the lookups of the last dispatch left to later kernels.
    ///
    /// # Errors
    /// An error of the device.
    pub(crate) fn requests(&self, device: &Arc<Device>) -> Result<Requests> {
        let host = self.lists.read(device)?;
        let rest = |at: u64| host.get(at as usize..).unwrap_or(&[]);
        let count = |list: usize| ListHeader::read(rest(list as u64 * HEADER_BYTES)).count as usize;
        let fills = HEADERS_BYTES + (self.shape.paths * INDEX_BYTES).next_multiple_of(HEADER_BYTES);
        let learns = fills + self.shape.fills() * FILL_BYTES;
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
