//! The rows of a batch of small files at random: what frames and plans of requests change.

use super::PublishSettings;
use super::link::{Link, Quality, Traffic};
use super::reading::Opened;
use super::rows::{FAR_BATCH, GOAL_BATCH_BYTES, GOAL_BATCH_RANGES, GOAL_BATCH_WHOLE, NEAR_BATCH};
use super::server::{Server, store};
use super::small_files::{PUBLISHED, publish_image};
use crate::benches::read::corpus::{Corpus, CorpusRequests};
use crate::error::{Error, Result, check};
use crate::measure::threads::together;
use crate::measure::values::{LANEFS, Values};
use crate::session::Session;
use crate::systems::file_volume::FileSet;
use crate::systems::system::Named;
use lanefs::{FileContents, ReadFiles};
use lanefs_publish::{PublishOptions, ReadOptions};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Folder of the publication whose pieces have no frames.
const WHOLE: &str = "whole";
/// Requests at the same time: of a reader as it was before it made plans, and of the plain client.
const OLD_REQUESTS: usize = 32;
const CONNECTIONS: usize = 256;
/// Files of the batch at most.
const MOST_READS: usize = 1000;

/// The links: a store in another country, and one in the same building.
const LINKS: [(&str, Quality); 2] = [
    (FAR_BATCH, Quality { round_trip: Duration::from_millis(30), bandwidth: Some(125e6) }),
    (NEAR_BATCH, Quality { round_trip: Duration::from_millis(2), bandwidth: Some(1250e6) }),
];

/// A system under measurement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BatchReader {
    Lane,
    /// LaneFS with pieces without frames, and as few requests at the same time as before.
    Whole,
    /// A client that knows where the bytes of each file are: one ranged read for each, and nothing else.
    Ranges,
}

impl Named for BatchReader {
    fn name(&self) -> &str {
        match self {
            BatchReader::Lane => LANEFS,
            BatchReader::Whole => "whole-pieces",
            BatchReader::Ranges => "known-ranges",
        }
    }
}

/// Measures the rows. The volume was published with frames.
pub(super) fn measure(
    bench: &mut Session<PublishSettings>,
    server: &Server,
    corpus: &Corpus,
    image: &Path,
) -> Result<()> {
    let options = PublishOptions { frame_bytes: 0, ..PublishOptions::default() };
    bench.progress.step("publishing without frames");
    publish_image(server, image, WHOLE, &options, &bench.stop)?;
    let requests = CorpusRequests::new(corpus, corpus.len().div_ceil(10).min(MOST_READS));
    let bytes: usize = requests.files.iter().map(|file| corpus.size(*file)).sum();
    for (name, quality) in LINKS {
        if bench.selection.has(name) {
            measure_row(bench, server, corpus, &requests, bytes, name, quality)?;
        }
    }
    Ok(())
}

fn measure_row(
    bench: &mut Session<PublishSettings>,
    server: &Server,
    corpus: &Corpus,
    requests: &CorpusRequests,
    bytes: usize,
    name: &str,
    quality: Quality,
) -> Result<()> {
    let (mut values, mut received, mut asked) = (Values::default(), Values::default(), Values::default());
    let readers = [&BatchReader::Lane, &BatchReader::Whole, &BatchReader::Ranges];
    bench.in_turn(name, &readers, |reader, run| {
        let link = server.link(quality)?;
        let (elapsed, traffic) = match reader {
            BatchReader::Lane => read_batch(&link, PUBLISHED, 0, corpus, requests)?,
            BatchReader::Whole => read_batch(&link, WHOLE, OLD_REQUESTS, corpus, requests)?,
            BatchReader::Ranges => read_ranges(&link, server, corpus, requests)?,
        };
        if run > 0 {
            values.add(reader.name(), elapsed.as_secs_f64() * 1e3);
            received.add(reader.name(), traffic.received as f64 / bytes.max(1) as f64);
            asked.add(reader.name(), traffic.requests as f64);
        }
        Ok(())
    })?;
    let requests_of = |name: &str| asked.median(name).unwrap_or(f64::NAN);
    let times = |name: &str| received.median(name).unwrap_or(f64::INFINITY);
    let row = values.row(name, "ms").map(|row| {
        row.param("files", corpus.len())
            .param("reads", requests.len())
            .param("bytes", bytes)
            .param("round_trip_ms", quality.round_trip.as_secs_f64() * 1e3)
            .param("mb_per_s", quality.bandwidth.unwrap_or_default() / 1e6)
            .extra("bytes_of_files", times(LANEFS))
            .extra("whole_bytes_of_files", times(BatchReader::Whole.name()))
            .extra("requests", requests_of(LANEFS))
            .extra("whole_requests", requests_of(BatchReader::Whole.name()))
            .goal(format!("bytes <= {GOAL_BATCH_BYTES} x files"), times(LANEFS) <= GOAL_BATCH_BYTES)
            .goal_ratio(BatchReader::Whole.name(), GOAL_BATCH_WHOLE)
            .goal_ratio(BatchReader::Ranges.name(), GOAL_BATCH_RANGES)
    });
    bench.row(row);
    Ok(())
}

/// Reads all files as one batch of a publication that is open, and of which nothing else was read. Returns
/// the time, and what came over the link.
fn read_batch(
    link: &Link,
    folder: &str,
    most: usize,
    corpus: &Corpus,
    requests: &CorpusRequests,
) -> Result<(Duration, Traffic)> {
    let opened = Opened::with(link, folder, &ReadOptions { requests: most, ..ReadOptions::default() })?;
    let (before, start) = (link.traffic(), Instant::now());
    let mut contents = FileContents::new();
    let read = opened.volume.read_files(&ReadFiles::default(), &requests.set, &mut contents);
    read.map_err(Error::volume("read_files"))?;
    let elapsed = start.elapsed();
    let files = requests.files.iter().zip(contents.iter());
    let good = files.filter(|(file, content)| content.is_ok_and(|c| corpus.is_right(**file, c))).count();
    check(LANEFS, "files read", good as u64, requests.len())?;
    Ok((elapsed, since(&before, link)))
}

fn since(before: &Traffic, link: &Link) -> Traffic {
    let now = link.traffic();
    Traffic { requests: now.requests - before.requests, received: now.received - before.received }
}

/// Reads as many bytes as each file has, from anywhere in the packs, by one request for each.
fn read_ranges(
    link: &Link,
    server: &Server,
    corpus: &Corpus,
    requests: &CorpusRequests,
) -> Result<(Duration, Traffic)> {
    let failed = |error: lanefs_publish::StoreError| Error::Publication {
        what: "a ranged read".into(),
        message: error.to_string(),
    };
    let mut packs = store(server.address(), PUBLISHED)?.list("packs").map_err(failed)?;
    packs.retain(|pack| pack.bytes > 1 << 20);
    let all: u64 = packs.iter().map(|pack| pack.bytes).sum();
    let client = store(link.address(), PUBLISHED)?;
    let place = |number: usize| {
        let len = corpus.size(requests.files[number]) as u64;
        let mut at = all / requests.len() as u64 * number as u64;
        let pack = packs.iter().find(|pack| {
            let is_here = at < pack.bytes;
            at -= if is_here { 0 } else { pack.bytes };
            is_here
        });
        pack.map(|pack| {
            let at = at.min(pack.bytes.saturating_sub(len));
            (format!("packs/{}", pack.name), at..at + len)
        })
    };
    let places: Vec<_> = (0..requests.len()).filter_map(place).collect();
    let (before, start, next) = (link.traffic(), Instant::now(), AtomicUsize::new(0));
    let read = together(CONNECTIONS.min(places.len().max(1)), |_| {
        let mut read = 0;
        while let Some((object, range)) = places.get(next.fetch_add(1, Ordering::Relaxed)) {
            read += client.read(object, range.clone()).map_err(failed)?.len() as u64;
        }
        Ok(read)
    })?;
    let elapsed = start.elapsed();
    let wanted: u64 = places.iter().map(|(_, range)| range.end - range.start).sum();
    check(BatchReader::Ranges.name(), "bytes read", read.sum, wanted as usize)?;
    Ok((elapsed, since(&before, link)))
}
