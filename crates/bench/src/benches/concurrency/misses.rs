//! `hits-during-misses`: the delay of a thread whose data is resident by one that waits for a device.

use super::bench::ConcurrencyBench;
use super::paired::Paired;
use super::sizes::Sizes;
use super::slow::{SlowDevice, expect_hits};
use super::stamp::{BLOCK, is_stamped, stamp};
use crate::error::{Error, Result, check};
use crate::measure::report::Row;
use crate::measure::stop::Stop;
use crate::measure::values::LANEFS;
use crate::systems::workload::{SEED, Strings, flat_names, sampled};
use lanefs::{Caller, CreateOptions, Device, Ino, OpenOptions, Volume};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Limit of a hit's cost while another thread misses, over its cost alone.
const GOAL_TIMES_ALONE: f64 = 1.05;

/// Pairs of phases for each run.
const PAIRS_PER_RUN: usize = 4;

/// Files whose attributes are read. A turn is two operations: a read and a stat.
const FILES: usize = 1_000;
const REQUESTS: usize = 1 << 16;

/// Turns between two readings of the clock.
const TURNS_AT_ONCE: usize = 64;

/// A volume on a slow device with a small cache.
struct MissFixture {
    device: SlowDevice,
    volume: Volume,
    dir: Ino,
    hot: Ino,
    cold: Ino,
    cold_blocks: u64,
    names: Strings,
    /// Offsets in the hot file and indices of names, in the order of the requests.
    offsets: Vec<u64>,
    order: Vec<usize>,
}

impl MissFixture {
    fn new(sizes: &Sizes, stop: &Stop) -> Result<Self> {
        let device = SlowDevice::new(sizes.cold_bytes + 2 * sizes.hot_bytes + (256 << 20));
        let options = CreateOptions { size: device.len(), ..CreateOptions::default() };
        Volume::create_device(Box::new(device.clone()), &options)
            .and_then(Volume::close)
            .map_err(Error::volume("making a volume"))?;
        let names = flat_names(FILES);
        let open = || {
            let options = OpenOptions { cache: Some(sizes.cache_bytes), ..OpenOptions::default() };
            Volume::open_device(Box::new(device.clone()), options).map_err(Error::volume("opening a volume"))
        };
        let volume = open()?;
        let (caller, root) = (Caller::OWNER, volume.root());
        let made = || -> lanefs::Result<[Ino; 3]> {
            let dir = volume.mkdir(&caller, root, b"files", 0o755)?.ino;
            for name in names.iter() {
                volume.create_file(&caller, dir, name.to_bytes(), 0o644)?;
            }
            let hot = volume.create_file(&caller, root, b"hot", 0o644)?.ino;
            Ok([dir, hot, volume.create_file(&caller, root, b"cold", 0o644)?.ino])
        };
        let [dir, hot, cold] = made().map_err(Error::volume("making files"))?;
        // The device stores no zeros, so the cold file costs no memory.
        write_file(&volume, hot, sizes.hot_bytes, |at, part| stamp(part, at), stop)?;
        write_file(&volume, cold, sizes.cold_bytes, |_, _| (), stop)?;
        volume.close().map_err(Error::volume("closing a volume"))?;
        let volume = open()?;
        device.slow_down();
        let blocks = (sizes.hot_bytes as usize / BLOCK).max(1);
        Ok(MissFixture {
            device,
            volume,
            dir,
            hot,
            cold,
            cold_blocks: (sizes.cold_bytes / BLOCK as u64).max(1),
            names,
            offsets: sampled(blocks, REQUESTS).into_iter().map(|i| (i * BLOCK) as u64).collect(),
            order: sampled(FILES, REQUESTS),
        })
    }

    /// Reads all data of the hits once.
    fn warm_up(&self, stop: &Stop) -> Result<()> {
        let mut part = vec![0; 1 << 20];
        let size = self.volume.getattr(self.hot).map_err(Error::volume("getattr"))?.size;
        for at in (0..size).step_by(part.len()) {
            stop.check()?;
            let read = self.volume.read(&Caller::OWNER, self.hot, at, &mut part);
            black_box(read.map_err(Error::volume("reading"))?);
        }
        (0..FILES).try_for_each(|i| self.stat(i))
    }

    fn stat(&self, index: usize) -> Result<()> {
        let found = self.volume.lookup(&Caller::OWNER, self.dir, self.names.get(index).to_bytes());
        let (ino, _) = found.map_err(Error::volume("lookup"))?;
        black_box(self.volume.getattr(ino).map_err(Error::volume("getattr"))?);
        Ok(())
    }

    /// Reads and stats for `time`; returns the nanoseconds for one operation.
    fn hits(&self, phase: Duration, stop: &Stop) -> Result<f64> {
        let mut buffer = [0; BLOCK];
        let mut requests = self.offsets.iter().zip(&self.order).cycle();
        let (mut turns, mut good) = (0u64, 0u64);
        expect_hits(true);
        let start = Instant::now();
        let elapsed = loop {
            stop.check()?;
            for (&offset, &index) in requests.by_ref().take(TURNS_AT_ONCE) {
                let read = self.volume.read(&Caller::OWNER, self.hot, offset, &mut buffer);
                let len = read.map_err(Error::volume("reading"))?;
                good += u64::from(len == BLOCK && is_stamped(&buffer, offset));
                self.stat(index)?;
                turns += 1;
            }
            let elapsed = start.elapsed();
            if elapsed >= phase {
                break elapsed;
            }
        };
        expect_hits(false);
        check(LANEFS, "reads of the hot file", good, turns as usize)?;
        Ok(elapsed.as_secs_f64() * 1e9 / (2 * turns) as f64)
    }

    /// Reads random blocks of the cold file until `end` is set; returns the number of reads.
    fn misses(&self, seed: u64, end: &AtomicBool) -> Result<u64> {
        let mut rng = StdRng::seed_from_u64(SEED ^ seed);
        let mut buffer = [0; BLOCK];
        let mut count = 0;
        while !end.load(Ordering::Relaxed) {
            let offset = rng.random_range(0..self.cold_blocks) * BLOCK as u64;
            let read = self.volume.read(&Caller::OWNER, self.cold, offset, &mut buffer);
            let len = read.map_err(Error::volume("reading"))?;
            check(LANEFS, "a read of the cold file", len as u64, BLOCK)?;
            count += 1;
        }
        Ok(count)
    }

    /// As [`MissFixture::hits`], beside another thread that misses all the time; also returns the number of
    /// its reads.
    fn hits_during_misses(&self, phase: Duration, seed: u64, stop: &Stop) -> Result<(f64, u64)> {
        let end = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let missing = scope.spawn(|| self.misses(seed, &end));
            let cost = self.hits(phase, stop);
            end.store(true, Ordering::Relaxed);
            let count = missing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok((cost?, count?))
        })
    }
}

/// Writes a file of `bytes` in pieces that `fill` makes.
fn write_file(
    volume: &Volume,
    file: Ino,
    bytes: u64,
    fill: impl Fn(u64, &mut [u8]),
    stop: &Stop,
) -> Result<()> {
    let mut part = vec![0; 1 << 20];
    for at in (0..bytes).step_by(part.len()) {
        stop.check()?;
        let len = part.len().min((bytes - at) as usize);
        fill(at, &mut part[..len]);
        volume.write(&Caller::OWNER, file, at, &part[..len]).map_err(Error::volume("writing"))?;
    }
    Ok(())
}

pub(super) fn measure(bench: &mut ConcurrencyBench) -> Result<()> {
    bench.progress.step("hits-during-misses: making files");
    let fixture = MissFixture::new(&bench.settings.sizes, &bench.stop)?;
    fixture.warm_up(&bench.stop)?;
    let phase = bench.settings.sizes.phase;
    let pairs = bench.runs * PAIRS_PER_RUN;
    let (mut phases, mut misses) = (0u64, 0u64);
    fixture.hits(phase, &bench.stop)?;
    let (reads, missed_hits) = (fixture.device.reads(), fixture.device.missed_hits());
    let paired = Paired::measure(pairs, |during_misses| {
        bench.progress.step(&format!("hits-during-misses: phase {} of {}", phases + 1, 2 * pairs));
        phases += 1;
        if !during_misses {
            return fixture.hits(phase, &bench.stop);
        }
        let (cost, count) = fixture.hits_during_misses(phase, phases, &bench.stop)?;
        misses += count;
        Ok(cost)
    })?;
    let from_device = fixture.device.reads() - reads;
    if from_device == 0 {
        return Err(Error::Wrong {
            system: LANEFS.into(),
            what: "reads that miss",
            found: 0,
            expected: misses,
        });
    }
    let alone = BTreeMap::from([("alone".to_string(), paired.second.clone())]);
    let sizes = bench.settings.sizes;
    let row = Row::new("hits-during-misses", "ns/hit", &paired.first, &alone).map(|row| {
        let times = paired.ratio();
        row.param("hot_bytes", sizes.hot_bytes)
            .param("cold_bytes", sizes.cold_bytes)
            .param("cache_bytes", sizes.cache_bytes)
            .param("files", FILES)
            .param("phase_ms", phase.as_millis() as u64)
            .extra("times_alone", times.median)
            .extra("times_alone_low", times.low)
            .extra("times_alone_high", times.high)
            .extra("misses_per_s", misses as f64 / (phase.as_secs_f64() * pairs as f64))
            .extra("device_reads", from_device as f64)
            .extra("device_reads_by_hits", (fixture.device.missed_hits() - missed_hits) as f64)
            .goal(
                format!("{:.3}x alone <= {GOAL_TIMES_ALONE}", times.median),
                times.median <= GOAL_TIMES_ALONE,
            )
    });
    bench.row(row);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_and_misses_are_read_and_a_wrong_byte_is_no_time() {
        let sizes = Sizes { hot_bytes: 1 << 20, cold_bytes: 4 << 20, cache_bytes: 2 << 20, ..Sizes::QUICK };
        let stop = Stop::default();
        let fixture = MissFixture::new(&sizes, &stop).unwrap();
        fixture.warm_up(&stop).unwrap();
        let phase = Duration::from_millis(1);
        assert!(fixture.hits(phase, &stop).unwrap() > 0.0);
        let (cost, _) = fixture.hits_during_misses(phase, 1, &stop).unwrap();
        assert!(cost > 0.0);
        let at = fixture.offsets[0];
        fixture.volume.write(&Caller::OWNER, fixture.hot, at, b"wrong").unwrap();
        assert!(matches!(fixture.hits(phase, &stop), Err(Error::Wrong { .. })));
    }
}
