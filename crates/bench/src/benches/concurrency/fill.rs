//! `fill-*`: rate at which a cold volume's data becomes resident, beside `fio` on the same file.

use super::bench::ConcurrencyBench;
use super::stamp::{self, is_stamped, stamp};
use crate::error::{Error, Result, check};
use crate::measure::report::Row;
use crate::measure::stop::Stop;
use crate::measure::values::{LANEFS, Values};
use crate::systems::fio::Job;
use crate::systems::temporary::temp_dir;
use crate::systems::workload::{SEED, shuffled};
use lanefs::{ByteRange, Caller, CreateOptions, FileContents, Ino, ReadFiles, Volume};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::fs::{Advice, SeekFrom};
use std::fs::File;
use std::path::Path;
use std::time::Instant;

/// Goal of LaneFS's rate over that of `fio`.
const GOAL: f64 = 0.95;

const BLOCK: u64 = stamp::BLOCK as u64;
/// Bytes of one sequential read, and number of them that `fio` has in flight. (LaneFS chooses its own
/// readahead.)
const STEP_BYTES: u64 = 1 << 20;
const SEQUENTIAL_DEPTH: u32 = 8;
/// Random reads that `fio` has in flight, and random reads of one call of LaneFS.
const RANDOM_DEPTH: u32 = 32;
const RANDOM_BATCH_READS: usize = 1024;

/// A volume in a file, which contains one large file.
struct FillFixture {
    volume: Volume,
    image: File,
    file: Ino,
    bytes: u64,
}

impl FillFixture {
    fn new(path: &Path, bytes: u64, stop: &Stop) -> Result<Self> {
        let options = CreateOptions { size: bytes + bytes / 8 + (64 << 20), ..CreateOptions::default() };
        let volume = Volume::create(path, &options).map_err(Error::volume("making a volume"))?;
        let made = volume.create_file(&Caller::OWNER, volume.root(), b"cold", 0o644);
        let file = made.map_err(Error::volume("making a file"))?.ino;
        let mut part = vec![0; STEP_BYTES as usize];
        let mut rng = StdRng::seed_from_u64(SEED);
        // Contents that a device below can neither compress nor leave out.
        rng.fill_bytes(&mut part);
        for at in (0..bytes).step_by(part.len()) {
            stop.check()?;
            stamp(&mut part, at);
            let len = part.len().min((bytes - at) as usize);
            volume.write(&Caller::OWNER, file, at, &part[..len]).map_err(Error::volume("writing"))?;
        }
        volume.sync().map_err(Error::volume("sync"))?;
        let image = File::open(path).map_err(Error::host("the volume's file"))?;
        Ok(FillFixture { volume, image, file, bytes })
    }

    /// Empties the volume's cache, and that of the host if the volume uses it.
    fn drop_caches(&self) -> Result<()> {
        self.volume.drop_caches().map_err(Error::volume("emptying the cache"))?;
        rustix::fs::fsync(&self.image).map_err(Error::host("the volume's file"))?;
        let advised = rustix::fs::fadvise(&self.image, 0, None, Advice::DontNeed);
        advised.map_err(Error::host("the volume's file"))
    }

    /// Reads the whole file from its start; returns bytes a second.
    fn sequential(&self, stop: &Stop) -> Result<f64> {
        self.drop_caches()?;
        let mut buffer = vec![0; STEP_BYTES as usize];
        let (mut done, mut good) = (0, 0);
        let start = Instant::now();
        while done < self.bytes {
            stop.check()?;
            let read = self.volume.read(&Caller::OWNER, self.file, done, &mut buffer);
            let len = read.map_err(Error::volume("reading"))?;
            good += u64::from(is_stamped(&buffer[..len], done));
            done += (len as u64).max(1);
        }
        let elapsed = start.elapsed();
        check(LANEFS, "sequential reads", good, self.bytes.div_ceil(STEP_BYTES) as usize)?;
        Ok(self.bytes as f64 / elapsed.as_secs_f64())
    }

    /// Reads these blocks, many at once; returns bytes a second.
    fn random(&self, blocks: &[usize], stop: &Stop) -> Result<f64> {
        self.drop_caches()?;
        let mut memory = vec![0; RANDOM_BATCH_READS * BLOCK as usize];
        let mut contents = FileContents::lent(&mut memory);
        let files = [self.file; RANDOM_BATCH_READS];
        let mut good = 0;
        let start = Instant::now();
        for batch in blocks.chunks(RANDOM_BATCH_READS) {
            stop.check()?;
            let offset = |block: &usize| *block as u64 * BLOCK;
            let ranges: Vec<ByteRange> =
                batch.iter().map(|block| ByteRange { offset: offset(block), len: BLOCK }).collect();
            let options = ReadFiles { ranges: Some(&ranges), ..ReadFiles::default() };
            let read = self.volume.read_files(&options, &files[..batch.len()], &mut contents);
            read.map_err(Error::volume("reading"))?;
            let right = |(bytes, range): &(std::result::Result<&[u8], lanefs::Code>, &ByteRange)| {
                bytes.is_ok_and(|bytes| bytes.len() as u64 == BLOCK && is_stamped(bytes, range.offset))
            };
            good += contents.iter().zip(&ranges).filter(right).count();
        }
        let elapsed = start.elapsed();
        check(LANEFS, "random reads", good as u64, blocks.len())?;
        Ok((blocks.len() as u64 * BLOCK) as f64 / elapsed.as_secs_f64())
    }
}

/// Finds the longest range of data in a sparse file, from a multiple of `STEP_BYTES` on. `fio` reads it,
/// because a hole costs nothing.
fn longest_data(file: &File) -> Result<(u64, u64)> {
    let failed = || Error::host("looking for data in the volume's file");
    let (mut longest, mut at) = ((0, 0), 0);
    while let Ok(data) = rustix::fs::seek(file, SeekFrom::Data(at)) {
        let hole = rustix::fs::seek(file, SeekFrom::Hole(data)).map_err(failed())?;
        let start = data.next_multiple_of(STEP_BYTES);
        let len = hole.saturating_sub(start) / STEP_BYTES * STEP_BYTES;
        if len > longest.1 {
            longest = (start, len);
        }
        at = hole;
    }
    Ok(longest)
}

pub(super) fn measure(bench: &mut ConcurrencyBench) -> Result<()> {
    let sizes = bench.settings.sizes;
    let temp = temp_dir()?;
    let path = temp.path().join("volume.lane");
    bench.progress.step("fill: writing a file");
    let fixture = FillFixture::new(&path, sizes.fill_bytes, &bench.stop)?;
    let (offset, len) = longest_data(&fixture.image)?;
    let mut blocks = shuffled((sizes.fill_bytes / BLOCK) as usize);
    blocks.truncate(sizes.fill_reads);
    for (name, random) in [("fill-sequential", false), ("fill-random", true)] {
        if !bench.selection.has(name) {
            continue;
        }
        let wanted = if random { blocks.len() as u64 * BLOCK } else { sizes.fill_bytes };
        let job = Job {
            block_bytes: if random { BLOCK } else { STEP_BYTES },
            depth: if random { RANDOM_DEPTH } else { SEQUENTIAL_DEPTH },
            random,
            offset,
            len,
            bytes: wanted.min(len),
        };
        let mut rates = Values::default();
        let mut left_out = None;
        for run in 0..=bench.runs {
            bench.progress.step(&format!("{name}: run {run} of {}", bench.runs));
            bench.stop.check()?;
            let rate =
                if random { fixture.random(&blocks, &bench.stop) } else { fixture.sequential(&bench.stop) }?;
            if run > 0 {
                rates.add(LANEFS, rate / 1e6);
            }
            if left_out.is_some() {
                continue;
            }
            match job.run(&path, &bench.stop) {
                Ok(rate) if run > 0 => rates.add("fio", rate / 1e6),
                Ok(_) => (),
                Err(Error::Stopped) => return Err(Error::Stopped),
                Err(reason) => left_out = Some(reason.to_string()),
            }
        }
        let row = rates.rate_row(name, "MB/s").map(|row| {
            let row = with_params(row, &job, wanted).goal_ratio("fio", GOAL);
            left_out.map_or(row.clone(), |reason| row.note(format!("fio is left out: {reason}")))
        });
        bench.row(row);
    }
    Ok(())
}

fn with_params(row: Row, job: &Job, wanted: u64) -> Row {
    row.param("bytes", wanted)
        .param("fio_bytes", job.bytes)
        .param("block_bytes", job.block_bytes)
        .param("fio_depth", job.depth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_wrong_block_is_no_rate() {
        let temp = tempfile::tempdir().unwrap();
        let stop = Stop::default();
        let fixture = FillFixture::new(&temp.path().join("volume.lane"), 4 << 20, &stop).unwrap();
        let blocks = shuffled(1024);
        assert!(fixture.sequential(&stop).unwrap() > 0.0 && fixture.random(&blocks, &stop).unwrap() > 0.0);
        fixture.volume.write(&Caller::OWNER, fixture.file, STEP_BYTES, b"wrong").unwrap();
        for rate in [fixture.sequential(&stop), fixture.random(&blocks, &stop)] {
            assert!(matches!(rate, Err(Error::Wrong { .. })));
        }
    }

    #[test]
    fn the_longest_run_of_data_is_found() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("sparse");
        let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
        file.set_len(32 * STEP_BYTES).unwrap();
        file.write_all_at(&vec![1; 2 * STEP_BYTES as usize], 3 * STEP_BYTES).unwrap();
        file.write_all_at(&vec![1; 4 * STEP_BYTES as usize], 10 * STEP_BYTES - BLOCK).unwrap();
        let (offset, len) = longest_data(&file).unwrap();
        // On a file system without holes the whole file is data.
        assert!(
            (offset, len) == (10 * STEP_BYTES, 3 * STEP_BYTES) || (offset, len) == (0, 32 * STEP_BYTES),
            "{offset} {len}"
        );
    }
}
