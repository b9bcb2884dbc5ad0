//! Runs a program whose kernels read a volume: exports a mirror and a table of files to it, brings the files
//! that it misses, and compares what it has found with the host's own search.
//!
//! ```sh
//! cargo run --release -p lanefs-gpu --example export_to -- IMAGE PATHS WORD ./cuda_grep
//! ```
//!
//! `cuda_grep.cu` says how the program is compiled, and what the two say to each other.

use lanefs::{FileContents, PathSet, ReadFiles, Volume};
use lanefs_gpu::{ExportedMemory, FileTableOptions, Gpu, MirrorExportOptions, MirrorOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::Instant;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Bytes of the files on the device, without another wish (`LANEFS_TABLE_BYTES`).
const TABLE_BYTES: u64 = 1 << 30;

/// Words, files and bytes.
#[derive(Debug, PartialEq, Eq)]
struct FoundWords([u64; 3]);

/// Makes the value of a variable for the program; the descriptor crosses the start of a program.
fn variable(exported: &ExportedMemory, bytes: u64) -> Outcome<String> {
    rustix::io::fcntl_setfd(&exported.fd, rustix::io::FdFlags::empty())?;
    let fd = exported.fd.as_raw_fd();
    Ok(format!("{fd} {} {} {bytes}", exported.allocation_bytes, exported.offset))
}

/// Searches by as many threads as there are processors.
fn search(volume: &Volume, paths: &[&[u8]], word: &[u8]) -> Outcome<FoundWords> {
    let threads = std::thread::available_parallelism()?.get();
    let part = |paths: &[&[u8]]| -> lanefs::Result<[u64; 3]> {
        let (mut sum, mut files) = ([0; 3], FileContents::new());
        for some in paths.chunks(1000) {
            let set: PathSet = some.iter().collect();
            volume.read_files(&ReadFiles { threads: 1, ..ReadFiles::default() }, &set, &mut files)?;
            for content in files.iter().flatten() {
                let words = content.windows(word.len()).filter(|window| *window == word).count();
                sum = [sum[0] + words as u64, sum[1] + 1, sum[2] + content.len() as u64];
            }
        }
        Ok(sum)
    };
    std::thread::scope(|scope| {
        let parts = paths.chunks(paths.len().div_ceil(threads).max(1));
        let all: Vec<_> = parts.map(|paths| scope.spawn(move || part(paths))).collect();
        let mut sum = [0; 3];
        for one in all {
            let one = one.join().map_err(|_| "a thread has panicked")??;
            sum = std::array::from_fn(|i| sum[i] + one[i]);
        }
        Ok(FoundWords(sum))
    })
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [image, list, word, program] = &arguments[..] else {
        return Err("arguments: IMAGE PATHS WORD PROGRAM".into());
    };
    let volume = Volume::open(image, lanefs::Access::Read)?;
    let gpu = Gpu::open(&lanefs_gpu::Choice::Best)?;
    volume.load_metadata(&|_, _| true)?;
    let mirrored = gpu.mirror(&volume, &MirrorOptions::default())?;
    mirrored.warm()?;
    let capacity = std::env::var("LANEFS_TABLE_BYTES").map_or(Ok(TABLE_BYTES), |bytes| bytes.parse())?;
    let mut table = gpu.file_table(capacity, &FileTableOptions::default())?;
    let mirror = mirrored.export(&MirrorExportOptions::default())?;
    let (to_mirror, to_table) = (mirror.export_fd()?, table.export_fd()?);
    let begin = Instant::now();
    let mut child = Command::new(program)
        .args([list, word])
        .env("LANEFS_MIRROR", variable(&to_mirror, mirror.capacity())?)
        .env("LANEFS_FILES", variable(&to_table, table.bytes())?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    drop::<[OwnedFd; 2]>([to_mirror.fd, to_table.fd]);
    let (mut answers, lines) = (child.stdin.take().ok_or("no pipe")?, child.stdout.take().ok_or("no pipe")?);
    let mut found = None;
    for line in BufReader::new(lines).lines() {
        let line = line?;
        if let Some(numbers) = line.strip_prefix("found ") {
            println!("device: {numbers} (words, files, bytes, runs, seconds in kernels)");
            let numbers: Vec<u64> = numbers.split(' ').take(3).map(str::parse).collect::<Result<_, _>>()?;
            found = Some(FoundWords(numbers.try_into().map_err(|_| "three numbers are wanted")?));
        } else {
            let brought = mirrored.bring_missed(&mut table)?;
            writeln!(answers, "{}", brought.files + brought.failed)?;
        }
    }
    println!("device: {:.3} s with all that the host brought", begin.elapsed().as_secs_f64());
    let text = std::fs::read(list)?;
    let paths: Vec<&[u8]> = text.split(|byte| *byte == b'\n').filter(|path| !path.is_empty()).collect();
    let begin = Instant::now();
    let expected = search(&volume, &paths, word.as_bytes())?;
    println!("host: {expected:?} in {:.3} s", begin.elapsed().as_secs_f64());
    if !child.wait()?.success() || found.as_ref() != Some(&expected) {
        return Err(format!("the program found {found:?}").into());
    }
    println!("the same");
    Ok(())
}
