//! A program with limited address space: it gets an error when there is no memory, and continues. (A child
//! process has the limit.)

use lanefs_alloc::{calloc, free, malloc, malloc_aligned, realloc};
use std::process::Command;

const AGAIN: &str = "LANEFS_ALLOC_LIMITED";

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn clear_errno() {
    // SAFETY: a word of this thread.
    unsafe { *libc::__errno_location() = 0 };
}

/// Allocates objects until there is no memory, and returns them.
fn fill(size: usize) -> Vec<*mut u8> {
    // The list must not grow when memory is short.
    let mut objects = Vec::with_capacity(1 << 20);
    clear_errno();
    loop {
        let object = malloc(size);
        if object.is_null() {
            break;
        }
        // SAFETY: the object is as long.
        unsafe { object.write_bytes(1, size.min(64)) };
        assert!(objects.len() < objects.capacity(), "there is no limit");
        objects.push(object);
    }
    assert_eq!(errno(), libc::ENOMEM, "{size} bytes");
    objects
}

fn limited() {
    let most = 192 << 20;
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: a limit of this process, which belongs to the test.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    let mut counts = Vec::new();
    for round in 0..3 {
        for size in [1000, 20_000, 300_000, 5 << 20] {
            let objects = fill(size);
            counts.push((size, objects.len()));
            assert!(!objects.is_empty(), "there is no room for {size} bytes in round {round}: {counts:?}");
            for bytes in [300 << 20, usize::MAX - 4096, usize::MAX] {
                clear_errno();
                assert!(malloc(bytes).is_null() && errno() == libc::ENOMEM);
                assert!(calloc(bytes).is_null() && malloc_aligned(bytes, 1 << 20).is_null());
                // SAFETY: in use; it stays if there is no memory.
                unsafe {
                    assert!(realloc(objects[0], bytes).is_null());
                    assert_eq!(objects[0].read(), 1);
                }
            }
            // SAFETY: each is freed once.
            objects.into_iter().for_each(|object| unsafe { free(object) });
            lanefs_alloc::LaneAlloc.release();
        }
    }
    // Freed memory is available again, as much each time.
    let (first, last) = (&counts[..4], &counts[8..]);
    for ((size, before), (_, after)) in first.iter().zip(last) {
        assert!(after * 10 >= before * 5, "{size} bytes: {before} objects at first, {after} at last");
    }
}

#[test]
fn without_address_space_there_is_no_memory_and_the_program_goes_on() {
    if std::env::var_os(AGAIN).is_some() {
        return limited();
    }
    let this = std::env::current_exe().expect("this program");
    let child = Command::new(this)
        .args(["--exact", "without_address_space_there_is_no_memory_and_the_program_goes_on", "--nocapture"])
        .env(AGAIN, "1")
        .output()
        .expect("run");
    let text = [child.stdout, child.stderr].concat();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&text));
}
