//! `lanefs-bench read`: whole small files in random order, beside ext4, SquashFS and an indexed archive.
//!
//! One set of files serves all rows. Each system copies the same files into memory in the same order, and
//! each file's length, begin and end are checked.

mod archive;
pub(crate) mod corpus;
mod readers;
mod rows;
mod uring;

pub use rows::row_names;

use crate::error::Result;
use crate::measure::report::Row;
use crate::measure::values::{LANEFS, Values};
use crate::session::{CommonArgs, Session};
use crate::systems::file_volume::{FileSet, FileVolume, make_on_host};
use crate::systems::peers::{Host, Medium, SpaceRequest, SquashImage};
use crate::systems::temporary::temp_dir;
use archive::Archive;
use corpus::{Corpus, CorpusRequests};
use readers::Reader;
use rows::{MAKE, ROWS, ReadWork};

/// Arguments of `lanefs-bench read`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ReadArgs {
    #[command(flatten)]
    /// Arguments of every benchmark.
    pub common: CommonArgs,
    /// Files [default: 300000, with --quick 30000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub files: Option<u32>,
}

/// Files of a full run, and of a quick one.
const FILES: (usize, usize) = (300_000, 30_000);

/// Of so many files one is read in each run of a cold row.
const COLD_SHARE: usize = 10;

/// Runs the benchmark and reports; returns an exit code of [`crate::session`].
///
/// # Errors
/// [`crate::Error::Arguments`] and unreadable directories before anything is measured.
pub fn run_read(args: &ReadArgs) -> Result<u8> {
    let usual = if args.common.quick { FILES.1 } else { FILES.0 };
    let files = args.files.map_or(usual, |files| files as usize);
    let names = row_names();
    Session::start("read", &args.common, &names, files)?.finish(|bench| bench.part("read", &names, measure))
}

fn measure(bench: &mut Session<usize>) -> Result<()> {
    let corpus = Corpus::new(bench.settings);
    let need = SpaceRequest { inodes: corpus.len() as u64 * 2, bytes: corpus.bytes() * 2 };
    // A tmpfs has its files in memory once; the others have them on a disk, and in memory where they are
    // warm.
    let mut hosts = bench.hosts(need, Medium::Disk)?;
    hosts.retain(Host::about_ext4);
    let temp = temp_dir()?;
    let mut made = Values::default();
    bench.progress.step(&format!("making {} files, {LANEFS}", corpus.len()));
    let (lane, elapsed) = FileVolume::make(temp.path(), &corpus, &bench.stop)?;
    made.add_each(LANEFS, elapsed, corpus.len());
    for host in &hosts {
        bench.progress.step(&format!("making {} files, ext4", corpus.len()));
        made.add_each("ext4", make_on_host(host, &corpus, &bench.stop)?, corpus.len());
    }
    bench.progress.step("making an archive");
    let archive = Archive::make(temp.path(), &corpus, &bench.stop)?;
    let squashed = match hosts.first() {
        Some(host) => {
            bench.progress.step("making an image of SquashFS");
            SquashImage::pack(host.path(), corpus.bytes(), Medium::Disk, &bench.stop)
                .and_then(|image| image.mount(&bench.stop))
                .map_err(|error| format!("squashfs is left out: {error}"))
        }
        None => Err("squashfs is left out: its files are those of ext4".into()),
    };
    let row = made.row(MAKE, "ns/file").map(|row| described(row, &corpus, 1).goal_ratio("ext4", 10.0));
    bench.row(row);
    let mut readers = vec![Reader::Batch(&lane), Reader::Single(&lane)];
    readers.extend(hosts.iter().map(Reader::Host));
    readers.extend(hosts.iter().map(Reader::Uring));
    match &squashed {
        Ok(host) => readers.push(Reader::Host(host)),
        Err(note) => bench.note(note.clone()),
    }
    readers.push(Reader::Archive(&archive));
    for work in ROWS {
        if bench.selection.has(work.name) {
            measure_row(bench, work, &corpus, &readers)?;
        }
    }
    Ok(())
}

fn measure_row(
    bench: &mut Session<usize>,
    work: &ReadWork,
    corpus: &Corpus,
    readers: &[Reader<'_>],
) -> Result<()> {
    let count = if work.is_cold { corpus.len().div_ceil(COLD_SHARE) } else { corpus.len() };
    let requests = CorpusRequests::new(corpus, count);
    let mut values = Values::default();
    let mut left_out = None;
    bench.in_turn(work.name, &readers.iter().collect::<Vec<_>>(), |reader, run| {
        if work.is_cold
            && let Err(error) = reader.drop_caches()
        {
            left_out = Some(format!("{} is left out of the cold rows: {error}", reader.named()));
            return Ok(());
        }
        let elapsed = reader.read(corpus, &requests, work, &bench.stop)?;
        if run > 0 {
            values.add_each(reader.named(), elapsed, requests.len());
        }
        Ok(())
    })?;
    left_out.into_iter().for_each(|note| bench.note(note));
    let row = values.row(work.name, "ns/file").map(|row| {
        let row =
            described(row, corpus, work.threads).param("reads", requests.len()).param("batch", work.batch);
        work.goals.iter().fold(row, |row, (peer, least)| row.goal_ratio(peer, *least))
    });
    bench.row(row);
    Ok(())
}

fn described(row: Row, corpus: &Corpus, threads: usize) -> Row {
    row.param("files", corpus.len())
        .param("directories", corpus.directories().len())
        .param("mean_bytes", corpus.bytes() / corpus.len().max(1) as u64)
        .param("threads", threads)
}
