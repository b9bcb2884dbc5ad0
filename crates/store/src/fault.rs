//! Why an operation on the store stopped.

use lanefs_format::{BlockKind, Code, InvalidPointer};

/// Small and `Copy`, for it travels through every read; the volume turns it into an error that people read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A block is not resident: fetch it and run the operation again.
    Miss {
        /// Byte position of the block.
        at: u64,
        /// What the reader expects there.
        want: Want,
    },
    /// A writer is at what this run needs, or has changed what it read: wait for the writer and run again.
    Conflict {
        /// The writer's slot; 255 where nobody need be waited for.
        holder: u8,
        /// The record in dispute.
        record: u32,
    },
    /// The run reads so much that it had better be alone.
    Crowd,
    /// The bytes contradict the format.
    Damaged {
        /// Byte position.
        at: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// An ordinary outcome, such as "not found".
    Code(Code),
    /// The device failed.
    Io {
        /// Byte position.
        at: u64,
        /// What was being done: "reading" or "writing".
        doing: &'static str,
        /// The host's errno.
        errno: i32,
    },
}

/// What a reader expects at a place that is not resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Metadata of this kind.
    Block(BlockKind),
    /// File data.
    Data {
        /// Blocks that the run cannot do without.
        need: u32,
        /// Blocks from there on that belong together, `need` included: what reading ahead may bring.
        extent: u32,
    },
}

impl Fault {
    /// The bytes at `at` contradict the format.
    #[cold]
    pub fn damaged(at: u64, why: &'static str) -> Self {
        Fault::Damaged { at, why }
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
