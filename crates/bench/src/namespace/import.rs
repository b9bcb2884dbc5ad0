//! `import-tree`: import of a real tree into a file volume, beside `cp -a` to ext4, each with a sync at the
//! end.

use super::bench::NamespaceBench;
use super::importer::{Import, ImportRequest};
use crate::peers::{Host, Medium, SpaceRequest, run_command};
use crate::stop::Stop;
use crate::system::{Named, System};
use crate::values::Values;
use crate::{Error, Result};
use lanefs::{CreateOptions, Volume};
use lanefs_transfer::{Control, ImportOptions, Silent, import_tree};
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Maximum number of runs: each writes the whole tree several times.
const MOST_RUNS: usize = 3;

/// Limit of `cp -a`'s speed over that of the import.
const GOAL_TIMES_COPY: f64 = 1.3;

pub(super) fn measure(bench: &mut NamespaceBench) -> Result<()> {
    let import = bench.settings.import.clone().unwrap_or_else(|| Arc::new(import_volume));
    let source = bench.settings.tree.clone().unwrap_or_else(|| default_tree(bench.settings.quick));
    bench.progress.step(&format!("reading {}", source.display()));
    let content = TreeContent::of(&source, &bench.stop)?;
    let temp =
        tempfile::TempDir::with_prefix("lanefs-bench-").map_err(Error::host("a temporary directory"))?;
    let need = SpaceRequest { inodes: content.inodes, bytes: content.bytes + content.inodes * 4096 };
    let mut times = Values::default();
    let runs = bench.runs.min(MOST_RUNS);
    for run in 1..=runs {
        bench.progress.step(&format!("import-tree: run {run} of {runs}, lanefs"));
        let seconds = import_once(&import, temp.path(), &source, need, bench)?;
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

/// Makes a volume and imports a tree as `lanefs mkfs` and `lanefs import` do.
fn import_volume(request: &ImportRequest<'_>) -> std::result::Result<u64, String> {
    let options = CreateOptions { size: request.size_bytes, ..CreateOptions::default() };
    let volume = Volume::create(request.image, &options).map_err(|e| e.to_string())?;
    let import = ImportOptions { one_file_system: true, ..ImportOptions::default() };
    let interrupt = || request.stop.is_set();
    let control = Control { interrupt: &interrupt, progress: &Silent };
    let report =
        import_tree(&volume, request.source, b"/tree", &import, control).map_err(|e| e.to_string())?;
    // The peers do not copy an unreadable file or one that changes meanwhile either; an early end is a
    // failure.
    if let Some(reason) = report.stopped {
        return Err(reason.to_string());
    }
    volume.close().map_err(|e| e.to_string())?;
    Ok(report.counts.entries())
}

fn default_tree(quick: bool) -> PathBuf {
    PathBuf::from(if quick { "/usr/share/doc" } else { "/usr" })
}

fn import_once(
    import: &Import,
    temp: &Path,
    source: &Path,
    need: SpaceRequest,
    bench: &NamespaceBench,
) -> Result<f64> {
    let image = temp.join("volume.lane");
    let size_bytes = (need.bytes + need.inodes * 1024) / 2 * 3 + (256 << 20);
    let start = Instant::now();
    let done = import(&ImportRequest { image: &image, size_bytes, source, stop: &bench.stop });
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

/// Counts of a tree.
#[derive(Debug, Default)]
struct TreeContent {
    names: u64,
    inodes: u64,
    bytes: u64,
}

impl TreeContent {
    /// Walks and reads a tree, so that its size is known and it is in the host's cache for every system.
    fn of(source: &Path, stop: &Stop) -> Result<Self> {
        let top = fs::symlink_metadata(source).map_err(Error::host(source.display().to_string()))?;
        if !top.is_dir() {
            return Err(Error::Arguments(format!("--tree {}: not a directory", source.display())));
        }
        let mut content = TreeContent { names: 1, inodes: 1, bytes: 0 };
        let mut buffer = vec![0; 1 << 20];
        let mut waiting = vec![source.to_path_buf()];
        while let Some(directory) = waiting.pop() {
            stop.check()?;
            // Unreadable files are left to the systems under measurement, which report them.
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                let Ok(about) = entry.metadata() else { continue };
                content.names += 1;
                content.inodes += 1;
                if about.is_dir() && about.dev() == top.dev() {
                    waiting.push(entry.path());
                } else if about.is_file() {
                    content.bytes += about.len().next_multiple_of(4096);
                    let Ok(mut file) = fs::File::open(entry.path()) else { continue };
                    while file.read(&mut buffer).is_ok_and(|read| read > 0) {
                        stop.check()?;
                    }
                }
            }
        }
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_counted() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("d")).unwrap();
        fs::write(temp.path().join("d/f"), "12345").unwrap();
        std::os::unix::fs::symlink("nowhere", temp.path().join("l")).unwrap();
        let content = TreeContent::of(temp.path(), &Stop::default()).unwrap();
        assert_eq!((content.names, content.bytes), (4, 4096));
        assert!(TreeContent::of(&temp.path().join("d/f"), &Stop::default()).is_err());
        assert!(TreeContent::of(&temp.path().join("none"), &Stop::default()).is_err());
    }
}
