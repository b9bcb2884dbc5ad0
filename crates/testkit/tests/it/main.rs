//! The testers at work, and each of them with bugs that it must find.
//!
//! All tests are modules of one program: each program costs a link.

mod alloc_soak;
mod canaries;
mod crash;
mod faulty;
mod foreign;
mod fsck_canaries;
mod hostile;
mod killed;
mod linearizable;
mod model_file;
mod model_host;
mod model_memory;
mod modules;
mod one_block;
mod one_hash;
mod second_reader;
mod tidy;
