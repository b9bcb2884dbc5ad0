//! The store: the bytes of a volume, and their changes.
//!
//! Every byte of a volume has one address in a reserved range of virtual memory, so a position becomes a
//! pointer by one addition, whatever the device. (A volume that is larger than the address space needs a
//! table as well, of parts of 2 MiB.) A byte of state for each block says whether it is resident and as which
//! kind of block it was verified. An attempt that needs an absent block gets [`Fault::Miss`]; its caller
//! fetches the block and retries the operation. (The layout follows Leis et al., "Virtual-Memory Assisted
//! Buffer Management", SIGMOD 2023.) All changes of metadata go through a [`Tx`], which can roll them back.
//!
//! Many threads read and change at the same time. A reader takes no lock: it tracks the versions of the
//! structures that it reads and validates them at the end ([`Reader`]). A writer locks the ownership records
//! of all that it changes until it commits. An attempt that needs a locked record gets [`Fault::Conflict`];
//! its caller waits without any lock, and retries.
//!
//! # Modules
//!
//! Each module refers to modules of the lines above it only, so this table is also an order to read them in.
//!
//! | module | what it knows |
//! |---|---|
//! | `vocabulary` | why an attempt cannot go on; runs of blocks; counts of the volume; atomic copies of words; bugs that schedule tests plant |
//! | [`host_path`], [`host_xattr`] | paths of the host, walked by descriptor; extended attributes of names there |
//! | `device` | files, raw devices, memory |
//! | `memory` | reserved memory, views and state of a block, ownership records, parts of a sparse volume |
//! | `journal` | the log of commits on the device |
//! | `store` | the state of all that follows, in one structure |
//! | `transaction` | one attempt, one transaction, the slots of the writers |
//! | `residency` | blocks become resident, alone or with neighbours, and absent; checksums of file data; pins |
//! | `writing` | file data, large writes past memory, commits and checkpoints, checksums |
//! | `inspection` | bytes for inspection, scrubs, blocks that changed, statistics |
//!
//! Only this crate knows which device has the bytes; it knows nothing of files and directories.

mod device;
pub mod host_path;
pub mod host_xattr;
mod inspection;
mod journal;
mod memory;
mod residency;
mod store;
#[cfg(test)]
mod tests;
mod transaction;
mod vocabulary;
mod writing;

pub use device::{
    BlockOrigin, Choice, Device, DeviceSnapshot, FileDevice, FileId, FileOptions, ImageUse, IoBuf, IoBufMut,
    MemoryDevice, NewImage, OpeningLock, Origins, Overlay, Read, ReadErrors, Write, has_writer,
};
pub use inspection::scrub::{IdleReads, ScrubbedData};
pub use inspection::stats::StoreStats;
pub use inspection::watch::Watched;
pub use memory::epoch::Epoch;
pub use memory::frames::LARGEST_RANGE;
pub use memory::view::{View, prefetch};
pub use residency::pins::{Pinned, Pins};
pub use store::{Backing, Store};
pub use transaction::gate::{Closed, Entered, Gate, SLOTS};
pub use transaction::reader::{Reader, Version};
pub use transaction::tx::{Log, Tx};
pub use vocabulary::fault::{Fault, Want};
pub use vocabulary::range::{AheadRange, BlockRange};
pub use vocabulary::totals::Totals;
pub use writing::commit::{CommitCopies, JournalContent};
pub use writing::data::DataWrite;
