//! `block-alloc-*`, `large-file-extents`: blocks of file data, allocated by several threads at once and on an
//! aged volume.

use crate::error::{Error, Result, check};
use crate::measure::report::Row;
use crate::measure::stop::{STRIDE, Stop};
use crate::measure::threads::together;
use crate::measure::values::{LANEFS, Values};
use crate::session::Session;
use crate::systems::lane::Lane;
use crate::systems::workload::SEED;
use lanefs::{Allocate, Ino, SetAttr};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

const BLOCK: u64 = 4096;

/// Goal of two threads against one.
const GOAL_TWO_THREADS: f64 = 1.9;

/// Maximum number of extents of the large file.
const GOAL_EXTENTS: f64 = 8.0;

/// Fractions of an aged volume that were in use at its fullest. The second one has no goal: if even the last
/// free space at the peak is needed to place files well, no allocator can keep free space contiguous.
const PEAK: f64 = 0.8;
const HIGH_PEAK: f64 = 0.9;

/// Blocks that are appended to a file one by one: a volume in memory keeps the memory of this many.
const FILE_BLOCKS: u64 = 8;

/// Sizes of the workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Files of each thread.
    pub files: usize,
    /// Bytes of the volume that ages. Only the large file takes memory.
    pub aged_bytes: u64,
    /// Times that the volume is filled, and emptied until half of it is free.
    pub rounds: usize,
    /// Bytes of the large file.
    pub large_bytes: u64,
}

impl BlockSizes {
    /// Sizes that the goals apply to.
    pub const FULL: BlockSizes =
        BlockSizes { files: 20_000, aged_bytes: 16 << 30, rounds: 6, large_bytes: 1 << 30 };
    /// Sizes of `--quick`, some seconds.
    pub const QUICK: BlockSizes =
        BlockSizes { files: 5_000, aged_bytes: 4 << 30, rounds: 3, large_bytes: 256 << 20 };
}

/// Lists the rows on `cores` cores, in the order measured.
pub fn row_names(cores: usize) -> Vec<String> {
    threads(cores).into_iter().map(alloc_name).chain(["large-file-extents".into()]).collect()
}

/// Lists the numbers of threads: one and two everywhere, sixteen if each has a core.
fn threads(cores: usize) -> Vec<usize> {
    [1, 2, 16].into_iter().filter(|&threads| threads <= cores.max(2)).collect()
}

fn alloc_name(threads: usize) -> String {
    format!("block-alloc-{threads}t")
}

/// Measures all selected rows.
///
/// # Errors
/// As of every part: a wrong answer of a volume, and a stop.
pub(crate) fn measure<S>(bench: &mut Session<S>, sizes: &BlockSizes) -> Result<()> {
    let cores = bench.report.machine.cores;
    if threads(cores).into_iter().any(|threads| bench.selection.has(&alloc_name(threads))) {
        measure_threads(bench, sizes, &threads(cores))?;
    }
    if bench.selection.has("large-file-extents") {
        measure_extents(bench, sizes)?;
    }
    Ok(())
}

fn measure_threads<S>(bench: &mut Session<S>, sizes: &BlockSizes, threads: &[usize]) -> Result<()> {
    let most = threads.iter().copied().max().unwrap_or(1);
    let files = AppendedFiles::new(most, sizes.files)?;
    let (mut times, mut busy) =
        (vec![Values::default(); threads.len()], vec![Values::default(); threads.len()]);
    bench.in_turn("block-alloc", &[&files.lane], |_, run| {
        for (i, &threads) in threads.iter().enumerate() {
            let taken = files.append(threads, &bench.stop)?;
            if run > 0 {
                times[i].add_each(LANEFS, taken.elapsed, threads * files.blocks_of_each());
                busy[i].add_each(LANEFS, taken.processor, threads * files.blocks_of_each());
            }
        }
        Ok(())
    })?;
    let one = times[0].median(LANEFS).unwrap_or_default();
    for ((&threads, times), busy) in threads.iter().zip(&times).zip(&busy) {
        let Some(row) = times.row(&alloc_name(threads), "ns/block") else { continue };
        // Processor time shows the work that threads lose to one another even on a machine with other load.
        let processor = busy.median(LANEFS).unwrap_or_default();
        let mut row = row.param("threads", threads).param("blocks", threads * files.blocks_of_each());
        row = row.extra("processor_ns", processor);
        if threads > 1 {
            let scaling = one / row.lanefs.median;
            row = row.extra("times_one_thread", scaling);
            if threads == 2 {
                let text = format!("{scaling:.2}x 1t >= {GOAL_TWO_THREADS}");
                row = row.goal(text, scaling >= GOAL_TWO_THREADS);
            }
        }
        bench.row(Some(row));
    }
    Ok(())
}

/// Times of one run.
struct AppendTime {
    elapsed: Duration,
    /// Of all threads.
    processor: Duration,
}

/// Files of some threads, each with a directory of its own.
struct AppendedFiles {
    lane: Lane,
    /// Files by thread.
    files: Vec<Vec<Ino>>,
}

impl AppendedFiles {
    fn new(threads: usize, count: usize) -> Result<Self> {
        let bytes = (threads * count) as u64 * (FILE_BLOCKS * BLOCK + 8192);
        let lane = Lane::new((64 << 20) + bytes * 2)?;
        let mut files = Vec::new();
        for thread in 0..threads {
            let name = format!("thread-{thread}");
            let dir = lane.volume().mkdir(lane.caller(), lane.volume().root(), name.as_bytes(), 0o755);
            let dir = dir.map_err(Error::volume("mkdir"))?.ino;
            files.push((0..count).map(|i| create(&lane, dir, i)).collect::<Result<_>>()?);
        }
        Ok(AppendedFiles { lane, files })
    }

    fn blocks_of_each(&self) -> usize {
        self.files[0].len() * FILE_BLOCKS as usize
    }

    /// Appends block by block to file after file in each thread. Then, off the clock, empties all files, so
    /// that the next run finds its memory resident.
    fn append(&self, threads: usize, stop: &Stop) -> Result<AppendTime> {
        let block = [0x5a; BLOCK as usize];
        let before = clock_gettime(ClockId::ProcessCPUTime);
        let done = together(threads, |thread| {
            let mut written = 0;
            for some in self.files[thread].chunks(STRIDE) {
                stop.check()?;
                for file in some {
                    for at in 0..FILE_BLOCKS {
                        let len = self.lane.volume().write(self.lane.caller(), *file, at * BLOCK, &block);
                        written += u64::from(len.map_err(Error::volume("writing"))? == block.len());
                    }
                }
            }
            Ok(written)
        })?;
        let processor = clock_gettime(ClockId::ProcessCPUTime) - before;
        check(LANEFS, "writes", done.sum, threads * self.blocks_of_each())?;
        let empty = SetAttr { size: Some(0), ..SetAttr::default() };
        for file in self.files[..threads].iter().flatten() {
            let emptied = self.lane.volume().setattr(self.lane.caller(), *file, &empty);
            emptied.map_err(Error::volume("truncating"))?;
        }
        Ok(AppendTime { elapsed: done.elapsed, processor: processor.try_into().unwrap_or_default() })
    }
}

fn create(lane: &Lane, dir: Ino, number: usize) -> Result<Ino> {
    let name = format!("file-{number}");
    let made = lane.volume().create_file(lane.caller(), dir, name.as_bytes(), 0o644);
    Ok(made.map_err(Error::volume("creating a file"))?.ino)
}

fn measure_extents<S>(bench: &mut Session<S>, sizes: &BlockSizes) -> Result<()> {
    let (mut extents, mut fewest) =
        ([Values::default(), Values::default()], [Values::default(), Values::default()]);
    for run in 0..bench.runs {
        bench.progress.step(&format!("large-file-extents: run {} of {}", run + 1, bench.runs));
        for (i, peak) in [PEAK, HIGH_PEAK].into_iter().enumerate() {
            let mut aged = Aged::new(sizes.aged_bytes, SEED + run as u64)?;
            for _ in 0..sizes.rounds {
                aged.fill(peak, &bench.stop)?;
                aged.halve()?;
            }
            fewest[i].add(LANEFS, aged.fewest_extents(sizes.large_bytes)? as f64);
            extents[i].add(LANEFS, aged.large_file(sizes.large_bytes, &bench.stop)? as f64);
        }
    }
    let median = |values: &Values| values.median(LANEFS).unwrap_or_default();
    let row = extents[0].row("large-file-extents", "extents").map(|row: Row| {
        let reached = row.lanefs.median <= GOAL_EXTENTS;
        row.param("bytes", sizes.large_bytes)
            .param("volume_bytes", sizes.aged_bytes)
            .param("rounds", sizes.rounds)
            .param("filled_to", PEAK)
            .extra("fewest_possible", median(&fewest[0]))
            .extra("filled_to_nine_tenths", median(&extents[1]))
            .extra("filled_to_nine_tenths_fewest_possible", median(&fewest[1]))
            .goal(format!("<= {GOAL_EXTENTS}"), reached)
    });
    bench.row(row);
    Ok(())
}

/// A volume that was filled and emptied.
struct Aged {
    lane: Lane,
    files: Vec<(Ino, String)>,
    made: usize,
    random: StdRng,
}

impl Aged {
    fn new(bytes: u64, seed: u64) -> Result<Self> {
        let random = StdRng::seed_from_u64(seed);
        Ok(Aged { lane: Lane::new(bytes)?, files: Vec::new(), made: 0, random })
    }

    fn free_part(&self) -> Result<f64> {
        let space = self.lane.volume().statfs().map_err(Error::volume("statfs"))?;
        Ok(space.free_blocks as f64 / space.blocks as f64)
    }

    /// Allocates files of 4 KiB to 8 MiB, as many of each size as of twice the size, until `peak` of the
    /// volume is used. They grow in steps of 4 KiB to 1 MiB, as programs write them. They have no contents:
    /// only their positions matter.
    fn fill(&mut self, peak: f64, stop: &Stop) -> Result<()> {
        let (volume, caller) = (self.lane.volume(), self.lane.caller());
        while self.free_part()? > 1.0 - peak {
            stop.check()?;
            let name = format!("file-{}", self.made);
            let ino = volume.create_file(caller, volume.root(), name.as_bytes(), 0o644);
            let ino = ino.map_err(Error::volume("creating a file"))?.ino;
            self.made += 1;
            self.files.push((ino, name));
            let bytes = BLOCK << self.random.random_range(0..12u32);
            let bytes = bytes - self.random.random_range(0..bytes / 2);
            let step = BLOCK << self.random.random_range(0..9u32);
            let mut at = 0;
            while at < bytes {
                let len = step.min(bytes - at);
                volume
                    .fallocate(caller, ino, Allocate::Extend, at, len)
                    .map_err(Error::volume("allocating"))?;
                at += len;
            }
        }
        Ok(())
    }

    /// Deletes files at random until half of the volume is free.
    fn halve(&mut self) -> Result<()> {
        while self.free_part()? < 0.5 && !self.files.is_empty() {
            let (_, name) = self.files.swap_remove(self.random.random_range(0..self.files.len()));
            let (volume, caller) = (self.lane.volume(), self.lane.caller());
            volume.unlink(caller, volume.root(), name.as_bytes()).map_err(Error::volume("unlink"))?;
        }
        Ok(())
    }

    fn extents(&self, file: Ino) -> Result<Vec<(u64, u64)>> {
        let all = self.lane.volume().extents(file).map_err(Error::volume("listing extents"))?;
        Ok(all.iter().map(|extent| (extent.position, extent.bytes)).collect())
    }

    /// Returns the minimum number of extents of a file of `bytes`, which takes the longest free ranges. (It
    /// ignores metadata, which is little.)
    fn fewest_extents(&self, bytes: u64) -> Result<usize> {
        let mut used = vec![(self.lane.volume().superblock().volume_bytes, 0)];
        for (file, _) in &self.files {
            used.extend(self.extents(*file)?);
        }
        used.sort_unstable();
        let (mut runs, mut end) = (Vec::new(), 0);
        for (at, bytes) in used {
            runs.push(at.saturating_sub(end));
            end = at + bytes;
        }
        runs.sort_unstable();
        let mut left = bytes;
        Ok(runs
            .iter()
            .rev()
            .take_while(|run| {
                let wanted = left > 0;
                left = left.saturating_sub(**run);
                wanted
            })
            .count())
    }

    /// Writes a file of `bytes`, a mebibyte at a time. Returns the number of its extents.
    fn large_file(&self, bytes: u64, stop: &Stop) -> Result<usize> {
        let (volume, caller) = (self.lane.volume(), self.lane.caller());
        let file = volume.create_file(caller, volume.root(), b"large", 0o644);
        let file = file.map_err(Error::volume("creating a file"))?.ino;
        let part = vec![0xa5; 1 << 20];
        let mut at = 0;
        while at < bytes {
            stop.check()?;
            let len = part.len().min((bytes - at) as usize);
            let written = volume.write(caller, file, at, &part[..len]).map_err(Error::volume("writing"))?;
            at += written as u64;
        }
        Ok(self.extents(file)?.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_the_cores() {
        assert_eq!(row_names(2), ["block-alloc-1t", "block-alloc-2t", "large-file-extents"]);
        assert_eq!(row_names(16).len(), 4);
    }

    #[test]
    fn threads_append_and_empty_their_files() {
        let files = AppendedFiles::new(2, 50).unwrap();
        let before = files.lane.volume().statfs().unwrap();
        for threads in [1, 2] {
            assert!(files.append(threads, &Stop::default()).unwrap().elapsed > Duration::ZERO);
        }
        let after = files.lane.volume().statfs().unwrap();
        assert!(after.free_blocks <= before.free_blocks);
        assert!(files.lane.volume().check(false, &|_, _| {}).unwrap().findings.is_empty());
    }

    #[test]
    fn an_aged_volume_is_half_full_and_sound() {
        let mut aged = Aged::new(256 << 20, SEED).unwrap();
        for _ in 0..2 {
            aged.fill(PEAK, &Stop::default()).unwrap();
            aged.halve().unwrap();
        }
        assert!((0.45..0.6).contains(&aged.free_part().unwrap()));
        let at_best = aged.fewest_extents(16 << 20).unwrap();
        assert!(at_best >= 1 && aged.large_file(16 << 20, &Stop::default()).unwrap() >= at_best);
        assert!(aged.lane.volume().check(false, &|_, _| {}).unwrap().findings.is_empty());
    }
}
