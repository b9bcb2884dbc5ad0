//! `lanefs-bench alloc` with libraries of this test: right ones, slow ones and wrong ones.

use crate::support::{names, quick, reported, rows, stopped};
use lanefs_bench::Error;
use lanefs_bench::benches::alloc::{AllocArgs, Sizes, row_names, run_alloc};
use lanefs_bench::benches::blocks::BlockSizes;
use lanefs_bench::session::{CommonArgs, EXIT_DONE, EXIT_FAILED, EXIT_STOPPED};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

const TINY: Sizes = Sizes {
    tiny_hot: 20,
    random_mixed: 20_000,
    producer_consumer: 2_000,
    larson: 60_000,
    thread_churn: 20,
    counted: [60, 20_000],
    blocks: BlockSizes { files: 20, aged_bytes: 64 << 20, rounds: 1, large_bytes: 2 << 20 },
};

/// Declarations of the C library's own allocator, which every library here calls.
const C_LIBRARY: &str = "#include <stddef.h>
    extern void *__libc_malloc(size_t); extern void __libc_free(void *);
    extern void *__libc_calloc(size_t, size_t); extern void *__libc_realloc(void *, size_t);
    static void wait(int times) { for (volatile int i = 0; i < times; i++); }
    ";
const MALLOC: &str = "void *malloc(size_t n) { wait(WAIT); return __libc_malloc(n); }
    void *calloc(size_t n, size_t m) { return __libc_calloc(n, m); }
    void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }
    ";
const FREE: &str = "void free(void *p) { wait(WAIT); __libc_free(p); }";

/// The program under test.
fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_lanefs-bench"))
}

/// Standard output of the program, which must succeed.
fn output_of<S: AsRef<std::ffi::OsStr>>(args: &[S]) -> String {
    let output = program().args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Builds a library to preload; each call of it waits `wait` turns.
fn library(path: &Path, functions: &[&str], wait: u32) {
    let source = path.with_extension("c");
    fs::write(&source, C_LIBRARY.to_string() + &functions.concat()).unwrap();
    let built = Command::new("cc")
        .args(["-O1", "-shared", "-fPIC", "-Wno-unused-function", &format!("-DWAIT={wait}"), "-o"])
        .args([path, &source])
        .status();
    assert!(built.expect("cc, which building needs too").success());
}

/// Makes a directory with the program, and beside it a library in place of LaneFS's.
fn install(functions: &[&str], wait: u32) -> (tempfile::TempDir, AllocArgs) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("lanefs-bench");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_lanefs-bench"), &program).unwrap();
    library(&dir.path().join("liblanefs_alloc.so"), functions, wait);
    (dir, AllocArgs { common: quick(1), sizes: Some(TINY), program: Some(program) })
}

/// Runs the benchmark; returns its exit code and report.
fn bench(args: &AllocArgs, rows: Option<&str>) -> (u8, Value) {
    reported(args.common.clone(), rows, |common| run_alloc(&AllocArgs { common, ..args.clone() }))
}

/// Returns the command line of a small worker.
fn worker(workload: &str) -> Vec<String> {
    let steps = if workload == "thread-churn" { "8" } else { "2000" };
    ["alloc-worker", "--workload", workload, "--threads", "2", "--steps", steps].map(Into::into).into()
}

#[test]
fn a_worker_runs_every_workload_on_the_c_library() {
    for workload in ["tiny-hot", "random-mixed", "producer-consumer", "larson", "thread-churn"] {
        let outcome: Value = serde_json::from_str(&output_of(&worker(workload))).unwrap();
        for field in ["operations", "elapsed_ns"] {
            assert!(outcome[field].as_u64().unwrap() > 0, "{workload}: {outcome}");
        }
        assert!(outcome["resident_bytes"].is_u64());
    }
}

#[test]
fn a_worker_of_one_thread_has_no_other() {
    let endless = ["alloc-worker", "--workload", "tiny-hot", "--threads", "1", "--steps", "1000000000000"];
    let mut child = program().args(endless).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).map(Iterator::count);
    let ended = child.try_wait().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ended.is_none(), "{ended:?}");
    assert_eq!(threads.unwrap(), 1);
}

#[test]
fn a_worker_refuses_an_allocator_that_is_not_the_one_meant() {
    let dir = tempfile::tempdir().unwrap();
    let (right, other, half) =
        (dir.path().join("right.so"), dir.path().join("other.so"), dir.path().join("half.so"));
    library(&right, &[MALLOC, FREE], 0);
    library(&other, &[MALLOC, FREE], 0);
    library(&half, &[MALLOC], 0);
    let answer = |preload: Option<&Path>, expect: Option<&Path>| {
        let mut command = program();
        command.args(worker("tiny-hot"));
        command.envs(preload.map(|path| ("LD_PRELOAD", path)));
        command.args(expect.into_iter().flat_map(|path| [Path::new("--expect"), path]));
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).contains("not preloaded");
        (output.status.success(), told)
    };
    let (done, refused) = ((true, false), (false, true));
    assert_eq!(answer(Some(&right), Some(&right)), done);
    assert_eq!(answer(None, Some(&right)), refused, "nothing preloaded");
    assert_eq!(answer(Some(&other), Some(&right)), refused, "another one");
    assert_eq!(answer(Some(&right), None), refused, "one where the C library is meant");
    assert_eq!(answer(Some(&half), Some(&half)), refused, "malloc without free");
}

#[test]
fn every_row_is_measured_and_what_is_absent_is_told() {
    let (_dir, args) = install(&[MALLOC, FREE], 0);
    let (code, report) = bench(&args, None);
    assert_eq!(code, EXIT_DONE);
    let notes = report["notes"].to_string();
    let valgrind = !notes.contains("apt-get install valgrind");
    let cores = std::thread::available_parallelism().unwrap().get();
    let mut wanted = row_names(cores);
    wanted.retain(|name| valgrind || !name.ends_with("-instructions"));
    assert_eq!(names(&report), wanted);
    for row in rows(&report) {
        let name = row["name"].as_str().unwrap();
        let resident = name.starts_with("resident-");
        assert!(resident || row["lanefs"]["median"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(row["better"] == "more", row["unit"] == "Mop/s", "{row}");
        // Rows about the volume have no peers.
        if name.starts_with("block-alloc-") || name == "large-file-extents" {
            continue;
        }
        assert!(row["peers"].get("glibc").is_some(), "{row}");
        for peer in ["mimalloc", "jemalloc", "snmalloc", "rpmalloc", "tcmalloc"] {
            let told = notes.contains(&format!("{peer} is left out"));
            assert!(row["peers"].get(peer).is_some() != told, "{peer}: {row} {notes}");
        }
    }
}

#[test]
fn a_slow_allocator_is_seen_to_be_slow() {
    let (_dir, args) = install(&[MALLOC, FREE], 3000);
    let (code, report) = bench(&args, Some("tiny-hot-{1t,instructions}"));
    assert_eq!(code, EXIT_DONE);
    for row in rows(&report) {
        assert!(row["ratio"]["glibc"].as_f64().unwrap() < 0.5, "{row}");
        assert_eq!(row["goals"][0]["reached"], false, "{row}");
        if row["name"] == "tiny-hot-instructions" {
            // A turn is two instructions at the least, and no compiler needs ten.
            let counted = row["lanefs"]["median"].as_f64().unwrap();
            assert!((6_000.0..30_000.0).contains(&counted), "{row}");
        }
    }
}

#[test]
fn a_library_without_an_allocator_is_no_row() {
    let (_dir, args) = install(&["int something;"], 0);
    let (code, report) = bench(&args, Some("larson"));
    assert_eq!(code, EXIT_FAILED);
    assert!(rows(&report).is_empty());
    assert!(report["notes"].to_string().contains("not preloaded"), "{}", report["notes"]);
}

#[test]
fn without_the_library_it_says_how_to_build_it() {
    let (dir, args) = install(&[], 0);
    fs::remove_file(dir.path().join("liblanefs_alloc.so")).unwrap();
    let refused = run_alloc(&args).unwrap_err();
    assert!(
        matches!(refused, Error::Library(_)) && refused.to_string().contains("make bench-alloc"),
        "{refused}"
    );
    let common = CommonArgs { ext4: Some("/".into()), ..CommonArgs::default() };
    assert_eq!(run_alloc(&AllocArgs { common, ..args }).unwrap_err().exit_code(), 2);
}

#[test]
fn a_stop_ends_it_with_its_own_exit_code() {
    let (_dir, args) = install(&[MALLOC, FREE], 0);
    assert_eq!(run_alloc(&AllocArgs { common: stopped(), ..args }).unwrap(), EXIT_STOPPED);
}
