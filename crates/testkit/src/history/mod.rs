//! Concurrent histories, and whether they could have happened one call at a time.
//!
//! Threads call one volume at the same time and note when each call began, when it returned and what it answered. The
//! history is right when the calls can be put in one order, each call somewhere between its beginning and its end, in
//! which a sequential file system gives these very answers (Herlihy and Wing, "Linearizability", 1990).
//!
//! * [`Call`], [`Reply`]: a call and its answer; a [`Target`] carries it out, on a volume or on the model.
//! * [`State`]: the sequential file system, small enough to be copied at every step of the search.
//! * [`search`]: the search for an order.
//! * [`record`]: random calls by several threads.
//! * [`table`]: a history for people.
//! * [`Planted`]: faults that the search must find.
//! * [`Crowd`]: many threads in large directories, each of which knows what its names must be.
//! * [`Waves`]: many threads that fill and empty small directories together.
//!
//! What is not one step by contract stays out: a listing that takes several calls, content larger than a block, a path
//! of several components.

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
pub use planted::{Fault, Planted};
pub use record::{Shape, record};
pub use runs::Runs;
pub use search::search;
pub use spec::State;
pub use table::table;
pub use target::{OnModel, OnVolume, Target};
pub use waves::Waves;
