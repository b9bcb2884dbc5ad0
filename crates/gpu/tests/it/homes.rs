//! Further homes: a name whose first slots of the directory cache are taken has others, and so has a
//! directory in the directory-path table. So a warm batch walks next to no path.

use crate::support::{cached, faulty, gpu, planted};
use lanefs::{Column, Columns, CreateOptions, EngineExt, PathSet, ResolveOptions, Volume};
use lanefs_gpu::{Gpu, MirrorOptions, Probes};

const DIRECTORIES: usize = 2_500;
const FILES: usize = 25_000;
/// Paths that a warm batch walks at most. Names fill the cache in the order in which invocations happen to
/// run, so in some orders all homes of a name are those of others, and stay so.
const MOST_WALKS: usize = FILES / 5_000;

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
    for batch in 0..4 {
        let (found, requests) = mirrored.kernel_lookup(&query, &paths).expect("the device");
        assert!(found.iter().all(|found| found.ino != 0), "batch {batch}");
        last = (requests.walks, requests.fills.len() + requests.learns.len());
        println!("batch {batch}: {} of {FILES} paths were walked", last.0);
    }
    last
}

#[test]
fn a_warm_batch_walks_next_to_no_path() {
    let volume = volume();
    let (walks, requests) = walks_when_warm(&gpu(64), &volume);
    assert!(walks <= MOST_WALKS && requests <= MOST_WALKS, "{walks} paths were walked, {requests} requests");
    // With one home each, many names and many directories never stay.
    for (constant, least) in [("CACHE_HOMES", FILES / 50), ("DIR_HOMES", FILES / 500)] {
        let [right, wrong] = [4, 1].map(|homes| format!("const uint {constant} = {homes}u;"));
        let code = faulty("lookup", "layout.glsl", &right, &wrong);
        let gpu = planted("lookup", &code, Probes::None).expect("a Vulkan device");
        let (walks, _) = walks_when_warm(&gpu, &volume);
        assert!(walks > least, "with one of {constant} {walks} paths were walked");
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
