//! A batch of paths on a device: its buffers, and the commands, which are recorded once for batches of about the same size.

use crate::cache::DirectoryCache;
use crate::error::Result;
use crate::kernels::Kernels;
use crate::layout::{MAX_GROUPS, MAX_PATH, UNFINISHED};
use crate::mirror::Mirror;
use crate::structures::{LookupAnswer, Note, NotesHeader, Parameters, PathRange, Vector};
use crate::twin::lookup::{Found, Question};
use crate::vulkan::{Buffer, Commands, Device, Direction, Place, Staged};
use lanefs::format::{Code, FileKind, INODE_CORE};
use lanefs::{Ino, Resolution};
use std::sync::Arc;

/// Bytes of a dispatch's parameters; a list behind them begins at a multiple of what any element is aligned to.
pub(crate) const PARAMETERS: u64 = Parameters::SIZE.next_multiple_of(64) as u64;

/// Bytes of the elements of a batch's lists.
const RANGE: u64 = PathRange::SIZE as u64;
const ANSWER: u64 = LookupAnswer::SIZE as u64;
const HEADER: u64 = NotesHeader::SIZE as u64;
const NOTE: u64 = Note::SIZE as u64;

/// Notes that there is room for at least.
const NOTES: u64 = 256;

/// How large a batch is, rounded up so that many batches have the same shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    paths: u64,
    /// Bytes of text.
    text: u64,
    attributes: bool,
}

impl Shape {
    pub(crate) fn of<P: AsRef<[u8]>>(paths: &[P], attributes: bool) -> Shape {
        let text = paths.iter().map(|path| room_of(path.as_ref())).sum();
        Shape { paths: rounded(paths.len() as u64), text: rounded(text), attributes }
    }

    fn notes(self) -> u64 {
        (2 * self.paths).max(NOTES)
    }

    fn input(self) -> u64 {
        PARAMETERS + self.paths * RANGE + self.text
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(self) -> u64 {
        self.input() + self.paths * ANSWER + self.notes() * NOTE + self.cores()
    }

    fn cores(self) -> u64 {
        if self.attributes { self.paths * INODE_CORE as u64 } else { 0 }
    }
}

/// Up to the next eighth of a power of two.
fn rounded(number: u64) -> u64 {
    number.max(64).next_multiple_of(number.max(64).next_power_of_two() / 16)
}

/// Bytes of text that a path takes: longer ones are refused by their length.
pub(crate) fn room_of(path: &[u8]) -> u64 {
    (path.len().min(MAX_PATH) as u64).next_multiple_of(4)
}

/// The buffers of a batch and its commands, kept for the next.
pub(crate) struct Batch {
    // First, for it waits for its end before the buffers go.
    work: Commands,
    shape: Shape,
    input: Staged,
    answers: Staged,
    cores: Option<Staged>,
    notes: Buffer,
    count: u32,
}

impl Batch {
    /// `is_resident`: what is asked is on the device already, and the answers stay there; [`bring`](Self::bring) does both.
    ///
    /// # Errors
    /// The device's, for want of memory too.
    pub(crate) fn new(
        device: &Arc<Device>,
        kernels: &Kernels,
        cache: &DirectoryCache,
        shape: Shape,
        is_resident: bool,
    ) -> Result<Batch> {
        let cores = shape.attributes.then(|| Staged::new(device, shape.cores(), Direction::Out));
        let mut batch = Batch {
            work: Commands::new(device)?,
            shape,
            input: Staged::new(device, shape.input(), Direction::In)?,
            answers: Staged::new(device, shape.paths * ANSWER, Direction::Out)?,
            cores: cores.transpose()?,
            notes: Buffer::new(device, HEADER + shape.notes() * NOTE, Place::Device)?,
            count: 0,
        };
        let Batch { work, input, answers, cores, notes, .. } = &mut batch;
        work.record(|commands| {
            if !is_resident {
                input.bring(commands, input.len());
            }
            commands.fill(notes, HEADER, 0);
            commands.run(&kernels.lookup, input.address(), shape.paths);
            if cache.buckets().1 != 0 {
                commands.run(&kernels.fill, input.address(), shape.notes());
            }
            if is_resident {
                return;
            }
            answers.bring(commands, answers.len());
            if let Some(cores) = cores {
                cores.bring(commands, cores.len());
            }
        })?;
        Ok(batch)
    }

    /// Brings what a resident batch is asked to the device, or its answers to the host.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn bring(&self, device: &Arc<Device>, direction: Direction) -> Result<()> {
        let mut work = Commands::new(device)?;
        work.record(|commands| match direction {
            Direction::In => self.input.bring(commands, self.input.len()),
            Direction::Out => {
                self.answers.bring(commands, self.answers.len());
                if let Some(cores) = &self.cores {
                    cores.bring(commands, cores.len());
                }
            }
        })?;
        work.submit()?;
        work.wait()
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// Takes paths, which fit its shape.
    pub(crate) fn take<P: AsRef<[u8]>>(&mut self, paths: &[P]) {
        self.count = paths.len() as u32;
        let (_, rest) = self.input.bytes_mut().split_at_mut(PARAMETERS as usize);
        let (ranges, text) = rest.split_at_mut((self.shape.paths * RANGE) as usize);
        let mut at = 0;
        for (path, range) in paths.iter().zip(ranges.chunks_exact_mut(PathRange::SIZE)) {
            let path = path.as_ref();
            PathRange { start: at as u32, bytes: path.len().min(MAX_PATH + 1) as u32 }.write(range);
            let path = &path[..path.len().min(MAX_PATH)];
            text[at..at + path.len()].copy_from_slice(path);
            at += room_of(path) as usize;
        }
    }

    /// Has the device resolve them: the submission's number. `is_resumed`: as far as they are unfinished.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn submit(
        &mut self,
        mirror: &Tables,
        cache: &DirectoryCache,
        question: &Question,
        is_resumed: bool,
    ) -> Result<u64> {
        self.tell(mirror, cache, question, is_resumed);
        self.work.submit()
    }

    /// Writes down what the kernels are told.
    pub(crate) fn tell(
        &mut self,
        mirror: &Tables,
        cache: &DirectoryCache,
        question: &Question,
        is_resumed: bool,
    ) {
        let here = self.input.address();
        let starts = here + PARAMETERS;
        let parameters = Parameters {
            starts,
            text: starts + self.shape.paths * RANGE,
            count: self.count,
            answers: self.answers.address(),
            cores: self.cores.as_ref().map_or(0, Staged::address),
            notes: self.notes.address,
            note_room: self.shape.notes() as u32,
            resume: is_resumed.into(),
            ..mirror.parameters(question, cache)
        };
        parameters.write(&mut self.input.bytes_mut()[..PARAMETERS as usize]);
    }

    /// Has the device do it once more, as it was told.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn again(&mut self) -> Result<u64> {
        self.work.submit()
    }

    /// Are there lookups that another dispatch has to go on with?
    pub(crate) fn is_unfinished(&self) -> bool {
        let answers = self.answers.bytes().chunks_exact(ANSWER as usize).take(self.count as usize);
        answers.into_iter().any(|answer| u32::from(answer[0]) == UNFINISHED)
    }

    /// What the kernel answered to a path.
    pub(crate) fn found(&self, i: usize) -> Found {
        let unknown = Found { code: Code::NotResident, kind: 0, ino: 0 };
        let Some(answer) = self.answers.bytes().get(i * LookupAnswer::SIZE..) else { return unknown };
        let LookupAnswer { code: number, kind, ino } = LookupAnswer::read(answer);
        // Codes are numbered as they are listed.
        let code = Code::ALL.get(number as usize).filter(|code| u32::from(code.number()) == number);
        let Some(code) = code else { return unknown };
        Found { code: *code, kind, ino }
    }

    /// The same as the CPU engine would say it.
    pub(crate) fn resolution(&self, i: usize) -> Resolution {
        let Found { code, kind, ino } = self.found(i);
        let nothing = Resolution { code, ino: None, kind: None, attr: None };
        if code != Code::Success {
            return nothing;
        }
        let found = Resolution { ino: Some(Ino(ino)), kind: FileKind::from_number(kind as u8), ..nothing };
        let Some(cores) = &self.cores else { return found };
        let core = cores.bytes().get(i * INODE_CORE..(i + 1) * INODE_CORE);
        match core.and_then(|core| lanefs::Attr::of_inode(Ino(ino), core)) {
            Some(attr) => Resolution { attr: Some(attr), ..found },
            // An inode whose bytes make no sense is the host's business.
            None => Resolution { code: Code::NotResident, ..nothing },
        }
    }

    /// What lookups noted for the cache, for proofs.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn notes(&self, device: &Arc<Device>) -> Result<Vec<Note>> {
        let host = self.notes.read(device)?;
        let NotesHeader { count, .. } = NotesHeader::read(&host);
        let notes = host.get(NotesHeader::SIZE..).unwrap_or(&[]);
        Ok(Note::read_all(notes).take(count as usize).collect())
    }
}

/// Addresses of the mirror's tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    chunks: u64,
    chunk_count: u64,
    copies: u64,
    versions: (u64, u32),
}

impl Tables {
    pub(crate) fn of(mirror: &Mirror) -> Tables {
        let (chunks, copies, chunk_count) = mirror.table();
        Tables { chunks, chunk_count, copies, versions: mirror.versions() }
    }

    /// Parameters of a dispatch, without its lists.
    pub(crate) fn parameters(&self, question: &Question, cache: &DirectoryCache) -> Parameters {
        let user = question.user.as_ref();
        let mut groups = [0; MAX_GROUPS];
        let used =
            groups.iter_mut().zip(user.map_or(&[][..], |user| &user.groups)).map(|(to, group)| *to = *group);
        let group_count = used.count() as u32;
        let (buckets_at, buckets) = cache.buckets();
        Parameters {
            chunks: self.chunks,
            chunk_count: self.chunk_count,
            copies: self.copies,
            versions: self.versions.0,
            version_count: self.versions.1,
            cache: buckets_at,
            buckets,
            claim: cache.claim(),
            root: question.root,
            base: question.base,
            seed: Vector(question.seed.0),
            inode_size: question.inode_size.bytes() as u32,
            follow: question.follow.into(),
            fuel: question.fuel,
            is_checked: user.is_some().into(),
            uid: user.map_or(0, |user| user.uid),
            gid: user.map_or(0, |user| user.gid),
            group_count,
            groups,
            ..Parameters::default()
        }
    }
}
