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
//! Modules, each above those that it uses:
//!
//! | module | |
//! |---|---|
//! | `raw`, `scrub`, `watch`, `stats` | bytes for inspection; blocks verified on the device; blocks that changed, for a mirror; statistics |
//! | `commit`, `write_back`, `seal` | commits and checkpoints; file data that is written in place; checksums |
//! | `behind`, `data` | large writes of new blocks, which bypass memory; file data |
//! | `sum`, `fetch`, `window`, `evict` | checksums of file data; blocks become resident, alone or with neighbours, and absent |
//! | `pins` | slices of file data in place |
//! | `placement` | where file data may lie |
//! | `tx`, `reader`, `gate` | one transaction, one attempt, the slots of the writers |
//! | `store` | the state: all that follows, in one structure |
//! | `committed`, `write_queue`, `waiters`, `readahead`, `neighbours`, `cache`, `pin_table`, `places`, `table_ahead`, `marks`, `data_sums` | state of commits, write-behind, fetches, streams, windows, eviction, pins, tables and walks over them, a watch, checksums of data |
//! | `epoch`, `versions` | whether writers are active; ownership records |
//! | `journal` | the log of commits on the device |
//! | `frames`, `slots` | memory of blocks by position; which parts of a sparse volume have memory |
//! | `view`, `arena`, `words`, `state`, `dirty` | words of a block; reserved memory; atomic copies; bytes of state |
//! | `device` | files, raw devices, memory |
//! | [`host_path`] | paths of the host, walked by descriptor |
//! | `fault`, `range`, `totals` | why an attempt cannot go on; consecutive blocks; counts of the volume |
//! | `planted` | bugs that schedule tests plant; these tests replace the primitives of [`lanefs_sync`] |
//!
//! Only this crate knows which device has the bytes; it knows nothing of files and directories.

mod arena;
mod behind;
mod cache;
mod commit;
mod committed;
mod data;
mod data_sums;
mod device;
mod dirty;
mod epoch;
mod evict;
mod fault;
mod fetch;
mod frames;
mod gate;
pub mod host_path;
#[cfg(all(test, not(any(feature = "_shuttle", miri))))]
mod interrupted;
mod journal;
mod marks;
mod neighbours;
mod pin_table;
mod pins;
mod placement;
mod places;
mod planted;
#[cfg(all(test, not(feature = "_shuttle")))]
mod races;
mod range;
mod raw;
mod readahead;
mod reader;
#[cfg(all(test, feature = "_shuttle"))]
mod schedules;
mod scrub;
mod seal;
mod slots;
#[cfg(all(test, not(feature = "_shuttle")))]
mod sparse;
mod state;
mod stats;
mod store;
mod sum;
mod table_ahead;
mod totals;
mod tx;
#[cfg(any(lanefs_planted = "race", lanefs_planted = "overrun", lanefs_planted = "alias"))]
mod undefined;
mod unnamed;
mod versions;
mod view;
mod waiters;
mod watch;
mod window;
mod words;
mod write_back;
mod write_queue;

pub use commit::{JournalContent, Snapshot};
pub use data::DataWrite;
pub use device::{
    Choice, Device, DeviceSnapshot, FileDevice, FileId, FileOptions, ImageUse, IoBuf, IoBufMut, MemoryDevice,
    OpeningLock, Overlay, Read, ReadErrors, Write, has_writer,
};
pub use epoch::Epoch;
pub use fault::{Fault, Want};
pub use frames::LARGEST_RANGE;
pub use gate::{Closed, Entered, Gate, SLOTS};
pub use pins::{Pinned, Pins};
pub use range::BlockRange;
pub use reader::{Reader, Version};
pub use scrub::{IdleReads, ScrubbedData};
pub use stats::StoreStats;
pub use store::{Backing, Store};
pub use totals::Totals;
pub use tx::{Log, Tx};
pub use view::{View, prefetch};
pub use watch::Watched;
