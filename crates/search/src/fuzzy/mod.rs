//! Fuzzy search in the paths of a volume.
//!
//! [`Names::gather`] reads all names below some directories once. A [`Finder`] ranks them for a query, and
//! for a query that has grown looks at the former matches only. The syntax of queries is fzf's, the scores
//! are nucleo's.
//!
//! | module | |
//! |---|---|
//! | `names`, `gather` | the names; how they are read |
//! | `query` | terms of a query |
//! | `bonus`, `columns` | nucleo's scores, computed byte by byte, so that paths share the work for their directory |
//! | `whole` | terms in a whole path, and where they match |
//! | `ranking` | the best of many |
//! | `ranker` | an engine beside the CPU that scores all names |
//! | `scan`, `remaining` | a part of the names; those that another engine left to the CPU |
//! | `finder` | all names, on all threads |

mod bonus;
mod columns;
mod finder;
mod gather;
mod names;
mod query;
mod ranker;
mod ranking;
mod remaining;
mod scan;
mod whole;

pub use finder::{Finder, Match};
pub use gather::{GatherOptions, Start, Unread, UnreadReason};
pub use names::{EntryId, Names};
pub use query::{MAX_QUERY_CHARS, Query};
pub use ranker::{Letters, Ranked, Ranker};
pub use whole::highlights;
