//! The row of small files in random order: a publication beside mounts of a bucket with an object for each
//! file.

use super::PublishSettings;
use super::programs::{self, Program};
use super::reading::Opened;
use super::rows::{GOAL_SHUFFLED, NEAR, SHUFFLED};
use super::server::{KEY, SECRET, Server, store};
use crate::benches::read::corpus::{Corpus, CorpusRequests};
use crate::error::{Error, Result, check};
use crate::measure::stop::Stop;
use crate::measure::threads::in_threads;
use crate::measure::values::{LANEFS, Values};
use crate::session::Session;
use crate::systems::file_volume::{FileSet, FileVolume, IMAGE};
use crate::systems::served::ServedMount;
use crate::systems::system::Named;
use lanefs::{Access, FileContents, ReadFiles, Volume};
use lanefs_publish::{PublishOptions, publish};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Folders of the bucket: the publication, and an object for each file.
pub(super) const PUBLISHED: &str = "small";
const OBJECTS: &str = "files";

/// Files of a batch of LaneFS.
const BATCH_FILES: usize = 256;

/// One of so many files is read.
const SHARE: usize = 10;

/// Threads that store objects.
const UPLOADS: usize = 8;

/// A system under measurement.
#[derive(Clone, Copy)]
enum Reader {
    Lane,
    Mount(Program),
}

impl Named for Reader {
    fn name(&self) -> &str {
        match self {
            Reader::Lane => LANEFS,
            Reader::Mount(program) => program.name(),
        }
    }
}

/// Publishes small files, and measures the row. Returns the files and the image.
pub(super) fn measure(
    bench: &mut Session<PublishSettings>,
    server: &Server,
    temp: &Path,
) -> Result<(Corpus, PathBuf)> {
    let files = bench.settings.files;
    let corpus = Corpus::new(files);
    bench.progress.step(&format!("publishing {files} files"));
    let image = make_image(&corpus, temp, &bench.stop)?;
    publish_image(server, &image, PUBLISHED, &PublishOptions::default(), &bench.stop)?;
    if bench.selection.has(SHUFFLED) {
        measure_shuffled(bench, server, &corpus, temp)?;
    }
    Ok((corpus, image))
}

fn measure_shuffled(
    bench: &mut Session<PublishSettings>,
    server: &Server,
    corpus: &Corpus,
    temp: &Path,
) -> Result<()> {
    let files = bench.settings.files;
    let mut readers = vec![Reader::Lane];
    for program in [Program::Rclone, Program::S3fs] {
        readers.extend(program.is_there(bench)?.then_some(Reader::Mount(program)));
    }
    if readers.len() > 1 {
        bench.progress.step(&format!("storing {files} objects"));
        store_files(server, corpus, &bench.stop)?;
    }
    let passwords = temp.join("passwords");
    std::fs::write(&passwords, format!("{KEY}:{SECRET}"))
        .and_then(|()| std::fs::set_permissions(&passwords, PermissionsExt::from_mode(0o600)))
        .map_err(Error::host("a file of passwords"))?;
    let (requests, mut values) = (CorpusRequests::new(corpus, files.div_ceil(SHARE)), Values::default());
    let mut failed: Vec<(String, String)> = Vec::new();
    bench.in_turn(SHUFFLED, &readers.iter().collect::<Vec<_>>(), |reader, run| {
        if failed.iter().any(|(name, _)| name == reader.name()) {
            return Ok(());
        }
        match reader.read(server, corpus, &requests, &passwords, &bench.stop) {
            Ok(elapsed) if run > 0 => values.add_each(reader.name(), elapsed, requests.len()),
            Ok(_) => {}
            Err(error) if matches!(reader, Reader::Mount(_)) && !bench.stop.is_set() => {
                failed.push((reader.name().to_owned(), error.to_string()));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    })?;
    for (name, error) in failed {
        bench.note(format!("{name} is left out: {error}"));
    }
    let row = values.row(SHUFFLED, "ns/file").map(|row| {
        row.param("files", files)
            .param("reads", requests.len())
            .param("batch", BATCH_FILES)
            .param("mean_bytes", corpus.bytes() / files.max(1) as u64)
            .param("round_trip_ms", NEAR.round_trip.as_secs_f64() * 1e3)
            .goal_ratio(Program::Rclone.name(), GOAL_SHUFFLED)
            .goal_ratio(Program::S3fs.name(), GOAL_SHUFFLED)
    });
    bench.row(row);
    Ok(())
}

/// Makes the volume of the files.
fn make_image(corpus: &Corpus, temp: &Path, stop: &Stop) -> Result<PathBuf> {
    let dir = temp.join(PUBLISHED);
    std::fs::create_dir(&dir).map_err(Error::host("a directory"))?;
    let (lane, _) = FileVolume::make(&dir, corpus, stop)?;
    lane.close()?;
    Ok(dir.join(IMAGE))
}

/// Publishes it to a folder.
pub(super) fn publish_image(
    server: &Server,
    image: &Path,
    folder: &str,
    options: &PublishOptions,
    stop: &Stop,
) -> Result<()> {
    let volume = Volume::open(image, Access::Read).map_err(Error::volume("opening"))?;
    let to = store(server.address(), folder)?;
    let published = publish(&volume, to, "latest", options, &|_, _| !stop.is_set());
    stop.check()?;
    published.map(drop).map_err(Error::publication("publishing"))
}

fn store_files(server: &Server, corpus: &Corpus, stop: &Stop) -> Result<()> {
    let objects = store(server.address(), OBJECTS)?;
    let files: Vec<usize> = (0..corpus.len()).collect();
    in_threads(&files, UPLOADS, |part| {
        for file in part {
            stop.check()?;
            let mut content = Vec::new();
            corpus.content(*file, &mut content);
            let name = corpus.path(*file).to_string_lossy();
            objects.write(&name, content).map_err(|error| Error::Publication {
                what: "storing an object".into(),
                message: error.to_string(),
            })?;
        }
        Ok(part.len() as u64)
    })
    .map(drop)
}

impl Reader {
    /// Reads all requested files, with empty caches.
    fn read(
        self,
        server: &Server,
        corpus: &Corpus,
        requests: &CorpusRequests,
        passwords: &Path,
        stop: &Stop,
    ) -> Result<Duration> {
        let link = server.link(NEAR)?;
        let (elapsed, good) = match self {
            Reader::Lane => {
                let start = Instant::now();
                let opened = Opened::new(&link, PUBLISHED)?;
                let good = read_batches(&opened.volume, corpus, requests, stop)?;
                (start.elapsed(), good)
            }
            Reader::Mount(program) => {
                let command = match program {
                    Program::S3fs => programs::s3fs_mount(link.address(), OBJECTS, passwords),
                    _ => programs::rclone_mount(link.address(), OBJECTS),
                };
                let mount = ServedMount::start(command, stop)?;
                let start = Instant::now();
                let good = read_mounted(mount.path(), corpus, requests, stop)?;
                let elapsed = start.elapsed();
                mount.end()?;
                (elapsed, good)
            }
        };
        check(self.name(), "files read", good, requests.len())?;
        Ok(elapsed)
    }
}

/// Reads files in batches; returns the number of right ones.
fn read_batches(volume: &Volume, corpus: &Corpus, requests: &CorpusRequests, stop: &Stop) -> Result<u64> {
    let (mut contents, mut good) = (FileContents::new(), 0);
    for first in (0..requests.len()).step_by(BATCH_FILES) {
        stop.check()?;
        let end = requests.len().min(first + BATCH_FILES);
        let read =
            volume.read_files(&ReadFiles::default(), requests.set.view().slice(first..end), &mut contents);
        read.map_err(Error::volume("read_files"))?;
        let files = requests.files[first..end].iter().zip(contents.iter());
        good += files.filter(|(file, content)| content.is_ok_and(|c| corpus.is_right(**file, c))).count();
    }
    Ok(good as u64)
}

/// Reads files one by one; returns the number of right ones.
fn read_mounted(dir: &Path, corpus: &Corpus, requests: &CorpusRequests, stop: &Stop) -> Result<u64> {
    let mut good = 0;
    for (file, path) in requests.files.iter().zip(requests.strings.iter()) {
        stop.check()?;
        let path = dir.join(OsStr::from_bytes(path.to_bytes()));
        let content = std::fs::read(&path).map_err(Error::host(path.display().to_string()))?;
        good += u64::from(corpus.is_right(*file, &content));
    }
    Ok(good)
}
