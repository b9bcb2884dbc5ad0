//! Khronos' validation layers check the use of Vulkan, in a process of their own: they print nothing for
//! right use, and something for wrong use.

use crate::own_memory::SWITCH;
use crate::support::{cached, fill, open, options, questions};
use ash::vk;
use lanefs::bulk::{DirEngine, LookupRequest};
use lanefs::{EngineExt, InodeSize, PathSet, ReadFiles, ResolveOptions, Volume};
use lanefs_gpu::testing::Maker;
use lanefs_gpu::twin::host::HostCopy;
use lanefs_gpu::{DeviceFilesOptions, Filter, Needles, PatternStep, Patterns};
use lanefs_testkit::seeded::Seeded;
use std::process::Command;
use std::sync::Arc;

const AGAIN: &str = "LANEFS_GPU_VALIDATED";

/// Uses a device in every way that the engine does.
fn work() {
    let gpu = open(64);
    let numbers = &mut Seeded::new(8);
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    let paths = fill(&volume, numbers);
    let copy = HostCopy::of(&volume).expect("copied");
    let mut maker = Maker::new(&copy, InodeSize::B256, 1);
    let dir = volume.resolve("/n/dir-0").expect("a directory").ino;
    for ino in [dir, volume.root()] {
        maker.add(ino.0 * InodeSize::B256.bytes());
    }
    let batch = maker.batch();
    let mirrored = gpu.mirror(&volume, &cached()).expect("mirror");
    for (count, attributes) in [(10, false), (3000, true), (100, true)] {
        volume.write_file(format!("/file-{count}"), b"").expect("file");
        let options = ResolveOptions { attributes, ..ResolveOptions::default() };
        let asked = questions(&paths, count, numbers);
        mirrored.resolve_batch(&options, &asked).expect("resolved");
        // Several in flight, one of them forgotten.
        let set: PathSet = asked.iter().collect();
        let first = mirrored.submit(&options, &set);
        drop(mirrored.submit(&options, &set));
        first.wait().expect("resolved");
        mirrored.warm().expect("warm");
        mirrored.find(&Filter::default()).expect("found");
        mirrored.list_below(&[volume.root()], None, true);
        let mut changes = mirrored.changes();
        changes.refresh().expect("the device");
        let names =
            [LookupRequest { dir: volume.root().0, name: b"dir-0" }, LookupRequest { dir: 0, name: b"x" }];
        assert_eq!(changes.seek(&names).expect("request").len(), 2);
        // The root directory has changed since the batch was made.
        let _ = changes.rebuild(&batch);
    }
    volume.write_file("/content", vec![7; 100_000]).expect("file");
    let some = PathSet::from_iter(["/content", "/none", "/content"]);
    for exportable in [false, true] {
        let options = DeviceFilesOptions { bounce: 30_000, exportable };
        let mut files = gpu.device_files(1 << 20, &options).expect("memory");
        for _ in 0..2 {
            assert_eq!(mirrored.read_files(&ReadFiles::default(), &some, &mut files).expect("read"), 2);
            assert_eq!(files.read(99_000..150_000).expect("read back"), [7; 51_000]);
        }
        assert_eq!(files.export_fd().is_ok(), exportable);
    }
    assert_eq!(mirrored.failure(), None);
    let mut patterns = Patterns::default();
    let step = PatternStep { bytes: [0, 2, 0, 0], is_optional: false, is_repeated: false };
    assert!(patterns.or(&[step; 3]));
    let scan = gpu.text_scan(&patterns);
    let kept = Arc::new(gpu.kept_texts(None));
    for len in [1, 100_000, 1000] {
        let texts: [&[u8]; 2] = [b"AAA", &vec![b'-'; len]];
        assert_eq!(scan.may_match(&texts), [true, false]);
        assert_eq!(scan.may_match_and_keep(&texts, &[Some(0), Some(len as u64)], &kept), [true, false]);
        assert_eq!(scan.scan_kept(&kept).may_match([0, len as u64].into_iter()), [Some(true), Some(false)]);
    }
    assert_eq!(scan.failure(), None);
    let hasher = gpu.text_hash();
    for len in [1, 100_000, 1000] {
        let hashes = hasher.hash(&[b"AAA", &vec![b'-'; len]]);
        assert!(hashes.iter().all(Option::is_some));
    }
    assert_eq!(hasher.failure(), None);
    let mut needles = Needles::default();
    assert!(needles.and(b"dir5", true));
    for len in [0, 1, paths.len()] {
        let mut path = |number: u32, to: &mut Vec<u8>| to.extend_from_slice(&paths[number as usize]);
        let ranked = gpu.ranked_paths(len, &mut path).expect("paths");
        for limit in [1, 100, usize::MAX] {
            assert!(ranked.best(&needles, limit).is_some());
        }
    }
}

/// A buffer without bytes, which Vulkan forbids.
fn misuse() {
    // SAFETY: the handles live until the end; the buffer is wrong on purpose, and llvmpipe takes it.
    unsafe {
        let entry = ash::Entry::load().expect("loader");
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
        let create = vk::InstanceCreateInfo::default().application_info(&application);
        let instance = entry.create_instance(&create, None).expect("instance");
        let physical = instance.enumerate_physical_devices().expect("devices")[0];
        let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
        let create = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
        let device = instance.create_device(physical, &create, None).expect("device");
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER;
        let buffer = device.create_buffer(&vk::BufferCreateInfo::default().usage(usage), None);
        device.destroy_buffer(buffer.unwrap_or_default(), None);
        device.destroy_device(None);
        instance.destroy_instance(None);
    }
}

/// Returns the complaints of the layers about a process, on a device whose memory the host maps or does not.
fn complaints(what: &str, own_memory: bool) -> Vec<String> {
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "validation::the_layers_have_nothing_to_say", "--nocapture"])
        .env(AGAIN, what)
        .env("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation")
        .envs(own_memory.then_some((SWITCH, "1")))
        .output()
        .expect("run");
    let text = String::from_utf8_lossy(&[child.stdout, child.stderr].concat()).into_owned();
    assert!(child.status.success(), "{what}: {text}");
    text.lines()
        .filter(|line| line.contains("VUID") || line.contains("Validation"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_layers_have_nothing_to_say() {
    match std::env::var(AGAIN).as_deref() {
        Ok("work") => return work(),
        Ok(_) => return misuse(),
        Err(_) => {}
    }
    let of_misuse = complaints("misuse", false);
    assert!(!of_misuse.is_empty(), "the layers are not at work (Debian: vulkan-validationlayers)");
    for own_memory in [false, true] {
        assert_eq!(complaints("work", own_memory), [""; 0], "own memory: {own_memory}");
    }
}
