//! Concurrent histories, and the question whether some order of single calls explains them.
//!
//! Threads call one volume at the same time and record when each call began, when it returned, and its reply.
//! The history is linearizable when the calls can be put in one order, each call somewhere between its begin
//! and its end, in which a sequential file system gives exactly these replies (Herlihy and Wing,
//! "Linearizability", 1990).
//!
//! * [`Call`], [`Reply`]: a call and its reply; a [`Target`] executes it, on a volume or on the model.
//! * [`SpecState`]: the sequential file system, small enough to be copied at every step of the search.
//! * [`search`]: the search for an order.
//! * [`record`]: random calls by several threads.
//! * [`table`]: a history for people.
//! * [`Planted`]: planted bugs that the search must find.
//! * [`Crowd`]: many threads in large directories, each of which knows the state of its names.
//! * [`Waves`]: many threads that fill and empty small directories together.
//!
//! Calls that are not atomic by contract are left out: a listing that takes several calls, content larger
//! than a block, a path of several components.

mod call;
mod crowd;
mod gate;
mod planted;
mod record;
mod runs;
mod search;
mod spec;
mod table;
mod target;
mod waves;

pub use call::{Call, Event, Facts, NAMES, Name, Reply};
pub use crowd::Crowd;
pub use planted::{Planted, PlantedBug};
pub use record::{HistoryShape, record};
pub use runs::Runs;
pub use search::search;
pub use spec::SpecState;
pub use table::table;
pub use target::{OnModel, OnVolume, Target};
pub use waves::Waves;
