//! The host's side of lookups by a device (`make bench-gpu-host`): what the host does for each path. The
//! first batches run on a device with memory of its own (llvmpipe, if there is no other); its later
//! submissions end at once and do nothing, and the buffers have the answers of the batches before. So the
//! times are those of the host alone: packing, submitting, and answers to columns. Prints nanoseconds a path,
//! the best of five, with the allocations and the page faults of a call when all is warm. (The scope of the
//! callers' threads allocates once, and three times for each of several threads.)

use lanefs::{
    Column, Columns, CreateOptions, EngineExt, NameSet, NamesUnder, PathSet, ResolveOptions, Volume,
};
use lanefs_gpu::{Gpu, GpuOptions, MirrorOptions, Mirrored, Probes};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The system's allocator, which counts.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: sound, the system's allocator does all of the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: sound, the caller keeps the rules of this call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

const PATHS: usize = 1 << 20;
const FILES: usize = 50_000;
const RUNS: usize = 5;

/// A path of 46 bytes.
fn path(number: usize) -> String {
    let number = number * 7919 % FILES;
    format!("/data/train/class-{:04}/image/sample-{number:08}.p", number % 1000)
}

/// Returns the page faults of this process so far.
fn page_faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    fields.split_whitespace().nth(7).and_then(|faults| faults.parse().ok()).unwrap_or_default()
}

/// Times and counts of some work.
struct Measured {
    nanoseconds: f64,
    allocations: u64,
    page_faults: u64,
}

/// Returns the volume with the files of all paths.
fn volume() -> lanefs::Result<Volume> {
    let volume = Volume::create_memory(&CreateOptions { size: 256 << 20, ..CreateOptions::default() })?;
    for directory in 0..1000 {
        volume.mkdir_all(format!("/data/train/class-{directory:04}/image"), 0o755)?;
    }
    (0..FILES).try_for_each(|number| volume.write_file(path(number), b"x").map(drop))?;
    Ok(volume)
}

/// Returns the best time of five, after one that does not count, and the fewest allocations and faults.
fn measure(paths: usize, idle: impl Fn(bool), mut work: impl FnMut()) -> Measured {
    let mut best = Measured { nanoseconds: f64::INFINITY, allocations: u64::MAX, page_faults: u64::MAX };
    for run in 0..=RUNS {
        idle(run > 0);
        let faults = page_faults();
        // Reading the page faults allocates.
        let allocations = ALLOCATIONS.load(Ordering::Relaxed);
        let begun = Instant::now();
        work();
        let took: Duration = begun.elapsed();
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - allocations;
        let faults = page_faults() - faults;
        if run > 0 {
            best.nanoseconds = best.nanoseconds.min(took.as_nanos() as f64 / paths as f64);
            best.allocations = best.allocations.min(allocations);
            best.page_faults = best.page_faults.min(faults);
        }
    }
    best
}

fn print(row: &str, measured: &Measured) {
    let Measured { nanoseconds, allocations, page_faults } = measured;
    println!("{row:<44} {nanoseconds:8.2} ns a path {allocations:6} allocations {page_faults:7} page faults");
}

/// The paths of a measurement: whole, or as names under directories.
#[derive(Clone, Copy)]
enum Set<'s> {
    Paths(&'s PathSet),
    Names(NamesUnder<'s>),
}

/// Asks for all paths from so many threads, each for its own part.
fn ask(mirrored: &Mirrored<'_>, set: Set<'_>, columns: &mut [Columns]) {
    let share = PATHS.div_ceil(columns.len());
    std::thread::scope(|scope| {
        for (number, columns) in columns.iter_mut().enumerate() {
            let part = number * share..PATHS.min((number + 1) * share);
            let work = move || {
                let (options, mut rows) = (ResolveOptions::default(), columns.rows(part.len()));
                let answered = match set {
                    Set::Paths(set) => mirrored.resolve_into(&options, set.view().slice(part), &mut rows),
                    Set::Names(set) => mirrored.resolve_names_into(&options, set.slice(part), &mut rows),
                };
                black_box(answered).expect("answers");
            };
            if share == PATHS {
                work();
            } else {
                scope.spawn(work);
            }
        }
    });
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let set: PathSet = (0..PATHS).map(path).collect();
    let mut in_order: Vec<String> = (0..PATHS).map(path).collect();
    in_order.sort();
    let names = NameSet::of_paths(in_order.iter().collect::<PathSet>().view());
    drop(in_order);
    let text = set.view().text();
    let mut copy = vec![0; text.len()];
    let copied = measure(PATHS, |_| (), || copy.copy_from_slice(black_box(text)));
    let rate = text.len() as f64 / PATHS as f64 / copied.nanoseconds;
    print(&format!("copying {} bytes a path, {rate:.1} GB/s", text.len() / PATHS), &copied);
    let volume = volume()?;
    let options = GpuOptions { own_memory: true, probes: Probes::None, ..GpuOptions::default() };
    let gpu = Gpu::open_with(&options)?;
    println!("{}", gpu.info().name);
    let idle = |is_idle| gpu.set_idle(is_idle);
    let mirrored = gpu.mirror(&volume, &MirrorOptions::default())?;
    mirrored.warm()?;
    let wanted: [(&str, &[Column]); 3] = [
        ("existence", &[Column::Exists]),
        ("inode", &[Column::Ino]),
        ("attributes", &[Column::Ino, Column::Mode, Column::Size, Column::Mtime]),
    ];
    for (name, wanted) in wanted {
        for callers in [1, 2, 4, 8] {
            let mut columns: Vec<Columns> = (0..callers).map(|_| Columns::of(wanted)).collect();
            let measured = measure(PATHS, idle, || ask(&mirrored, Set::Paths(&set), &mut columns));
            print(&format!("{name}, from a set of paths, {callers} callers"), &measured);
            let names = Set::Names(names.view());
            let measured = measure(PATHS, idle, || ask(&mirrored, names, &mut columns));
            print(&format!("{name}, names under directories, {callers} callers"), &measured);
        }
        // The device must copy the paths.
        idle(false);
        let mut kept = mirrored.keep(&ResolveOptions::default(), &set)?;
        let mut columns = Columns::of(wanted);
        let measured = measure(PATHS, idle, || {
            let report = black_box(kept.resolve_into(&mut columns.rows(PATHS))).expect("answers");
            assert_eq!((report.found, report.by_host), (PATHS as u64, 0), "kept paths are not there");
        });
        print(&format!("{name}, kept paths"), &measured);
    }
    if let Some(failure) = mirrored.failure() {
        return Err(failure.into());
    }
    Ok(())
}
