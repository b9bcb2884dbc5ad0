//! The bytes of a volume to plant faults in. Checksums are corrected, so that the faults pass verification.

use lanefs::format::{
    BLOCK, BlockKind, CHUNK, Field, GROUP, InodeSize, Word, chunk_entry, chunk_header, group, inode,
    superblock::Superblock,
};
use lanefs::{Access, Device, IoBuf, IoBufMut, Volume};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// Positions and bytes.
type Writes = Vec<(u64, Vec<u8>)>;

/// A device that shares its first bytes with others and keeps its changes private. Clones are the same
/// device.
#[derive(Clone)]
pub(crate) struct Overlay {
    base: Arc<Vec<u8>>,
    changes: Arc<Mutex<BTreeMap<u64, Vec<u8>>>>,
    /// All writes, in order.
    writes: Arc<Mutex<Writes>>,
}

impl Overlay {
    pub(crate) fn new(base: &Arc<Vec<u8>>) -> Self {
        Overlay { base: base.clone(), changes: Arc::default(), writes: Arc::default() }
    }

    /// A device of its own with the present bytes.
    pub(crate) fn copy(&self) -> Self {
        let changes = self.changes.lock().clone();
        Overlay { base: self.base.clone(), changes: Arc::new(Mutex::new(changes)), writes: Arc::default() }
    }

    /// Takes all writes so far, in order.
    pub(crate) fn take_writes(&self) -> Writes {
        std::mem::take(&mut *self.writes.lock())
    }

    fn each(
        &self,
        at: u64,
        len: usize,
        mut step: impl FnMut(&mut BTreeMap<u64, Vec<u8>>, u64, usize, std::ops::Range<usize>),
    ) -> io::Result<()> {
        if at + len as u64 > self.base.len() as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut changes = self.changes.lock();
        let mut done = 0;
        while done < len {
            let (block, inside) = ((at + done as u64) / BLOCK, ((at + done as u64) % BLOCK) as usize);
            let part = (BLOCK as usize - inside).min(len - done);
            step(&mut changes, block, inside, done..done + part);
            done += part;
        }
        Ok(())
    }
}

impl Device for Overlay {
    fn len(&self) -> u64 {
        self.base.len() as u64
    }
    fn read_at(&self, at: u64, mut buffer: IoBufMut<'_>) -> io::Result<()> {
        self.each(at, buffer.len(), |changes, block, inside, range| {
            let len = range.len();
            let from = match changes.get(&block) {
                Some(bytes) => &bytes[inside..inside + len],
                None => &self.base[(block * BLOCK) as usize + inside..][..len],
            };
            buffer.part(range).copy_from(from);
        })
    }
    fn write_at(&self, at: u64, data: IoBuf<'_>) -> io::Result<()> {
        let mut copy = vec![0; data.len()];
        data.copy_to(&mut copy);
        self.writes.lock().push((at, copy));
        self.each(at, data.len(), |changes, block, inside, range| {
            let bytes = changes
                .entry(block)
                .or_insert_with(|| self.base[(block * BLOCK) as usize..][..BLOCK as usize].to_vec());
            data.part(range.clone()).copy_to(&mut bytes[inside..inside + range.len()]);
        })
    }
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
    fn discard(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }
    fn resize(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The contents of a volume without faults.
pub(crate) struct Good {
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) superblock: Superblock,
    /// Every metadata block and its kind.
    pub(crate) kinds: BTreeMap<u64, BlockKind>,
}

impl Good {
    /// Free metadata blocks become zeros: their old contents depend on the time of a commit, and a check that
    /// rebuilds a table takes old inodes for lost ones.
    pub(crate) fn new(mut bytes: Vec<u8>) -> Self {
        let superblock = Superblock::decode(&bytes).expect("a good superblock");
        let mut kinds = BTreeMap::new();
        for number in 0..superblock.group_count {
            let at = superblock.groups + number * BLOCK;
            kinds.insert(at, BlockKind::Group);
            let mask = group::METADATA.read(&bytes[at as usize..]).expect("inside");
            for chunk in (0..63).filter(|c| mask >> c & 1 != 0) {
                let chunk = number * GROUP + chunk * CHUNK;
                kinds.insert(chunk, BlockKind::ChunkHeader);
                kinds.insert(chunk + BLOCK, BlockKind::ChunkHeader);
                for index in 2..512 {
                    let kind = bytes[(chunk + index * chunk_entry::SIZE as u64) as usize];
                    let at = chunk + index * BLOCK;
                    match BlockKind::from_number(kind) {
                        Some(kind) => drop(kinds.insert(at, kind)),
                        None => bytes[at as usize..(at + BLOCK) as usize].fill(0),
                    }
                }
            }
        }
        Good { bytes: Arc::new(bytes), superblock, kinds }
    }

    pub(crate) fn image(&self) -> Image<'_> {
        Image { good: self, device: Overlay::new(&self.bytes), touched: BTreeSet::new() }
    }

    pub(crate) fn of_kind(&self, kind: BlockKind) -> Vec<u64> {
        self.kinds.iter().filter(|(_, k)| **k == kind).map(|(at, _)| *at).collect()
    }
}

/// A copy to damage.
pub(crate) struct Image<'g> {
    pub(crate) good: &'g Good,
    pub(crate) device: Overlay,
    touched: BTreeSet<u64>,
}

impl Image<'_> {
    pub(crate) fn size(&self) -> InodeSize {
        self.good.superblock.inode_size
    }

    pub(crate) fn block(&self, at: u64) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK as usize];
        self.device.read_slice(at & !(BLOCK - 1), &mut bytes).expect("inside");
        bytes
    }

    pub(crate) fn get<T: Word>(&self, at: u64, field: Field<T>) -> T {
        let inside = (at % BLOCK) as usize;
        field.read(&self.block(at)[inside..]).expect("inside the block")
    }

    /// Writes a field of the structure at `at`; [`seal`](Self::seal) corrects the checksum of its block.
    pub(crate) fn put<T: Word>(&mut self, at: u64, field: Field<T>, value: T) {
        let mut block = self.block(at);
        field.write(&mut block[(at % BLOCK) as usize..], value);
        self.write(at & !(BLOCK - 1), &block);
    }

    pub(crate) fn write(&mut self, at: u64, block: &[u8]) {
        self.device.write_slice(at, block).expect("inside");
        self.touched.insert(at);
    }

    /// Damages a block so that its checksum does not fit.
    pub(crate) fn spoil(&mut self, at: u64) {
        self.seal();
        let mut block = self.block(at);
        for byte in &mut block[8..] {
            *byte ^= 0x5a;
        }
        self.device.write_slice(at & !(BLOCK - 1), &block).expect("inside");
    }

    pub(crate) fn inode_at(&self, ino: u64) -> u64 {
        ino * self.size().bytes()
    }

    pub(crate) fn inode<T: Word>(&self, ino: u64, field: Field<T>) -> T {
        self.get(self.inode_at(ino), field)
    }

    pub(crate) fn put_inode<T: Word>(&mut self, ino: u64, field: Field<T>, value: T) {
        self.put(self.inode_at(ino), field, value);
    }

    /// Position of a block's entry in its chunk's table.
    pub(crate) fn entry_of(at: u64) -> u64 {
        let chunk = at & !(CHUNK - 1);
        chunk + (at - chunk) / BLOCK * chunk_entry::SIZE as u64
    }

    /// Corrects the checksums of all changed structures.
    pub(crate) fn seal(&mut self) {
        let sums = self.good.superblock.sums();
        let size = self.size().bytes() as usize;
        let touched = std::mem::take(&mut self.touched);
        let mut tables: BTreeSet<u64> = BTreeSet::new();
        for at in &touched {
            match self.good.kinds.get(at) {
                Some(BlockKind::ChunkHeader) => {
                    tables.insert(at & !(CHUNK - 1));
                }
                Some(BlockKind::Pointers) => {
                    let sum = sums.of(*at, &self.block(*at), None);
                    self.put(Self::entry_of(*at), chunk_entry::CHECKSUM, sum);
                    tables.insert(at & !(CHUNK - 1));
                }
                Some(BlockKind::Inodes) => {
                    let mut block = self.block(*at);
                    for (i, one) in block.chunks_exact_mut(size).enumerate() {
                        let sum = sums.of(at + (i * size) as u64, one, Some(inode::CHECKSUM));
                        inode::CHECKSUM.write(one, sum);
                    }
                    self.write(*at, &block);
                }
                Some(kind) => {
                    let mut block = self.block(*at);
                    sums.seal(*kind, *at, &mut block, size);
                    self.write(*at, &block);
                }
                None => {}
            }
        }
        for chunk in tables {
            let second = sums.of(chunk + BLOCK, &self.block(chunk + BLOCK), None);
            self.put(chunk, chunk_header::CHECKSUM2, second);
            let mut first = self.block(chunk);
            let sum = sums.of(chunk, &first, Some(chunk_header::CHECKSUM));
            chunk_header::CHECKSUM.write(&mut first, sum);
            self.write(chunk, &first);
        }
        self.touched.clear();
    }

    /// Opens the volume with corrected checksums.
    pub(crate) fn open(&mut self) -> Volume {
        self.seal();
        self.reopen()
    }

    /// Opens the volume for repair, so that its listed orphans stay.
    pub(crate) fn reopen(&self) -> Volume {
        self.open_for(Access::Repair)
    }

    pub(crate) fn open_for(&self, access: Access) -> Volume {
        Volume::open_device(Box::new(self.device.clone()), access).expect("open")
    }
}
