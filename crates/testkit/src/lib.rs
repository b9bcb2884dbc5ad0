//! The test tools of LaneFS. They are never shipped.
//!
//! Everything but [`posix`] works on the trait [`engine::Engine`]. Nothing here knows how a volume works
//! inside, except `mutate` and `naive`, which know the format.
//!
//! # Modules
//!
//! Each module refers to modules of the lines above it only, so this table is also an order to read them in.
//!
//! | module | what it knows |
//! |---|---|
//! | [`engine`] | the operations that every system has that is compared |
//! | [`faulty`] | a device that fails on request |
//! | [`naive`], [`one_hash`] | a second reader of volumes, written from the document of the format; more names with one hash than a region index has slots for |
//! | [`seeded`], [`settings`], [`watchdog`] | random numbers by seed; settings of a test run; an end to tests that hang |
//! | [`canary`], [`model`], [`volume`] | planted bugs that all of this must catch; a reference file system in memory, the first oracle; a volume as an engine |
//! | [`crash`], [`history`], [`ops`] | power cuts; calls of many threads at once, and whether some order of single calls explains them; operations, and their generation from a seed |
//! | [`host`], [`mutate`], [`run`], [`steps`] | a directory of the machine's own file system, the second oracle; hostile images; operations on engines and the model side by side; changes whose every state follows from the seed |
//! | [`posix`] | what POSIX says of a file system, as cases for anything that has its calls |

#![forbid(unsafe_code)]

pub mod canary;
pub mod crash;
pub mod engine;
pub mod faulty;
pub mod history;
pub mod host;
pub mod model;
pub mod mutate;
pub mod naive;
pub mod one_hash;
pub mod ops;
pub mod posix;
pub mod run;
pub mod seeded;
pub mod settings;
pub mod steps;
pub mod volume;
pub mod watchdog;
