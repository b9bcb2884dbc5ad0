//! Measures LaneFS beside other file systems and allocators, in one run on one machine.
//!
//! Only ratios within one run count. So LaneFS and its peers measure every row in turn, run by run, and a
//! drift of the machine (a neighbour, a clock change, a write-back) hits them all. Each system does the same
//! work on the same names in the same order, and its answers are checked. `docs/benchmarks.md` defines each
//! row.
//!
//! Deliberately absent: profiling, and any judgement of a result beyond "goal reached or not".
//!
//! # Modules
//!
//! Each module refers to modules of the lines above it only, so this table is also an order to read them in.
//!
//! | module | what it knows |
//! |---|---|
//! | [`error`] | errors of a benchmark |
//! | [`measure`] | statistics, the table for people and the object for machines, plots, the machine; no file system |
//! | [`systems`] | names, paths, orders and sizes, the same for every system; operations on LaneFS by its calls, and on peers by system calls |
//! | [`session`] | one run: arguments, parts, systems in turn, the report |
//! | [`benches`] | the benchmarks, one module each |
//! | `cli` | the tree of commands |

// Three small modules of `alloc`, two functions of `mount` and a module of `lookup` are excepted, each with
// its reason.
#![deny(unsafe_code)]

pub mod benches;
mod cli;
pub mod error;
pub mod measure;
pub mod session;
pub mod systems;

pub use benches::alloc::{AllocArgs, AllocHooks, WorkerArgs, run_alloc_with, run_worker};
pub use benches::concurrency::{
    self, ConcurrencyArgs, ConcurrencyHooks, run_concurrency, run_concurrency_with,
};
pub use benches::gpu::{GpuArgs, GpuHooks, run_gpu_with};
pub use benches::lookup::{LookupArgs, LookupHooks, run_lookup_with};
pub use benches::mount::{MountArgs, MountHooks, PassthroughArgs, run_mount_with, run_passthrough};
pub use benches::namespace::{Hooks, Import, NamespaceArgs, run_namespace, run_namespace_with};
pub use benches::publish::{PublishArgs, PublishHooks, run_publish_with};
pub use benches::read::{ReadArgs, ReadHooks, run_read_with};
pub use benches::scale::{ScaleArgs, ScaleHooks, ScaleWorkerArgs, run_scale_with, run_scale_worker};
pub use benches::search::{SearchArgs, SearchHooks, run_search_with};
pub use benches::sync::{SyncArgs, SyncHooks, run_sync_with};
pub use cli::main;
pub use error::{Error, Result};
pub use measure::plot::{PlotArgs, run_plot};
