//! Memory and time of a check: `check_memory make IMAGE ENTRIES` makes a volume, `check_memory check IMAGE
//! MEMORY_MIB THREADS` checks it and prints the peak of the process's resident memory.

use lanefs::{Access, Caller, CheckOptions, CreateOptions, OpenOptions, Volume};
use std::error::Error;
use std::time::Instant;

/// Files in a directory.
const FILES: u64 = 1000;
/// Bytes of the volume for each file: an inode, its entry, and room to spare.
const BYTES_PER_FILE: u64 = 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", image, entries] => make(image, entries.parse()?),
        ["check", image, mib, threads] => check(image, mib.parse::<u64>()? << 20, threads.parse()?),
        _ => Err("make IMAGE ENTRIES, or check IMAGE MEMORY_MIB THREADS".into()),
    }
}

fn make(image: &str, entries: u64) -> Result<(), Box<dyn Error>> {
    let size = (entries * BYTES_PER_FILE).max(64 << 20);
    let volume = Volume::create(image, &CreateOptions { size, force: true, ..CreateOptions::default() })?;
    for number in 0..entries.div_ceil(FILES) {
        let dir = volume.mkdir_all(format!("/{}/{number}", number / 1000), 0o755)?.ino;
        for file in number * FILES..((number + 1) * FILES).min(entries) {
            volume.create_file(&Caller::OWNER, dir, format!("file {file}").as_bytes(), 0o644)?;
        }
    }
    volume.close()?;
    Ok(())
}

fn check(image: &str, memory: u64, threads: usize) -> Result<(), Box<dyn Error>> {
    let options = OpenOptions { access: Access::Read, cache: Some(memory / 2), ..OpenOptions::default() };
    let volume = Volume::open(image, options)?;
    let start = Instant::now();
    let options = CheckOptions { repair: false, memory: Some(memory), threads, progress: &|_, _| {} };
    let report = volume.check_with(&options)?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown");
    println!(
        "{} findings, {} inodes, {} directories, {:.1} s, {peak}",
        report.findings.len(),
        report.inodes,
        report.directories,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
