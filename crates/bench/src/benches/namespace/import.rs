//! `import-tree`: import of a real tree into a file volume, beside `cp -a` to ext4, each with a sync at the
//! end.

use super::bench::NamespaceBench;
use crate::error::{Error, Result};
use crate::measure::stop::Stop;
use crate::measure::values::Values;
use crate::systems::peers::{Host, Medium, SpaceRequest, run_command};
use crate::systems::system::{Named, System};
use crate::systems::temporary::temp_dir;
use crate::systems::trees::{TreeContent, default_tree, import_into};
use lanefs::{CreateOptions, Volume};
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Maximum number of runs: each writes the whole tree several times.
const MOST_RUNS: usize = 3;

/// Limit of `cp -a`'s speed over that of the import.
const GOAL_TIMES_COPY: f64 = 1.3;

pub(super) fn measure(bench: &mut NamespaceBench) -> Result<()> {
    let source = bench.settings.tree.clone().unwrap_or_else(|| default_tree(bench.settings.quick));
    bench.progress.step(&format!("reading {}", source.display()));
    let content = TreeContent::of(&source, &bench.stop)?;
    let temp = temp_dir()?;
    let need = SpaceRequest { inodes: content.inodes, bytes: content.bytes + content.inodes * 4096 };
    let mut times = Values::default();
    let runs = bench.runs.min(MOST_RUNS);
    for run in 1..=runs {
        bench.progress.step(&format!("import-tree: run {run} of {runs}, lanefs"));
        let seconds = import_once(temp.path(), &source, need, bench)?;
        times.add("lanefs", seconds);
        let ready = bench.peers.fresh(need, Medium::Disk, &bench.stop)?;
        for note in ready.notes.into_iter().filter(|note| !note.starts_with("tmpfs")) {
            bench.note(note);
        }
        for host in ready.hosts.into_iter().filter(|host| host.name() == "ext4") {
            bench.progress.step(&format!("import-tree: run {run} of {runs}, ext4"));
            times.add("ext4", copy_once(&host, &source, &bench.stop)?);
        }
    }
    let least = (100.0 / GOAL_TIMES_COPY).round() / 100.0;
    let row = times.row("import-tree", "s").map(|row| {
        let row = row.param("source", source.to_string_lossy().into_owned());
        let row = row.param("names", content.names).param("bytes", content.bytes);
        row.goal_ratio("ext4", least)
    });
    bench.row(row);
    Ok(())
}

/// Makes a volume and imports a tree as `lanefs mkfs` and `lanefs import` do; returns the number of names.
fn import_volume(image: &Path, size: u64, source: &Path, stop: &Stop) -> std::result::Result<u64, String> {
    let options = CreateOptions { size, ..CreateOptions::default() };
    let volume = Volume::create(image, &options).map_err(|e| e.to_string())?;
    let names = import_into(&volume, source, b"/tree", stop)?;
    volume.close().map_err(|e| e.to_string())?;
    Ok(names)
}

fn import_once(temp: &Path, source: &Path, need: SpaceRequest, bench: &NamespaceBench) -> Result<f64> {
    let image = temp.join("volume.lane");
    let size = (need.bytes + need.inodes * 1024) / 2 * 3 + (256 << 20);
    let start = Instant::now();
    let done = import_volume(&image, size, source, &bench.stop);
    let seconds = start.elapsed().as_secs_f64();
    let _ = fs::remove_file(&image);
    bench.stop.check()?;
    let names = done.map_err(Error::Import)?;
    if names == 0 {
        return Err(Error::Import(format!("nothing was imported from {}", source.display())));
    }
    Ok(seconds)
}

fn copy_once(host: &Host, source: &Path, stop: &Stop) -> Result<f64> {
    let target = host.path().join("tree");
    let start = Instant::now();
    run_command("cp", &["-ax", &source.to_string_lossy(), &target.to_string_lossy()], stop)?;
    host.settle()?;
    Ok(start.elapsed().as_secs_f64())
}
