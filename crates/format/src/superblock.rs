//! The superblock: the structure that a reader reads first.

use crate::checksum::Checksummer;
use crate::geometry::{BLOCK, GROUP, MAX_VOLUME, MIN_VOLUME};
use crate::hash::HashSeed;
use crate::inodes::InodeSize;
use crate::kind::BlockKind;
use crate::layout;
use crate::layout::Field;

layout! {
    /// The superblock, at position 0 and again at 2 MiB - 4 KiB.
    fields, 4096;
    /// `BlockKind::Superblock`
    KIND: u8, 0;
    /// Zero
    RESERVED0: u8, 1, 3;
    /// CRC-32C of the block, taken at position 0 for both copies
    CHECKSUM: u32, 4;
    /// Zero
    OWNER: u64, 8;
    /// `MAGIC`
    MAGIC: u64, 16;
    /// Version of the format; a reader refuses another one
    VERSION: u32, 24;
    /// Kind of the checksums: 1 is CRC-32C; a reader refuses another one
    CHECKSUM_TYPE: u8, 28;
    /// Hash of directories: 1 is half-MD4 of unsigned characters; a reader refuses another one
    HASH_TYPE: u8, 29;
    /// Zero
    RESERVED1: u16, 30;
    /// Compatible features: who does not know one ignores it and keeps its bit
    FEATURES_COMPAT: u64, 32;
    /// Read-only compatible features: who does not know one may read but not write
    FEATURES_RO_COMPAT: u64, 40;
    /// Incompatible features: who does not know one refuses the volume
    FEATURES_INCOMPAT: u64, 48;
    /// Bit 0 CLEAN: closed, and not open for writing since; bit 1 ERRORS: damage was met
    STATE: u32, 56;
    /// Running CRC with which every checksum of the volume begins
    CHECKSUM_SEED: u32, 60;
    /// Identity of the volume
    UUID: u8, 64, 16;
    /// Seed of the directory hash
    HASH_SEED: u32, 80, 4;
    /// Size of the volume in bytes, a multiple of 4096
    VOLUME_BYTES: u64, 96;
    /// Size of an inode: 128 or 256
    INODE_BYTES: u64, 104;
    /// Inode number of the root directory
    ROOT: u64, 112;
    /// Position of the group table: one block for each group, in order
    GROUPS: u64, 120;
    /// Number of groups
    GROUP_COUNT: u64, 128;
    /// Position of the journal
    JOURNAL: u64, 136;
    /// Size of the journal in blocks, 0 for none
    JOURNAL_BLOCKS: u64, 144;
    /// Grows with each write of the superblock; of two good copies that with the higher number counts
    SEQUENCE: u64, 152;
    /// Free blocks, right after a clean close
    FREE_BLOCKS: u64, 160;
    /// Inodes in use, right after a clean close
    INODES: u64, 168;
    /// Time of mkfs, in nanoseconds since 1970
    CREATED: i64, 176;
    /// Inode number of the orphan directory, which lists inodes without a name
    ORPHANS: u64, 184;
    /// A name for people, UTF-8, padded with zeros
    LABEL: u8, 192, 64;
    /// Zero
    RESERVED2: u64, 256, 480;
}

/// `b"LaneFS\r\n"` as a word: a copy with converted line ends does not open.
pub const MAGIC: u64 = u64::from_le_bytes(*b"LaneFS\r\n");
/// Version of the format.
pub const VERSION: u32 = 4;
/// `CHECKSUM_TYPE`: CRC-32C.
pub const CRC_32C: u8 = 1;
/// `HASH_TYPE`: half-MD4 of unsigned characters.
pub const HALF_MD4: u8 = 1;
/// Bit of `STATE`: the volume was closed, and has not been open for writing since.
pub const CLEAN: u32 = 1;
/// Bit of `STATE`: damage was met since the last check that left none.
pub const ERRORS: u32 = 2;
/// Bit of `FEATURES_RO_COMPAT`: file data have checksums. A writer must keep them; a reader need not look.
pub const RO_COMPAT_DATA_CHECKSUMS: u64 = 1;
/// Read-only compatible features that this software keeps true when it writes.
pub const KNOWN_RO_COMPAT: u64 = RO_COMPAT_DATA_CHECKSUMS;
/// Incompatible features that this software knows.
pub const KNOWN_INCOMPAT: u64 = 0;

/// A decoded superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Compatible features, known and unknown.
    pub compat: u64,
    /// Read-only compatible features, known and unknown.
    pub ro_compat: u64,
    /// Incompatible features, all of them known.
    pub incompat: u64,
    /// Identity of the volume.
    pub uuid: [u8; 16],
    /// Running CRC with which every checksum begins.
    pub checksum_seed: u32,
    /// Seed of the directory hash.
    pub seed: HashSeed,
    /// Size of the volume in bytes.
    pub volume_bytes: u64,
    /// Size of an inode.
    pub inode_size: InodeSize,
    /// Inode number of the root directory.
    pub root: u64,
    /// Position of the group table.
    pub groups: u64,
    /// Number of groups.
    pub group_count: u64,
    /// Position of the journal.
    pub journal: u64,
    /// Size of the journal in blocks.
    pub journal_blocks: u64,
    /// True after a clean close.
    pub clean: bool,
    /// Damage was met since the last check that left none.
    pub errors: bool,
    /// Grows with each write.
    pub sequence: u64,
    /// Free blocks, right after a clean close.
    pub free_blocks: u64,
    /// Inodes in use, right after a clean close.
    pub inodes: u64,
    /// Time of mkfs in nanoseconds since 1970.
    pub created: i64,
    /// Inode number of the orphan directory.
    pub orphans: u64,
    /// Label, padded with zeros.
    pub label: [u8; 64],
}

/// Reason why a block is not a superblock that this software can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotASuperblock {
    /// The magic number is missing: not a LaneFS volume.
    Magic,
    /// Another version of the format.
    Version(u32),
    /// Another kind of checksum.
    ChecksumType(u8),
    /// Another hash of directories.
    HashType(u8),
    /// Unknown incompatible features, as bits.
    Features(u64),
    /// The checksum is wrong.
    Checksum,
    /// A field has an impossible value.
    Field(&'static str),
}

impl Superblock {
    /// Returns whether another good copy is that of the same volume, older or newer, as after a crash between
    /// the writes of the two copies. The one with the higher sequence number counts.
    pub fn is_of_another_moment(&self, other: &Superblock) -> bool {
        self.checksum_seed == other.checksum_seed && self.sequence != other.sequence
    }

    /// Returns the checksummer of the volume.
    pub fn sums(&self) -> Checksummer {
        Checksummer::new(self.checksum_seed)
    }

    /// Returns true where file data have checksums.
    pub fn has_data_checksums(&self) -> bool {
        self.ro_compat & RO_COMPAT_DATA_CHECKSUMS != 0
    }

    /// Returns the read-only compatible features that this software does not know: it must not write.
    pub fn unknown_ro_compat(&self) -> u64 {
        self.ro_compat & !KNOWN_RO_COMPAT
    }

    /// Returns the block as stored, with its checksum.
    pub fn encode(&self) -> Vec<u8> {
        use fields::*;
        let mut b = vec![0u8; SIZE];
        KIND.write(&mut b, BlockKind::Superblock as u8);
        MAGIC.write(&mut b, self::MAGIC);
        VERSION.write(&mut b, self::VERSION);
        CHECKSUM_TYPE.write(&mut b, CRC_32C);
        HASH_TYPE.write(&mut b, HALF_MD4);
        FEATURES_COMPAT.write(&mut b, self.compat);
        FEATURES_RO_COMPAT.write(&mut b, self.ro_compat);
        FEATURES_INCOMPAT.write(&mut b, self.incompat);
        let state = [(self.clean, CLEAN), (self.errors, ERRORS)];
        STATE.write(&mut b, state.into_iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum());
        CHECKSUM_SEED.write(&mut b, self.checksum_seed);
        b[UUID.offset..UUID.offset + 16].copy_from_slice(&self.uuid);
        for (i, word) in self.seed.0.iter().enumerate() {
            HASH_SEED.index(i).write(&mut b, *word);
        }
        VOLUME_BYTES.write(&mut b, self.volume_bytes);
        INODE_BYTES.write(&mut b, self.inode_size.bytes());
        ROOT.write(&mut b, self.root);
        GROUPS.write(&mut b, self.groups);
        GROUP_COUNT.write(&mut b, self.group_count);
        JOURNAL.write(&mut b, self.journal);
        JOURNAL_BLOCKS.write(&mut b, self.journal_blocks);
        SEQUENCE.write(&mut b, self.sequence);
        FREE_BLOCKS.write(&mut b, self.free_blocks);
        INODES.write(&mut b, self.inodes);
        CREATED.write(&mut b, self.created);
        ORPHANS.write(&mut b, self.orphans);
        b[LABEL.offset..LABEL.offset + LABEL.len].copy_from_slice(&self.label);
        self.sums().seal(BlockKind::Superblock, 0, &mut b, 0);
        b
    }

    /// Decodes and checks a block.
    ///
    /// # Errors
    /// See [`NotASuperblock`]. Positions are checked against the size that the superblock itself gives.
    pub fn decode(b: &[u8]) -> Result<Self, NotASuperblock> {
        use fields::*;
        let word = |field: Field<u64>| field.read(b).ok_or(NotASuperblock::Magic);
        if word(MAGIC)? != self::MAGIC || b.len() < SIZE {
            return Err(NotASuperblock::Magic);
        }
        let b = &b[..SIZE];
        let half = |field: Field<u32>| field.read(b).ok_or(NotASuperblock::Magic);
        match half(VERSION)? {
            self::VERSION => {}
            other => return Err(NotASuperblock::Version(other)),
        }
        // Without the sum's kind nothing in the block can be verified.
        match CHECKSUM_TYPE.read(b) {
            Some(CRC_32C) => {}
            other => return Err(NotASuperblock::ChecksumType(other.unwrap_or(0))),
        }
        let checksum_seed = half(CHECKSUM_SEED)?;
        if !Checksummer::new(checksum_seed).verify(BlockKind::Superblock, 0, b, 0, &[]) {
            return Err(NotASuperblock::Checksum);
        }
        match HASH_TYPE.read(b) {
            Some(HALF_MD4) => {}
            other => return Err(NotASuperblock::HashType(other.unwrap_or(0))),
        }
        let incompat = word(FEATURES_INCOMPAT)?;
        if incompat & !KNOWN_INCOMPAT != 0 {
            return Err(NotASuperblock::Features(incompat & !KNOWN_INCOMPAT));
        }
        let state = half(STATE)?;
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&b[UUID.offset..UUID.offset + 16]);
        let mut seed = [0; 4];
        for (i, s) in seed.iter_mut().enumerate() {
            *s = half(HASH_SEED.index(i))?;
        }
        let mut label = [0; 64];
        label.copy_from_slice(&b[LABEL.offset..LABEL.offset + LABEL.len]);
        let bytes = word(VOLUME_BYTES)?;
        if !(MIN_VOLUME..=MAX_VOLUME).contains(&bytes) || !bytes.is_multiple_of(BLOCK) {
            return Err(NotASuperblock::Field("volume size"));
        }
        let inode_size =
            InodeSize::from_bytes(word(INODE_BYTES)?).ok_or(NotASuperblock::Field("inode size"))?;
        let group_count = word(GROUP_COUNT)?;
        if group_count != bytes.div_ceil(GROUP) {
            return Err(NotASuperblock::Field("number of groups"));
        }
        let inside =
            |at: u64, blocks: u64| at.is_multiple_of(BLOCK) && at < bytes && blocks <= (bytes - at) / BLOCK;
        if !inside(word(GROUPS)?, group_count) || word(GROUPS)? == 0 {
            return Err(NotASuperblock::Field("position of the group table"));
        }
        if !inside(word(JOURNAL)?, word(JOURNAL_BLOCKS)?) {
            return Err(NotASuperblock::Field("position of the journal"));
        }
        Ok(Superblock {
            compat: word(FEATURES_COMPAT)?,
            ro_compat: word(FEATURES_RO_COMPAT)?,
            incompat,
            uuid,
            checksum_seed,
            seed: HashSeed(seed),
            volume_bytes: bytes,
            inode_size,
            root: word(ROOT)?,
            groups: word(GROUPS)?,
            group_count,
            journal: word(JOURNAL)?,
            journal_blocks: word(JOURNAL_BLOCKS)?,
            clean: state & CLEAN != 0,
            errors: state & ERRORS != 0,
            sequence: word(SEQUENCE)?,
            free_blocks: word(FREE_BLOCKS)?,
            inodes: word(INODES)?,
            created: CREATED.read(b).unwrap_or(0),
            orphans: word(ORPHANS)?,
            label,
        })
    }
}
