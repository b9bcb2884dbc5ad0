//! Files in a device's memory that a kernel of another program finds by inode number, and the list of those
//! that it missed.
//!
//! ```text
//!            ┌─ head ─┬─ slots ──────────────┬─ missed ───┬─ contents of files ──────────┐
//!  memory    │        │ inode number → place │ numbers    │ one after the other          │
//!            └────────┴──────────────────────┴────────────┴──────────────────────────────┘
//!  kernel      reads     finds; claims a         notes a      reads
//!                        free slot for a miss    new miss
//!  host        writes    writes again            reads        adds; begins again when full
//! ```
//!
//! Host and kernels have the memory in turn: a kernel runs, the host brings the files that it missed
//! ([`Mirrored::bring_missed`]), the kernel runs again.

use crate::error::Result;
use crate::lookups::mirrored::Mirrored;
use crate::resident::bounce::BounceBuffers;
use crate::shared::exported::{DEVICE_VERSION, FILE_PRESENT, FILES_MAGIC, FileSlot, FilesHeader};
use crate::twin::headers::hash::{end_hash, mix_word};
use crate::vulkan::{Buffer, Commands, Device, ExportedMemory, MemoryLocation};
use lanefs::format::FileKind;
use lanefs::{Attr, Code, FileContents, Ino, ReadFiles, Volume};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Contents begin at a multiple of this, so that a kernel copies words.
const FILE_BYTES: u64 = 16;

/// Slots that a kernel looks at for a file that is not there, at least.
const MISS_PROBES: u32 = 64;

/// Bytes of files that the host reads at a time.
const READ_BYTES: u64 = 32 << 20;

/// Options of [`Gpu::file_table`](crate::Gpu::file_table).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileTableOptions {
    /// Files that the table has at a time, at most [default: 1,048,576].
    pub files: u32,
    /// Missed files that are listed, at most; others are missed again [default: 262,144].
    pub misses: u32,
    /// Bytes of each of the three bounce buffers in pinned memory of the host [default: 8 MiB].
    pub bounce: u64,
}

impl Default for FileTableOptions {
    fn default() -> Self {
        FileTableOptions { files: 1 << 20, misses: 1 << 18, bounce: 8 << 20 }
    }
}

/// Outcome of bringing files to a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BroughtFiles {
    /// Files that are there now.
    pub files: usize,
    /// Files that cannot be read; a kernel gets the code of each.
    pub failed: usize,
    /// Files for which there was no room, or that changed meanwhile; a kernel misses them again.
    pub left: usize,
    /// The memory was full, so the files of earlier calls are gone.
    pub is_new_round: bool,
}

/// Memory of a device with files that kernels of other programs find by inode number.
pub struct DeviceFileTable {
    // Dropped first: they wait for their end.
    commands: Commands,
    bounces: BounceBuffers,
    memory: Buffer,
    device: Arc<Device>,
    /// The head as a kernel finds it.
    header: FilesHeader,
    options: FileTableOptions,
    /// The files that the table has, and those that cannot be read.
    files: BTreeMap<u64, FileSlot>,
    /// Bytes of contents in use.
    used: u64,
}

impl DeviceFileTable {
    pub(crate) fn new(device: &Arc<Device>, capacity: u64, options: &FileTableOptions) -> Result<Self> {
        let slots = u64::from(options.files.clamp(32, 1 << 30) * 2).next_power_of_two();
        let table = (FilesHeader::SIZE as u64).next_multiple_of(256);
        let misses = table + slots * FileSlot::SIZE as u64;
        let data = (misses + u64::from(options.misses) * 8).next_multiple_of(256);
        let bytes = data.saturating_add(capacity);
        let header = FilesHeader {
            magic: FILES_MAGIC,
            version: DEVICE_VERSION,
            slots: slots as u32,
            bytes,
            table,
            data,
            data_bytes: capacity,
            misses,
            probes: MISS_PROBES,
            miss_room: options.misses,
            ..FilesHeader::default()
        };
        let mut made = DeviceFileTable {
            commands: Commands::of_copies(device)?,
            bounces: BounceBuffers::new(device, options.bounce.max(FilesHeader::SIZE as u64))?,
            memory: Buffer::alone(device, bytes, MemoryLocation::Exportable)?,
            device: device.clone(),
            header,
            options: *options,
            files: BTreeMap::new(),
            used: 0,
        };
        made.write_table()?;
        Ok(made)
    }

    /// Bytes of all: the length that `lanefs_open_files` is given.
    pub fn bytes(&self) -> u64 {
        self.header.bytes
    }

    /// Bytes of the contents of all files at most.
    pub fn capacity(&self) -> u64 {
        self.header.data_bytes
    }

    /// Number of files that are there.
    pub fn len(&self) -> usize {
        self.files.values().filter(|slot| slot.state == FILE_PRESENT).count()
    }

    /// Tells whether no file is there.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives the memory to another program, or another interface to the device, as a file descriptor. Each
    /// call makes another descriptor. Kernels of the importer write to the memory: by `lanefs_read`, and in
    /// no other way. Their work must have ended when a method of the table is called.
    ///
    /// # Errors
    /// An error of the device.
    pub fn export_fd(&self) -> Result<ExportedMemory> {
        self.memory.export()
    }

    /// Returns the files that kernels have missed since files were brought last, each once, in the order of
    /// their numbers.
    ///
    /// # Errors
    /// An error of the device.
    pub fn missed(&mut self) -> Result<Vec<Ino>> {
        let head = self.read_back(0, FilesHeader::SIZE as u64)?;
        let count = FilesHeader::read(&head).miss_count.min(self.header.miss_room);
        let list = self.read_back(self.header.misses, u64::from(count) * 8)?;
        let (numbers, _) = list.as_chunks::<8>();
        let mut missed: Vec<Ino> = numbers.iter().map(|bytes| Ino(u64::from_le_bytes(*bytes))).collect();
        missed.sort_unstable();
        missed.dedup();
        Ok(missed)
    }

    /// Copies bytes of the memory to the host.
    fn read_back(&mut self, at: u64, len: u64) -> Result<Vec<u8>> {
        if len == 0 {
            return Ok(Vec::new());
        }
        let host = Buffer::alone(&self.device, len, MemoryLocation::Download)?;
        self.commands.record(|recording| {
            recording.take_back(&self.memory);
            recording.copy(&self.memory, &host, &[(at, 0, len)]);
            recording.give_away(&self.memory);
        })?;
        self.commands.submit()?;
        self.commands.wait()?;
        Ok(host.bytes().unwrap_or(&[])[..len as usize].to_vec())
    }

    /// Brings files; with `only_others` those alone that the table does not have at the generation of now.
    /// After an error the table has none.
    fn bring(&mut self, volume: &Volume, wanted: &[Ino], only_others: bool) -> Result<BroughtFiles> {
        let done = self.commands.record(|recording| recording.take_back(&self.memory));
        let done = done.and_then(|()| self.commands.submit()).and_then(|_| self.commands.wait());
        let done = done.and_then(|()| {
            let (chosen, mut brought) = self.choose(volume, wanted, only_others);
            for batch in batches(&chosen).into_iter().filter(|batch| !batch.is_empty()) {
                self.add(volume, batch, &mut brought)?;
            }
            Ok(brought)
        });
        if done.is_err() {
            self.forget();
        }
        self.write_table().and(done)
    }

    fn forget(&mut self) {
        self.files.clear();
        self.used = 0;
    }

    /// Forgets the files that failed without a generation, where the number has a file now. Kernels that ask
    /// for it miss it.
    fn forget_failures(&mut self, volume: &Volume) {
        self.files.retain(|ino, slot| slot.generation != 0 || volume.getattr(Ino(*ino)).is_err());
    }

    /// Finds the files with these numbers, and those that cannot be brought.
    fn find(&self, volume: &Volume, wanted: &[Ino], only_others: bool) -> (Vec<Attr>, Vec<FileSlot>) {
        let (mut found, mut failed) = (Vec::new(), Vec::new());
        let mut wanted = wanted.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        for ino in wanted.into_iter().filter(|ino| ino.0 != 0) {
            let attr = volume.getattr(ino);
            let generation = attr.as_ref().map_or(0, |attr| attr.generation);
            // A kernel whose mirror is older than the table misses such a file, and brings nothing.
            if only_others && self.files.get(&ino.0).is_some_and(|slot| slot.generation == generation) {
                continue;
            }
            let code = match attr {
                Ok(attr) if attr.kind == FileKind::Directory => Code::IsDirectory,
                Ok(attr) if attr.kind != FileKind::File => Code::Invalid,
                Ok(attr) if attr.size > self.header.data_bytes => Code::BufferTooSmall,
                Ok(attr) => {
                    found.push(attr);
                    continue;
                }
                Err(error) => error.code(),
            };
            let state = FILE_PRESENT + u32::from(code.number());
            failed.push(FileSlot { ino: ino.0, generation, state, ..FileSlot::default() });
        }
        (found, failed)
    }

    /// Chooses the files for which there is room. Where not all have some, the table begins again.
    fn choose(&mut self, volume: &Volume, wanted: &[Ino], only_others: bool) -> (Vec<Attr>, BroughtFiles) {
        self.forget_failures(volume);
        let (found, failed) = self.find(volume, wanted, only_others);
        let all = found.len() + failed.len() + self.files.len();
        let bytes: u64 = found.iter().map(|attr| attr.size.next_multiple_of(FILE_BYTES)).sum();
        let most = self.options.files as usize;
        let mut brought = BroughtFiles::default();
        if !self.files.is_empty() && (all > most || bytes > self.header.data_bytes - self.used) {
            self.forget();
            brought.is_new_round = true;
        }
        for slot in failed {
            if self.files.len() < most {
                self.files.insert(slot.ino, slot);
                brought.failed += 1;
            }
        }
        let (mut end, count) = (self.used, found.len());
        let room = most.saturating_sub(self.files.len());
        let bound = self.header.data_bytes;
        let mut chosen = found;
        chosen.retain(|attr| {
            let fits = attr.size <= bound - end.min(bound);
            end = if fits { (end + attr.size).next_multiple_of(FILE_BYTES) } else { end };
            fits
        });
        chosen.truncate(room);
        brought.left = count - chosen.len();
        (chosen, brought)
    }

    /// Reads files and copies them to the device.
    fn add(&mut self, volume: &Volume, files: &[Attr], brought: &mut BroughtFiles) -> Result<()> {
        let inodes: Vec<Ino> = files.iter().map(|attr| attr.ino).collect();
        let mut contents = FileContents::new();
        volume.read_files(&ReadFiles::default(), &inodes[..], &mut contents)?;
        let mut upload = Upload::new(&mut self.bounces, &self.memory, self.header.data + self.used);
        for (attr, content) in files.iter().zip(contents.iter()) {
            // An inode number that another file has got meanwhile has another generation.
            let is_same = volume.getattr(attr.ino).is_ok_and(|now| now.generation == attr.generation);
            let slot = FileSlot { ino: attr.ino.0, generation: attr.generation, ..FileSlot::default() };
            match content {
                Err(code) => {
                    let state = FILE_PRESENT + u32::from(code.number());
                    self.files.insert(attr.ino.0, FileSlot { state, ..slot });
                    brought.failed += 1;
                }
                Ok(bytes) if is_same && bytes.len() as u64 <= self.header.data_bytes - self.used => {
                    upload.push(bytes)?;
                    let (start, len) = (self.used, bytes.len() as u64);
                    let end = (start + len).next_multiple_of(FILE_BYTES).min(self.header.data_bytes);
                    upload.push(&[0; FILE_BYTES as usize][..(end - start - len) as usize])?;
                    self.used = end;
                    let place = FileSlot { start, bytes: len, state: FILE_PRESENT, ..slot };
                    self.files.insert(attr.ino.0, place);
                    brought.files += 1;
                }
                Ok(_) => brought.left += 1,
            }
        }
        upload.finish()
    }

    /// Writes the head and all slots, and gives the memory to the kernels; slots that they have claimed are
    /// free.
    fn write_table(&mut self) -> Result<()> {
        let mut slots = vec![FileSlot::default(); self.header.slots as usize];
        let mask = slots.len() - 1;
        let mut probes = MISS_PROBES;
        for slot in self.files.values() {
            let hash = end_hash(mix_word(mix_word(0, slot.ino as u32), (slot.ino >> 32) as u32), 8);
            let mut at = hash as usize & mask;
            let mut steps = 1;
            // At most half of the slots are in use.
            while slots[at].ino != 0 {
                at = (at + 1) & mask;
                steps += 1;
            }
            slots[at] = *slot;
            probes = probes.max(steps);
        }
        self.header.probes = probes;
        let mut head = vec![0; self.header.table as usize];
        self.header.write(&mut head);
        let mut upload = Upload::new(&mut self.bounces, &self.memory, 0);
        upload.push(&head)?;
        let mut bytes = vec![0; 4096 * FileSlot::SIZE];
        for some in slots.chunks(4096) {
            FileSlot::write_all(&mut bytes, some);
            upload.push(&bytes[..some.len() * FileSlot::SIZE])?;
        }
        upload.finish()?;
        self.bounces.give_away(&self.memory)
    }
}

impl std::fmt::Debug for DeviceFileTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let DeviceFileTable { header, used, .. } = self;
        let capacity = header.data_bytes;
        f.debug_struct("DeviceFileTable").field("capacity", &capacity).field("used", used).finish()
    }
}

/// Returns the files in batches of about as many bytes as the host reads at a time.
fn batches(files: &[Attr]) -> Vec<&[Attr]> {
    let (mut all, mut first, mut sum) = (Vec::new(), 0, 0);
    for (i, attr) in files.iter().enumerate() {
        if i > first && sum + attr.size > READ_BYTES {
            all.push(&files[first..i]);
            (first, sum) = (i, 0);
        }
        sum += attr.size;
    }
    all.push(&files[first..]);
    all
}

/// Bytes on their way to consecutive bytes of a buffer.
struct Upload<'u> {
    bounces: &'u mut BounceBuffers,
    target: &'u Buffer,
    /// Where the bytes of the bounce buffer in hand go, and their number.
    at: u64,
    len: usize,
}

impl<'u> Upload<'u> {
    fn new(bounces: &'u mut BounceBuffers, target: &'u Buffer, at: u64) -> Self {
        Upload { bounces, target, at, len: 0 }
    }

    fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let memory = self.bounces.memory()?;
            let count = bytes.len().min(memory.len() - self.len);
            let (now, later) = bytes.split_at(count);
            memory[self.len..self.len + count].copy_from_slice(now);
            self.len += count;
            bytes = later;
            if self.len == memory.len() {
                self.send()?;
            }
        }
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        if self.len > 0 {
            self.bounces.send(self.target, self.at, self.len as u64)?;
            self.at += self.len as u64;
            self.len = 0;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        self.send()?;
        self.bounces.finish()
    }
}

/// # Files for kernels of other programs
impl Mirrored<'_> {
    /// Brings files to a device, in the order of their numbers, as far as there is room; kernels find them
    /// from then on. The content of a file is that of one moment. A file that is there already is read again.
    ///
    /// # Errors
    /// Those of [`Volume::read_files`](lanefs::Volume::read_files), an error of the device. The table has no
    /// files then.
    pub fn bring_files(&self, inodes: &[Ino], table: &mut DeviceFileTable) -> Result<BroughtFiles> {
        table.bring(self.volume(), inodes, false)
    }

    /// Brings the files that kernels have [missed](DeviceFileTable::missed). A program runs its kernel until
    /// no file is missed, or none comes. Files that the table has stay as they are, but for a number that
    /// another file has now.
    ///
    /// # Errors
    /// As [`bring_files`](Self::bring_files).
    pub fn bring_missed(&self, table: &mut DeviceFileTable) -> Result<BroughtFiles> {
        let missed = table.missed()?;
        table.bring(self.volume(), &missed, true)
    }
}
