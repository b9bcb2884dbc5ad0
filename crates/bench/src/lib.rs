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
// Three small modules of `alloc`, two functions of `mount` and a module of `lookup` are excepted, each with
// its reason.
#![deny(unsafe_code)]

pub mod alloc;
pub mod blocks;
mod cli;
pub mod concurrency;
pub mod error;
mod file_volume;
pub mod gpu;
pub mod lane;
pub mod lookup;
pub mod machine;
pub mod mount;
pub mod namespace;
pub mod peers;
pub mod plot;
mod progress;
pub mod publish;
pub mod read;
pub mod report;
pub mod scale;
pub mod search;
mod selection;
mod served;
pub mod session;
pub mod stop;
pub mod system;
mod threads;
mod trees;
mod values;
mod walk;
pub mod workload;

pub use alloc::{AllocArgs, AllocHooks, WorkerArgs, run_alloc_with, run_worker};
pub use cli::main;
pub use concurrency::{ConcurrencyArgs, ConcurrencyHooks, run_concurrency, run_concurrency_with};
pub use error::{Error, Result};
pub use gpu::{GpuArgs, GpuHooks, run_gpu_with};
pub use lookup::{LookupArgs, LookupHooks, run_lookup_with};
pub use mount::{MountArgs, MountHooks, PassthroughArgs, run_mount_with, run_passthrough};
pub use namespace::{Hooks, Import, NamespaceArgs, run_namespace, run_namespace_with};
pub use plot::{PlotArgs, run_plot};
pub use publish::{PublishArgs, PublishHooks, run_publish_with};
pub use read::{ReadArgs, ReadHooks, run_read_with};
pub use scale::{ScaleArgs, ScaleHooks, ScaleWorkerArgs, run_scale_with, run_scale_worker};
pub use search::{SearchArgs, SearchHooks, run_search_with};
