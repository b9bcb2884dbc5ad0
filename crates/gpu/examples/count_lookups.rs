//! Batches of 100,000 lookups on both engines, each in a function of its own, so that `scripts/count.sh` can
//! count the instructions of the host with callgrind: the device's threads are not counted.

use lanefs::{Column, Columns, CreateOptions, EngineExt, NameSet, PathSet, ResolveOptions, Volume};
use lanefs_gpu::{Gpu, GpuOptions, MirrorOptions, Mirrored, Probes};
use std::hint::black_box;

type Outcome = Result<(), Box<dyn std::error::Error>>;

const FILES: usize = 20_000;
const DIRECTORIES: usize = 400;
const PATHS: usize = 100_000;

const EXISTS: &[Column] = &[Column::Exists];
const ATTRIBUTES: &[Column] = &[Column::Ino, Column::Mode, Column::Size, Column::Mtime];

fn path(index: usize) -> String {
    let index = index * 7919 % FILES;
    format!("/data/train/class-{:03}/sample-{index:06}.bin", index % DIRECTORIES)
}

fn volume() -> Result<Volume, lanefs::Error> {
    let volume = Volume::create_memory(&CreateOptions { size: 128 << 20, ..CreateOptions::default() })?;
    for directory in 0..DIRECTORIES {
        volume.mkdir_all(format!("/data/train/class-{directory:03}"), 0o755)?;
    }
    (0..FILES).try_for_each(|index| volume.write_file(path(index), b"a sample").map(drop))?;
    Ok(volume)
}

// The compiler would merge equal functions, so each has a name in it.
#[inline(never)]
fn count_cpu_exists(volume: &Volume, paths: &PathSet, answers: &mut Columns) -> Outcome {
    black_box("cpu_exists");
    black_box(volume.resolve_into(&ResolveOptions::default(), paths, &mut answers.rows(PATHS))?);
    Ok(())
}

#[inline(never)]
fn count_cpu_attributes(volume: &Volume, paths: &PathSet, answers: &mut Columns) -> Outcome {
    black_box("cpu_attributes");
    black_box(volume.resolve_into(&ResolveOptions::default(), paths, &mut answers.rows(PATHS))?);
    Ok(())
}

#[inline(never)]
fn count_gpu_exists(mirrored: &Mirrored<'_>, paths: &PathSet, answers: &mut Columns) -> Outcome {
    black_box("gpu_exists");
    black_box(mirrored.resolve_into(&ResolveOptions::default(), paths, &mut answers.rows(PATHS))?);
    Ok(())
}

#[inline(never)]
fn count_gpu_attributes(mirrored: &Mirrored<'_>, paths: &PathSet, answers: &mut Columns) -> Outcome {
    black_box("gpu_attributes");
    black_box(mirrored.resolve_into(&ResolveOptions::default(), paths, &mut answers.rows(PATHS))?);
    Ok(())
}

#[inline(never)]
fn count_cpu_names(volume: &Volume, names: &NameSet, answers: &mut Columns) -> Outcome {
    black_box("cpu_names");
    black_box(volume.resolve_names_into(&ResolveOptions::default(), names, &mut answers.rows(PATHS))?);
    Ok(())
}

#[inline(never)]
fn count_gpu_names(mirrored: &Mirrored<'_>, names: &NameSet, answers: &mut Columns) -> Outcome {
    black_box("gpu_names");
    black_box(mirrored.resolve_names_into(&ResolveOptions::default(), names, &mut answers.rows(PATHS))?);
    Ok(())
}

/// Returns the same paths as names under directories, in the order of these.
fn names() -> NameSet {
    let mut paths: Vec<String> = (0..PATHS).map(path).collect();
    paths.sort();
    NameSet::of_paths(paths.iter().collect::<PathSet>().view())
}

fn main() -> Outcome {
    let phase = std::env::var("PHASE").unwrap_or_default();
    let volume = volume()?;
    let (paths, names): (PathSet, NameSet) = ((0..PATHS).map(path).collect(), names());
    let mut answers = Columns::of(if phase.ends_with("attributes") { ATTRIBUTES } else { EXISTS });
    // The first batch takes memory and fills tables, which others use.
    if phase.starts_with("cpu") {
        for _ in 0..3 {
            volume.resolve_into(&ResolveOptions::default(), &paths, &mut answers.rows(PATHS))?;
        }
        return match phase.as_str() {
            "cpu_exists" => count_cpu_exists(&volume, &paths, &mut answers),
            "cpu_names" => count_cpu_names(&volume, &names, &mut answers),
            _ => count_cpu_attributes(&volume, &paths, &mut answers),
        };
    }
    let gpu = Gpu::open_with(&GpuOptions { probes: Probes::None, ..GpuOptions::default() })?;
    let mirrored = gpu.mirror(&volume, &MirrorOptions::default())?;
    let report = mirrored.resolve_into(&ResolveOptions::default(), &paths, &mut answers.rows(PATHS))?;
    if report.by_device != PATHS as u64 {
        return Err(format!("the device answered {} paths only", report.by_device).into());
    }
    let report = mirrored.resolve_names_into(&ResolveOptions::default(), &names, &mut answers.rows(PATHS))?;
    if report.by_device != PATHS as u64 {
        return Err(format!("the device answered {} names only", report.by_device).into());
    }
    match phase.as_str() {
        "gpu_exists" => count_gpu_exists(&mirrored, &paths, &mut answers),
        "gpu_names" => count_gpu_names(&mirrored, &names, &mut answers),
        _ => count_gpu_attributes(&mirrored, &paths, &mut answers),
    }
}
