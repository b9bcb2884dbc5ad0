//! `overhead-*`: cost of concurrency control for a single thread, against LaneFS's own code without it.

use super::bench::ConcurrencyBench;
use super::paired::Paired;
use super::rows::{ReadCall, overhead_name};
use crate::error::{Error, Result};
use crate::measure::report::Row;
use crate::measure::stop::Stop;
use crate::systems::lane::Lane;
use crate::systems::system::System;
use crate::systems::workload::{Strings, Tree, flat_names, sampled};
use lanefs::{Attr, Caller, DirEntry, FileKind, Ino, StatFs, Unchecked, Volume, XattrMode};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

/// Limit of the cost of concurrency control.
const GOAL_OVERHEAD: f64 = 1.03;

/// Files of the volume, which fits a processor's cache, where the share of a check is largest.
const FILES: usize = 1_000;
const LISTED: usize = 100;
const LARGE_BYTES: usize = 1 << 20;
const BLOCK: usize = 4096;
const ATTRIBUTE: &[u8] = b"user.bench";
/// Random requests; a round repeats them as often as it needs.
const REQUESTS: usize = 4096;

/// Declares the calls of a volume, with or without concurrency control, each by the type's own of that name.
macro_rules! reads {
    ($($call:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        trait Reads {
            $(fn $call(&self, $($argument: $type),*) -> lanefs::Result<$answer>;)*
        }
        impl Reads for Volume {
            $(#[inline(always)]
            fn $call(&self, $($argument: $type),*) -> lanefs::Result<$answer> {
                Volume::$call(self, $($argument),*)
            })*
        }
        impl Reads for Unchecked<'_> {
            $(#[inline(always)]
            fn $call(&self, $($argument: $type),*) -> lanefs::Result<$answer> {
                Unchecked::$call(self, $($argument),*)
            })*
        }
    };
}

reads! {
    lookup(caller: &Caller, dir: Ino, name: &[u8]) -> (Ino, FileKind);
    getattr(ino: Ino) -> Attr;
    readdir(caller: &Caller, dir: Ino, cookie: u64, max: usize) -> Vec<DirEntry>;
    readlink(ino: Ino) -> Vec<u8>;
    read(caller: &Caller, ino: Ino, offset: u64, buffer: &mut [u8]) -> usize;
    statfs() -> StatFs;
    getxattr(caller: &Caller, ino: Ino, name: &[u8]) -> Vec<u8>;
    resolve(path: &[u8]) -> Attr;
}

/// Inodes of the volume.
struct VolumeContents {
    dir: Ino,
    files: Vec<Ino>,
    links: Vec<Ino>,
    listed: Ino,
    large: Ino,
}

impl VolumeContents {
    fn new(volume: &Volume, caller: &Caller, names: &Strings) -> lanefs::Result<Self> {
        let root = volume.root();
        let dir = volume.mkdir(caller, root, b"files", 0o755)?.ino;
        let links_dir = volume.mkdir(caller, root, b"links", 0o755)?.ino;
        let listed = volume.mkdir(caller, root, b"listed", 0o755)?.ino;
        let large = volume.create_file(caller, root, b"large", 0o644)?.ino;
        volume.write(caller, large, 0, &vec![7; LARGE_BYTES])?;
        let mut made = VolumeContents { dir, files: Vec::new(), links: Vec::new(), listed, large };
        for (i, name) in names.iter().enumerate() {
            let name = name.to_bytes();
            let file = volume.create_file(caller, dir, name, 0o644)?.ino;
            volume.setxattr(caller, file, ATTRIBUTE, b"value", XattrMode::Set)?;
            made.files.push(file);
            made.links.push(volume.symlink_at(caller, links_dir, name, b"../files/target")?.ino);
            if i < LISTED {
                volume.create_file(caller, listed, name, 0o644)?;
            }
        }
        Ok(made)
    }
}

/// The volume, and the requests in their order.
struct OverheadFixture {
    lane: Lane,
    made: VolumeContents,
    names: Strings,
    paths: Strings,
    order: Vec<usize>,
}

impl OverheadFixture {
    fn new(stop: &Stop) -> Result<Self> {
        let lane = Lane::new(256 << 20)?;
        let tree = Tree::new(FILES);
        lane.make_tree(&tree, stop)?;
        let names = flat_names(FILES);
        let made = VolumeContents::new(lane.volume(), lane.caller(), &names)
            .map_err(Error::volume("making files"))?;
        Ok(OverheadFixture { lane, made, names, paths: tree.requests(), order: sampled(FILES, REQUESTS) })
    }

    /// Returns the nanoseconds for one of `count` operations.
    fn round<R: Reads>(&self, reads: &R, operation: ReadCall, count: usize) -> Result<f64> {
        let (caller, made) = (self.lane.caller(), &self.made);
        let mut buffer = [0; BLOCK];
        let order = self.order.iter().cycle().take(count);
        let start = Instant::now();
        let done = match operation {
            ReadCall::Lookup => all(order, |i| reads.lookup(caller, made.dir, self.names.get(i).to_bytes())),
            ReadCall::Getattr => all(order, |i| reads.getattr(made.files[i])),
            ReadCall::Readdir => all(order, |_| reads.readdir(caller, made.listed, 0, LISTED)),
            ReadCall::Readlink => all(order, |i| reads.readlink(made.links[i])),
            ReadCall::Read4k => {
                all(order, |i| reads.read(caller, made.large, (i * BLOCK % LARGE_BYTES) as u64, &mut buffer))
            }
            ReadCall::Statfs => all(order, |_| reads.statfs()),
            ReadCall::Getxattr => all(order, |i| reads.getxattr(caller, made.files[i], ATTRIBUTE)),
            ReadCall::Resolve => all(order, |i| reads.resolve(self.paths.get(i).to_bytes())),
        };
        let elapsed = start.elapsed();
        black_box(buffer);
        done.map_err(Error::volume(operation.name()))?;
        Ok(elapsed.as_secs_f64() * 1e9 / count as f64)
    }
}

/// Applies one operation to every request, up to the first error.
#[inline(always)]
fn all<'o, T>(
    order: impl Iterator<Item = &'o usize>,
    mut operation: impl FnMut(usize) -> lanefs::Result<T>,
) -> lanefs::Result<()> {
    for &index in order {
        black_box(operation(index)?);
    }
    Ok(())
}

pub(super) fn measure(bench: &mut ConcurrencyBench) -> Result<()> {
    bench.progress.step("overhead: making files");
    let fixture = OverheadFixture::new(&bench.stop)?;
    let volume = fixture.lane.volume();
    let pairs = (bench.runs * bench.settings.sizes.pairs_per_run).max(1);
    for operation in ReadCall::ALL {
        let name = overhead_name(operation);
        if !bench.selection.has(&name) {
            continue;
        }
        bench.progress.step(&format!("{name}: {pairs} pairs of rounds"));
        fixture.round(volume, operation, REQUESTS)?;
        let cost = fixture.round(volume, operation, REQUESTS)?;
        let count = (bench.settings.sizes.round.as_nanos() as f64 / cost.max(1.0)).ceil() as usize;
        let paired = Paired::measure(pairs, |checked| {
            bench.stop.check()?;
            if checked {
                return fixture.round(volume, operation, count);
            }
            let unchecked = volume.unchecked();
            fixture.round(&unchecked, operation, count)
        })?;
        let sequential = BTreeMap::from([("sequential".to_string(), paired.second.clone())]);
        let row = Row::new(&name, "ns/op", &paired.first, &sequential).map(|row| {
            let overhead = paired.ratio();
            row.param("threads", 1)
                .param("operations_per_round", count)
                .param("files", FILES)
                .extra("overhead", overhead.median)
                .extra("overhead_low", overhead.low)
                .extra("overhead_high", overhead.high)
                .goal(
                    format!("{:.3}x sequential <= {GOAL_OVERHEAD}", overhead.median),
                    overhead.median <= GOAL_OVERHEAD,
                )
        });
        bench.row(row);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_works_both_ways() {
        let fixture = OverheadFixture::new(&Stop::default()).unwrap();
        let volume = fixture.lane.volume();
        for operation in ReadCall::ALL {
            assert!(fixture.round(volume, operation, 50).unwrap() > 0.0);
            assert!(fixture.round(&volume.unchecked(), operation, 50).unwrap() > 0.0);
        }
    }

    #[test]
    fn a_call_that_fails_is_no_time() {
        let mut fixture = OverheadFixture::new(&Stop::default()).unwrap();
        fixture.paths = std::iter::repeat_n(b"not/there".as_slice(), FILES).collect();
        assert!(fixture.round(fixture.lane.volume(), ReadCall::Resolve, 50).is_err());
    }
}
