//! Resident memory of a process.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::Read;

/// Returns the resident memory of this process in bytes, without pages of files: an allocator's code is in
/// memory once for all processes, and the number of its pages that the kernel reads with a used one is
/// chance.
///
/// It comes from `/proc/self/smaps_rollup`, which walks the pages and is exact, or if that is missing from
/// `/proc/self/status`: the kernel keeps those numbers (and those of `statm`) for each core and adds them up
/// later, so they can be some hundred KiB off. This function does not allocate, because it may measure the
/// very allocator.
///
/// # Errors
/// [`Error::Host`] without `/proc`, [`Error::Library`] if it lacks the fields.
pub(super) fn resident_bytes() -> Result<u64> {
    let mut buffer = [0; 4096];
    if let Ok(text) = read("/proc/self/smaps_rollup", &mut buffer)
        && let Some(bytes) = sum(text, ["Pss_Anon:", "Pss_Shmem:"])
    {
        return Ok(bytes);
    }
    let text = read("/proc/self/status", &mut buffer).map_err(Error::host("/proc/self/status"))?;
    sum(text, ["RssAnon:", "RssShmem:"])
        .ok_or_else(|| Error::Library("/proc/self/status does not tell the resident memory".into()))
}

/// Reads as much of a small file as fits the buffer.
fn read<'b>(path: &str, buffer: &'b mut [u8]) -> std::io::Result<&'b str> {
    let len = File::open(path)?.read(buffer)?;
    Ok(std::str::from_utf8(&buffer[..len]).unwrap_or_default())
}

/// Returns the sum of two fields in bytes; the files have them in KiB.
fn sum(text: &str, names: [&str; 2]) -> Option<u64> {
    let field = |name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    };
    field(names[0])?.checked_add(field(names[1])?)
}

/// Lock of the tests that measure the memory of this process.
#[cfg(test)]
pub(super) fn alone() -> parking_lot::MutexGuard<'static, ()> {
    static ALONE: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    ALONE.lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_are_understood() {
        let text = "5-7 ---p 00000000 00:00 0 [rollup]\nRss:   1764 kB\nPss_Anon: 100 kB\nPss_Shmem: 4 kB\n";
        assert_eq!(sum(text, ["Pss_Anon:", "Pss_Shmem:"]), Some(104 * 1024));
        assert_eq!(sum("RssAnon:\t 9 kB\nRssShmem:\t 8 kB\n", ["RssAnon:", "RssShmem:"]), Some(17 * 1024));
        assert_eq!(sum("RssAnon:\t 9 kB\n", ["RssAnon:", "RssShmem:"]), None);
        assert_eq!(sum("a: many kB\nb: 1 kB", ["a:", "b:"]), None);
    }

    #[test]
    fn memory_that_is_written_is_seen() {
        let _alone = alone();
        // Other tests of this process release memory meanwhile, but not each time.
        let grows = || {
            let before = resident_bytes().unwrap();
            let memory = std::hint::black_box(vec![1u8; 64 << 20]);
            let grown = resident_bytes().unwrap().saturating_sub(before);
            drop(memory);
            grown >= 63 << 20
        };
        assert!((0..10).any(|_| grows()));
    }
}
