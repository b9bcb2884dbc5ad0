//! The test tools of LaneFS. They are never shipped.
//!
//! * [`model`]: a reference file system in memory, the first oracle.
//! * [`host`]: a directory of the machine's own file system, the second oracle.
//! * [`posix`]: what POSIX says of a file system, as cases for anything that has its calls.
//! * [`ops`]: operations, and their generation from a seed.
//! * [`run`]: operations on engines and the model side by side; failing sequences are shrunk.
//! * [`mutate`]: hostile images.
//! * [`history`]: calls of many threads at once, and whether some order of single calls explains them.
//! * [`crash`]: power cuts.
//! * [`faulty`]: a device that fails on request.
//! * [`steps`]: changes whose every state follows from the seed, for crashes and failing devices.
//! * [`naive`]: a second reader of volumes, written from the document of the format.
//! * [`one_hash`]: more names with one hash than a region index has slots for.
//! * [`canary`]: planted bugs that all of this must catch.
//!
//! Everything but [`posix`] works on the trait [`engine::Engine`]. Nothing here knows how a volume works
//! inside, except `mutate` and `naive`, which know the format.
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
