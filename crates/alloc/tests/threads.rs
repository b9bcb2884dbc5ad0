//! Threads that begin and end. (A program of its own, because it reads the memory use of its process.)

use std::hint::black_box;
use std::sync::Mutex;
use std::time::{Duration, Instant};

#[global_allocator]
static HEAP: lanefs_alloc::LaneAlloc = lanefs_alloc::LaneAlloc;

/// One test at a time reads the memory use.
static ALONE: Mutex<()> = Mutex::new(());

fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("statm");
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * 4096
}

#[test]
fn threads_that_end_leave_their_memory_to_the_next() {
    let _alone = ALONE.lock().expect("the other test passed");
    let once = || {
        let kept: Vec<Vec<u8>> = (0..2000).map(|i| vec![i as u8; i % 1500]).collect();
        assert!(kept.iter().enumerate().all(|(i, bytes)| bytes.len() == i % 1500));
    };
    (0..20).for_each(|_| std::thread::spawn(once).join().expect("a thread"));
    let before = resident();
    (0..500).for_each(|_| std::thread::spawn(once).join().expect("a thread"));
    let after = resident();
    assert!(after < before + (16 << 20), "{before} bytes grew to {after}");
}

#[test]
fn memory_of_a_thread_that_has_ended_goes_back_though_no_thread_begins() {
    let _alone = ALONE.lock().expect("the other test passed");
    let before = resident();
    let objects = std::thread::spawn(|| (0..60_000).map(|_| vec![1u8; 1000]).collect::<Vec<_>>());
    let objects = objects.join().expect("a thread");
    assert!(resident() > before + (50 << 20), "the objects take memory");
    // They go to the inbox of a heap that no thread has, until another thread's upkeep finds it there.
    drop(objects);
    let start = Instant::now();
    while resident() > before + (16 << 20) {
        assert!(start.elapsed() < Duration::from_secs(120), "{before} bytes are {} still", resident());
        black_box((0..1000).map(|_| vec![1u8; 5000]).collect::<Vec<_>>());
    }
}
