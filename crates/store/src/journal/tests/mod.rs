//! The journal on its own, on devices that lose what was not flushed.

mod crash;
mod medium;
mod single;
