//! `mount-seq-*`: a large file written and read in order, on a disk and in memory.

use super::bench::{MountBench, MountedSystem, PASSTHROUGH};
use super::rows::DATA;
use crate::error::{Error, Result, check};
use crate::measure::stop::Stop;
use crate::measure::values::{LANEFS, Values};
use crate::systems::peers::{Host, Medium, SpaceRequest, probe};
use crate::systems::served::{ServedMount, forget};
use crate::systems::system::Named;
use rustix::fs::{self as sys, Mode, OFlags};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of one system call.
const CALL_BYTES: usize = 1 << 20;
/// Minimum of ext4's rate, and of the passthrough's.
const GOAL_DISK: f64 = 0.8;
const GOAL_MEMORY: f64 = 0.9;

/// Name of the file.
pub(super) const NAME: &str = "large";

/// Measures all rows.
pub(super) fn measure(bench: &mut MountBench) -> Result<()> {
    if DATA[..2].iter().any(|row| bench.selection.has(row)) {
        on_disk(bench)?;
    }
    if DATA[2..].iter().any(|row| bench.selection.has(row)) {
        in_memory(bench)?;
    }
    Ok(())
}

/// Measures a volume in a file beside ext4 on the same disk. Writing ends when the file is durable. The
/// volume is mounted again for reading, so that nothing is cached.
fn on_disk(bench: &mut MountBench) -> Result<()> {
    let bytes = bench.settings.sizes.large_bytes;
    let folder = bench.disk();
    let (_temp, image) = bench.volume_on_disk(bytes + bytes / 4 + (256 << 20))?;
    let hosts = if probe(&folder)?.kind == "ext4" {
        vec![Host::in_directory("ext4", &folder)?]
    } else {
        let mut hosts = bench.hosts(SpaceRequest { inodes: 100, bytes }, Medium::Disk)?;
        hosts.retain(|host| host.name() == "ext4");
        hosts
    };
    let mut values = [Values::default(), Values::default()];
    let mut mounted = vec![MountedSystem::new(LANEFS, &image)];
    mounted.extend(hosts.iter().map(|host| MountedSystem::new("ext4", host.path())));
    bench.in_turn("a file on a disk", &mounted.iter().collect::<Vec<_>>(), |system, run| {
        let again = |served: Option<ServedMount>| -> Result<Option<ServedMount>> {
            if system.name() != LANEFS {
                return Ok(None);
            }
            served.map_or(Ok(()), ServedMount::end)?;
            bench.mount(system.path().into()).map(Some)
        };
        let served = again(None)?;
        let dir = |served: &Option<ServedMount>| {
            served.as_ref().map_or_else(|| system.path().to_owned(), |served| served.path().to_owned())
        };
        let written = write(&dir(&served), bytes, true, &bench.stop)?;
        let served = again(served)?;
        let read = read(&dir(&served), bytes, &bench.stop)?;
        remove(&dir(&served))?;
        served.map_or(Ok(()), ServedMount::end)?;
        if run > 0 {
            values[0].add(system.name(), rate(bytes, written));
            values[1].add(system.name(), rate(bytes, read));
        }
        Ok(())
    })?;
    for (values, name) in values.iter().zip(DATA) {
        let row = values.rate_row(name, "MB/s");
        bench.row(row.map(|row| row.param("bytes", bytes).goal_ratio("ext4", GOAL_DISK)));
    }
    Ok(())
}

/// Measures a volume in memory beside the passthrough. The kernel's cached pages are dropped before reading.
fn in_memory(bench: &mut MountBench) -> Result<()> {
    let bytes = bench.settings.sizes.large_bytes;
    let systems = bench.in_memory(SpaceRequest { inodes: 100, bytes })?;
    let mounted = systems.mounted();
    let mut values = [Values::default(), Values::default()];
    let in_memory: Vec<&MountedSystem> = mounted.iter().filter(|system| system.name() != "ext4").collect();
    bench.in_turn("a file in memory", &in_memory, |system, run| {
        let written = write(system.path(), bytes, false, &bench.stop)?;
        let read = read(system.path(), bytes, &bench.stop)?;
        remove(system.path())?;
        if run > 0 {
            values[0].add(system.name(), rate(bytes, written));
            values[1].add(system.name(), rate(bytes, read));
        }
        Ok(())
    })?;
    for (values, name) in values.iter().zip(&DATA[2..]) {
        let row = values.rate_row(name, "MB/s");
        bench.row(row.map(|row| row.param("bytes", bytes).goal_ratio(PASSTHROUGH, GOAL_MEMORY)));
    }
    Ok(())
}

fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / 1e6 / time.as_secs_f64()
}

/// Fills the buffer with the contents of part `part` of the file.
fn fill(buffer: &mut [u8], part: u64) {
    buffer.fill(part as u8 ^ 0x5a);
    buffer[..8].copy_from_slice(&part.to_le_bytes());
}

/// Writes the file in order; returns the time.
pub(super) fn write(dir: &Path, bytes: u64, durable: bool, stop: &Stop) -> Result<Duration> {
    let path = dir.join(NAME);
    let failed = || Error::host(format!("writing {}", path.display()));
    let mut buffer = vec![0; CALL_BYTES];
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let start = Instant::now();
    let file = sys::open(&path, flags, Mode::from_raw_mode(0o644)).map_err(failed())?;
    for part in 0..bytes / CALL_BYTES as u64 {
        stop.check()?;
        fill(&mut buffer, part);
        let mut done = 0;
        while done < buffer.len() {
            done += rustix::io::write(&file, &buffer[done..]).map_err(failed())?;
        }
    }
    if durable {
        sys::fsync(&file).map_err(failed())?;
    }
    Ok(start.elapsed())
}

fn read(dir: &Path, bytes: u64, stop: &Stop) -> Result<Duration> {
    forget(true)?;
    let path = dir.join(NAME);
    let failed = || Error::host(format!("reading {}", path.display()));
    let (mut buffer, mut expected) = (vec![0; CALL_BYTES], vec![0; CALL_BYTES]);
    let start = Instant::now();
    let file = sys::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(failed())?;
    let mut good = 0;
    for part in 0..bytes / CALL_BYTES as u64 {
        stop.check()?;
        let mut done = 0;
        while done < buffer.len() {
            match rustix::io::read(&file, &mut buffer[done..]).map_err(failed())? {
                0 => break,
                count => done += count,
            }
        }
        // The beginning and the end only: the clock runs.
        fill(&mut expected[..16], part);
        good += u64::from(buffer[..16] == expected[..16] && buffer[CALL_BYTES - 1] == part as u8 ^ 0x5a);
    }
    let elapsed = start.elapsed();
    check(&dir.display().to_string(), "parts of a file", good, bytes as usize / CALL_BYTES)?;
    Ok(elapsed)
}

/// Removes the file.
pub(super) fn remove(dir: &Path) -> Result<()> {
    let path = dir.join(NAME);
    sys::unlink(&path).map_err(Error::host(path.display().to_string()))
}
