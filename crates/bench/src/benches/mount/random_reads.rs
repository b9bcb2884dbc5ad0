//! `mount-randread-*`: reads of random blocks of one file by `fio`, past the page cache, in memory.

use super::bench::{MountBench, MountedSystem, PASSTHROUGH};
use super::data::{NAME, remove, write};
use super::processors::on_one;
use super::rows::RANDOM;
use crate::error::{Error, Result};
use crate::measure::values::{LANEFS, Values};
use crate::systems::fio::Job;
use crate::systems::peers::SpaceRequest;
use crate::systems::served::forget;
use crate::systems::system::Named;

/// Minimum of the passthrough's rate.
const GOAL: f64 = 0.9;

const BLOCK_BYTES: u64 = 4096;

/// Reads in flight, by row.
const DEPTHS: [u32; RANDOM.len()] = [1, 32];

/// Measures both rows.
pub(super) fn measure(bench: &mut MountBench) -> Result<()> {
    let sizes = bench.settings.sizes;
    if !bench.has_program("reading random blocks by fio", ["fio", "--version"], "package fio")? {
        return Ok(());
    }
    let systems = bench.in_memory(SpaceRequest { inodes: 100, bytes: sizes.random_bytes })?;
    let mut mounted = systems.mounted();
    mounted.retain(|system| system.name() != "tmpfs");
    for system in &mounted {
        bench.progress.step(&format!("writing a file on {}", system.name()));
        write(system.path(), sizes.random_bytes, false, &bench.stop)?;
    }
    forget(true)?;
    let mut values = [Values::default(), Values::default()];
    let mut left_out: Vec<(&str, String)> = Vec::new();
    bench.in_turn("random blocks", &mounted.iter().collect::<Vec<_>>(), |system, run| {
        for (values, depth) in values.iter_mut().zip(DEPTHS) {
            if left_out.iter().any(|(name, _)| *name == system.name()) {
                continue;
            }
            match read(bench, system, depth) {
                Ok(rate) if run > 0 => values.add(system.name(), rate / BLOCK_BYTES as f64 / 1e3),
                Ok(_) => {}
                // A host may refuse such reads of its own file systems: the passthrough's is a tmpfs.
                Err(error @ Error::Command { .. }) if system.name() != LANEFS => {
                    left_out.push((
                        if system.name() == "ext4" { "ext4" } else { PASSTHROUGH },
                        error.to_string(),
                    ));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })?;
    for system in &mounted {
        remove(system.path())?;
    }
    for (name, reason) in left_out {
        bench.note(format!("{name} is left out of the random blocks: {reason}"));
    }
    for ((values, name), depth) in values.iter().zip(RANDOM).zip(DEPTHS) {
        let row = values.rate_row(name, "kop/s").map(|row| {
            let row = row.param("bytes", sizes.random_bytes).param("reads", sizes.random_reads);
            let row = row.param("block_bytes", BLOCK_BYTES).param("depth", depth);
            let row = if depth == 1 { row.param("processors", 1) } else { row };
            row.goal_ratio(PASSTHROUGH, GOAL)
        });
        bench.row(row);
    }
    Ok(())
}

/// Reads random blocks; returns the bytes a second.
fn read(bench: &MountBench, system: &MountedSystem, depth: u32) -> Result<f64> {
    let sizes = bench.settings.sizes;
    let job = Job {
        block_bytes: BLOCK_BYTES,
        depth,
        random: true,
        offset: 0,
        len: sizes.random_bytes,
        bytes: sizes.random_reads * BLOCK_BYTES,
    };
    let work = || job.run(&system.path().join(NAME), &bench.stop);
    if depth == 1 { on_one(system.server(), work) } else { work() }
}
