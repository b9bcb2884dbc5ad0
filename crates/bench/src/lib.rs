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

pub use cli::main;
pub use error::{Error, Result};
