//! What LaneFS is tested with. Never shipped.
//!
//! * [`model`]: a reference file system in memory, the first oracle.
//! * [`host`]: a directory of the machine's own file system, the second.
//! * [`ops`]: operations, and their generation from a seed.
//! * [`run`]: operations on engines and the model side by side; failures made small.
//! * [`mutate`]: hostile images.
//! * [`history`]: calls of many threads at once, and whether they could have come one by one.
//! * [`crash`]: power cuts.
//! * [`faulty`]: a device that fails when it is told to.
//! * [`steps`]: changes of which every state can be told again from the seed, for crashes and failing devices.
//! * [`canary`]: planted faults that all of this must catch.
//!
//! Everything works on the trait [`engine::Engine`]; nothing here knows how a volume works inside, save `mutate`, which
//! knows the format.
#![forbid(unsafe_code)]

pub mod canary;
pub mod crash;
pub mod engine;
pub mod faulty;
pub mod history;
pub mod host;
pub mod model;
pub mod mutate;
pub mod ops;
pub mod run;
pub mod seeded;
pub mod settings;
pub mod steps;
pub mod volume;
pub mod watchdog;
