//! The store: where a volume's bytes live, and how they change.
//!
//! Every byte of a volume has one address in a reserved range of virtual memory, so a position becomes a pointer by one
//! addition, whatever the device. A byte of state for each block says whether it is resident and as what kind of block
//! it was verified. A reader that meets a block which is not resident gets [`Fault::Miss`], and its caller has the
//! block fetched and runs the operation again. (The layout follows Leis et al., "Virtual-Memory Assisted Buffer
//! Management", SIGMOD 2023.) All changes of metadata go through a [`Tx`], which can take them back.
//!
//! Only this crate knows which device holds the bytes; it knows nothing of files and directories.

mod arena;
mod device;
mod fault;
mod journal;
mod store;
mod tx;
mod view;

pub use device::{Device, FileDevice, MemoryDevice};
pub use fault::Fault;
pub use store::{Backing, Store};
pub use tx::{Log, Tx};
pub use view::{View, prefetch};
