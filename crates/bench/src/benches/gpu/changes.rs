//! `gpu-create`, `gpu-unlink`, `gpu-create-flat`, `gpu-mkdir-all`, `gpu-wide-create`, `gpu-chain-create`:
//! changes in batches.

use super::bench::{GpuBench, mirrored};
use super::maker::{BATCH_CHANGES, Maker, makers, share_of_device};
use crate::error::Result;
use crate::measure::report::Row;
use crate::measure::stop::Stop;
use crate::measure::values::Values;
use crate::systems::lane::{Lane, bytes_for};
use crate::systems::peers::SpaceRequest;
use crate::systems::system::Named;
use crate::systems::workload::{Strings, Tree, flat_names, shuffled, subdirectory_name};
use std::time::Duration;

/// Contents of each file, stored in the inode.
const CONTENT: [u8; 100] = [b'.'; 100];

/// Work of each maker in each run, in a new directory: returns the times of the rows, in their order.
type TimedChanges<'w> = &'w dyn Fn(&Maker<'_, '_>, &Stop) -> Result<Vec<Duration>>;

/// Measures the rows of the same work, which makes `count` inodes at a time.
fn measure(
    bench: &mut GpuBench,
    title: &str,
    rows: &[(&str, &str)],
    count: usize,
    work: TimedChanges<'_>,
) -> Result<Vec<Row>> {
    let need = SpaceRequest { inodes: count as u64 + 10, bytes: count as u64 * 4096 };
    let systems = bench.beside_ext4(need)?;
    let cpu = Lane::new(bytes_for(need))?;
    let gpu = bench.settings.gpu.clone();
    let mirrored = mirrored(&systems.lane, &gpu)?;
    let all = makers(&systems, &cpu, &mirrored);
    let mut values = vec![Values::default(); rows.len()];
    bench.in_turn(title, &all.iter().collect::<Vec<_>>(), |maker, run| {
        maker.begin()?;
        for (values, elapsed) in values.iter_mut().zip(work(maker, &bench.stop)?) {
            if run > 0 {
                values.add_each(maker.name(), elapsed, count);
            }
        }
        maker.clear()
    })?;
    let made = rows.iter().zip(&values).filter_map(|((name, unit), values)| values.row(name, unit));
    Ok(made
        .map(|row| row.param("batch", BATCH_CHANGES).extra("made_by_device", share_of_device(&all)))
        .collect())
}

/// Measures files all over a tree, made and removed in random order.
pub(super) fn files(bench: &mut GpuBench) -> Result<()> {
    let tree = Tree::new(bench.settings.sizes.tree_files);
    let files = tree.requests();
    let count = files.len();
    let rows = [("gpu-create", "ns/file"), ("gpu-unlink", "ns/file")];
    let rows = measure(bench, "files", &rows, count, &|maker, stop| {
        maker.make_directories(&tree.directories, stop)?;
        Ok(vec![maker.create(&files, &CONTENT, stop)?, maker.unlink(&files, stop)?])
    })?;
    for row in rows {
        bench.row(Some(row.param("files", count).param("bytes", CONTENT.len()).param("depth", "5-7")));
    }
    Ok(())
}

/// Measures files of one directory.
pub(super) fn flat_files(bench: &mut GpuBench) -> Result<()> {
    let count = bench.settings.sizes.flat_files;
    let names = flat_names(count);
    let rows = [("gpu-create-flat", "ns/file")];
    let rows = measure(bench, "files of one directory", &rows, count, &|maker, stop| {
        Ok(vec![maker.create(&names, &CONTENT, stop)?])
    })?;
    for row in rows {
        bench.row(Some(row.param("files", count).param("bytes", CONTENT.len())));
    }
    Ok(())
}

/// Measures the directories of a tree of files.
pub(super) fn directories(bench: &mut GpuBench) -> Result<()> {
    let all = Tree::new(bench.settings.sizes.tree_files).directories;
    // The leaves, in random order.
    let names: Vec<&[u8]> = all.iter().map(std::ffi::CStr::to_bytes).collect();
    let is_below = |path: &[u8], next: &[u8]| next.starts_with(path) && next.get(path.len()) == Some(&b'/');
    let is_lowest = |i: &usize| names.get(i + 1).is_none_or(|next| !is_below(names[*i], next));
    let order: Vec<usize> = shuffled(names.len()).into_iter().filter(is_lowest).collect();
    let lowest = all.pick(&order);
    let rows = [("gpu-mkdir-all", "ns/directory")];
    let rows = measure(bench, "directories", &rows, all.len(), &|maker, stop| {
        Ok(vec![maker.make_all(&lowest, &all, stop)?])
    })?;
    for row in rows {
        bench.row(Some(
            row.param("directories", all.len()).param("paths", lowest.len()).param("depth", "4-6"),
        ));
    }
    Ok(())
}

/// Measures subdirectories of one directory.
pub(super) fn wide(bench: &mut GpuBench) -> Result<()> {
    let count = bench.settings.sizes.subdirectories;
    let names: Strings = (0..count).map(subdirectory_name).collect();
    let rows = [("gpu-wide-create", "ns/directory")];
    let rows =
        measure(bench, "wide", &rows, count, &|maker, stop| Ok(vec![maker.make_directories(&names, stop)?]))?;
    for row in rows {
        bench.row(Some(row.param("directories", count)));
    }
    Ok(())
}

/// Measures nested directories.
pub(super) fn chain(bench: &mut GpuBench) -> Result<()> {
    let depth = bench.settings.sizes.chain_depth;
    let rows = [("gpu-chain-create", "ns/directory")];
    let rows =
        measure(bench, "chain", &rows, depth, &|maker, stop| Ok(vec![maker.make_chain(depth, stop)?]))?;
    for row in rows {
        let row = row.param("depth", depth);
        bench.row(Some(row.note("LaneFS has one path for all of them; ext4 makes and opens each")));
    }
    Ok(())
}
