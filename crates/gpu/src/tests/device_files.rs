//! Exported memory beside the files in it; bounce buffers; and every call of Vulkan that fails once.

use crate::device_files::{DeviceFiles, DeviceFilesOptions};
use crate::error::Error;
use crate::gpu::Gpu;
use crate::kernels::context::{GpuOptions, Probes};
use crate::lookups::mirrored::{MirrorOptions, Mirrored};
use crate::resident::bounce::{BOUNCE_BUFFERS, BounceBuffers};
use crate::vulkan::{Buffer, Choice, Commands, Device, DeviceKind, MemoryLocation, calls, fail_call};
use ash::vk;
use lanefs::{Code, CreateOptions, FileContents, PathSet, ReadFiles, Volume};
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Parts of a batch; one file has several.
const PART: u64 = 1000;
const EXPORTABLE: DeviceFilesOptions = DeviceFilesOptions { bounce: PART, exportable: true };

fn open(guards: bool) -> Gpu {
    let options = GpuOptions { guards, probes: Probes::None, ..GpuOptions::default() };
    Gpu::open_with(&options).expect("a Vulkan device")
}

fn volume() -> Volume {
    let options = CreateOptions { size: 16 << 20, ..CreateOptions::default() };
    let volume = Volume::create_memory(&options).expect("volume");
    for (name, len) in [("/small", 90), ("/large", 4500), ("/other", 700)] {
        let content: Vec<u8> = (0..len).map(|i| (i / 7 * len) as u8).collect();
        volume.write_file(name, content).expect("written");
    }
    volume
}

fn some() -> PathSet {
    ["/large", "/none", "/small", "/other"].into_iter().collect()
}

/// More bytes than the memory of the tests has.
fn some_twice() -> PathSet {
    ["/large", "/large"].into_iter().collect()
}

fn expected(volume: &Volume) -> FileContents<'static> {
    let mut contents = FileContents::new();
    volume.read_files(&ReadFiles::default(), &some(), &mut contents).expect("read");
    contents
}

/// The first bytes of a buffer, after its owner has given it away.
fn imported(device: &Arc<Device>, buffer: &Buffer) -> Vec<u8> {
    let host = Buffer::alone(device, buffer.len, MemoryLocation::Download).expect("memory");
    let mut commands = Commands::of_copies(device).expect("commands");
    let copied = commands.record(|recording| {
        recording.take_back(buffer);
        recording.copy(buffer, &host, &[(0, 0, buffer.len)]);
        recording.give_away(buffer);
    });
    copied.and_then(|()| commands.submit()).and_then(|_| commands.wait()).expect("copied");
    host.bytes().expect("mapped")[..buffer.len as usize].to_vec()
}

#[test]
fn another_device_that_imports_the_memory_sees_the_files() {
    fail_call(None);
    for guards in [false, true] {
        let (gpu, volume) = (open(guards), volume());
        let mirrored = gpu.mirror(&volume, &MirrorOptions::default()).expect("a mirror");
        let mut files = gpu.device_files(8000, &EXPORTABLE).expect("memory");
        let first = files.export_fd().expect("exported");
        let other = Device::open(&Choice::Best, false, false).expect("a device of another instance");
        let (offset, allocation) = (first.offset, first.allocation_bytes);
        assert!(allocation >= offset + 8000, "{first:?}");
        let again = files.export_fd().expect("exported again");
        assert_ne!(first.fd.as_raw_fd(), again.fd.as_raw_fd());
        assert_eq!((again.offset, again.allocation_bytes), (offset, allocation));
        let theirs = Buffer::import(&other, first, 8000).expect("imported");
        mirrored.read_files(&ReadFiles::default(), &some(), &mut files).expect("read");
        let contents = expected(&volume);
        assert!(imported(&other, &theirs)[..contents.bytes().len()] == *contents.bytes());
        // They see the next batch, too, and their bytes outlive the owner.
        volume.write_file("/small", b"other").expect("written");
        mirrored.read_files(&ReadFiles::default(), &some(), &mut files).expect("read");
        let contents = expected(&volume);
        assert_eq!(files.read(0..files.layout().bytes()).expect("read back"), contents.bytes());
        drop((files, mirrored));
        drop(gpu);
        assert!(imported(&other, &theirs)[..contents.bytes().len()] == *contents.bytes());
    }
}

#[test]
fn the_host_fills_all_bounce_buffers_before_it_waits_for_a_copy() {
    fail_call(None);
    let device = Device::open(&Choice::Best, true, true).expect("a Vulkan device");
    let target = Buffer::alone(&device, 100 * PART, MemoryLocation::Device).expect("memory");
    let mut bounces = BounceBuffers::new(&device, PART).expect("memory");
    // No submission is seen to end.
    fail_call(Some((0, vk::Result::TIMEOUT)));
    for part in 0..BOUNCE_BUFFERS as u64 {
        bounces.memory().expect("free memory").fill(part as u8);
        bounces.send(&target, part * PART, PART).expect("on its way");
    }
    assert!(bounces.memory().is_err(), "memory that the device still reads");
    drop((bounces, target, device));
    fail_call(None);
}

/// Reads a batch twice into new memory, reads it back, and exports it. Each step is an error, or right.
/// Returns the number of steps that were right.
fn steps(gpu: &Gpu, mirrored: &Mirrored<'_>, expected: &FileContents<'_>) -> usize {
    let Ok(mut files) = gpu.device_files(8000, &EXPORTABLE) else { return 0 };
    let mut right = 1;
    for _ in 0..2 {
        right += usize::from(read(mirrored, &mut files, expected));
        let layout = files.layout().clone();
        if let Ok(bytes) = files.read(0..layout.bytes()) {
            let is_empty = layout.is_empty() && bytes.is_empty();
            assert!(is_empty || bytes == expected.bytes(), "{} bytes come back", bytes.len());
            right += usize::from(!is_empty);
        }
    }
    right + usize::from(files.export_fd().is_ok())
}

/// Reads a batch, and returns whether it is there. Otherwise no file is.
fn read(mirrored: &Mirrored<'_>, files: &mut DeviceFiles, expected: &FileContents<'_>) -> bool {
    match mirrored.read_files(&ReadFiles::default(), &some(), files) {
        Ok(count) => {
            assert_eq!((count, files.layout()), (3, expected.layout()));
            true
        }
        Err(error) => {
            assert!(matches!(error, Error::Device { .. }) && files.layout().is_empty(), "{error:?}");
            false
        }
    }
}

#[test]
fn whichever_call_fails_no_file_on_the_device_is_wrong() {
    fail_call(None);
    let (gpu, volume) = (open(true), volume());
    let mirrored = gpu.mirror(&volume, &MirrorOptions::default()).expect("a mirror");
    let contents = expected(&volume);
    fail_call(None);
    assert_eq!(steps(&gpu, &mirrored, &contents), 6);
    let count = calls();
    assert!(count > 60, "only {count} calls");
    for code in [
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY,
        vk::Result::ERROR_OUT_OF_HOST_MEMORY,
        vk::Result::ERROR_DEVICE_LOST,
    ] {
        for call in 0..count {
            fail_call(Some((call, code)));
            let right = steps(&gpu, &mirrored, &contents);
            // A want of memory costs the step that met it, and what needs that step. (The last calls may
            // belong to memory that is dropped.)
            let fewest = if code == vk::Result::ERROR_DEVICE_LOST || right == 0 { 0 } else { 4 };
            assert!((fewest..=6).contains(&right), "call {call}: {code}: {right} steps");
            fail_call(None);
            assert_eq!(expected(&volume).bytes(), contents.bytes(), "the volume works on");
        }
    }
    // The memory serves the next batch when one has failed.
    let mut files = gpu.device_files(8000, &EXPORTABLE).expect("memory");
    fail_call(Some((6, vk::Result::ERROR_OUT_OF_HOST_MEMORY)));
    assert!(!read(&mirrored, &mut files, &contents), "the call did not fail");
    fail_call(None);
    assert!(read(&mirrored, &mut files, &contents));
    assert_eq!((steps(&gpu, &mirrored, &contents), mirrored.failure()), (6, None));
}

#[test]
fn a_batch_that_is_begun_raises_the_timeline_when_its_bytes_are_there() {
    fail_call(None);
    let (gpu, volume) = (open(true), volume());
    let mirrored = gpu.mirror(&volume, &MirrorOptions::default()).expect("a mirror");
    let mut files = gpu.device_files(8000, &EXPORTABLE).expect("memory");
    let begin = |files: &mut DeviceFiles| mirrored.begin_files(&ReadFiles::default(), &some(), files);
    if gpu.info().kind == DeviceKind::Software {
        // It exports none, so the host waits.
        assert!(matches!(files.export_timeline(), Err(Error::NotExportable(_))));
        assert_eq!((begin(&mut files).expect("read"), files.arrival()), (3, None));
        assert_eq!(files.read(0..90).expect("read back"), expected(&volume).bytes()[..90]);
    }
    files.count_batches().expect("a semaphore");
    for batch in 1..=3 {
        volume.write_file("/small", format!("batch {batch}")).expect("written");
        assert_eq!((begin(&mut files).expect("begun"), files.arrival()), (3, Some(batch)));
        let contents = expected(&volume);
        assert_eq!(files.layout(), contents.layout());
        // A copy to the host comes after those to the device.
        if batch == 2 {
            assert_eq!(files.read(0..files.layout().bytes()).expect("read back"), contents.bytes());
        }
        files.wait().expect("arrived");
        assert_eq!(files.arrived(), batch);
        assert_eq!(files.read(0..files.layout().bytes()).expect("read back"), contents.bytes());
    }
    // One that the host waits for raises nothing, nor does one that is refused.
    assert!(read(&mirrored, &mut files, &expected(&volume)));
    assert!(mirrored.begin_files(&ReadFiles::default(), &some_twice(), &mut files).is_err());
    assert_eq!((files.arrival(), files.arrived(), files.layout().len()), (Some(3), 3, 0));
    // Whichever call fails, it is an error, or the bytes are there.
    let contents = expected(&volume);
    for call in 0..30 {
        fail_call(Some((call, vk::Result::ERROR_OUT_OF_HOST_MEMORY)));
        let begun = begin(&mut files);
        fail_call(None);
        match begun.and_then(|_| files.wait()) {
            Ok(()) => assert_eq!(files.read(0..files.layout().bytes()).expect("back"), contents.bytes()),
            Err(error) => assert!(files.layout().is_empty(), "{error:?}"),
        }
        assert_eq!(Some(files.arrived()), files.arrival(), "call {call}");
    }
    assert!(begin(&mut files).is_ok() && files.wait().is_ok());
}

#[test]
fn a_device_that_never_ends_a_copy_gives_no_files() {
    fail_call(None);
    let (gpu, volume) = (open(true), volume());
    let mirrored = gpu.mirror(&volume, &MirrorOptions::default()).expect("a mirror");
    let mut files = gpu.device_files(8000, &EXPORTABLE).expect("memory");
    let contents = expected(&volume);
    fail_call(Some((0, vk::Result::TIMEOUT)));
    for _ in 0..2 {
        let error = mirrored.read_files(&ReadFiles::default(), &some(), &mut files).expect_err("a result");
        assert!(error.to_string().contains("lost"), "{error}");
        assert_eq!(lanefs::Error::from(error).code(), Code::Io);
        assert!(files.layout().is_empty());
    }
    assert_eq!(expected(&volume).bytes(), contents.bytes());
    drop((files, mirrored));
    drop(gpu);
    fail_call(None);
}
