//! `durable-*`: small files that survive a crash, one by one and many at once.

use super::bench::ConcurrencyBench;
use super::files::Files;
use crate::error::{Error, Result};
use crate::measure::report::Row;
use crate::measure::stop::Stop;
use crate::measure::threads::{share, together};
use crate::measure::values::{LANEFS, Values};
use crate::systems::lane::Lane;
use crate::systems::peers::{Host, Medium, SpaceRequest, probe};
use crate::systems::system::{Named, System};
use crate::systems::temporary::temp_dir;
use crate::systems::workload::{Strings, flat_names};
use lanefs::{CreateOptions, Stats, Volume};
use std::ffi::CStr;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const DIRECTORY: &CStr = c"durable";
const FILE_BYTES: usize = 4096;

/// Name of the peer that is an ext4 without a journal.
const WITHOUT_JOURNAL: &str = "ext4-nojournal";

/// Name of the peer that is a volume without checksums of file data.
const WITHOUT_CHECKSUMS: &str = "lanefs-no-data-checksums";

/// Threads of the row, and of the value beside it.
const MORE_THREADS: usize = 4;

/// Work of a system in these rows.
trait Durable: System {
    /// Creates files and writes each, divided among threads, in a new directory that is removed again. With
    /// `each` one file after the other becomes durable, else all at the end.
    fn write_files(&self, names: &Strings, threads: usize, each: bool, stop: &Stop) -> Result<Duration>;
}

impl<F: Files + System> Durable for F {
    fn write_files(&self, names: &Strings, threads: usize, each: bool, stop: &Stop) -> Result<Duration> {
        let top = self.top()?;
        self.make_dir(&top, DIRECTORY)?;
        let dir = self.open_dir(&top, DIRECTORY)?;
        self.settle()?;
        let names: Vec<&CStr> = names.iter().collect();
        let data = [7u8; FILE_BYTES];
        let done = together(threads, |thread| {
            for name in share(&names, threads, thread) {
                stop.check()?;
                let file = self.create(&dir, name)?;
                self.write(&file, 0, &data)?;
                if each {
                    self.sync_file(&file)?;
                }
            }
            if !each {
                self.settle()?;
            }
            Ok(0)
        })?;
        for name in names {
            self.remove(&dir, name)?;
        }
        drop(dir);
        self.remove_dir(&top, DIRECTORY)?;
        self.settle()?;
        Ok(done.elapsed)
    }
}

/// Systems on one disk.
struct OnDisk {
    lane: Lane,
    without_checksums: Lane,
    hosts: Vec<Host>,
    /// Directory of the volume's file; dropped last.
    _temp: TempDir,
}

impl OnDisk {
    fn new(bench: &mut ConcurrencyBench, files: usize) -> Result<Self> {
        let given = bench.peers.ext4.clone();
        let folder = given.clone().unwrap_or_else(std::env::temp_dir);
        let temp = match &given {
            Some(directory) => tempfile::Builder::new()
                .prefix("lanefs-bench-")
                .tempdir_in(directory)
                .map_err(Error::host(directory.display().to_string()))?,
            None => temp_dir()?,
        };
        let need = SpaceRequest { inodes: files as u64 + 100, bytes: (files * FILE_BYTES) as u64 };
        let hosts = Self::ext4(bench, &folder, need)?;
        let volume = |name: &str, data_checksums: bool| {
            let size = (512 << 20) + need.bytes * 4;
            let options = CreateOptions { size, data_checksums, ..CreateOptions::default() };
            Volume::create(temp.path().join(name), &options).map_err(Error::volume("making a volume"))
        };
        let lane = Lane::on(volume("volume.lane", true)?);
        let without_checksums = Lane::with_name(WITHOUT_CHECKSUMS, volume("without.lane", false)?);
        Ok(OnDisk { lane, without_checksums, hosts, _temp: temp })
    }

    /// Makes the peers: a directory beside the volume if that is on ext4 with a journal, else an ext4 in a
    /// file beside it, and the directory, if there is one, under another name: without a journal an fsync
    /// promises less.
    fn ext4(bench: &mut ConcurrencyBench, folder: &Path, need: SpaceRequest) -> Result<Vec<Host>> {
        let found = probe(folder)?;
        if found.kind == "ext4" && found.journal != Some(false) {
            return Ok(vec![Host::in_directory("ext4", folder)?]);
        }
        // Not with a given directory, which the peers would use again.
        let mut hosts =
            if bench.peers.ext4.is_none() { bench.hosts(need, Medium::Disk)? } else { Vec::new() };
        hosts.retain(|host| host.name() == "ext4");
        let folder_name = folder.display();
        if !hosts.is_empty() {
            bench.note(format!(
                "durable: {folder_name} is on no ext4 with a journal, so the peer is one in a file there, behind a loop device"
            ));
        }
        if found.kind == "ext4" {
            bench.note(format!(
                "durable: {WITHOUT_JOURNAL} is a directory of {folder_name}, whose ext4 has no journal: after a crash it \
                 must be checked, and its files may be lost"
            ));
            hosts.push(Host::in_directory(WITHOUT_JOURNAL, folder)?);
        }
        Ok(hosts)
    }

    fn all(&self) -> Vec<&dyn Durable> {
        let hosts = self.hosts.iter().map(|host| host as &dyn Durable);
        [&self.lane as &dyn Durable, &self.without_checksums].into_iter().chain(hosts).collect()
    }

    fn written(&self) -> Stats {
        self.lane.volume().stats()
    }
}

pub(super) fn measure(bench: &mut ConcurrencyBench) -> Result<()> {
    let sizes = bench.settings.sizes;
    let systems = OnDisk::new(bench, sizes.durable_files.max(sizes.batch_files))?;
    if bench.selection.has("durable-create-fsync") {
        one_by_one(bench, &systems, sizes.durable_files)?;
    }
    if bench.selection.has("durable-batch-sync") {
        together_at_the_end(bench, &systems, sizes.batch_files)?;
    }
    Ok(())
}

fn one_by_one(bench: &mut ConcurrencyBench, systems: &OnDisk, files: usize) -> Result<()> {
    let names = flat_names(files);
    let (mut one, mut more) = (Values::default(), Values::default());
    let mut writing = Writing::default();
    bench.in_turn("durable-create-fsync", &systems.all(), |system, run| {
        let before = systems.written();
        let elapsed = system.write_files(&names, 1, true, &bench.stop)?;
        if system.name() == LANEFS {
            writing.add(before, systems.written(), files);
        }
        let elapsed_more = system.write_files(&names, MORE_THREADS, true, &bench.stop)?;
        if run > 0 {
            add_microseconds(&mut one, system.name(), elapsed, files);
            add_microseconds(&mut more, system.name(), elapsed_more, files);
        }
        Ok(())
    })?;
    let row = one.row("durable-create-fsync", "us/file").map(|mut row| {
        for (system, median) in more.medians() {
            row = row.extra(&format!("{system}_{MORE_THREADS}t_us"), median);
        }
        writing.extras(row.param("files", files).param("bytes", FILE_BYTES).param("threads", 1))
    });
    bench.row(row);
    Ok(())
}

fn together_at_the_end(bench: &mut ConcurrencyBench, systems: &OnDisk, files: usize) -> Result<()> {
    let names = flat_names(files);
    let mut times = Values::default();
    let mut writing = Writing::default();
    bench.in_turn("durable-batch-sync", &systems.all(), |system, run| {
        let before = systems.written();
        let elapsed = system.write_files(&names, 1, false, &bench.stop)?;
        if system.name() == LANEFS {
            writing.add(before, systems.written(), files);
        }
        if run > 0 {
            add_microseconds(&mut times, system.name(), elapsed, files);
        }
        Ok(())
    })?;
    let row = times.row("durable-batch-sync", "us/file");
    bench.row(
        row.map(|row| {
            writing.extras(row.param("files", files).param("bytes", FILE_BYTES).param("threads", 1))
        }),
    );
    Ok(())
}

fn add_microseconds(values: &mut Values, system: &str, elapsed: Duration, count: usize) {
    values.add(system, elapsed.as_secs_f64() * 1e6 / count.max(1) as f64);
}

/// Returns the bytes that LaneFS wrote for each byte of its users, including the removal of the files.
#[derive(Clone, Copy, Debug, Default)]
struct Writing {
    journal: u64,
    all: u64,
    user: u64,
}

impl Writing {
    fn add(&mut self, before: Stats, after: Stats, files: usize) {
        let journal = after.journal_bytes.saturating_sub(before.journal_bytes);
        self.journal += journal;
        self.all += journal
            + after.data_bytes.saturating_sub(before.data_bytes)
            + after.in_place_bytes.saturating_sub(before.in_place_bytes);
        self.user += (files * FILE_BYTES) as u64;
    }

    /// Adds nothing if the volume does not report the counts.
    fn extras(&self, row: Row) -> Row {
        if self.all == 0 || self.user == 0 {
            return row;
        }
        let user = self.user as f64;
        row.extra("lanefs_written_per_user_byte", self.all as f64 / user)
            .extra("lanefs_journal_per_user_byte", self.journal as f64 / user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn files_are_written_and_gone_either_way() {
        let lane = Lane::new(64 << 20).unwrap();
        for (threads, each) in [(1, true), (4, true), (1, false)] {
            lane.write_files(&flat_names(20), threads, each, &Stop::default()).unwrap();
            assert_eq!(lane.volume().readdir(lane.caller(), lane.volume().root(), 0, 9).unwrap(), []);
        }
    }

    #[test]
    fn amplification_is_told_where_the_volume_tells_it() {
        let row = || Row::new("r", "us/file", &[1.0], &BTreeMap::new()).unwrap();
        let mut writing = Writing::default();
        writing.add(Stats::default(), Stats::default(), 10);
        assert!(writing.extras(row()).extra.is_empty());
        let after = Stats { journal_bytes: 8192, data_bytes: 4096, ..Stats::default() };
        let mut writing = Writing::default();
        writing.add(Stats::default(), after, 1);
        let extra = writing.extras(row()).extra;
        assert_eq!(extra["lanefs_written_per_user_byte"], 3.0);
        assert_eq!(extra["lanefs_journal_per_user_byte"], 2.0);
    }
}
