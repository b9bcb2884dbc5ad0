//! `gpu-sectors-cache`, `gpu-sectors-tree`: memory that a component of a path moves on a device, counted by
//! the kernel's twin.

use super::bench::GpuBench;
use crate::error::{Error, Result, check};
use crate::measure::report::Row;
use crate::measure::stop::Stop;
use crate::systems::lane::Lane;
use crate::systems::system::{Create, System};
use crate::systems::workload::{flat_name, flat_names, sampled};
use lanefs::{Code, ResolveOptions};
use lanefs_gpu::testing::Requests;
use lanefs_gpu::twin::host::{Counting, HostCopy, WithCache};
use lanefs_gpu::twin::kernels::lookup::{LookupQuery, lookup};
use lanefs_gpu::twin::kernels::warm::warm;
use std::collections::BTreeMap;
use std::ffi::CStr;

const DIRECTORY: &CStr = c"flat";

/// Number of counted lookups.
const LOOKUPS: usize = 1000;

/// Bound of rounds, which no lookup reaches.
const FUEL: u32 = 1 << 20;

/// Goals in sectors. A hit in the first home of a name takes 3, and one in a further home one more; some 4 %
/// of the names are there. (They were walked, and not counted here, while names had one home.)
const GOAL_CACHE: f64 = 3.1;
const GOAL_TREE: f64 = 10.0;

pub(super) fn measure(bench: &mut GpuBench) -> Result<()> {
    let largest = bench.settings.sizes.flat_files;
    let sizes: Vec<usize> =
        [1, 100, 10_000].into_iter().filter(|files| *files < largest).chain([largest]).collect();
    let (mut cache, mut tree) = (Vec::new(), Vec::new());
    for files in &sizes {
        bench.progress.step(&format!("sectors: a directory of {files}"));
        let (by_cache, by_tree) = count(*files, &bench.stop)?;
        cache.push(by_cache);
        tree.push(by_tree);
    }
    for (name, values, goal) in
        [("gpu-sectors-cache", cache, GOAL_CACHE), ("gpu-sectors-tree", tree, GOAL_TREE)]
    {
        // The most expensive size counts.
        let most = values.iter().copied().fold(0.0, f64::max);
        let row = Row::new(name, "sectors/component", &[most], &BTreeMap::new()).map(|row| {
            let row = row.param("name_bytes", 20).param("sector_bytes", 32).param("lookups", LOOKUPS);
            let row = row.goal(format!("<= {goal}"), most <= goal);
            sizes
                .iter()
                .zip(&values)
                .fold(row, |row, (files, value)| row.extra(&format!("files_{files}"), *value))
        });
        bench.row(row);
    }
    Ok(())
}

/// Returns the mean sectors of a lookup that finds its name in the cache, and of one without a cache. Neither
/// reads the inode found.
fn count(files: usize, stop: &Stop) -> Result<(f64, f64)> {
    let lane = Lane::new((64 << 20) + files as u64 * 1024)?;
    lane.make_directory(DIRECTORY)?;
    lane.create_files(DIRECTORY, &flat_names(files), Create::Node, stop)?;
    let volume = lane.volume();
    let dir = volume.resolve(DIRECTORY.to_bytes()).map_err(Error::volume("a directory"))?.ino.0;
    let memory = HostCopy::of(volume).map_err(Error::volume("copying the metadata"))?;
    let options = ResolveOptions::default();
    let superblock = volume.superblock();
    let query = LookupQuery {
        root: volume.root().0,
        base: dir,
        seed: superblock.seed,
        inode_size: superblock.inode_size,
        follow: options.follow,
        user: None,
        fuel: FUEL,
    };
    let none = memory.empty_cache(0);
    let mut full = memory.empty_cache((files as u32 * 2).max(4096));
    let mut filled = full.cache.clone();
    filled.claim += 1;
    warm(&WithCache { memory: &memory, snapshot: &full }, &query, &mut filled, memory.blocks());
    full.cache = filled;
    let mean = |snapshot| -> Result<f64> {
        let (mut sum, mut count) = (0, 0);
        for i in sampled(files, LOOKUPS) {
            let counting = Counting::new(WithCache { memory: &memory, snapshot });
            let mut requests = Requests::default();
            let found = lookup(&counting, &query, flat_name(i).as_bytes(), &mut requests);
            check("the twin", "lookups", (found.code == Code::Success).into(), 1)?;
            // A name that found no free slot in the cache is not a hit.
            if requests.fills.is_empty() || snapshot.cache.buckets() == 0 {
                sum += counting.sectors();
                count += 1;
            }
        }
        Ok(sum as f64 / f64::from(count.max(1)))
    };
    Ok((mean(&full)?, mean(&none)?))
}
