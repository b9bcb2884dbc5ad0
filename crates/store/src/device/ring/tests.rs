use super::*;
use crate::device::{IoBuf, IoBufMut, system};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A file of `len` bytes, each of which differs from its neighbours'.
fn file(len: usize) -> (File, Vec<u8>) {
    let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + at / 251) as u8).collect();
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(&bytes).expect("writes");
    (file, bytes)
}

/// Returns `None` where the kernel refuses rings: then there is nothing to test.
fn ring() -> Option<RequestRing> {
    RequestRing::new().inspect_err(|error| eprintln!("no rings here: {error}")).ok()
}

fn reads(memory: &mut [u8], each: usize) -> impl Iterator<Item = Transfer<'_>> {
    memory
        .chunks_mut(each)
        .enumerate()
        .map(move |(index, part)| Transfer::read(index, (index * each) as u64, IoBufMut::new(part)))
}

fn never(_: usize, error: io::Error) -> bool {
    panic!("a transfer failed: {error}")
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no io_uring")]
fn short_answers_are_continued_until_all_is_there() {
    let Some(mut ring) = ring() else { return };
    let (file, bytes) = file(300_000);
    for longest in [1, 700, 4096] {
        ring.longest = longest;
        let part = if longest == 1 { 400 } else { bytes.len() };
        let mut memory = vec![0; part];
        ring.transfer_all(&file, 1, reads(&mut memory, 5000), never);
        assert!(memory == bytes[..part], "longest {longest}");
        assert!(ring.is_sound());
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no io_uring")]
fn a_part_that_ends_within_a_grain_is_asked_for_again() {
    let Some(mut ring) = ring() else { return };
    let (file, bytes) = file(100_000);
    ring.longest = 700;
    let mut memory = vec![0; bytes.len()];
    ring.transfer_all(&file, 512, reads(&mut memory, 10_000), never);
    assert!(memory == bytes);
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no io_uring")]
fn a_ring_that_is_refused_at_any_moment_leaves_the_work_to_system_calls() {
    let (file, bytes) = file(1_000_000);
    for calls_left in [0, 1, 2, 3, 5, 8, 12] {
        let Some(mut ring) = ring() else { return };
        ring.calls_left = Some(calls_left);
        ring.longest = 600;
        let mut memory = vec![0; bytes.len()];
        ring.transfer_all(&file, 1, reads(&mut memory, 1000), never);
        assert!(memory == bytes, "after {calls_left} calls");
        assert!(!ring.is_sound(), "a refused ring must end");
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no io_uring")]
fn a_panic_leaves_no_request_behind() {
    let (file, bytes) = file(1_000_000);
    for panics_at in [0, 1, 50, 127, 128, 129, 500] {
        let Some(mut ring) = ring() else { return };
        let mut memory = vec![0; bytes.len()];
        let transfers = reads(&mut memory, 1000).inspect(|t| assert!(t.index != panics_at, "planted"));
        let caught = catch_unwind(AssertUnwindSafe(|| ring.transfer_all(&file, 1, transfers, never)));
        assert!(caught.is_err());
        // The kernel has completed all requests that it took, so nothing writes into this memory any more.
        memory.fill(0);
        drop(ring);
        std::thread::sleep(Duration::from_millis(2));
        assert!(memory.iter().all(|byte| *byte == 0), "panic at {panics_at}");
    }
}

/// A read of a pipe completes when the test writes into it, so the order is known.
#[test]
#[cfg_attr(miri, ignore = "Miri has no io_uring")]
fn a_panic_waits_for_what_the_kernel_holds() {
    let Some(mut ring) = ring() else { return };
    ring.flags = 0;
    let (reader, mut writer) = io::pipe().expect("a pipe");
    let reader = File::from(std::os::fd::OwnedFd::from(reader));
    let answered = std::sync::atomic::AtomicBool::new(false);
    let mut memory = [0; DEPTH + 1];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Enough completions for the call to ask for one more transfer, which panics; the other requests
            // stay in flight.
            writer.write_all(&[1; BATCH_COMPLETIONS]).expect("writes");
            std::thread::sleep(Duration::from_millis(50));
            answered.store(true, std::sync::atomic::Ordering::SeqCst);
            writer.write_all(&[1; DEPTH - BATCH_COMPLETIONS]).expect("writes");
        });
        let transfers = memory.chunks_mut(1).enumerate().map(|(index, byte)| {
            assert!(index < DEPTH, "planted");
            Transfer::read(index, 0, IoBufMut::new(byte))
        });
        assert!(catch_unwind(AssertUnwindSafe(|| ring.transfer_all(&reader, 1, transfers, never))).is_err());
        assert!(answered.load(std::sync::atomic::Ordering::SeqCst), "memory was given back too early");
    });
    assert!(memory[..DEPTH] == [1; DEPTH] && ring.is_sound());
}

/// No request is given to a worker thread of the kernel: a pipe without bytes refuses at once.
#[test]
#[cfg_attr(miri, ignore = "Miri has no io_uring")]
fn what_would_have_to_wait_is_done_by_system_calls_at_the_end() {
    let Some(mut ring) = ring() else { return };
    let (reader, mut writer) = io::pipe().expect("a pipe");
    let reader = File::from(std::os::fd::OwnedFd::from(reader));
    let (mut memory, count) = ([0; 3 * DEPTH], std::cell::Cell::new(0));
    let transfers = memory.chunks_mut(1).enumerate().map(|(index, byte)| {
        count.set(index + 1);
        if index + 1 == 3 * DEPTH {
            // By now all slots were used, and given back, though nothing could be read.
            writer.write_all(&[1; 3 * DEPTH]).expect("writes");
        }
        Transfer::read(index, 0, IoBufMut::new(byte))
    });
    // A pipe has no positions, so the system calls that read it fail, each for its own transfer.
    let mut failed = vec![false; 3 * DEPTH];
    ring.transfer_all(&reader, 1, transfers, |index, error| {
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::SPIPE.raw_os_error()));
        failed[index] = true;
        true
    });
    assert!(count.get() == 3 * DEPTH && ring.is_sound());
    assert!(failed[..2 * DEPTH].iter().all(|failed| *failed), "a request waited for the pipe");
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no io_uring")]
fn a_failure_that_makes_the_rest_pointless_stops_the_rest() {
    let Some(mut ring) = ring() else { return };
    let (file, _) = file(1000);
    let mut memory = vec![0; 1_000_000];
    let (mut begun, mut failed) = (0, 0);
    let transfers = reads(&mut memory, 1000).inspect(|_| begun += 1);
    ring.transfer_all(&file, 1, transfers, |index, error| {
        assert!(index > 0 && error.kind() == io::ErrorKind::UnexpectedEof);
        failed += 1;
        false
    });
    assert!((1..=begun).contains(&failed) && begun <= 2 * DEPTH, "{failed} of {begun} failed");
    assert!(ring.is_sound());
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no io_uring")]
fn writes_arrive_and_may_be_short_as_well() {
    let Some(mut ring) = ring() else { return };
    let (_, bytes) = file(200_000);
    let target = tempfile::tempfile().expect("a temporary file");
    ring.longest = 900;
    let parts = bytes.chunks(3000).enumerate();
    ring.transfer_all(
        &target,
        1,
        parts.map(|(i, part)| Transfer::write(i, (i * 3000) as u64, IoBuf::new(part))),
        never,
    );
    let mut memory = vec![0; bytes.len()];
    system::read(&target, 0, IoBufMut::new(&mut memory), bytes.len(), 1).expect("reads");
    assert!(memory == bytes);
}
