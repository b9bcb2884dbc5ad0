//! `mount-{create,stat,readdir,unlink}-Tt`: files of each thread in a directory of its own, by system calls.
//!
//! Rounds are many and short, LaneFS and its peers in turn: other load of the host, and its placement of
//! threads, change from one second to the next.

use super::bench::{MountBench, MountedSystem, PASSTHROUGH};
use super::processors::on_one;
use super::rows::{OPERATIONS, metadata_name};
use super::sizes::threads;
use crate::error::{Error, Result, check};
use crate::measure::stop::{STRIDE, Stop};
use crate::measure::threads::together;
use crate::measure::values::Values;
use crate::systems::peers::SpaceRequest;
use crate::systems::served::forget;
use crate::systems::system::Named;
use rustix::fs::{self as sys, AtFlags, Mode, OFlags, RawDir};
use rustix::io::Errno;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Minimum of the passthrough's rate.
const GOAL: f64 = 0.9;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const NEW_FILE: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::CLOEXEC);

/// Rounds of each run.
const ROUNDS: usize = 5;

/// Buffer of one `getdents64` in bytes, as in the C library's `readdir`.
const LISTING_BYTES: usize = 32 << 10;

/// Measures all rows.
pub(super) fn measure(bench: &mut MountBench) -> Result<()> {
    let files = bench.settings.sizes.files;
    let all_threads = threads(bench.report.machine.cores);
    let most = all_threads.iter().copied().max().unwrap_or(1);
    let systems = bench.in_memory(SpaceRequest { inodes: (most * files + 100) as u64, bytes: 64 << 20 })?;
    let mounted = systems.mounted();
    let names: Vec<CString> =
        (0..files).filter_map(|number| CString::new(format!("file-{number:06}")).ok()).collect();
    let mut values = vec![<[Values; OPERATIONS.len()]>::default(); all_threads.len()];
    bench.in_rounds("metadata", ROUNDS, &mounted.iter().collect::<Vec<_>>(), |system, round| {
        for (values, &threads) in values.iter_mut().zip(&all_threads) {
            let work = || one_round(system, &names, threads, &bench.stop);
            let times = if threads == 1 { on_one(system.server(), work)? } else { work()? };
            for (values, time) in values.iter_mut().zip(times).filter(|_| round > 0) {
                values.add(system.name(), (threads * files) as f64 / time.as_secs_f64() / 1e3);
            }
        }
        Ok(())
    })?;
    for (values, &threads) in values.iter().zip(&all_threads) {
        for (values, operation) in values.iter().zip(OPERATIONS) {
            let row = values.rate_row(&metadata_name(operation, threads), "kop/s");
            let row = row.map(|row| row.param("threads", threads).param("files", threads * files));
            // One client and its server share a processor.
            let row = if threads == 1 { row.map(|row| row.param("processors", 1)) } else { row };
            bench.row(row.map(|row| row.goal_ratio(PASSTHROUGH, GOAL)));
        }
    }
    Ok(())
}

/// Creates, stats, lists and removes; the kernel's caches are dropped before each.
fn one_round(
    system: &MountedSystem,
    names: &[CString],
    threads: usize,
    stop: &Stop,
) -> Result<[Duration; 4]> {
    let failed = |what: &str| {
        let what = format!("{}: {what}", system.name());
        move |errno: Errno| Error::host(what)(errno)
    };
    let top = sys::open(system.path(), DIRECTORY, Mode::empty()).map_err(failed("opening"))?;
    let mut dirs = Vec::new();
    for thread in 0..threads {
        let name = format!("thread-{thread}");
        sys::mkdirat(&top, &name, Mode::from_raw_mode(0o755)).map_err(failed("mkdir"))?;
        dirs.push(sys::openat(&top, &name, DIRECTORY, Mode::empty()).map_err(failed("opening"))?);
    }
    let each = |what: &'static str, work: &(dyn Fn(&OwnedFd, &CString) -> rustix::io::Result<u64> + Sync)| {
        forget(false)?;
        let done = together(threads, |thread| {
            let mut sum = 0;
            for names in names.chunks(STRIDE) {
                stop.check()?;
                for name in names {
                    sum += work(&dirs[thread], name).map_err(failed(what))?;
                }
            }
            Ok(sum)
        })?;
        check(system.name(), what, done.sum, threads * names.len())?;
        Ok(done.elapsed)
    };
    let create =
        each("create", &|dir, name| sys::openat(dir, name, NEW_FILE, Mode::from_raw_mode(0o644)).map(|_| 1))?;
    let stat = each("stat", &|dir, name| {
        sys::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| stat.st_nlink)
    })?;
    forget(false)?;
    let listed = together(threads, |thread| {
        // A new descriptor begins at the directory's start.
        let dir = sys::openat(&dirs[thread], c".", DIRECTORY, Mode::empty()).map_err(failed("opening"))?;
        let mut buffer = vec![MaybeUninit::uninit(); LISTING_BYTES];
        let mut entries = RawDir::new(&dir, &mut buffer);
        let mut count = 0;
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(failed("listing"))?;
            count += u64::from(!matches!(entry.file_name().to_bytes(), b"." | b".."));
        }
        Ok(count)
    })?;
    check(system.name(), "readdir", listed.sum, threads * names.len())?;
    let unlink = each("unlink", &|dir, name| sys::unlinkat(dir, name, AtFlags::empty()).map(|()| 1))?;
    drop(dirs);
    for thread in 0..threads {
        sys::unlinkat(&top, format!("thread-{thread}"), AtFlags::REMOVEDIR).map_err(failed("rmdir"))?;
    }
    Ok([create, stat, listed.elapsed, unlink])
}
