//! The demo's lookups: every path of the tree and as many absent ones, by the volume and by the host.

use super::expectation::{expected_links, paths_to_resolve};
use super::report::{DemoReport, StepRow};
use crate::terminal::failure::{Failure, Outcome, check_interrupt};
use lanefs::{EngineExt, FileKind, Resolution, ResolveOptions, Volume};
use lanefs_gpu::{DeviceKind, EngineChoice, EngineOptions, Engines};
use lanefs_transfer::{Item, shown};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;
use std::ffi::CString;
use std::path::Path;
use std::time::{Duration, Instant};

/// Repetitions of a measurement; the median counts.
const REPETITIONS: usize = 3;
/// Paths longer than this may exceed the host's limit (`PATH_MAX`), so it cannot confirm that they are
/// absent.
const MAX_HOST_PATH: usize = 4000;

/// The results of the host.
type HostResults = Vec<Result<Stat, Errno>>;

/// Resolves all paths with each engine and on the host, and compares the answers.
///
/// # Errors
/// The volume or the host fails; the user stops the demo.
pub(super) fn compare_lookups(
    report: &mut DemoReport,
    volume: &Volume,
    tree: &Path,
    items: &[Item],
) -> Outcome {
    let base = volume.resolve("/demo").map_err(|error| Failure::volume("/demo", &error))?.ino;
    let paths = paths_to_resolve(items);
    let count = paths.len() as u64;
    let options = ResolveOptions { base: Some(base), follow: false, attributes: true, ..Default::default() };
    let (answers, volume_time) = median_of_repetitions(|| {
        volume.resolve_batch(&options, &paths).map_err(|error| Failure::volume("/demo", &error))
    })?;
    let (host, host_time) = lstat_all(tree, &paths)?;
    let remark = format!("one thread, median of {REPETITIONS}");
    let (unit, step) = ("paths", "host: lstat each path");
    report.step(StepRow { step, time: host_time, count, unit, remark })?;
    let ratio = host_time.as_secs_f64() / volume_time.as_secs_f64().max(1e-9);
    let remark = format!("one batch, CPU engine, median of {REPETITIONS}: {ratio:.1} times the host's rate");
    let step = "resolve and stat each path";
    report.step(StepRow { step, time: volume_time, count, unit, remark })?;
    resolve_on_device(report, volume, &options, &paths, &answers)?;

    let started = Instant::now();
    compare_present(report, items, &answers, &host);
    compare_absent(report, items.len(), &paths, &answers, &host);
    let (step, remark) = ("compare each answer", String::new());
    report.step(StepRow { step, time: started.elapsed(), count, unit, remark })
}

/// Calls `work` [`REPETITIONS`] times. Returns the last result and the median time.
fn median_of_repetitions<T>(mut work: impl FnMut() -> Result<T, Failure>) -> Result<(T, Duration), Failure> {
    let mut run = || {
        check_interrupt()?;
        let started = Instant::now();
        work().map(|result| (result, started.elapsed()))
    };
    let (mut last, time) = run()?;
    let mut times = [time; REPETITIONS];
    for time in &mut times[1..] {
        (last, *time) = run()?;
    }
    times.sort_unstable();
    Ok((last, times[REPETITIONS / 2]))
}

fn lstat_all(tree: &Path, paths: &[Vec<u8>]) -> Result<(HostResults, Duration), Failure> {
    let c_paths: Vec<CString> =
        paths.iter().map(|path| CString::new(&path[..]).unwrap_or_default()).collect();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = openat(CWD, tree, flags, Mode::empty()).map_err(|errno| Failure::host(tree, &errno.into()))?;
    median_of_repetitions(|| {
        Ok(c_paths.iter().map(|path| statat(&top, path, AtFlags::SYMLINK_NOFOLLOW)).collect())
    })
}

/// Resolves the same batch on the GPU engine, if there is a device. Its answers must be those of the CPU
/// engine.
fn resolve_on_device(
    report: &mut DemoReport,
    volume: &Volume,
    options: &ResolveOptions,
    paths: &[Vec<u8>],
    expected: &[Resolution],
) -> Outcome {
    let engines =
        Engines::open(volume, EngineOptions { engine: EngineChoice::Gpu, ..EngineOptions::default() });
    let engines = match engines {
        Ok(engines) => engines,
        Err(error) => {
            report.notes.push(format!("without the GPU engine: {error}"));
            return Ok(());
        }
    };
    let Some((gpu, mirrored)) = engines.chosen() else { return Ok(()) };
    // The batch below meets the failure of a device again.
    let _ = mirrored.warm();
    let (answers, time) = median_of_repetitions(|| {
        let resolved = engines.resolve_batch(options, paths);
        let (answers, _) = resolved.map_err(|error| Failure::volume("/demo", &error))?;
        Ok(answers)
    })?;
    let others = answers.iter().zip(expected).zip(paths).filter(|((gpu, cpu), _)| gpu != cpu);
    report.differences.extend(others.map(|((gpu, cpu), path)| {
        format!("{}: {} / {} by the CPU engine", shown(path), gpu.code.text(), cpu.code.text())
    }));
    if let Some(error) = engines.take_failure() {
        report.notes.push(format!("the GPU engine failed, and the CPU engine answered: {error}"));
        return Ok(());
    }
    let info = gpu.info();
    let kind = if info.kind == DeviceKind::Software { ", a software device on the CPU" } else { "" };
    let remark = format!("the same batch, GPU engine, median of {REPETITIONS}: {}{kind}", info.name);
    let (step, unit) = ("resolve them on the GPU", "paths");
    report.step(StepRow { step, time, count: paths.len() as u64, unit, remark })
}

/// Compares the answers for the paths of the tree.
fn compare_present(
    report: &mut DemoReport,
    items: &[Item],
    answers: &[Resolution],
    host: &[Result<Stat, Errno>],
) {
    let links = expected_links(items);
    for ((item, answer), stat) in items.iter().zip(answers).zip(host) {
        compare_item(report, item, answer, stat, links.get(&item.id).copied().unwrap_or(1));
    }
}

/// Compares the answers for absent paths: the errno must be the host's.
fn compare_absent(
    report: &mut DemoReport,
    first: usize,
    paths: &[Vec<u8>],
    answers: &[Resolution],
    host: &[Result<Stat, Errno>],
) {
    for ((path, answer), stat) in paths.iter().zip(answers).zip(host).skip(first) {
        let host = stat.as_ref().map_or_else(|errno| errno.raw_os_error(), |_| 0);
        let is_too_long = host == Errno::NAMETOOLONG.raw_os_error() && path.len() > MAX_HOST_PATH;
        if answer.code.errno() != host && !is_too_long {
            let text = format!("{}: errno {} / {host} on the host", shown(path), answer.code.errno());
            report.differences.push(text);
        }
    }
}

fn compare_item(
    report: &mut DemoReport,
    item: &Item,
    answer: &Resolution,
    stat: &Result<Stat, Errno>,
    links: u32,
) {
    let name = shown(&item.path);
    let is_unchanged = match stat {
        Ok(stat) => {
            (stat.st_mtime, stat.st_mtime_nsec as u32) == (item.mtime.seconds(), item.mtime.nanoseconds())
        }
        // The inventory reached a path longer than the host's limit step by step.
        Err(errno) => *errno == Errno::NAMETOOLONG,
    };
    if !is_unchanged {
        return report.notes.push(format!("{name}: changed on the host during the demo"));
    }
    let Some(attr) = answer.attr else {
        return report.differences.push(format!("{name}: {}", answer.code.text()));
    };
    let mut compare = |what: &str, volume: String, host: String| {
        if volume != host {
            report.differences.push(format!("{name}: {what} {volume} / {host} on the host"));
        }
    };
    compare("type", attr.kind.word().into(), item.kind.word().into());
    compare("links", attr.links.to_string(), links.to_string());
    compare("owner", format!("{}:{}", attr.uid, attr.gid), format!("{}:{}", item.uid, item.gid));
    compare("mtime", attr.mtime.0.to_string(), item.mtime.0.to_string());
    if item.kind != FileKind::Symlink {
        compare("mode", format!("{:04o}", attr.perm), format!("{:04o}", item.perm));
    }
    // Each file system defines the size of a directory in its own way.
    if matches!(item.kind, FileKind::File | FileKind::Symlink) {
        compare("size", attr.size.to_string(), item.size.to_string());
    }
}
