//! Phases of work on a small volume, each in a function of its own, so that `scripts/count.sh` can count its
//! instructions with callgrind. Times vary on a shared machine; instruction counts repeat.

use lanefs::{
    Caller, CreateOptions, FileContents, Ino, OpenOptions, PathSet, ReadFiles, ResolveOptions, Volume,
    WriteMany,
};
use std::hint::black_box;

type Outcome = Result<(), lanefs::Error>;

const FILES: usize = 20_000;
const DIRECTORIES: usize = 40;
/// Files that need blocks.
const BLOCKS: usize = 2_000;

fn path(index: usize) -> String {
    format!("/data/train/class-{:02}/sample-{index:06}.bin", index % DIRECTORIES)
}

#[inline(never)]
fn count_create(volume: &Volume, paths: &[String]) -> Outcome {
    for directory in 0..DIRECTORIES {
        volume.mkdir_all(format!("/data/train/class-{directory:02}"), 0o755)?;
    }
    paths.iter().try_for_each(|path| volume.write_file(path, b"a sample of a few bytes").map(drop))
}

#[inline(never)]
fn count_resolve(volume: &Volume, paths: &[String]) -> Outcome {
    let options = ResolveOptions { attributes: true, ..ResolveOptions::default() };
    black_box(volume.resolve_batch(&options, paths)?);
    Ok(())
}

#[inline(never)]
fn count_lookup(volume: &Volume, paths: &[String]) -> Outcome {
    let caller = Caller::OWNER;
    let directory = volume.resolve("/data/train/class-00")?.ino;
    for path in paths.iter().step_by(DIRECTORIES) {
        let name = path.rsplit('/').next().unwrap_or_default();
        black_box(volume.lookup(&caller, directory, name.as_bytes())?);
    }
    Ok(())
}

#[inline(never)]
fn count_read(volume: &Volume, paths: &[String]) -> Outcome {
    paths.iter().try_for_each(|path| volume.read_file(path).map(|bytes| drop(black_box(bytes))))
}

/// Files of three blocks, in one extent each.
#[inline(never)]
fn count_blocks(volume: &Volume, paths: &[String]) -> Outcome {
    let data = vec![7; 10_000];
    paths.iter().try_for_each(|path| volume.write_file(path, &data).map(drop))
}

#[inline(never)]
fn count_reread(volume: &Volume, paths: &[String]) -> Outcome {
    let mut buffer = vec![0; 10_000];
    for path in paths {
        let ino = volume.resolve(path)?.ino;
        volume.read(&Caller::OWNER, ino, 0, &mut buffer)?;
    }
    Ok(())
}

/// As [`count_blocks`], in one call.
#[inline(never)]
fn count_many(volume: &Volume, paths: &PathSet, data: &[u8], offsets: &[u64]) -> Outcome {
    let options = WriteMany { threads: 1, ..WriteMany::default() };
    black_box(volume.write_many(&options, paths, data, offsets)?);
    Ok(())
}

/// Reads files of three blocks, in one call.
#[inline(never)]
fn count_together(volume: &Volume, paths: &PathSet, files: &mut FileContents<'_>) -> Outcome {
    let options = ReadFiles { threads: 1, ..ReadFiles::default() };
    black_box(volume.read_files(&options, paths, files)?);
    Ok(())
}

#[inline(never)]
fn count_unlink(volume: &Volume, paths: &[String]) -> Outcome {
    let owner = &Caller::OWNER;
    for path in paths.iter().map(String::as_bytes) {
        let (directory, name) = volume.resolve_parent(path)?;
        volume.unlink(owner, directory, name)?;
    }
    Ok(())
}

#[inline(never)]
fn count_large(volume: &Volume, ino: Ino, data: &mut [u8]) -> Outcome {
    let caller = Caller::OWNER;
    for round in 0..16 {
        volume.write(&caller, ino, round * data.len() as u64, data)?;
    }
    for round in 0..16 {
        volume.read(&caller, ino, round * data.len() as u64, data)?;
    }
    Ok(())
}

#[inline(never)]
fn count_sync(volume: &Volume) -> Outcome {
    volume.sync()
}

fn all(volume: &Volume) -> Outcome {
    let paths: Vec<String> = (0..FILES).map(path).collect();
    count_create(volume, &paths)?;
    count_sync(volume)?;
    count_resolve(volume, &paths)?;
    count_lookup(volume, &paths)?;
    count_read(volume, &paths)?;
    let blocks: Vec<String> = (0..BLOCKS).map(|i| format!("/data/block-{i:06}.bin")).collect();
    count_blocks(volume, &blocks)?;
    count_reread(volume, &blocks)?;
    let many: PathSet = (0..BLOCKS).map(|i| format!("/data/many-{i:06}.bin")).collect();
    let offsets: Vec<u64> = (0..=BLOCKS as u64).map(|i| i * 10_000).collect();
    count_many(volume, &many, &vec![7; BLOCKS * 10_000], &offsets)?;
    count_together(volume, &many, &mut FileContents::new())?;
    let large = volume.create_file(&Caller::OWNER, volume.root(), b"large", 0o644)?.ino;
    count_large(volume, large, &mut vec![7; 1 << 20])?;
    count_unlink(volume, &paths)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = CreateOptions { size: 256 << 20, ..CreateOptions::default() };
    match std::env::args().nth(1) {
        None => all(&Volume::create_memory(&options)?)?,
        Some(image) => {
            Volume::create(&image, &options)?.close()?;
            let volume = Volume::open(&image, OpenOptions::default())?;
            all(&volume)?;
            volume.close()?;
        }
    }
    Ok(())
}
