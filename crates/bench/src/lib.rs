//! Measures LaneFS beside other file systems and allocators, in one run on one machine.
//!
//! Only ratios within one run count. So LaneFS and its peers measure every row in turn, run by run, and a
//! drift of the machine (a neighbour, a clock change, a write-back) hits them all. Each system does the same
//! work on the same names in the same order, and its answers are checked. `docs/benchmarks.md` defines each
//! row.
//!
//! * [`workload`]: names, paths, orders and sizes, the same for every system; knows no file system.
//! * [`system`]: operations that rows require of a file system. [`lane`] implements them on a LaneFS volume,
//!   [`peers`] by system calls.
//! * [`namespace`], [`lookup`], [`read`], [`search`], [`publish`], [`concurrency`], [`alloc`], [`mount`],
//!   [`gpu`], [`scale`]: the rows of the benchmark of that name.
//! * [`session`]: parts, arguments, alternating runs and the report of all benchmarks.
//! * [`report`], [`machine`]: statistics, the table for people, the object for machines; [`plot`]: pictures.
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
//! | [`measure`] | repetition, values, reports, plots, the machine |
//! | [`systems`] | LaneFS in its forms, its peers, trees and operations that all of them get |
//! | [`session`] | one run: its arguments, its peers, its report |
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
pub use cli::main;
pub use error::{Error, Result};
pub use measure::plot::{PlotArgs, run_plot};
