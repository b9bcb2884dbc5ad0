//! The store: where a volume's bytes live, and how they change.
//!
//! Every byte of a volume has one address in a reserved range of virtual memory, so a position becomes a pointer by one
//! addition, whatever the device. A byte of state for each block says whether it is resident and as what kind of block
//! it was verified. A run that meets a block which is not resident gets [`Fault::Miss`], and its caller has the
//! block fetched and runs the operation again. (The layout follows Leis et al., "Virtual-Memory Assisted Buffer
//! Management", SIGMOD 2023.) All changes of metadata go through a [`Tx`], which can take them back.
//!
//! Many threads read and change at the same time. A reader takes no lock: it notes the versions of what it reads and looks at
//! them again at the end ([`Reader`]). A writer holds the versions of what it changes until it is done. Who meets a writer
//! gets [`Fault::Conflict`], waits holding nothing, and runs again.
//!
//! | module | |
//! |---|---|
//! | `arena`, `state`, `view` | memory: positions are addresses, a byte of state a block, words read and written atomically |
//! | `versions`, `gate`, `reader`, `tx` | concurrency: versioned locks, who is changing things, one run, one transaction |
//! | `data` | file data |
//! | `fetch`, `readahead`, `cache`, `evict` | blocks come in and go |
//! | `behind` | large writes of new blocks go past the resident ones |
//! | `seal`, `journal`, `commit`, `raw` | what was changed becomes durable |
//! | `device` | files, raw devices, memory |
//! | `planted` | bugs that schedule tests plant; these tests take over the primitives of [`lanefs_sync`] |
//!
//! Only this crate knows which device holds the bytes; it knows nothing of files and directories.

mod arena;
mod behind;
mod cache;
mod commit;
mod data;
mod device;
mod evict;
mod fault;
mod fetch;
mod gate;
mod journal;
mod planted;
#[cfg(all(test, not(feature = "shuttle")))]
mod races;
mod raw;
mod readahead;
mod reader;
#[cfg(all(test, feature = "shuttle"))]
mod schedules;
mod seal;
mod state;
mod store;
mod tx;
#[cfg(any(feature = "planted-race", feature = "planted-overrun", feature = "planted-alias"))]
mod undefined;
mod versions;
mod view;
mod watch;
mod words;

pub use commit::{Snapshot, StoreStats};
pub use device::{
    Choice, Device, FileDevice, FileOptions, IoBuf, IoBufMut, MemoryDevice, Read, ReadErrors, Write,
};
pub use fault::{Fault, Want};
pub use gate::{Closed, Entered, Epoch, Gate, SLOTS};
pub use readahead::Run;
pub use reader::Reader;
pub use store::{Backing, Store};
pub use tx::{Log, Tx};
pub use view::{View, prefetch};
pub use watch::Watched;
