//! Power cuts: the state of a volume after a crash, for very many crashes.
//!
//! | module | content |
//! |---|---|
//! | `alphabet`, `op`, `workload` | lists of operations: all single ones, pairs and triples of them, long random ones |
//! | `base`, `fill` | initial images, and bytes that name their writer |
//! | `record`, `recording` | the writes and flushes of a workload, and the trees after each of its operations |
//! | `states`, `image` | the states that a crash may leave |
//! | `oracle`, `snapshot` | the trees that are allowed in a state |
//! | `explore` | each state opened, checked, compared; second crashes during recovery |
//! | `plant` | planted bugs that all of this must catch |
//! | `run`, `case` | many workloads on many cores; names of states, for replays |
//!
//! The medium loses unflushed writes, in any part and order, torn at 512 bytes. The idea of short workloads
//! made of every operation of an alphabet is that of Mohan et al., "Finding Crash-Consistency Bugs with
//! Bounded Black-Box Crash Testing" (OSDI 2018): nearly all reported crash bugs of Linux file systems showed
//! with three operations or fewer. There states are cut at points of persistence only, and compared with an
//! unharmed copy; here they are cut everywhere, and each has a set of allowed trees.

mod alphabet;
mod base;
mod case;
mod explore;
mod fill;
mod image;
mod op;
mod oracle;
mod plant;
mod record;
mod recording;
mod run;
mod snapshot;
mod states;
mod workload;

pub use case::{Case, Crash};
pub use explore::{Effort, Only, Tally, WrongState, explore};
pub use image::CrashImage;
pub use oracle::{Allowed, Oracle};
pub use plant::{Corrupted, FlushKind, Plant, corrupt_commits, plant};
pub use record::{DeviceEvent, Recorder};
pub use recording::{Recording, record};
pub use run::{CrashFailure, all_workloads, random_workloads, run_case, run_many, run_workload};
pub use snapshot::SnapshotTree;
pub use workload::{Family, Workload};
