//! The host's part of a warm call: nothing is allocated, and no page is touched for the first time. A process
//! of its own counts, because other tests allocate, too.

use lanefs::{Column, Columns, CreateOptions, EngineExt, NameSet, PathSet, ResolveOptions, Volume};
use lanefs_gpu::{Gpu, GpuOptions, MirrorOptions, Mirrored, Probes};
use std::alloc::{GlobalAlloc, Layout, System};
use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, which counts.
struct CountedHeap;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: sound, the system's allocator does all of the work.
unsafe impl GlobalAlloc for CountedHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: sound, the caller keeps the rules of this call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, bytes) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static GLOBAL: CountedHeap = CountedHeap;

/// Variable of the environment that has the process count.
const SWITCH: &str = "LANEFS_GPU_WARM_CALLS";

const FILES: usize = 1_000;

/// Rounds in which the device works, so that all buffers of several callers are there and have answers; and
/// rounds that are counted. The fewest of these count: the queue of a thread pool allocates for each 63
/// pieces of work, and the host may take a page back.
const WARMING: usize = 6;
const COUNTED: usize = 7;

fn path(number: usize) -> String {
    let number = number * 7919 % FILES;
    format!("/data/class-{:02}/sample-{number:05}", number % 20)
}

/// Returns the page faults of this process so far.
fn page_faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    fields.split_whitespace().nth(7).and_then(|faults| faults.parse().ok()).unwrap_or_default()
}

/// The paths of a call.
enum CallPaths {
    Paths(PathSet),
    Names(NameSet),
}

/// Has so many callers make the same call again and again, all at a time. Returns the fewest allocations and
/// page faults of a round.
fn fewest(
    gpu: &Gpu,
    mirrored: &Mirrored<'_>,
    callers: usize,
    asked: &CallPaths,
    columns: &[Column],
) -> (u64, u64) {
    let barrier = Barrier::new(callers + 1);
    let mut fewest = (u64::MAX, u64::MAX);
    std::thread::scope(|scope| {
        for _ in 0..callers {
            scope.spawn(|| {
                let (options, mut columns) = (ResolveOptions::default(), Columns::of(columns));
                for _ in 0..WARMING + COUNTED {
                    barrier.wait();
                    let answered = match asked {
                        CallPaths::Paths(set) => {
                            mirrored.resolve_into(&options, set, &mut columns.rows(set.len()))
                        }
                        CallPaths::Names(set) => {
                            mirrored.resolve_names_into(&options, set, &mut columns.rows(set.len()))
                        }
                    };
                    barrier.wait();
                    answered.expect("answers");
                }
            });
        }
        for round in 0..WARMING + COUNTED {
            gpu.set_idle(round >= WARMING);
            let faults = page_faults();
            let allocations = ALLOCATIONS.load(Ordering::Relaxed);
            barrier.wait();
            barrier.wait();
            let allocations = ALLOCATIONS.load(Ordering::Relaxed) - allocations;
            let faults = page_faults() - faults;
            if round >= WARMING {
                fewest = (fewest.0.min(allocations), fewest.1.min(faults));
            }
        }
    });
    gpu.set_idle(false);
    fewest
}

#[test]
fn counted_in_a_process_of_its_own() {
    let Some(own_memory) = std::env::var_os(SWITCH) else { return };
    let volume = Volume::create_memory(&CreateOptions { size: 32 << 20, ..CreateOptions::default() });
    let volume = volume.expect("a volume");
    for directory in 0..20 {
        volume.mkdir_all(format!("/data/class-{directory:02}"), 0o755).expect("a directory");
    }
    for number in 0..FILES {
        volume.write_file(path(number), b"x").expect("a file");
    }
    let own_memory = own_memory == "1";
    let options = GpuOptions { own_memory, probes: Probes::None, ..GpuOptions::default() };
    let gpu = Gpu::open_with(&options).expect("a Vulkan device");
    let mirrored = gpu.mirror(&volume, &MirrorOptions::default()).expect("a mirror");
    mirrored.warm().expect("warmed");
    let columns: [&[Column]; 3] =
        [&[Column::Exists], &[Column::Ino], &[Column::Code, Column::Mode, Column::Size, Column::Mtime]];
    // Several threads share the larger batches.
    for count in [1, 1_000, 40_000] {
        let set: PathSet = (0..count).map(path).collect();
        let mut in_order: Vec<String> = (0..count).map(path).collect();
        in_order.sort();
        let names = NameSet::of_paths(in_order.iter().collect::<PathSet>().view());
        for asked in [CallPaths::Paths(set), CallPaths::Names(names)] {
            // The host finds the directories of names, and few names go as whole paths.
            let most = if let CallPaths::Names(_) = asked { OF_NAMES } else { 0 };
            for (callers, columns) in
                [1, 4].into_iter().flat_map(|callers| columns.map(|some| (callers, some)))
            {
                let (allocations, faults) = fewest(&gpu, &mirrored, callers, &asked, columns);
                let kind = if most == 0 { "paths" } else { "names" };
                let what = format!("{count} {kind}, {callers} callers, {columns:?}");
                println!("{what}: {allocations} allocations, {faults} page faults");
                assert!(allocations <= most * callers as u64, "{what}: {allocations} allocations");
                assert_eq!(faults, 0, "{what}");
            }
        }
    }
    assert_eq!(mirrored.failure(), None);
}

/// Allocations of a call for names at most, however many they are.
const OF_NAMES: u64 = 32;

#[test]
fn a_warm_call_allocates_nothing_and_faults_no_page() {
    for own_memory in ["0", "1"] {
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "warm_calls::counted_in_a_process_of_its_own", "--nocapture"])
            .env(SWITCH, own_memory)
            .output()
            .expect("run");
        let said = String::from_utf8_lossy(&child.stdout);
        let complaint = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success(), "own memory {own_memory}: {said}{complaint}");
        assert!(said.contains("40000 names, 4 callers"), "nothing was counted: {said}");
    }
}
