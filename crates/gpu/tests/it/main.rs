//! The GPU engine, its twins and the CPU engine give the same answers.
//!
//! All tests are modules of one program: each program costs a link.

mod changes;
mod conformance;
mod counters;
mod device_files;
mod device_header;
mod directories;
mod find;
mod flight;
mod hash;
mod homes;
mod kernel_list;
mod list;
mod lookup;
mod one_hash;
mod own_memory;
mod ranks;
mod scan;
mod shaders;
mod support;
mod twin;
mod validation;
mod warm_calls;
