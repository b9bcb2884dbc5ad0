//! The engine: batches of paths, resolved on a device.

use crate::error::{Error, Result};
use crate::kernels::{LOOKUP, Parameters};
use crate::layout::MAX_PATH;
use crate::mirror::Mirror;
use crate::probe;
use crate::twin::lookup::{Found, Question};
use crate::vulkan::{Buffer, Choice, Device, DeviceInfo, Kernel, Place, Submission};
use lanefs::format::{Code, FileKind, INODE_CORE};
use lanefs::{Ino, Resolution, ResolveOptions, Volume, Watch};
use std::sync::Arc;
use std::time::Duration;

/// Invocations of a workgroup, without other wishes.
const WORKGROUP: u32 = 64;

/// Paths of one submission at most, and bytes of their text.
const PATHS: usize = 1 << 20;
const TEXT: u64 = 128 << 20;

/// Bytes of an answer.
const ANSWER: u64 = 16;

/// A device that is ready to work: its kernels were made, and gave the right answers to known questions.
pub struct Gpu {
    device: Arc<Device>,
    lookup: Kernel,
    /// How long each kernel's probe took.
    probes: Vec<(&'static str, Duration)>,
}

impl Gpu {
    /// Opens a device and probes its kernels.
    ///
    /// # Errors
    /// No Vulkan, no such device; [`Error::Wrong`] where a kernel answers wrongly on it.
    pub fn open(choice: &Choice) -> Result<Gpu> {
        Self::with_workgroup(choice, WORKGROUP)
    }

    /// As [`open`](Self::open), with workgroups of so many invocations.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with_workgroup(choice: &Choice, workgroup: u32) -> Result<Gpu> {
        Self::with_code(choice, workgroup, LOOKUP.code)
    }

    /// As [`with_workgroup`](Self::with_workgroup), with another lookup kernel: one with a fault must not pass its probe.
    #[doc(hidden)]
    pub fn with_code(choice: &Choice, workgroup: u32, code: &[u8]) -> Result<Gpu> {
        let device = Device::open(choice)?;
        let lookup = Kernel::new(&device, &LOOKUP, code, workgroup)?;
        let mut gpu = Gpu { device, lookup, probes: Vec::new() };
        gpu.probes = probe::all(&gpu)?;
        Ok(gpu)
    }

    /// The device.
    pub fn info(&self) -> &DeviceInfo {
        &self.device.info
    }

    /// Kernels, and how long their probes took.
    pub fn probes(&self) -> &[(&'static str, Duration)] {
        &self.probes
    }

    /// A mirror of a volume's metadata, up to `room` bytes; `None` for three quarters of the device's memory, or, where it is the host's,
    /// a quarter.
    ///
    /// # Errors
    /// The device's, the volume's; [`Error::Volume`] where another engine mirrors the volume already.
    pub fn mirror<'v>(&self, volume: &'v Volume, room: Option<u64>) -> Result<Mirrored<'_, 'v>> {
        let part = if self.info().kind == crate::DeviceKind::Discrete { 3 } else { 1 };
        let room = room.unwrap_or(self.info().memory / 4 * part);
        let watch = volume.watch()?.ok_or_else(|| lanefs::Error::Image {
            what: "volume".into(),
            why: "mirrored by another engine already".into(),
        })?;
        let mirror = Mirror::new(&self.device, volume.superblock().volume_bytes, room)?;
        Ok(Mirrored { gpu: self, watch, mirror, batch: None })
    }
}

/// A volume whose metadata a device has.
pub struct Mirrored<'g, 'v> {
    gpu: &'g Gpu,
    watch: Watch<'v>,
    mirror: Mirror,
    batch: Option<Batch>,
}

/// What happened to a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Paths answered by the device.
    pub by_device: u64,
    /// Paths left to the host: links to follow, blocks that are not in the device's memory.
    pub by_host: u64,
    /// Blocks copied to the device before it.
    pub copied: u64,
}

impl Mirrored<'_, '_> {
    /// Resolves paths, as [`Volume::resolve_batch`] does and with the same answers.
    ///
    /// # Errors
    /// The device's: what it answered is not to be believed then, and the CPU engine gives the same answers. The volume's.
    pub fn resolve_batch<P: AsRef<[u8]> + Sync>(
        &mut self,
        options: &ResolveOptions,
        paths: &[P],
    ) -> Result<(Vec<Resolution>, Report)> {
        let before = self.mirror.copied;
        self.mirror.refresh(&mut self.watch)?;
        let volume = self.watch.volume();
        let root = volume.root().0;
        let base = options.base.map_or(root, |ino| ino.0);
        let superblock = volume.superblock();
        let question = Question {
            root,
            base,
            seed: superblock.seed,
            inode_size: superblock.inode_size,
            follow: options.follow,
        };
        // Rights, and where relative paths begin, are the host's business.
        let is_plain = options.caller.user.is_none()
            && options
                .base
                .is_none_or(|base| volume.getattr(base).is_ok_and(|attr| attr.kind == FileKind::Directory));
        let mut report = Report { copied: self.mirror.copied - before, ..Report::default() };
        let mut answers = Vec::with_capacity(paths.len());
        let mut rest = paths;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(next_batch(rest));
            rest = later;
            let first = answers.len();
            if is_plain {
                self.run(&question, options.attributes, now, &mut answers)?;
            } else {
                answers.resize(first + now.len(), unanswered());
            }
            self.finish(options, now, &mut answers[first..], &mut report)?;
        }
        Ok((answers, report))
    }

    /// Brings the mirror up to the present: its table, and what a batch needs beside it.
    pub(crate) fn ready(&mut self) -> Result<((u64, u64), &Kernel, &Arc<Device>)> {
        self.mirror.refresh(&mut self.watch)?;
        Ok((self.mirror.table(), &self.gpu.lookup, &self.gpu.device))
    }

    /// Has the host answer what the device did not.
    fn finish<P: AsRef<[u8]> + Sync>(
        &self,
        options: &ResolveOptions,
        paths: &[P],
        answers: &mut [Resolution],
        report: &mut Report,
    ) -> Result<()> {
        let left: Vec<usize> = (0..paths.len()).filter(|i| answers[*i].code == Code::NotResident).collect();
        let texts: Vec<&[u8]> = left.iter().map(|i| paths[*i].as_ref()).collect();
        let found = self.watch.volume().resolve_batch(options, &texts)?;
        for (i, answer) in left.iter().zip(found) {
            answers[*i] = answer;
        }
        report.by_host += left.len() as u64;
        report.by_device += (paths.len() - left.len()) as u64;
        Ok(())
    }

    /// Has the device answer a batch.
    fn run<P: AsRef<[u8]>>(
        &mut self,
        question: &Question,
        attributes: bool,
        paths: &[P],
        answers: &mut Vec<Resolution>,
    ) -> Result<()> {
        let text: u64 = paths.iter().map(|path| path.as_ref().len() as u64).sum();
        let mut batch = match self.batch.take().filter(|batch| batch.holds(paths.len(), text, attributes)) {
            Some(batch) => batch,
            None => Batch::new(&self.gpu.device, paths.len(), text, attributes)?,
        };
        batch.fill(paths);
        batch.run(&self.gpu.lookup, self.mirror.table(), question, attributes)?;
        answers.extend((0..paths.len()).map(|i| batch.resolution(i, attributes)));
        self.batch = Some(batch);
        Ok(())
    }
}

/// How many of the paths go in one submission.
fn next_batch<P: AsRef<[u8]>>(paths: &[P]) -> usize {
    let mut text = 0;
    let fits = |path: &&P| {
        text += path.as_ref().len().min(MAX_PATH + 1) as u64;
        text <= TEXT
    };
    paths.iter().take(PATHS).take_while(fits).count().max(1)
}

fn unanswered() -> Resolution {
    Resolution { code: Code::NotResident, ino: None, kind: None, attr: None }
}

/// The buffers of a submission, kept for the next.
pub(crate) struct Batch {
    text: Buffer,
    starts: Buffer,
    answers: Buffer,
    cores: Option<Buffer>,
    work: Submission,
    count: u32,
}

impl Batch {
    pub(crate) fn new(device: &Arc<Device>, paths: usize, text: u64, attributes: bool) -> Result<Batch> {
        let paths = paths.next_power_of_two() as u64;
        let cores = attributes.then(|| Buffer::new(device, paths * INODE_CORE as u64, Place::Download));
        Ok(Batch {
            // Words are read as a whole, also the last one and the one behind it.
            text: Buffer::new(device, text.next_power_of_two() + 8, Place::Upload)?,
            starts: Buffer::new(device, (paths + 1) * 4, Place::Upload)?,
            answers: Buffer::new(device, paths * ANSWER, Place::Download)?,
            cores: cores.transpose()?,
            work: Submission::new(device)?,
            count: 0,
        })
    }

    fn holds(&self, paths: usize, text: u64, attributes: bool) -> bool {
        self.text.len >= text + 8
            && self.starts.len >= (paths as u64 + 1) * 4
            && self.answers.len >= paths as u64 * ANSWER
            && (!attributes || self.cores.is_some())
    }

    pub(crate) fn fill<P: AsRef<[u8]>>(&mut self, paths: &[P]) {
        self.count = paths.len() as u32;
        let (Some(text), Some(starts)) = (self.text.bytes_mut(), self.starts.bytes_mut()) else { return };
        let mut at = 0;
        let (starts, _) = starts.as_chunks_mut::<4>();
        for (path, start) in paths.iter().zip(starts.iter_mut()) {
            // Longer ones are refused by their length.
            let path = path.as_ref();
            let path = &path[..path.len().min(MAX_PATH + 1)];
            *start = (at as u32).to_le_bytes();
            text[at..at + path.len()].copy_from_slice(path);
            at += path.len();
        }
        if let Some(last) = starts.get_mut(paths.len()) {
            *last = (at as u32).to_le_bytes();
        }
        text[at..].iter_mut().take(8).for_each(|byte| *byte = 0);
    }

    pub(crate) fn run(
        &mut self,
        kernel: &Kernel,
        table: (u64, u64),
        question: &Question,
        attributes: bool,
    ) -> Result<()> {
        let cores = self.cores.as_ref().filter(|_| attributes).map_or(0, |cores| cores.address);
        let addresses = [self.text.address, self.starts.address, self.answers.address, cores];
        let parameters = Parameters::new()
            .quads(&[table.0, table.1])
            .quads(&addresses)
            .quads(&[question.root, question.base])
            .words(&question.seed.0)
            .words(&[self.count, question.inode_size.bytes() as u32, question.follow.into()]);
        self.work.begin()?;
        self.work.run(kernel, parameters.bytes(), self.count.into());
        self.work.submit()?;
        self.work.wait()
    }

    /// What the kernel answered to a path.
    pub(crate) fn found(&self, i: usize) -> Found {
        let unknown = Found { code: Code::NotResident, kind: 0, ino: 0 };
        let Some((all, _)) = self.answers.bytes().map(|bytes| bytes.as_chunks::<16>()) else {
            return unknown;
        };
        let Some(answer) = all.get(i) else { return unknown };
        let (words, _) = answer.as_chunks::<4>();
        let word = |i: usize| u32::from_le_bytes(words[i]);
        let code = Code::ALL.iter().find(|code| u32::from(code.number()) == word(0));
        let Some(code) = code.filter(|_| word(0) < 256) else { return unknown };
        Found { code: *code, kind: word(1), ino: u64::from(word(2)) | u64::from(word(3)) << 32 }
    }

    fn resolution(&self, i: usize, attributes: bool) -> Resolution {
        let Found { code, kind, ino } = self.found(i);
        let kind = FileKind::from_number(kind as u8);
        if code != Code::Success {
            return Resolution { code, ino: None, kind: None, attr: None };
        }
        let attr = attributes.then(|| {
            let cores = self.cores.as_ref()?.bytes()?;
            let core = cores.get(i * INODE_CORE..(i + 1) * INODE_CORE)?;
            lanefs::Attr::of_inode(Ino(ino), core)
        });
        match attr {
            // An inode whose bytes make no sense is the host's business.
            Some(None) => unanswered(),
            attr => Resolution { code, ino: Some(Ino(ino)), kind, attr: attr.flatten() },
        }
    }
}

impl From<Error> for lanefs::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Volume(error) => error,
            error => {
                lanefs::Error::Io { what: "GPU".into(), source: std::io::Error::other(error.to_string()) }
            }
        }
    }
}
