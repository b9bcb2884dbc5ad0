//! A batch of paths on a device: its buffers, and the commands, which are recorded once for batches of about the same size.

use crate::cache::DirectoryCache;
use crate::error::Result;
use crate::kernels::{Kernels, PARAMETERS, Parameters};
use crate::layout::{MAX_PATH, UNFINISHED};
use crate::mirror::Mirror;
use crate::twin::lookup::{Found, Note, Question};
use crate::vulkan::{Buffer, Commands, Device, Direction, Place, Staged};
use lanefs::format::{Code, FileKind, INODE_CORE};
use lanefs::{Ino, Resolution};
use std::sync::Arc;

/// Bytes of an answer, and of a note.
const ANSWER: u64 = 16;
const NOTE: u64 = 16;

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
        PARAMETERS + self.paths * 8 + self.text
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
            notes: Buffer::new(device, NOTE + shape.notes() * NOTE, Place::Device)?,
            count: 0,
        };
        let Batch { work, input, answers, cores, notes, .. } = &mut batch;
        work.record(|commands| {
            if !is_resident {
                input.bring(commands, input.len());
            }
            commands.fill(notes, NOTE, 0);
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
        let (starts, text) = rest.split_at_mut(self.shape.paths as usize * 8);
        let mut at = 0;
        for (path, start) in paths.iter().zip(starts.as_chunks_mut::<8>().0) {
            let path = path.as_ref();
            *start = (at as u64 | (path.len().min(MAX_PATH + 1) as u64) << 32).to_le_bytes();
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
            question,
            here,
            chunks: mirror.chunks,
            versions: mirror.versions,
            cache: cache.buckets(),
            claim: cache.claim(),
            starts,
            text: starts + self.shape.paths * 8,
            count: self.count,
            answers: self.answers.address(),
            cores: self.cores.as_ref().map_or(0, Staged::address),
            notes: (self.notes.address, self.shape.notes() as u32),
            is_resumed,
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
        let (all, _) = self.answers.bytes().as_chunks::<16>();
        let Some(answer) = all.get(i) else { return unknown };
        let (words, _) = answer.as_chunks::<4>();
        let word = |i: usize| u32::from_le_bytes(words[i]);
        // Codes are numbered as they are listed.
        let code = Code::ALL.get(word(0) as usize).filter(|code| u32::from(code.number()) == word(0));
        let Some(code) = code else { return unknown };
        Found { code: *code, kind: word(1), ino: u64::from(word(2)) | u64::from(word(3)) << 32 }
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
        let quads: Vec<u64> = host.as_chunks::<8>().0.iter().map(|q| u64::from_le_bytes(*q)).collect();
        let count = quads.first().map_or(0, |count| *count as u32 as usize);
        let notes = quads.get(2..).unwrap_or(&[]).as_chunks::<2>().0.iter().take(count);
        Ok(notes.map(|[dir, entry]| Note { dir: *dir, entry: *entry }).collect())
    }
}

/// Where the mirror's tables are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    chunks: (u64, u64),
    versions: (u64, u32),
}

impl Tables {
    pub(crate) fn of(mirror: &Mirror) -> Tables {
        Tables { chunks: mirror.table(), versions: mirror.versions() }
    }

    /// What a kernel that fills the cache is told.
    pub(crate) fn parameters<'q>(&self, question: &'q Question, cache: &DirectoryCache) -> Parameters<'q> {
        Parameters {
            question,
            here: 0,
            chunks: self.chunks,
            versions: self.versions,
            cache: cache.buckets(),
            claim: cache.claim(),
            starts: 0,
            text: 0,
            count: 0,
            answers: 0,
            cores: 0,
            notes: (0, 0),
            is_resumed: false,
        }
    }
}
