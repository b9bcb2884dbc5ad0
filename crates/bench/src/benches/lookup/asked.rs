//! The systems that are asked for paths.

use super::rows::{Beside, Work};
use super::statx::statx_all;
use crate::error::{Error, Result, check};
use crate::measure::stop::{STRIDE, Stop};
use crate::measure::threads::in_threads;
use crate::measure::values::LANEFS;
use crate::systems::lane::Lane;
use crate::systems::peers::Host;
use crate::systems::system::{Expect, Named, System};
use crate::systems::workload::Strings;
use hashbrown::HashMap;
use lanefs::{Caller, Columns, Lookup, LookupService, PathSet, RenameMode, ResolveOptions, ServiceOptions};
use std::collections::VecDeque;
use std::ffi::CStr;
use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Paths of one call of LaneFS, as a program has them that reads a list.
const BATCH_PATHS: usize = 16_384;

/// A directory that moves beside the lookups.
const MOVED: [&CStr; 2] = [c"moved-a", c"moved-b"];

/// The paths of a row, in the form that each system takes.
pub(super) struct Requests {
    strings: Strings,
    set: PathSet,
}

impl Requests {
    pub(super) fn new(strings: Strings) -> Self {
        let set = strings.iter().map(CStr::to_bytes).collect();
        Requests { strings, set }
    }

    pub(super) fn len(&self) -> usize {
        self.strings.len()
    }

    pub(super) fn mean_len(&self) -> f64 {
        self.strings.mean_len()
    }
}

/// Whole paths, with what an answer has.
pub(super) struct PathMap(HashMap<Box<[u8]>, (u64, u64)>);

impl PathMap {
    pub(super) fn of(files: &Strings) -> Self {
        let numbered = files.iter().zip(1..);
        PathMap(numbered.map(|(path, number)| (path.to_bytes().into(), (number, number))).collect())
    }
}

/// A system under measurement.
pub(super) enum Asked<'s> {
    Lane(&'s Lane),
    /// A call of `fstatat` for each path.
    Host(&'s Host),
    /// `statx` through io_uring, on ext4.
    Statx(&'s Host),
    Map(&'s PathMap),
}

impl Named for Asked<'_> {
    fn name(&self) -> &str {
        self.named()
    }
}

impl Asked<'_> {
    pub(super) fn named(&self) -> &str {
        match self {
            Asked::Lane(_) => LANEFS,
            Asked::Host(host) => host.name(),
            Asked::Statx(_) => "ext4-io_uring",
            Asked::Map(_) => "hash-map",
        }
    }

    /// Resolves all paths; `None` where the system has no part in the row.
    pub(super) fn resolve(&self, work: &Work, requests: &Requests, stop: &Stop) -> Result<Option<Duration>> {
        let (elapsed, good) = match (self, work.beside) {
            (Asked::Lane(lane), Beside::Gathered(in_flight)) => gathered(lane, requests, in_flight, stop)?,
            // Only LaneFS has a table that may be cold.
            (Asked::Lane(lane), _) => on_lane(lane, work, requests, stop)?,
            (Asked::Host(host), Beside::Nothing | Beside::Cold | Beside::Gathered(_)) => {
                return host.resolve(None, &requests.strings, work.threads, work.expect(), stop).map(Some);
            }
            (Asked::Host(host), Beside::Moves(every) | Beside::KnownMoves(every)) => {
                return moving_host(host, requests, every, work.expect(), stop).map(Some);
            }
            (Asked::Statx(host), Beside::Nothing) => {
                let paths: Vec<&CStr> = requests.strings.iter().collect();
                in_threads(&paths, work.threads, |share| statx_all(host.root(), share, work.expect(), stop))?
            }
            (Asked::Map(map), Beside::Nothing) => {
                let parts = parts(requests.set.len(), work.threads);
                in_threads(&parts, work.threads, |share| Ok(in_map(map, requests, share, work.expect())))?
            }
            (Asked::Statx(_) | Asked::Map(_), _) => return Ok(None),
        };
        check(self.named(), "lookups", good, requests.len())?;
        Ok(Some(elapsed))
    }
}

/// Parts of `count` paths, as many for each thread.
fn parts(count: usize, threads: usize) -> Vec<Range<usize>> {
    let size = BATCH_PATHS.min(count.div_ceil(threads)).max(1);
    (0..count).step_by(size).map(|first| first..count.min(first + size)).collect()
}

fn on_lane(lane: &Lane, work: &Work, requests: &Requests, stop: &Stop) -> Result<(Duration, u64)> {
    let (volume, options) = (lane.volume(), ResolveOptions { follow: false, ..ResolveOptions::default() });
    let failed = || Error::volume("moving a directory");
    let [a, b] = MOVED.map(CStr::to_bytes);
    let root = volume.root();
    let count = requests.len() as u64;
    if work.beside != Beside::Nothing {
        volume.mkdir(&Caller::OWNER, root, a, 0o755).map_err(failed())?;
    }
    // The table then knows a path through the directory.
    let learn = |dir: &[u8]| {
        let through = [dir, b"/absent"].concat();
        volume.resolve_batch(&options, &[through]).map(drop).map_err(Error::volume("resolve_batch"))
    };
    if work.beside == Beside::Cold {
        learn(a)?;
    }
    let parts = match work.beside {
        Beside::Moves(every) | Beside::KnownMoves(every) => parts(requests.len(), 1)
            .into_iter()
            .flat_map(|part| part.clone().step_by(every).map(move |at| at..part.end.min(at + every)))
            .collect(),
        Beside::Cold => {
            // The end of a directory that it knows ends all that the table knows.
            volume.rmdir(&Caller::OWNER, root, a).map_err(failed())?;
            parts(requests.len(), work.threads)
        }
        Beside::Nothing | Beside::Gathered(_) => parts(requests.len(), work.threads),
    };
    let answered = in_threads(&parts, work.threads, |share| {
        let mut answers = Columns::of(work.columns);
        let mut found = 0;
        for (i, part) in share.iter().enumerate() {
            stop.check()?;
            if let Beside::Moves(_) | Beside::KnownMoves(_) = work.beside {
                let (from, to) = if i % 2 == 0 { (a, b) } else { (b, a) };
                if let Beside::KnownMoves(_) = work.beside {
                    learn(from)?;
                }
                let moved = volume.rename_at(&Caller::OWNER, root, from, root, to, RenameMode::NoReplace);
                moved.map_err(failed())?;
            }
            let paths = requests.set.view().slice(part.clone());
            let resolved = volume.resolve_into(&options, paths, &mut answers.rows(paths.len()));
            found += resolved.map_err(Error::volume("resolve_into"))? as u64;
            black_box(&answers);
        }
        Ok(found)
    });
    if let Beside::Moves(_) | Beside::KnownMoves(_) = work.beside {
        let _ = volume.rmdir(&Caller::OWNER, root, a).or_else(|_| volume.rmdir(&Caller::OWNER, root, b));
    }
    let (elapsed, found) = answered?;
    Ok((elapsed, if work.expect() == Expect::Found { found } else { count - found }))
}

/// Asks for one path after the other through a service, which another thread serves. Returns the number of
/// paths that exist.
fn gathered(lane: &Lane, requests: &Requests, in_flight: usize, stop: &Stop) -> Result<(Duration, u64)> {
    let resolve = ResolveOptions { follow: false, attributes: true, ..ResolveOptions::default() };
    let enough = (in_flight / 4).max(1);
    let service = LookupService::new(ServiceOptions { resolve, enough, ..ServiceOptions::default() });
    std::thread::scope(|scope| {
        scope.spawn(|| service.serve(lane.volume()));
        let ask = || -> Result<(Duration, u64)> {
            let (mut pending, mut found) = (VecDeque::with_capacity(in_flight), 0);
            let mut take = |lookup: Lookup| -> Result<()> {
                let answer = black_box(lookup.wait().map_err(Error::volume("a lookup"))?);
                found += u64::from(answer.ino.is_some());
                Ok(())
            };
            let start = Instant::now();
            for (number, path) in requests.set.view().iter().enumerate() {
                if number % STRIDE == 0 {
                    stop.check()?;
                }
                if pending.len() == in_flight {
                    pending.pop_front().map(&mut take).transpose()?;
                }
                pending.push_back(service.lookup(path));
            }
            pending.into_iter().try_for_each(&mut take)?;
            Ok((start.elapsed(), found))
        };
        let asked = ask();
        service.close();
        asked
    })
}

/// As [`on_lane`] with moves, on a file system of the host.
fn moving_host(
    host: &Host,
    requests: &Requests,
    every: usize,
    expect: Expect,
    stop: &Stop,
) -> Result<Duration> {
    let strings: Vec<&CStr> = requests.strings.iter().collect();
    host.make_directory(MOVED[0])?;
    let mut elapsed = Duration::ZERO;
    for (i, part) in strings.chunks(every).enumerate() {
        let part: Strings = part.iter().map(|path| path.to_bytes()).collect();
        let (from, to) = (MOVED[i % 2], MOVED[(i + 1) % 2]);
        elapsed += host.rename(from, to)?;
        elapsed += host.resolve(None, &part, 1, expect, stop)?;
    }
    let left = strings.chunks(every).len() % 2;
    host.remove_directory(MOVED[left])?;
    Ok(elapsed)
}

fn in_map(map: &PathMap, requests: &Requests, parts: &[Range<usize>], expect: Expect) -> u64 {
    let (mut good, mut sum) = (0, 0u64);
    for path in parts.iter().flat_map(|part| requests.set.view().slice(part.clone()).iter()) {
        match map.0.get(path) {
            Some((ino, size)) => {
                sum = sum.wrapping_add(*ino).wrapping_add(*size);
                good += u64::from(expect == Expect::Found);
            }
            None => good += u64::from(expect == Expect::Absent),
        }
    }
    black_box(sum);
    good
}
