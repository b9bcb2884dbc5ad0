//! Faults: the reasons why an attempt cannot go on.

use lanefs_format::{BlockKind, Code, InvalidPointer};
use std::io;

/// The errno of an interrupted wait (Linux).
const EINTR: i32 = 4;

/// The operation of a thread that waits for another one's fetch.
const WAITING: &str = "waiting for";

/// The reason why an attempt cannot go on. It is small and `Copy`, because every read returns it; the volume
/// turns it into an error for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A block is absent: fetch it and retry.
    Miss {
        /// Byte position of the block.
        at: u64,
        /// The content that the attempt expects.
        want: Want,
    },
    /// A writer has locked an ownership record that this attempt needs, or has changed its read set: wait for
    /// the writer and retry.
    Conflict {
        /// The writer's slot; 255 where there is no writer to wait for.
        owner: u8,
        /// The ownership record.
        record: u32,
    },
    /// The attempt reads so much that it needs exclusive access: tracking costs more.
    ReadSetTooLarge,
    /// The bytes contradict the format.
    Damaged {
        /// Byte position.
        at: u64,
        /// The contradiction.
        why: &'static str,
    },
    /// A block of file data does not match its checksum.
    WrongData {
        /// Byte position.
        at: u64,
    },
    /// An ordinary outcome, such as "not found".
    Code(Code),
    /// The device failed.
    Io {
        /// Byte position.
        at: u64,
        /// The operation: "reading", "writing", "flushing", or "waiting for".
        doing: &'static str,
        /// The host's errno.
        errno: i32,
    },
}

/// The content that an attempt expects of an absent block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Metadata of this kind.
    Block(BlockKind),
    /// No content: memory for a block that the attempt fills.
    Frame,
    /// File data.
    Data {
        /// Blocks that the attempt needs.
        need: u32,
        /// Blocks that belong together from there on, `need` included: readahead may fetch them.
        extent: u32,
    },
}

impl Fault {
    /// Returns the fault for bytes at `at` that contradict the format.
    #[cold]
    pub fn damaged(at: u64, why: &'static str) -> Self {
        Fault::Damaged { at, why }
    }

    /// Returns the fault of a wait for the block at `at` that the caller does not want any more.
    #[cold]
    pub(crate) fn interrupted(at: u64) -> Self {
        Fault::Io { at, doing: WAITING, errno: EINTR }
    }

    /// Returns true for an interrupted wait. It concerns one thread, so others that wait for the same block
    /// do not learn of it.
    pub(crate) fn is_interruption(&self) -> bool {
        matches!(self, Fault::Io { doing: WAITING, errno: EINTR, .. })
    }
}

impl From<Code> for Fault {
    fn from(code: Code) -> Self {
        Fault::Code(code)
    }
}

impl From<InvalidPointer> for Fault {
    fn from(_: InvalidPointer) -> Self {
        Fault::Code(Code::InvalidPointer)
    }
}

/// Returns the fault for a failure of the device at byte `at`.
#[cold]
pub(crate) fn io_fault(at: u64, doing: &'static str, error: &io::Error) -> Fault {
    // A device that verifies its own bytes, as that of a publication.
    if error.kind() == io::ErrorKind::InvalidData {
        return Fault::damaged(at, "bytes that the device calls damaged");
    }
    // A short read means that the file ends before the volume does; the host has no errno for it.
    let errno = error.raw_os_error().unwrap_or(Code::Io.errno());
    Fault::Io { at, doing, errno }
}

/// Returns the fault for a failure of the device at byte `at`, where it has file data.
#[cold]
pub(crate) fn data_fault(at: u64, error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::InvalidData => Fault::WrongData { at },
        _ => io_fault(at, "reading", error),
    }
}

/// Returns the fault for file data at `at`, where metadata or a table is.
#[cold]
pub(crate) fn misplaced(at: u64) -> Fault {
    Fault::damaged(at, "file data where metadata is")
}

/// Returns the text for a block that is not of the kind that was expected.
pub(crate) fn expectation(kind: BlockKind) -> &'static str {
    match kind {
        BlockKind::Superblock => "no valid superblock",
        BlockKind::Group => "no valid group block",
        BlockKind::ChunkHeader => "no valid chunk table",
        BlockKind::Inodes => "no valid block of inodes",
        BlockKind::Pointers => "no valid block of pointers",
        BlockKind::Leaf => "no valid leaf block",
        BlockKind::Tree => "no valid tree block",
        BlockKind::Index => "no valid region index block",
        BlockKind::Xattr => "no valid attribute block",
        BlockKind::Sums => "no valid block of checksums of file data",
        BlockKind::Journal => "no valid journal block",
    }
}
