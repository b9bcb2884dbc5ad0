//! A publication of 10^9 files, and its readers: constants measured on small volumes, a formula with them,
//! and 1,000 readers simulated in virtual time. `docs/scale.md` explains the numbers.
//!
//! `make scale` executes it. It takes about a minute, and some 2 GB of the folder for temporary files.

use lanefs::{Access, CreateOptions, FileContents, OpenOptions, PathSet, ReadFiles, Volume, WriteMany};
use lanefs_publish::{
    Directory, Facts, Inventory, Listed, Publication, PublishOptions, ReadOptions, Reference, Stamp, Store,
    StoreError, publish,
};
use lanefs_testkit::seeded::Seeded;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::error::Error;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Files of the volumes that are measured, in directories of [`SIBLINGS`] files of [`FILE`] bytes each.
const MEASURED: [u64; 2] = [20_000, 80_000];
const SIBLINGS: u64 = 1000;
const FILE: usize = 10 << 10;

/// Files of the volume on paper.
const FILES: u64 = 1_000_000_000;
/// Files of a reader's first batch, in random places.
const BATCH_FILES: u64 = 256;
const READERS: u64 = 1000;

/// Windows that one leaf page covers, and pages that the page above covers.
const FANOUT: u64 = 1024;
/// Requests of a reader that are under way at the same time.
const CONCURRENT: usize = 32;

/// Windows on the way to a file's content, one known from the one before: the root's inode, its index, the
/// directory's inode, its index, the file's inode, the content. True: another one for each file.
const STEPS: [(bool, Kind); 6] = [
    (false, Kind::Metadata),
    (true, Kind::Metadata),
    (true, Kind::Metadata),
    (true, Kind::Metadata),
    (true, Kind::Metadata),
    (true, Kind::Data),
];

/// The store: seconds to the first byte, requests a second, bytes a second. S3 promises 5,500 reads a second
/// for a prefix and divides a busy prefix into several, and answers small reads within some 20 ms; 100 Gbit/s
/// is the network of a large instance.
const LATENCY: f64 = 0.02;
const RATES: [f64; 2] = [5500.0, 55_000.0];
const BANDWIDTH: f64 = 12.5e9;

type Outcome<T> = Result<T, Box<dyn Error>>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Metadata,
    Data,
}

/// Requests that depend on none of each other.
#[derive(Clone, Copy, Debug, Default)]
struct Wave {
    requests: u64,
    bytes: u64,
}

/// A store that groups reads into waves: those that come before the answer to any of them.
struct Traced {
    store: Directory,
    waves: Mutex<(Vec<Wave>, Instant)>,
}

/// Time without a new request after which a wave is complete.
const QUIET: Duration = Duration::from_millis(10);

impl Traced {
    fn new(folder: &Path) -> Traced {
        let waves = Mutex::new((vec![Wave::default()], Instant::now()));
        Traced { store: Directory::new(folder), waves }
    }

    fn waves(&self) -> Vec<Wave> {
        let waves = self.waves.lock().unwrap_or_else(PoisonError::into_inner);
        waves.0.iter().filter(|wave| wave.requests > 0).copied().collect()
    }

    /// Adds a request to the wave of now, and returns when the wave is complete.
    fn take_part(&self, bytes: u64) {
        let lock = || self.waves.lock().unwrap_or_else(PoisonError::into_inner);
        let number = {
            let (waves, last) = &mut *lock();
            *last = Instant::now();
            if let Some(wave) = waves.last_mut() {
                wave.requests += 1;
                wave.bytes += bytes;
            }
            waves.len()
        };
        loop {
            std::thread::sleep(Duration::from_millis(1));
            let (waves, last) = &mut *lock();
            if waves.len() > number {
                return;
            }
            if last.elapsed() >= QUIET {
                waves.push(Wave::default());
                return;
            }
        }
    }
}

impl Store for Traced {
    fn name(&self) -> String {
        self.store.name()
    }

    fn read(&self, object: &str, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        self.take_part(range.end - range.start);
        self.store.read(object, range)
    }

    fn read_all(&self, object: &str, most: u64) -> Result<(Vec<u8>, Stamp), StoreError> {
        let read = self.store.read_all(object, most)?;
        self.take_part(read.0.len() as u64);
        Ok(read)
    }

    fn write(&self, object: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        self.store.write(object, bytes)
    }

    fn replace(&self, object: &str, expected: Option<&Stamp>, bytes: Vec<u8>) -> Result<(), StoreError> {
        self.store.replace(object, expected, bytes)
    }

    fn delete(&self, object: &str) -> Result<(), StoreError> {
        self.store.delete(object)
    }

    fn list(&self, folder: &str) -> Result<Vec<Listed>, StoreError> {
        self.store.list(folder)
    }
}

fn path(number: u64) -> String {
    format!("/{:07}/{number:010}.jpg", number / SIBLINGS)
}

/// Measurements of a volume.
struct Measured {
    files: u64,
    facts: Facts,
    inventory: Inventory,
    waves: Vec<Wave>,
}

/// Makes a volume of files that do not compress, publishes it, and follows a reader's first batch.
fn measure(folder: &Path, files: u64) -> Outcome<Measured> {
    let image = folder.join(format!("{files}.lane"));
    let size = (files * (FILE as u64 + 6000)).next_multiple_of(64 << 20) + (64 << 20);
    let volume = Volume::create(&image, &CreateOptions { size, ..CreateOptions::default() })?;
    let mut random = Seeded::new(files);
    for first in (0..files).step_by(SIBLINGS as usize) {
        let paths: PathSet = (first..first + SIBLINGS).map(path).collect();
        let words = SIBLINGS as usize * FILE / 8;
        let data: Vec<u8> = (0..words).flat_map(|_| random.bits().to_le_bytes()).collect();
        let offsets: Vec<u64> = (0..=SIBLINGS).map(|number| number * FILE as u64).collect();
        let options = WriteMany { make_directories: Some(0o755), ..WriteMany::default() };
        volume.write_many(&options, &paths, &data, &offsets)?;
    }
    volume.close()?;
    let volume = Volume::open(&image, OpenOptions::from(Access::Read))?;
    let published = folder.join(format!("{files}"));
    let store: Arc<dyn Store> = Arc::new(Directory::new(&published));
    publish(&volume, Arc::clone(&store), "latest", &PublishOptions::default(), &|_, _| true)?;
    let publication = Publication::open(store, &Reference::default(), &ReadOptions::default())?;
    let (facts, inventory) = (publication.facts(), publication.inventory(&|_, _| true)?);

    let traced = Arc::new(Traced::new(&published));
    let options = ReadOptions { ahead: 0, reads_ahead: false, ..ReadOptions::default() };
    let publication = Publication::open(Arc::clone(&traced) as _, &Reference::default(), &options)?;
    let there = Volume::open_device(Box::new(publication.device()), Access::Read)?;
    let batch: PathSet = (0..BATCH_FILES).map(|_| path(random.below(files))).collect();
    let mut contents = FileContents::new();
    there.read_files(&ReadFiles::default(), &batch, &mut contents)?;
    if contents.iter().any(|content| content.is_err()) {
        return Err("a file of the batch cannot be read".into());
    }
    Ok(Measured { files, facts, inventory, waves: traced.waves() })
}

/// Constants of the model, for each window: files whose metadata are in one, stored bytes of a piece of each
/// kind, files whose content is in one, and stored bytes of the manifest.
#[derive(Debug)]
struct Constants {
    metadata_bytes_of_file: f64,
    files_of_metadata_window: f64,
    metadata_piece: f64,
    files_of_data_window: f64,
    data_piece: f64,
    page_bytes_of_window: f64,
}

/// Bytes of a window of the volume.
const WINDOW: f64 = 256.0 * 1024.0;
/// Bytes of metadata for a file, before compression: an inode, and an entry and its place in an index.
const METADATA_OF_FILE: f64 = 256.0 + 64.0;

impl Constants {
    fn of(measured: &Measured) -> Constants {
        let (files, facts, all) = (measured.files as f64, &measured.facts, &measured.inventory);
        let files_of_data_window = WINDOW / (FILE.next_multiple_of(4096) as f64);
        let data_windows = files / files_of_data_window;
        let windows = facts.blocks as f64 / 64.0;
        let pages = (all.stored_bytes - facts.metadata_bytes - facts.data_bytes) as f64;
        let metadata_bytes_of_file = facts.metadata_bytes as f64 / files;
        let files_of_metadata_window = WINDOW / METADATA_OF_FILE;
        Constants {
            metadata_bytes_of_file,
            files_of_metadata_window,
            metadata_piece: metadata_bytes_of_file * files_of_metadata_window,
            files_of_data_window,
            data_piece: facts.data_bytes as f64 / data_windows,
            page_bytes_of_window: pages / windows,
        }
    }
}

/// A volume on paper: windows with metadata, and all; levels of pages.
struct Paper<'c> {
    constants: &'c Constants,
    metadata: u64,
    windows: u64,
}

impl Paper<'_> {
    fn new(constants: &Constants, files: u64) -> Paper<'_> {
        let metadata = (files as f64 / constants.files_of_metadata_window).ceil() as u64;
        let data = (files as f64 / constants.files_of_data_window).ceil() as u64;
        Paper { constants, metadata, windows: metadata + data }
    }

    /// Leaf pages, and the pages above them that the root names where it cannot name the leaf pages.
    fn pages(&self) -> (u64, u64) {
        let leaves = self.windows.div_ceil(FANOUT);
        (leaves, if leaves > FANOUT { leaves.div_ceil(FANOUT) } else { 0 })
    }

    fn leaf_bytes(&self) -> f64 {
        self.constants.page_bytes_of_window * FANOUT as f64
    }

    /// Windows of a kind: their number, and the stored bytes of a piece.
    fn windows(&self, kind: Kind) -> (u64, f64) {
        match kind {
            Kind::Metadata => (self.metadata, self.constants.metadata_piece),
            Kind::Data => (self.windows - self.metadata, self.constants.data_piece),
        }
    }

    /// The beginning of a reader's work: the tag, the root, the pages that it names, and the superblock with
    /// the tables after it.
    fn opening(&self) -> Vec<(f64, f64)> {
        let (leaves, above) = self.pages();
        let named = if above > 0 { (above, 56.0 * FANOUT as f64) } else { (leaves, self.leaf_bytes()) };
        let root = 96.0 + 56.0 * named.0 as f64;
        let mut waves = vec![(1.0, 128.0), (1.0, root), (named.0 as f64, named.1 * named.0 as f64)];
        for _ in 0..2 {
            if above > 0 {
                waves.push((1.0, self.leaf_bytes()));
            }
            waves.push((1.0, self.constants.metadata_piece));
        }
        waves
    }

    /// The waves of a reader by the formula: requests and bytes of each.
    fn formula(&self) -> Vec<(f64, f64)> {
        let mut waves = self.opening();
        // Draws so far of each kind: a window that an earlier step touched is not fetched again.
        let mut draws = [0, 0];
        for (is_many, kind) in STEPS {
            let (windows, piece) = self.windows(kind);
            let before = draws[kind as usize];
            let after = before + if is_many { BATCH_FILES } else { 1 };
            draws[kind as usize] = after;
            let new = |all| distinct(all, after) - distinct(all, before);
            if self.pages().1 > 0 {
                let pages = new(windows.div_ceil(FANOUT));
                waves.push((pages, pages * self.leaf_bytes()));
            }
            let pieces = new(windows);
            waves.push((pieces, pieces * piece));
        }
        waves
    }

    /// The waves of one simulated reader, who draws its files and forgets nothing that it has.
    fn reader(&self, random: &mut Seeded) -> Vec<Vec<f64>> {
        let sized = |count: f64, bytes: f64| vec![bytes / count; count as usize];
        let mut waves: Vec<Vec<f64>> =
            self.opening().into_iter().map(|(count, bytes)| sized(count, bytes)).collect();
        let (mut known_pages, mut known) = (BTreeSet::new(), BTreeSet::new());
        for (is_many, kind) in STEPS {
            let (windows, piece) = self.windows(kind);
            let (mut pages, mut pieces) = (Vec::new(), Vec::new());
            for _ in 0..if is_many { BATCH_FILES } else { 1 } {
                let window = (kind == Kind::Data, random.below(windows));
                if self.pages().1 > 0 && known_pages.insert((window.0, window.1 / FANOUT)) {
                    pages.push(self.leaf_bytes());
                }
                if known.insert(window) {
                    // Pieces differ: from half as large to half as large again.
                    pieces.push(piece * (0.5 + random.below(1001) as f64 / 1000.0));
                }
            }
            waves.extend([pages, pieces].into_iter().filter(|wave| !wave.is_empty()));
        }
        waves
    }
}

/// Expected number of different windows of `all` that `draws` random draws touch.
fn distinct(all: u64, draws: u64) -> f64 {
    let all = all as f64;
    all * (1.0 - (1.0 - 1.0 / all).powf(draws as f64))
}

/// Seconds of a reader who is alone.
fn alone(waves: &[(f64, f64)]) -> f64 {
    waves.iter().map(|(requests, _)| (requests / CONCURRENT as f64).ceil() * LATENCY).sum()
}

/// Totals of all readers, and the seconds until the median and the last one has its batch.
struct Simulated {
    requests: u64,
    bytes: f64,
    median: f64,
    last: f64,
}

/// Simulates readers that begin at the same time. The store accepts `rate` requests a second, in the order in
/// which they come, and all answers share its bandwidth.
fn simulate(paper: &Paper<'_>, rate: f64) -> Simulated {
    let mut random = Seeded::new(1);
    let readers: Vec<Vec<Vec<f64>>> = (0..READERS)
        .map(|_| {
            let waves = paper.reader(&mut random);
            waves.iter().flat_map(|wave| wave.chunks(CONCURRENT)).map(<[f64]>::to_vec).collect()
        })
        .collect();
    // Events in nanoseconds, whose order is total.
    let nanos = |seconds: f64| (seconds * 1e9) as u64;
    let mut events: BinaryHeap<Reverse<(u64, usize, usize)>> =
        (0..readers.len()).map(|reader| Reverse((0, reader, 0))).collect();
    let (mut next_slot, mut free_at, mut ends) = (0.0f64, 0.0f64, Vec::new());
    let (mut requests, mut bytes) = (0, 0.0);
    while let Some(Reverse((now, reader, number))) = events.pop() {
        let Some(wave) = readers[reader].get(number) else {
            ends.push(now as f64 / 1e9);
            continue;
        };
        let mut end = now as f64 / 1e9;
        for size in wave {
            let accepted = next_slot.max(now as f64 / 1e9);
            next_slot = accepted + 1.0 / rate;
            free_at = free_at.max(accepted + LATENCY) + size / BANDWIDTH;
            end = end.max(free_at);
            (requests, bytes) = (requests + 1, bytes + size);
        }
        events.push(Reverse((nanos(end), reader, number + 1)));
    }
    ends.sort_unstable_by(f64::total_cmp);
    Simulated { requests, bytes, median: ends[ends.len() / 2], last: ends[ends.len() - 1] }
}

fn main() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let mut constants = None;
    for files in MEASURED {
        let measured = measure(folder.path(), files)?;
        let found = Constants::of(&measured);
        println!("{files} files: {:?}", measured.inventory);
        println!("  {found:.1?}");
        let (requests, bytes) =
            measured.waves.iter().fold((0, 0), |sum, wave| (sum.0 + wave.requests, sum.1 + wave.bytes));
        let formula = Paper::new(&found, files).formula();
        let sum = formula.iter().fold((0.0, 0.0), |sum, wave| (sum.0 + wave.0, sum.1 + wave.1));
        println!(
            "  traced reader: {} waves, {requests} requests, {:.1} MB",
            measured.waves.len(),
            bytes as f64 / 1e6
        );
        println!("  formula:       {} waves, {:.0} pieces,   {:.1} MB", formula.len(), sum.0, sum.1 / 1e6);
        constants = Some(found);
    }
    let constants = constants.ok_or("nothing was measured")?;
    let paper = Paper::new(&constants, FILES);
    let (leaves, above) = paper.pages();
    let stored = FILES as f64 * constants.metadata_bytes_of_file
        + (paper.windows - paper.metadata) as f64 * constants.data_piece;
    println!("{FILES} files on paper:");
    println!("  {} windows, {leaves} leaf pages, {above} above them", paper.windows);
    println!(
        "  stored: {:.2} TB, of it metadata {:.0} GB, manifest {:.1} GB",
        stored / 1e12,
        FILES as f64 * constants.metadata_bytes_of_file / 1e9,
        paper.windows as f64 * constants.page_bytes_of_window / 1e9
    );
    let formula = paper.formula();
    let sum = formula.iter().fold((0.0, 0.0), |sum, wave| (sum.0 + wave.0, sum.1 + wave.1));
    println!(
        "  one reader, {BATCH_FILES} random files: {:.0} requests, {:.1} MB, {:.2} s alone",
        sum.0,
        sum.1 / 1e6,
        alone(&formula)
    );
    let all = READERS as f64;
    for rate in RATES {
        println!("{READERS} readers at once, {rate} requests a second: formula, simulation, ratio");
        let shared = (all * sum.0 / rate).max(all * sum.1 / BANDWIDTH);
        let simulated = simulate(&paper, rate);
        for (name, formula, simulated) in [
            ("requests", all * sum.0, simulated.requests as f64),
            ("GB", all * sum.1 / 1e9, simulated.bytes / 1e9),
            ("s to the last first batch", alone(&formula) + shared, simulated.last),
        ] {
            println!("  {name:28} {formula:14.1} {simulated:14.1}  {:.2}x", simulated / formula);
        }
        println!("  {:28} {:14} {:14.1}", "s to the median one", "", simulated.median);
    }
    Ok(())
}
