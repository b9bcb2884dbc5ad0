//! The heaps of all threads: which is whose, what they share, settings from the environment.

pub(crate) mod registry;
mod settings;
pub(crate) mod thread;
