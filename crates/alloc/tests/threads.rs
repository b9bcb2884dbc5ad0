//! Threads that begin and end. (A program of its own, because it reads the memory use of its process.)

#[global_allocator]
static HEAP: lanefs_alloc::LaneAlloc = lanefs_alloc::LaneAlloc;

#[test]
fn threads_that_end_leave_their_memory_to_the_next() {
    let resident = || {
        let pages = std::fs::read_to_string("/proc/self/statm").expect("statm");
        pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * 4096
    };
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
