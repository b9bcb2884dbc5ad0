//! The systems that are measured, LaneFS in its forms and its peers, and the trees and operations that all of
//! them get.
//!
//! A peer gets the same work as LaneFS, by the calls that its users have.

pub(crate) mod file_volume;
pub(crate) mod fio;
pub mod lane;
pub mod peers;
pub(crate) mod served;
pub mod system;
pub(crate) mod temporary;
pub(crate) mod trees;
pub(crate) mod walk;
pub mod workload;
