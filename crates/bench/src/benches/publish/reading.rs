//! The rows of readers: a published tree over links of some latency or bandwidth, with nothing kept from
//! before.

use super::PublishSettings;
use super::link::{Link, Quality, Traffic};
use super::rows::{
    ALL, FAR, FIRST, GOAL_ALL, GOAL_LOOKUP, GOAL_TRIPS, GOAL_WALK, LOOKUP, LOOKUPS, WALK, WIDE,
};
use super::server::{Server, store};
use super::tree::SourceTree;
use crate::error::{Error, Result, check};
use crate::measure::threads::together;
use crate::measure::values::{LANEFS, Values};
use crate::session::Session;
use crate::systems::system::Named;
use crate::systems::walk::WalkedFiles;
use crate::systems::workload::shuffled;
use lanefs::{Access, Column, Columns, FileContents, PathSet, ReadFiles, ResolveOptions, Volume};
use lanefs_publish::{Publication, ReadOptions, Reference, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Connections of the plain client, as many as a reader of a publication has, and bytes of a read.
const CONNECTIONS: usize = 32;
const RANGE: u64 = 4 << 20;

/// Bytes and files of a batch of `read-all`.
const BATCH_BYTES: u64 = 64 << 20;
const BATCH_FILES: usize = 4096;

/// A system under measurement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Lane,
    /// Ranged reads of as many bytes, by a client that knows where they are and does nothing with them.
    Ranges,
}

impl Named for Reader {
    fn name(&self) -> &str {
        match self {
            Reader::Lane => LANEFS,
            Reader::Ranges => "ranges",
        }
    }
}

/// A publication that was opened, and its volume.
pub(super) struct Opened {
    publication: Publication,
    pub(super) volume: Volume,
}

impl Opened {
    /// Opens the publication in a folder over a link, with empty caches.
    pub(super) fn new(link: &Link, folder: &str) -> Result<Opened> {
        Self::with(link, folder, &ReadOptions::default())
    }

    /// Opens it with other options.
    pub(super) fn with(link: &Link, folder: &str, options: &ReadOptions) -> Result<Opened> {
        let store = store(link.address(), folder)?;
        let publication = Publication::open(store, &Reference::default(), options)
            .map_err(Error::publication("opening a publication"))?;
        let volume = Volume::open_device(Box::new(publication.device()), Access::Read);
        Ok(Opened { publication, volume: volume.map_err(Error::volume("opening a publication"))? })
    }
}

/// Measures the selected rows.
pub(super) fn measure(
    bench: &mut Session<PublishSettings>,
    server: &Server,
    tree: &SourceTree,
) -> Result<()> {
    if bench.selection.has(FIRST) {
        first_lookup(bench, server, tree)?;
    }
    if bench.selection.has(LOOKUP) {
        lookup(bench, server, tree)?;
    }
    if bench.selection.has(WALK) {
        walk(bench, server, tree)?;
    }
    if bench.selection.has(ALL) {
        read_all(bench, server, tree)?;
    }
    Ok(())
}

fn millis(elapsed: Duration) -> f64 {
    elapsed.as_secs_f64() * 1e3
}

fn first_lookup(bench: &mut Session<PublishSettings>, server: &Server, tree: &SourceTree) -> Result<()> {
    let (mut values, mut requests) = (Values::default(), Values::default());
    let path = tree.paths(&[tree.len() / 2]);
    bench.in_turn(FIRST, &[&Reader::Lane], |reader, run| {
        let link = server.link(FAR)?;
        let start = Instant::now();
        let opened = Opened::new(&link, LANEFS)?;
        resolve(&opened.volume, &path)?;
        if run > 0 {
            values.add(reader.name(), millis(start.elapsed()));
            requests.add(reader.name(), link.traffic().requests as f64);
        }
        Ok(())
    })?;
    let trips = values.median(LANEFS).unwrap_or(f64::INFINITY) / millis(FAR.round_trip);
    let row = values.row(FIRST, "ms").map(|row| {
        row.param("names", tree.names)
            .param("round_trip_ms", millis(FAR.round_trip))
            .extra("round_trips", trips)
            .extra("requests", requests.median(LANEFS).unwrap_or_default())
            .goal(format!("round trips <= {GOAL_TRIPS}"), trips <= GOAL_TRIPS)
    });
    bench.row(row);
    Ok(())
}

fn lookup(bench: &mut Session<PublishSettings>, server: &Server, tree: &SourceTree) -> Result<()> {
    let mut order = shuffled(tree.len());
    order.truncate(LOOKUPS);
    let paths = tree.paths(&order);
    let (values, traffic) =
        beside_ranges(bench, server, LOOKUP, FAR, |opened| resolve(&opened.volume, &paths))?;
    let row = values.row(LOOKUP, "ms").map(|row| {
        let least = (100.0 / GOAL_LOOKUP).round() / 100.0;
        row.param("paths", order.len())
            .param("round_trip_ms", millis(FAR.round_trip))
            .extra("requests", traffic.requests as f64)
            .extra("received_mb", traffic.received as f64 / 1e6)
            .goal_ratio(Reader::Ranges.name(), least)
    });
    bench.row(row);
    Ok(())
}

/// Resolves paths, all of which are there.
fn resolve(volume: &Volume, paths: &PathSet) -> Result<()> {
    let mut answers = Columns::of(&[Column::Code, Column::Ino, Column::Size]);
    let found = volume.resolve_into(&ResolveOptions::default(), paths, &mut answers.rows(paths.len()));
    let good = found.map_err(Error::volume("resolve_into"))?;
    check(LANEFS, "lookups", good as u64, paths.len())
}

fn walk(bench: &mut Session<PublishSettings>, server: &Server, tree: &SourceTree) -> Result<()> {
    let mut values = Values::default();
    let (mut fetched, mut metadata, mut is_metadata_only) = (0, 0, true);
    bench.in_turn(WALK, &[&Reader::Lane], |reader, run| {
        let link = server.link(FAR)?;
        let start = Instant::now();
        let opened = Opened::new(&link, LANEFS)?;
        let found = WalkedFiles::new(&opened.volume).count();
        let elapsed = start.elapsed();
        check(LANEFS, "files walked over", found as u64, tree.len())?;
        fetched = opened.publication.counts().bytes;
        let inventory = opened.publication.inventory(&|_, _| true);
        let stored = inventory.map_err(Error::publication("counting pieces"))?.stored_bytes;
        metadata = stored - opened.publication.facts().data_bytes;
        is_metadata_only &= fetched as f64 <= metadata as f64 * GOAL_WALK;
        if run > 0 {
            values.add(reader.name(), millis(elapsed));
        }
        Ok(())
    })?;
    let row = values.row(WALK, "ms").map(|row| {
        row.param("names", tree.names)
            .param("round_trip_ms", millis(FAR.round_trip))
            .extra("fetched_mb", fetched as f64 / 1e6)
            .extra("metadata_mb", metadata as f64 / 1e6)
            .goal(format!("bytes <= {GOAL_WALK} of metadata and manifest"), is_metadata_only)
    });
    bench.row(row);
    Ok(())
}

fn read_all(bench: &mut Session<PublishSettings>, server: &Server, tree: &SourceTree) -> Result<()> {
    let (values, traffic) =
        beside_ranges(bench, server, ALL, WIDE, |opened| read_tree(&opened.volume, tree))?;
    let row = values.row(ALL, "ms").map(|row| {
        row.param("files", tree.len())
            .param("bytes", tree.bytes())
            .param("mb_per_s", WIDE.bandwidth.unwrap_or_default() / 1e6)
            .param("threads", std::thread::available_parallelism().map_or(1, usize::from))
            .extra("requests", traffic.requests as f64)
            .extra("received_mb", traffic.received as f64 / 1e6)
            .goal_ratio(Reader::Ranges.name(), GOAL_ALL)
    });
    bench.row(row);
    Ok(())
}

/// Reads all files of a tree in the order of their paths.
fn read_tree(volume: &Volume, tree: &SourceTree) -> Result<()> {
    let (mut contents, mut batch, mut bytes) = (FileContents::new(), PathSet::new(), 0);
    let mut files = tree.files().peekable();
    while let Some((path, size)) = files.next() {
        batch.push(path);
        bytes += size;
        let is_full = batch.len() == BATCH_FILES || bytes >= BATCH_BYTES;
        if is_full || files.peek().is_none() {
            let read = volume.read_files(&ReadFiles::default(), &batch, &mut contents);
            read.map_err(Error::volume("read_files"))?;
            let good = contents.iter().filter_map(|content| content.ok()).map(|content| content.len() as u64);
            check(LANEFS, "bytes read", good.sum(), bytes as usize)?;
            batch.clear();
            bytes = 0;
        }
    }
    Ok(())
}

/// Measures the work on a publication beside plain reads of as many bytes as it received. Returns the
/// milliseconds, and the traffic of LaneFS.
fn beside_ranges(
    bench: &Session<PublishSettings>,
    server: &Server,
    title: &str,
    quality: Quality,
    work: impl Fn(&Opened) -> Result<()>,
) -> Result<(Values, Traffic)> {
    let (mut values, mut traffic) = (Values::default(), Traffic::default());
    bench.in_turn(title, &[&Reader::Lane, &Reader::Ranges], |reader, run| {
        let link = server.link(quality)?;
        let start = Instant::now();
        if *reader == Reader::Lane {
            work(&Opened::new(&link, LANEFS)?)?;
        } else {
            read_ranges(&store(link.address(), LANEFS)?, server, traffic.received)?;
        }
        let elapsed = start.elapsed();
        if *reader == Reader::Lane {
            traffic = link.traffic();
        }
        if run > 0 {
            values.add(reader.name(), millis(elapsed));
        }
        Ok(())
    })?;
    Ok((values, traffic))
}

/// Reads so many bytes of the packs, on all connections at once.
fn read_ranges(store: &Arc<dyn Store>, server: &Server, bytes: u64) -> Result<()> {
    let mut packs = super::server::store(server.address(), LANEFS)?
        .list("packs")
        .map_err(|error| Error::Publication { what: "listing packs".into(), message: error.to_string() })?;
    packs.sort_by(|a, b| a.name.cmp(&b.name));
    let (mut ranges, mut left) = (Vec::new(), bytes);
    for pack in &packs {
        for begin in (0..pack.bytes).step_by(RANGE as usize) {
            let len = RANGE.min(pack.bytes - begin).min(left);
            if len > 0 {
                ranges.push((format!("packs/{}", pack.name), begin..begin + len));
                left -= len;
            }
        }
    }
    let next = AtomicUsize::new(0);
    let read = together(CONNECTIONS, |_| {
        let mut read = 0;
        while let Some((object, range)) = ranges.get(next.fetch_add(1, Ordering::Relaxed)) {
            let bytes = store.read(object, range.clone()).map_err(|error| Error::Publication {
                what: "a ranged read".into(),
                message: error.to_string(),
            })?;
            read += bytes.len() as u64;
        }
        Ok(read)
    })?;
    // The answers' heads, which LaneFS received too, are not bytes of packs.
    check(Reader::Ranges.name(), "bytes read", read.sum, (bytes - left) as usize)
}
