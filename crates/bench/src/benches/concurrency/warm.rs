//! `warm-*`: parallel reads of resident data.

use super::bench::ConcurrencyBench;
use super::files::Files;
use super::rows::{WarmWorkload, warm_name, warm_names};
use super::sizes::{Sizes, warm_threads};
use super::stamp::{BLOCK, is_stamped, stamp};
use crate::error::{Result, check};
use crate::measure::stop::{STRIDE, Stop};
use crate::measure::threads::in_threads;
use crate::measure::values::{LANEFS, Values};
use crate::systems::peers::SpaceRequest;
use crate::systems::system::{Expect, System};
use crate::systems::workload::{Strings, Tree, flat_names, sampled};
use std::ffi::CStr;
use std::time::Duration;

/// Directory of `stat` and `readdir`, and file of `read4k`.
const LISTED: &CStr = c"listed";
const LARGE: &CStr = c"large";

/// Goal of two threads against one.
const GOAL_TWO_THREADS: f64 = 1.94;

/// Contents of all systems, and the requests.
struct WarmFixture {
    tree: Tree,
    /// Directories of the tree in the root.
    tops: Strings,
    listed: Strings,
    large_bytes: u64,
    /// Names of the directory, in the order of the requests.
    names: Strings,
    /// Paths, in the order of the requests.
    paths: Strings,
    /// Offsets in the file, in the order of the requests.
    offsets: Vec<u64>,
    listings: usize,
}

impl WarmFixture {
    fn new(sizes: &Sizes) -> Self {
        let tree = Tree::new(sizes.tree_files);
        let listed = flat_names(sizes.listed_files);
        let names = listed.pick(&sampled(sizes.listed_files, sizes.warm_operations));
        let paths = tree.files.pick(&sampled(tree.files.len(), sizes.warm_operations));
        let blocks = (sizes.large_bytes as usize / BLOCK).max(1);
        let offsets =
            sampled(blocks, sizes.warm_operations).into_iter().map(|i| (i * BLOCK) as u64).collect();
        let tops = tree.directories.iter().map(CStr::to_bytes).filter(|path| !path.contains(&b'/')).collect();
        WarmFixture {
            tree,
            tops,
            listed,
            large_bytes: sizes.large_bytes,
            names,
            paths,
            offsets,
            listings: sizes.listings,
        }
    }

    /// Returns the number of entries that a walk visits: all of the tree but the directories from which it
    /// starts. (An ext4 has a directory of its own beside them.)
    fn visited(&self) -> usize {
        self.tree.files.len() + self.tree.directories.len() - self.tops.len()
    }

    /// Returns the number of operations of one run by `threads` threads.
    fn operations(&self, work: WarmWorkload, threads: usize) -> usize {
        match work {
            WarmWorkload::Stat => self.names.len(),
            WarmWorkload::Resolve => self.paths.len(),
            WarmWorkload::Read4k => self.offsets.len(),
            WarmWorkload::Readdir => self.listings,
            // Each thread visits the whole tree.
            WarmWorkload::Traverse => self.visited() * threads,
        }
    }
}

/// Work of a system in these rows. One call covers a whole run, so that the operations themselves are called
/// directly.
trait Warm: System {
    fn fill(&self, fixture: &WarmFixture, stop: &Stop) -> Result<()>;

    /// Time from the start of the first thread to the end of the last one.
    fn run(&self, work: WarmWorkload, fixture: &WarmFixture, threads: usize, stop: &Stop)
    -> Result<Duration>;
}

impl<F: Files + System> Warm for F {
    fn fill(&self, fixture: &WarmFixture, stop: &Stop) -> Result<()> {
        self.make_tree(&fixture.tree, stop)?;
        let top = self.top()?;
        self.make_dir(&top, LISTED)?;
        let dir = self.open_dir(&top, LISTED)?;
        for name in fixture.listed.iter() {
            self.create(&dir, name)?;
        }
        let large = self.create(&top, LARGE)?;
        let mut part = vec![0u8; 1 << 20];
        let mut at = 0;
        while at < fixture.large_bytes {
            stop.check()?;
            let len = part.len().min((fixture.large_bytes - at) as usize);
            stamp(&mut part[..len], at);
            self.write(&large, at, &part[..len])?;
            at += len as u64;
        }
        self.settle()
    }

    fn run(
        &self,
        work: WarmWorkload,
        fixture: &WarmFixture,
        threads: usize,
        stop: &Stop,
    ) -> Result<Duration> {
        let top = self.top()?;
        let (elapsed, good) = match work {
            WarmWorkload::Stat => {
                let dir = self.open_dir(&top, LISTED)?;
                let names: Vec<&CStr> = fixture.names.iter().collect();
                in_threads(&names, threads, |share| each(share, stop, |name| self.stat_name(&dir, name)))?
            }
            WarmWorkload::Resolve => {
                let paths: Vec<&CStr> = fixture.paths.iter().collect();
                in_threads(&paths, threads, |share| each(share, stop, |path| self.stat_path(path)))?
            }
            WarmWorkload::Read4k => {
                let file = self.open(&top, LARGE)?;
                in_threads(&fixture.offsets, threads, |share| {
                    let mut buffer = [0u8; BLOCK];
                    each(share, stop, |&offset| {
                        let len = self.read(&file, offset, &mut buffer)?;
                        Ok(u64::from(len == BLOCK && is_stamped(&buffer, offset)))
                    })
                })?
            }
            WarmWorkload::Readdir => {
                let listings = vec![(); fixture.listings];
                let expected = fixture.listed.len() as u64;
                in_threads(&listings, threads, |share| {
                    each(share, stop, |()| Ok(u64::from(self.list(LISTED)? == expected)))
                })?
            }
            WarmWorkload::Traverse => in_threads(&vec![(); threads], threads, |_| {
                fixture.tops.iter().try_fold(0, |visited, top| {
                    stop.check()?;
                    Ok(visited + self.walk(top)?)
                })
            })?,
        };
        check(self.name(), work.name(), good, fixture.operations(work, threads))?;
        Ok(elapsed)
    }
}

/// Makes every request; returns the number of answers other than 0.
fn each<T>(requests: &[T], stop: &Stop, mut operation: impl FnMut(&T) -> Result<u64>) -> Result<u64> {
    let mut good = 0;
    for part in requests.chunks(STRIDE) {
        stop.check()?;
        for request in part {
            good += u64::from(operation(request)? != 0);
        }
    }
    Ok(good)
}

pub(super) fn measure(bench: &mut ConcurrencyBench) -> Result<()> {
    let cores = bench.report.machine.cores;
    let fixture = WarmFixture::new(&bench.settings.sizes);
    let inodes = (fixture.visited() + fixture.tops.len() + fixture.listed.len()) as u64 + 10;
    // A directory of ext4 takes a block at least.
    let bytes = fixture.large_bytes + fixture.tree.directories.len() as u64 * 4096 + inodes * 64;
    let systems = bench.systems(SpaceRequest { inodes, bytes })?;
    let hosts = systems.hosts.iter().map(|host| host as &dyn Warm);
    let all: Vec<&dyn Warm> = [&systems.lane as &dyn Warm].into_iter().chain(hosts).collect();
    for system in &all {
        bench.progress.step(&format!("making files, {}", system.name()));
        system.fill(&fixture, &bench.stop)?;
    }
    for work in WarmWorkload::ALL {
        let asked_for = warm_names(cores)
            .iter()
            .any(|row| row.starts_with(&format!("warm-{}-", work.name())) && bench.selection.has(row));
        if !asked_for {
            continue;
        }
        // The others are compared with one thread, so all are measured whichever row is selected.
        let threads = warm_threads(cores);
        let mut times = vec![Values::default(); threads.len()];
        let mut batched = vec![Values::default(); threads.len()];
        bench.in_turn(&format!("warm-{}", work.name()), &all, |system, run| {
            for (&threads, times) in threads.iter().zip(&mut times) {
                let elapsed = system.run(work, &fixture, threads, &bench.stop)?;
                if run > 0 {
                    times.add_each(system.name(), elapsed, fixture.operations(work, threads));
                }
            }
            Ok(())
        })?;
        if work == WarmWorkload::Resolve {
            for run in 0..=bench.runs {
                for (&threads, batched) in threads.iter().zip(&mut batched) {
                    let resolve =
                        systems.lane.resolve(None, &fixture.paths, threads, Expect::Found, &bench.stop)?;
                    if run > 0 {
                        batched.add_each(LANEFS, resolve, fixture.paths.len());
                    }
                }
            }
        }
        for (i, &threads) in threads.iter().enumerate() {
            add_row(bench, &fixture, work, threads, &times[0], &times[i], batched[i].median(LANEFS));
        }
    }
    Ok(())
}

fn add_row(
    bench: &mut ConcurrencyBench,
    fixture: &WarmFixture,
    work: WarmWorkload,
    threads: usize,
    one: &Values,
    times: &Values,
    batched: Option<f64>,
) {
    let Some(mut row) = times.row(&warm_name(work, threads), "ns/op") else { return };
    row = row.param("threads", threads).param("operations", fixture.operations(work, threads));
    row = match work {
        WarmWorkload::Stat | WarmWorkload::Readdir => row.param("files", fixture.listed.len()),
        WarmWorkload::Resolve | WarmWorkload::Traverse => row
            .param("files", fixture.tree.files.len())
            .param("directories", fixture.tree.directories.len())
            .param("depth", "5-7"),
        WarmWorkload::Read4k => row.param("bytes", fixture.large_bytes),
    };
    if let Some(batched) = batched {
        row = row.extra("lanefs_batch_ns", batched);
    }
    if threads > 1 {
        for (system, median) in times.medians() {
            let scaling = one.median(system).unwrap_or(0.0) / median;
            row = row.extra(&format!("{system}_times_one_thread"), scaling);
        }
        let scaling = one.median(LANEFS).unwrap_or(0.0) / row.lanefs.median;
        row = row.extra("times_one_thread", scaling);
        if threads == 2 {
            let text = format!("{scaling:.2}x 1t >= {GOAL_TWO_THREADS}");
            row = row.goal(text, scaling >= GOAL_TWO_THREADS);
        }
    }
    bench.row(Some(row));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::systems::lane::Lane;
    use lanefs::RenameMode;

    /// Breaks one thing, after which exactly one workload fails.
    fn broken(work: WarmWorkload, break_it: impl Fn(&Lane, &WarmFixture) -> lanefs::Result<()>) {
        let sizes = Sizes {
            listed_files: 20,
            tree_files: 100,
            large_bytes: 64 << 10,
            warm_operations: 1_000,
            listings: 3,
            ..Sizes::QUICK
        };
        let (lane, fixture, stop) = (Lane::new(64 << 20).unwrap(), WarmFixture::new(&sizes), Stop::default());
        lane.fill(&fixture, &stop).unwrap();
        for threads in [1, 2] {
            for work in WarmWorkload::ALL {
                lane.run(work, &fixture, threads, &stop).unwrap();
            }
        }
        break_it(&lane, &fixture).unwrap();
        for other in WarmWorkload::ALL {
            assert_eq!(lane.run(other, &fixture, 2, &stop).is_err(), other == work, "{other:?}");
        }
    }

    #[test]
    fn a_wrong_answer_of_any_workload_is_no_time() {
        let listed = |lane: &Lane| lane.volume().resolve(LISTED.to_bytes()).map(|attr| attr.ino);
        broken(WarmWorkload::Stat, |lane, fixture| {
            let (dir, name) = (listed(lane)?, fixture.listed.get(3).to_bytes());
            lane.volume().rename_at(lane.caller(), dir, name, dir, b"other", RenameMode::NoReplace)
        });
        broken(WarmWorkload::Readdir, |lane, _| {
            lane.volume().create_file(lane.caller(), listed(lane)?, b"more", 0o644).map(drop)
        });
        broken(WarmWorkload::Traverse, |lane, fixture| {
            let top = lane.volume().resolve(fixture.tops.get(0).to_bytes())?.ino;
            lane.volume().create_file(lane.caller(), top, b"more", 0o644).map(drop)
        });
        broken(WarmWorkload::Resolve, |lane, fixture| {
            let path = fixture.tree.files.get(0).to_bytes();
            let (parent, name) = path.split_at(path.iter().rposition(|&b| b == b'/').unwrap() + 1);
            let parent = lane.volume().resolve(parent)?.ino;
            lane.volume().rename_at(lane.caller(), parent, name, parent, b"other", RenameMode::NoReplace)
        });
        broken(WarmWorkload::Read4k, |lane, _| {
            let large = lane.volume().resolve(LARGE.to_bytes())?.ino;
            lane.volume().write(lane.caller(), large, 5 * BLOCK as u64, b"wrong").map(drop)
        });
    }

    #[test]
    fn only_answers_count() {
        let stop = Stop::default();
        assert_eq!(each(&[1u64, 0, 7], &stop, |n| Ok(*n)).unwrap(), 2);
        stop.set();
        assert!(each(&[1u64], &stop, |n| Ok(*n)).is_err());
    }
}
