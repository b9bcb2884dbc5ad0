//! Names for a fuzzy search, and its query.

use super::walk;
use crate::session::context::Context;
use crate::terminal::console::say;
use crate::terminal::failure::{Failure, check_interrupt};
use crate::terminal::{exit, interrupt};
use lanefs::FileSystem;
use lanefs_gpu::Gpu;
use lanefs_search::DeviceRanks;
use lanefs_search::fuzzy::{
    Finder, GatherOptions, MAX_QUERY_CHARS, Names, Query, Start, Unread, UnreadReason,
};
use std::sync::Arc;

/// Makes a finder of names, on a device that has their paths.
pub fn finder<'n>(names: &'n Names, ranks: Option<&Arc<DeviceRanks>>) -> Finder<'n> {
    let finder = Finder::new(names, threads());
    match ranks {
        Some(ranks) => finder.with_ranker(ranks.clone()),
        None => finder,
    }
}

/// Copies the paths to a device. If it fails, which is reported, or has too little memory, the CPU engine
/// answers: `None`.
pub fn ranks(gpu: &Gpu, names: &Names) -> Option<Arc<DeviceRanks>> {
    let ranks = DeviceRanks::new(gpu, names);
    ranks.map(Arc::new).map_err(|error| say(&format!("{error}; the CPU engine continues"))).ok()
}

/// Threads of a search.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Parses a query.
///
/// # Errors
/// It is too long.
pub fn parse(text: &str) -> Result<Query, Failure> {
    if text.chars().count() > MAX_QUERY_CHARS {
        let what = format!("has more than {MAX_QUERY_CHARS} characters");
        return Err(Failure::usage("query", &what, "give a shorter one"));
    }
    Ok(Query::parse(text))
}

/// Gathers the names below some paths. Reports paths that are missing and directories that cannot be read.
///
/// # Errors
/// Failures that end the command.
pub fn gather<V: FileSystem>(
    context: &mut Context<'_, V>,
    paths: &[&[u8]],
    with_starts: bool,
    max_depth: Option<usize>,
) -> Result<Names, Failure> {
    let mut starts = Vec::new();
    for &path in paths {
        match context.resolve(path, false) {
            Ok(attr) => starts.push(Start { path: path.to_vec(), ino: attr.ino, kind: attr.kind }),
            Err(failure) => context.go_on(Err(failure))?,
        }
    }
    let options = GatherOptions { threads: threads(), with_starts, max_depth };
    let stop = interrupt::flag();
    let (names, unread) = Names::gather(context.volume, &starts, &options, &stop);
    check_interrupt()?;
    for Unread { path, why } in unread {
        let failure = match why {
            UnreadReason::Volume(error) => Failure::volume(&path, &error),
            UnreadReason::ImpossibleName => walk::impossible(&path),
            UnreadReason::SecondName => Failure::damage(&path, "a directory in it has more than one name"),
            UnreadReason::TooMany => {
                Failure::new(exit::PARTIAL, &path, "has more names than a search takes", "search below it")
            }
        };
        context.go_on(Err(failure))?;
    }
    Ok(names)
}
