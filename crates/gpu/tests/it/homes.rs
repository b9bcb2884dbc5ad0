//! Further homes: a name whose first slots of the directory cache are taken has others, and so has a
//! directory in the directory-path table. So a warm batch walks no path, in whatever order invocations run.

use crate::support::{cached, faulty, gpu, planted, query_of_root};
use lanefs::{Column, Columns, CreateOptions, EngineExt, PathSet, ResolveOptions, Volume};
use lanefs_gpu::testing::Requests;
use lanefs_gpu::twin::headers::dir_table::DirTable;
use lanefs_gpu::twin::host::{HostCopy, Snapshot, WithCache};
use lanefs_gpu::twin::kernels::fill::fill;
use lanefs_gpu::twin::kernels::learn::{directory_of, learn};
use lanefs_gpu::twin::kernels::lookup::{LookupQuery, lookup};
use lanefs_gpu::{Gpu, MirrorOptions, Probes};
use lanefs_testkit::seeded::Seeded;
use std::collections::BTreeMap;

const DIRECTORIES: usize = 2_500;
const FILES: usize = 25_000;

/// Orders of the invocations that are tried. With four homes a name is left without one in a quarter of them.
const ORDERS: u64 = 12;

fn path(number: usize) -> String {
    format!("/set/{}/sample-{number:06}", number % DIRECTORIES)
}

fn volume() -> Volume {
    // With some seeds the hashes of two names are so alike that one of them has no home.
    let options = CreateOptions { size: 64 << 20, seed: Some([7; 16]), ..CreateOptions::default() };
    let volume = Volume::create_memory(&options).expect("a volume");
    for number in 0..DIRECTORIES {
        volume.mkdir_all(format!("/set/{number}"), 0o755).expect("a directory");
    }
    for number in 0..FILES {
        volume.write_file(path(number), b"").expect("a file");
    }
    volume
}

/// Asks for all files again and again; returns the paths that the last batch walked, and the requests that it
/// left.
fn walks_when_warm(gpu: &Gpu, volume: &Volume) -> (usize, usize) {
    let mirrored = gpu.mirror(volume, &cached()).expect("a mirror");
    let query = mirrored.query_of(&ResolveOptions::default());
    let paths: Vec<String> = (0..FILES).map(path).collect();
    let mut last = (0, 0);
    for batch in 0..6 {
        let (found, requests) = mirrored.kernel_lookup(&query, &paths).expect("the device");
        assert!(found.iter().all(|found| found.ino != 0), "batch {batch}");
        last = (requests.walks, requests.fills.len() + requests.learns.len());
        println!("batch {batch}: {} of {FILES} paths were walked", last.0);
    }
    last
}

#[test]
fn a_warm_batch_walks_no_path() {
    let volume = volume();
    assert_eq!(walks_when_warm(&gpu(64), &volume), (0, 0));
    // With one home each, many names and many directories never stay; and nobody finds a name in a further
    // home without the bit that leads there.
    let one = |constant| ["8", "1"].map(|homes| format!("const uint {constant} = {homes}u;"));
    let unmarked = ["CACHE_OVERFLOW", "0u"].map(|bit| format!("bucket.word[CACHE_CLAIMS + 1u], {bit}"));
    for (kernel, file, [right, wrong], least) in [
        ("lookup", "layout.glsl", one("CACHE_HOMES"), FILES / 50),
        ("lookup", "layout.glsl", one("DIR_HOMES"), FILES / 500),
        ("fill", "cache.glsl", unmarked, FILES / 50),
    ] {
        let code = faulty(kernel, file, &right, &wrong);
        let gpu = planted(kernel, &code, Probes::None).expect("a Vulkan device");
        let (walks, _) = walks_when_warm(&gpu, &volume);
        assert!(walks > least, "with {wrong} {walks} paths were walked");
    }
}

/// Fills the tables by one dispatch of each kernel, whose invocations run in some order.
fn filled(
    memory: &HostCopy,
    query: &LookupQuery,
    empty: &Snapshot,
    paths: &[String],
    walked: &Requests,
) -> Snapshot {
    let mut full = empty.clone();
    full.cache.claim += 1;
    full.directories.claim += 1;
    fill(&WithCache { memory, snapshot: empty }, query, &mut full.cache, &walked.fills);
    learn(query, &mut full.directories, paths, &walked.learns);
    full
}

/// Returns the number of paths that a batch walks, and their requests, each once.
fn walked(memory: &HostCopy, query: &LookupQuery, snapshot: &Snapshot, paths: &[String]) -> Requests {
    let mut requests = Requests::default();
    for path in paths {
        lookup(&WithCache { memory, snapshot }, query, path.as_bytes(), &mut requests);
        requests.path += 1;
    }
    requests.fills.sort_unstable();
    requests.fills.dedup();
    // Many paths begin with a directory.
    let learns: BTreeMap<_, _> =
        requests.learns.iter().map(|request| (directory_of(paths, request), *request)).collect();
    requests.learns = learns.into_values().collect();
    requests
}

#[test]
fn every_order_of_names_gives_each_a_home() {
    let volume = volume();
    let memory = HostCopy::of(&volume).expect("copied");
    let query = query_of_root(&volume);
    // As large as the engine makes them.
    let inodes = volume.statfs().expect("a volume").inodes as u32;
    let mut empty = memory.empty_cache(2 * inodes);
    empty.directories = DirTable::empty(inodes / 4);
    let paths: Vec<String> = (0..FILES).map(path).collect();
    let mut all = walked(&memory, &query, &empty, &paths);
    assert_eq!((all.walks, all.learns.len()), (FILES, DIRECTORIES));
    assert_eq!(all.fills.len(), 1 + DIRECTORIES + FILES);
    for seed in 0..ORDERS {
        let mut numbers = Seeded::new(seed);
        all.fills.sort_by_cached_key(|_| numbers.bits());
        all.learns.sort_by_cached_key(|_| numbers.bits());
        let full = filled(&memory, &query, &empty, &paths, &all);
        assert_eq!(walked(&memory, &query, &full, &paths).walks, 0, "order {seed}");
        // Names that are not there are looked for in their first home alone, nearly all of them.
        let (overflowed, buckets) = (full.cache.overflowed(), full.cache.buckets() as usize);
        println!("order {seed}: names went on from {overflowed} of {buckets} buckets");
        assert!(overflowed * 50 <= buckets, "{overflowed} buckets");
    }
}

#[test]
fn answers_are_right_where_every_home_of_every_name_is_taken() {
    let volume = volume();
    let paths: PathSet = (0..FILES).map(path).collect();
    let (options, [mut expected, mut found]) =
        (ResolveOptions::default(), [(); 2].map(|()| Columns::of(&[Column::Ino])));
    volume.resolve_into(&options, &paths, &mut expected.rows(FILES)).expect("the CPU engine");
    let gpu = gpu(64);
    // Memory for some hundred entries.
    let small = MirrorOptions { cache: 20_000.0 / gpu.info().memory as f64, ..cached() };
    let mirrored = gpu.mirror(&volume, &small).expect("a mirror");
    assert!((1..=40_000).contains(&mirrored.cache_bytes()), "{} bytes", mirrored.cache_bytes());
    for _ in 0..3 {
        EngineExt::resolve_into(&mirrored, &options, &paths, &mut found.rows(FILES)).expect("answers");
        assert_eq!(found.ino(), expected.ino());
    }
}
