//! `mount-ls-lr`: `ls -lR` over a tree, with nothing cached.

use super::bench::{MountBench, MountedSystem, PASSTHROUGH};
use super::processors::on_one;
use super::rows::LIST;
use crate::error::{Error, Result, check};
use crate::measure::stop::Stop;
use crate::measure::values::Values;
use crate::systems::peers::{SpaceRequest, run_prepared};
use crate::systems::served::forget;
use crate::systems::system::Named;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// Maximum over the passthrough's time.
const GOAL: f64 = 1.3;

/// Measures the row.
pub(super) fn measure(bench: &mut MountBench) -> Result<()> {
    let sizes = bench.settings.sizes;
    let files = sizes.listed_directories * sizes.listed_files;
    let need = SpaceRequest { inodes: 3 * files as u64, bytes: 256 << 20 };
    let systems = bench.in_memory(need)?;
    let mounted = systems.mounted();
    for system in &mounted {
        bench.progress.step(&format!("making {files} files on {}", system.name()));
        make(system, sizes.listed_directories, sizes.listed_files, &bench.stop)?;
    }
    let mut values = Values::default();
    bench.in_turn("ls -lR", &mounted.iter().collect::<Vec<_>>(), |system, run| {
        let taken = on_one(system.server(), || list(system, files, &bench.stop))?;
        if run > 0 {
            values.add(system.name(), taken.as_secs_f64() * 1e3);
        }
        Ok(())
    })?;
    let row = values.row(LIST, "ms");
    bench.row(
        row.map(|row| row.param("files", files).param("processors", 1).goal_ratio(PASSTHROUGH, 1.0 / GOAL)),
    );
    Ok(())
}

fn tree(system: &MountedSystem) -> PathBuf {
    system.path().join("tree")
}

fn make(system: &MountedSystem, directories: usize, files: usize, stop: &Stop) -> Result<()> {
    for directory in 0..directories {
        stop.check()?;
        let dir = tree(system).join(format!("directory-{directory:03}"));
        std::fs::create_dir_all(&dir).map_err(Error::host(dir.display().to_string()))?;
        for file in 0..files {
            let file = dir.join(format!("file-{file:04}"));
            File::create_new(&file).map_err(Error::host(file.display().to_string()))?;
        }
    }
    Ok(())
}

fn list(system: &MountedSystem, files: usize, stop: &Stop) -> Result<Duration> {
    forget(false)?;
    let mut command = Command::new("ls");
    command.arg("-lR").arg(tree(system));
    let start = Instant::now();
    let output = run_prepared(command, stop)?;
    let elapsed = start.elapsed();
    let found = output.lines().filter(|line| line.starts_with('-')).count();
    check(system.name(), "listed files", found as u64, files)?;
    Ok(elapsed)
}
