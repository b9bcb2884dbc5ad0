//! `gpu-find`: all entries of a large tree by a pattern of their names.

use super::bench::GpuBench;
use crate::error::{Error, Result, check};
use crate::measure::stop::Stop;
use crate::measure::values::{LANEFS, Values};
use crate::session::Systems;
use crate::systems::peers::{Host, run_command};
use crate::systems::system::Named;
use crate::systems::workload::Tree;
use lanefs::{Caller, FileKind, Ino, Volume};
use lanefs_gpu::{Filter, Mirrored};
use std::time::{Duration, Instant};

/// Pattern that about one of a hundred files matches.
const PATTERN: &str = "*7?3*";

/// Engines that search: the device, a walk of the CPU engine, `find` of the host on ext4.
enum Finder<'s, 'v> {
    Gpu(&'s Mirrored<'v>),
    Cpu(&'s Volume),
    Ext4(&'s Host),
}

impl Named for Finder<'_, '_> {
    fn name(&self) -> &str {
        match self {
            Finder::Gpu(_) => LANEFS,
            Finder::Cpu(_) => "cpu",
            Finder::Ext4(host) => host.name(),
        }
    }
}

/// Returns the condition of the search.
fn filter() -> Result<Filter> {
    let mut filter = Filter { kinds: vec![FileKind::File], ..Filter::default() };
    check("the device", "patterns", filter.names.and(PATTERN, false).into(), 1)?;
    Ok(filter)
}

impl Finder<'_, '_> {
    /// Searches for paths; returns the time and the number of paths.
    fn search(&self, filter: &Filter, stop: &Stop) -> Result<(Duration, u64)> {
        let start = Instant::now();
        let mut count = 0;
        match self {
            Finder::Gpu(mirrored) => {
                let root = mirrored.volume().root();
                let found = mirrored.find_below(filter, root, b"/", None, &mut |_| {
                    count += 1;
                    true
                });
                let report = found.map_err(Error::volume("a search"))?;
                check("the device", "leaf blocks looked at by the host", report.by_host, 0)?;
            }
            Finder::Cpu(volume) => walk(volume, volume.root(), &mut b"/".to_vec(), filter, stop, &mut count)?,
            Finder::Ext4(host) => {
                let path = host.path().to_string_lossy();
                let found = run_command("find", &[&path, "-type", "f", "-name", PATTERN], stop)?;
                count = found.lines().count() as u64;
            }
        }
        Ok((start.elapsed(), count))
    }
}

/// Walks a tree as `lanefs find` does.
fn walk(
    volume: &Volume,
    dir: Ino,
    path: &mut Vec<u8>,
    filter: &Filter,
    stop: &Stop,
    count: &mut u64,
) -> Result<()> {
    const PAGE_ENTRIES: usize = 4096;
    stop.check()?;
    let (mut cookie, len) = (0, path.len());
    loop {
        let page =
            volume.readdir(&Caller::OWNER, dir, cookie, PAGE_ENTRIES).map_err(Error::volume("a listing"))?;
        let Some(last) = page.last() else { return Ok(()) };
        cookie = last.cookie;
        for entry in page {
            path.extend_from_slice(&entry.name);
            if entry.kind == FileKind::File && filter.names.matches(&entry.name) {
                *count += 1;
            }
            if entry.kind == FileKind::Directory {
                path.push(b'/');
                walk(volume, entry.ino, path, filter, stop, count)?;
            }
            path.truncate(len);
        }
    }
}

/// Measures on systems whose tree is on the device.
pub(super) fn measure(
    bench: &mut GpuBench,
    systems: &Systems,
    mirrored: &Mirrored<'_>,
    tree: &Tree,
) -> Result<()> {
    let filter = filter()?;
    let hosts = systems.hosts.iter().map(Finder::Ext4);
    let volume = systems.lane.volume();
    let all: Vec<_> = [Finder::Gpu(mirrored), Finder::Cpu(volume)].into_iter().chain(hosts).collect();
    let (mut values, mut expected) = (Values::default(), None);
    let entries = tree.files.len() + tree.directories.len();
    bench.in_turn("find", &all.iter().collect::<Vec<_>>(), |finder, run| {
        let (elapsed, found) = finder.search(&filter, &bench.stop)?;
        let expected = *expected.get_or_insert(found);
        if found != expected || found == 0 {
            return Err(Error::Wrong { system: finder.name().into(), what: "files found", found, expected });
        }
        if run > 0 {
            values.add_each(finder.name(), elapsed, entries);
        }
        Ok(())
    })?;
    let row = values.row("gpu-find", "ns/entry");
    let found = expected.unwrap_or(0);
    bench.row(row.map(|row| row.param("entries", entries).param("pattern", PATTERN).param("found", found)));
    Ok(())
}
