//! Every call of Vulkan fails once: the answers stay right, and nothing is lost.

use crate::gpu::Gpu;
use crate::inputs::filter::Filter;
use crate::inputs::needles::Needles;
use crate::inputs::patterns::{Patterns, steps};
use crate::kernels::context::{GpuOptions, Probes};
use crate::lookups::mirrored::MirrorOptions;
use crate::probe::random_batches::Maker;
use crate::searches::ranked::BestPaths;
use crate::shared::limits::WORKGROUP;
use crate::twin::KernelSettings;
use crate::twin::change::rebuilt;
use crate::twin::host::HostCopy;
use crate::vulkan::{Choice, calls, fail_call, failed_call};
use ash::vk;
use lanefs::bulk::{Batch, DirEngine, LookupRequest, Rebuilt};
use lanefs::{
    Caller, Column, Columns, CreateOptions, Engine, EngineExt, NameSet, PathSet, ResolveOptions, Volume,
};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};

fn volume() -> Volume {
    let options = CreateOptions { size: 16 << 20, ..CreateOptions::default() };
    let volume = Volume::create_memory(&options).expect("volume");
    for number in 0..50 {
        volume
            .create_file(&Caller::OWNER, volume.root(), format!("file {number}").as_bytes(), 0o644)
            .expect("file");
    }
    volume
}

/// Opens a device whose buffers have guards. Its kernels are made when they are used first; other tests probe
/// them.
fn guarded() -> Gpu {
    fail_call(None);
    let options = GpuOptions { guards: true, probes: Probes::None, ..GpuOptions::default() };
    Gpu::open_with(&options).expect("a Vulkan device")
}

/// A batch of changes of the root directory, and the twins' answer.
fn changes(gpu: &Gpu, volume: &Volume) -> (Batch, Rebuilt) {
    let copy = HostCopy::of(volume).expect("copied");
    let superblock = volume.superblock();
    let (seed, inode_size, workgroup) = (superblock.seed, superblock.inode_size, WORKGROUP);
    let mut maker = Maker::new(&copy, inode_size, 1);
    while maker.is_empty() {
        maker.add(volume.root().0 * inode_size.bytes());
    }
    let batch = maker.batch();
    let setting = KernelSettings { seed, inode_size, fuel: gpu.fuel(), workgroup };
    let mut rebuilt = rebuilt(&copy, &setting, &batch).expect("able");
    rebuilt.words.sort_unstable();
    (batch, rebuilt)
}

/// A mirror, some batches, a change between them; all answers must be those of the CPU engine, and of the
/// twins.
fn work(gpu: &Gpu, volume: &Volume, (batch, rebuilt): &(Batch, Rebuilt)) {
    // So each round allocates its memory.
    gpu.context.device.free_spares();
    for round in 0..3 {
        volume.write_file(format!("/file {round}"), b"").expect("written");
    }
    let options = ResolveOptions { attributes: true, ..ResolveOptions::default() };
    let paths: Vec<String> = (0..60).map(|number| format!("/file {number}")).collect();
    let Ok(mirrored) = gpu.mirror(volume, &MirrorOptions { room: Some(8 << 20), ..MirrorOptions::default() })
    else {
        return;
    };
    let _ = mirrored.warm();
    for round in 0..3 {
        volume.write_file(format!("/file {round}"), b"changed").expect("written");
        let expected = volume.resolve_batch(&options, &paths).expect("the CPU engine");
        let set: PathSet = paths.iter().collect();
        let (first, second) = (mirrored.submit(&options, &set), mirrored.submit(&options, &set));
        let found = mirrored.find(&Filter { size: 7..=7, ..Filter::default() }).expect("found").0;
        assert_eq!(found.len(), round + 1);
        let mut changes = mirrored.changes();
        let _ = changes.refresh();
        let request = LookupRequest { dir: volume.root().0, name: b"file 7" };
        let (seen, found) = (changes.seek(&[request]), changes.rebuild(batch));
        drop(changes);
        if let Ok(seen) = seen {
            let (ino, kind) = volume.lookup(&Caller::OWNER, volume.root(), b"file 7").expect("there");
            assert_eq!(seen[0].entry.map(|(_, ino, kind)| (ino, kind)), Some((ino.0, kind)));
        }
        if let Ok(mut found) = found {
            found.words.sort_unstable();
            assert_eq!(found, *rebuilt);
        }
        assert_eq!(second.wait().expect("answers").0, expected);
        assert_eq!(first.wait().expect("answers").0, expected);
    }
}

#[test]
fn whichever_call_fails_the_answers_are_right() {
    let volume = volume();
    // Guards show a device that continues to write to memory that is no longer its own.
    let gpu = guarded();
    let known = changes(&gpu, &volume);
    // The first time makes the kernels.
    work(&gpu, &volume, &known);
    fail_call(None);
    work(&gpu, &volume, &known);
    let count = calls();
    assert!(count > 50, "only {count} calls");
    for code in [
        vk::Result::ERROR_DEVICE_LOST,
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY,
        vk::Result::ERROR_OUT_OF_HOST_MEMORY,
    ] {
        for call in 0..count {
            fail_call(Some((call, code)));
            work(&gpu, &volume, &known);
        }
    }
    fail_call(None);
    work(&gpu, &volume, &known);
}

#[test]
fn whichever_call_fails_kept_paths_are_answered_by_what_was_recorded_for_them() {
    let volume = volume();
    let paths: PathSet = (0..60).map(|number| format!("/file {number}")).collect();
    let options = ResolveOptions::default();
    let columns = [[Column::Ino].as_slice(), &[Column::Exists], &[Column::Size, Column::Mode]];
    let expected = columns.map(|wanted| {
        let mut answers = Columns::of(wanted);
        volume.resolve_into(&options, &paths, &mut answers.rows(60)).expect("the CPU engine");
        format!("{answers:?}")
    });
    let gpu = guarded();
    let ask = || {
        gpu.context.device.free_spares();
        let mirrored = gpu.mirror(&volume, &MirrorOptions::default()).ok();
        let Some(mut kept) = mirrored.as_ref().and_then(|mirrored| mirrored.keep(&options, &paths).ok())
        else {
            return;
        };
        // Each twice: the second call finds what a failure of the first one has left.
        for (wanted, expected) in columns.iter().zip(&expected) {
            for _ in 0..2 {
                let mut answers = Columns::of(wanted);
                kept.resolve_into(&mut answers.rows(60)).expect("answers");
                assert_eq!(format!("{answers:?}"), *expected);
            }
        }
    };
    // The first time makes the kernels.
    ask();
    fail_call(None);
    ask();
    let count = calls();
    assert!(count > 50, "only {count} calls");
    for code in [vk::Result::ERROR_OUT_OF_DEVICE_MEMORY, vk::Result::ERROR_OUT_OF_HOST_MEMORY] {
        for call in 0..count {
            fail_call(Some((call, code)));
            ask();
        }
    }
    fail_call(None);
}

#[test]
fn whichever_stage_fails_the_callers_beside_get_the_answers_of_the_cpu_engine() {
    const CALLERS: usize = 4;
    let volume = volume();
    fail_call(None);
    // Paths and answers are copied, as on a device with memory of its own, and the paths by its queue for
    // copies: all batches are large enough.
    let probes = Probes::None;
    let gpu = Gpu::open_with(&GpuOptions { guards: true, own_memory: true, probes, ..GpuOptions::default() });
    let gpu = gpu.expect("a Vulkan device");
    let options = ResolveOptions { attributes: true, ..ResolveOptions::default() };
    let batches: [Vec<String>; CALLERS] = std::array::from_fn(|caller| {
        (0..600 + 500 * caller).map(|number| format!("/file {}", number * (caller + 1) % 70)).collect()
    });
    let expected = batches.each_ref().map(|paths| volume.resolve_batch(&options, paths).expect("answers"));
    // The same ones as names under their directory.
    let names = batches.each_ref().map(|paths| PathSet::under("/", paths.iter().map(|path| &path[1..])));
    fn by_names(engine: &dyn Engine, names: &NameSet) -> String {
        let mut answers = Columns::of(&[Column::Ino, Column::Size]);
        let rows = &mut answers.rows(names.len());
        engine.resolve_names_into(&ResolveOptions::default(), names, rows).expect("answers");
        format!("{answers:?}")
    }
    let expected_of_names = names.each_ref().map(|names| by_names(&volume, names));
    // Returns the call of the first caller that failed.
    let ask = |call: u64, code: vk::Result| {
        fail_call(None);
        gpu.context.device.free_spares();
        let mirrored = gpu.mirror(&volume, &MirrorOptions::default()).expect("a mirror");
        mirrored.prefer_names();
        let (begin, batches, expected) = (Barrier::new(CALLERS), &batches, &expected);
        let (names, expected_of_names) = (&names, &expected_of_names);
        let ask = |caller: usize| {
            begin.wait();
            for round in 0..3 {
                if caller == 0 {
                    // Batches on their way are of an older state, and none asks for this file.
                    volume
                        .write_file("/another file", format!("{call} {round}").as_bytes())
                        .expect("written");
                }
                let (found, _) = mirrored.resolve_batch(&options, &batches[caller]).expect("answers");
                assert!(found == expected[caller], "caller {caller}, call {call}: {code}");
                let found = by_names(&mirrored, &names[caller]);
                assert!(found == expected_of_names[caller], "caller {caller}, names, call {call}: {code}");
            }
        };
        std::thread::scope(|scope| {
            (1..CALLERS).for_each(|caller| drop(scope.spawn(move || ask(caller))));
            fail_call(Some((call, code)));
            ask(0);
        });
        let failed = failed_call();
        fail_call(None);
        failed
    };
    for code in [vk::Result::ERROR_DEVICE_LOST, vk::Result::ERROR_OUT_OF_DEVICE_MEMORY] {
        let stages: BTreeSet<&str> = (0..).map_while(|call| ask(call, code)).collect();
        for stage in ["vkAllocateMemory", "vkEndCommandBuffer", "vkQueueSubmit", "vkWaitSemaphores"] {
            assert!(stages.contains(stage), "{stage} never failed: {stages:?}");
        }
    }
}

#[test]
fn a_device_that_never_ends_its_work_is_given_up() {
    let volume = volume();
    fail_call(None);
    // The guards would show memory that was freed, or read, while the device may write to it.
    let gpu = guarded();
    let options = ResolveOptions { attributes: true, ..ResolveOptions::default() };
    let paths: PathSet = (0..60).map(|number| format!("/file {number}")).collect();
    let expected = volume.resolve_batch(&options, &paths.view().iter().collect::<Vec<_>>());
    let expected = expected.expect("the CPU engine");
    let mirrored = gpu.mirror(&volume, &MirrorOptions::default()).expect("a mirror");
    let (found, report) = mirrored.submit(&options, &paths).wait().expect("answers");
    assert_eq!((found, report.by_host), (expected.clone(), 0));
    let before = mirrored.submit(&options, &paths);
    let mut awaited = mirrored.submit(&options, &paths);
    fail_call(Some((0, vk::Result::TIMEOUT)));
    let mut context = Context::from_waker(Waker::noop());
    assert!(
        Pin::new(&mut awaited).poll(&mut context).is_pending(),
        "the device seems to have ended its work"
    );
    for pending in [before, mirrored.submit(&options, &paths)] {
        let (found, report) = pending.wait().expect("answers");
        assert_eq!((found, report.by_device), (expected.clone(), 0));
    }
    // A future that is still pending would be woken at once, again and again.
    let Poll::Ready(answers) = Pin::new(&mut awaited).poll(&mut context) else {
        panic!("a lookup waits for a device that was given up");
    };
    let (found, report) = answers.expect("answers");
    assert_eq!((found, report.by_device), (expected.clone(), 0));
    drop(awaited);
    assert!(mirrored.failure().is_some_and(|why| why.contains("lost")), "{:?}", mirrored.failure());
    drop(mirrored);
    assert!(gpu.mirror(&volume, &MirrorOptions::default()).is_err(), "a device that hangs takes a volume");
    drop(gpu);
    fail_call(None);
}

#[test]
fn a_passing_want_of_memory_costs_no_more_than_the_batch_that_met_it() {
    let volume = volume();
    fail_call(None);
    let gpu = guarded();
    let options = ResolveOptions { attributes: true, ..ResolveOptions::default() };
    let paths: Vec<String> = (0..50).map(|number| format!("/file {number}")).collect();
    // Returns whether the call came before the end of the batch.
    let fails_in_time = |call: u64, code: vk::Result| {
        let mirrored = gpu.mirror(&volume, &MirrorOptions::default()).expect("a mirror");
        let expected = volume.resolve_batch(&options, &paths).expect("the CPU engine");
        fail_call(Some((call, code)));
        assert_eq!(mirrored.resolve_batch(&options, &paths).expect("answers").0, expected);
        let is_in_time = calls() > call;
        fail_call(None);
        assert_eq!(mirrored.failure(), None, "call {call}: {code}");
        volume.write_file("/file 1", format!("{call}").as_bytes()).expect("written");
        let expected = volume.resolve_batch(&options, &paths).expect("the CPU engine");
        // The refresh that met it, and one refresh after it.
        drop(mirrored.submit(&options, &paths.iter().collect::<PathSet>()));
        let (found, report) = mirrored.resolve_batch(&options, &paths).expect("answers");
        assert_eq!(found, expected);
        assert_eq!(report.by_device, paths.len() as u64, "call {call}: {code}");
        is_in_time
    };
    // The first time makes the kernels, and no call fails.
    assert!(!fails_in_time(u64::MAX, vk::Result::ERROR_OUT_OF_DEVICE_MEMORY));
    for code in [
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY,
        vk::Result::ERROR_OUT_OF_HOST_MEMORY,
        vk::Result::ERROR_TOO_MANY_OBJECTS,
    ] {
        let tried = (0..).take_while(|call| fails_in_time(*call, code)).count();
        assert!(tried > 10, "only {tried} calls");
    }
}

#[test]
fn whichever_call_fails_while_a_device_is_opened_it_is_told() {
    fail_call(None);
    let gpu = Gpu::open_probed(&Choice::Best).expect("a Vulkan device");
    let count = calls();
    drop(gpu);
    // The last calls wait for work that has ended already. Each attempt takes a while, so only some fail;
    // the calls that make kernels come first.
    for call in (0..20).chain((20..count - 20).step_by(97)) {
        fail_call(Some((call, vk::Result::ERROR_DEVICE_LOST)));
        assert!(Gpu::open_probed(&Choice::Best).is_err(), "call {call} of {count}");
    }
    fail_call(None);
}

/// Has each call of a search fail once: memory is short, and the device is lost. `search` returns the
/// failure, and how many of three questions the device answered; `is_survived` says what it may return where
/// memory is short.
fn each_call_fails(
    search: &dyn Fn(&Gpu) -> (Option<String>, u32),
    is_survived: impl Fn(&Option<String>, u32) -> bool,
) {
    let gpu = guarded();
    // The first time makes the kernels.
    assert_eq!(search(&gpu), (None, 3));
    fail_call(None);
    assert_eq!(search(&gpu), (None, 3));
    let count = calls();
    assert!(count > 20, "only {count} calls");
    for code in [vk::Result::ERROR_OUT_OF_DEVICE_MEMORY, vk::Result::ERROR_OUT_OF_HOST_MEMORY] {
        for call in 0..count {
            fail_call(Some((call, code)));
            let (failure, answered) = search(&gpu);
            assert!(is_survived(&failure, answered), "call {call}: {code}: {failure:?}, {answered}");
        }
    }
    for call in 0..count {
        fail_call(Some((call, vk::Result::ERROR_DEVICE_LOST)));
        let (failure, answered) = search(&gpu);
        assert!(failure.is_some() || answered == 3, "call {call}: {answered}");
    }
    fail_call(None);
    assert_eq!(search(&gpu), (None, 3));
}

#[test]
fn whichever_call_fails_no_text_is_missed() {
    let mut patterns = Patterns::default();
    assert!(patterns.or(&steps("needle")));
    let long = [&b"x".repeat(100_000)[..], b"needle"].concat();
    let texts: [&[u8]; 3] = [b"needle", b"none", &long];
    // Returns the failure, and for how many searches the device answered.
    let search = |gpu: &Gpu| {
        gpu.context.device.free_spares();
        let scan = gpu.text_scan(&patterns);
        let mut answered = 0;
        let kept = Arc::new(gpu.kept_texts(None));
        for _ in 0..3 {
            let found = scan.may_match_and_keep(&texts, &[Some(0), Some(1), Some(2)], &kept);
            assert!(found[0] && found[2], "{found:?}");
            answered += u32::from(!found[1]);
            let known = scan.scan_kept(&kept).may_match(0..3);
            assert!(
                known[0] != Some(false) && known[1] != Some(true) && known[2] != Some(false),
                "{known:?}"
            );
        }
        (scan.failure(), answered)
    };
    each_call_fails(&search, |failure, answered| failure.is_none() && answered >= 2);
    // A device that hangs answers nothing.
    let hanging = guarded();
    fail_call(Some((0, vk::Result::TIMEOUT)));
    let (failure, answered) = search(&hanging);
    assert!(failure.is_some_and(|why| why.contains("lost")) && answered == 0);
    drop(hanging);
    fail_call(None);
}

#[test]
fn whichever_call_fails_no_hash_is_wrong() {
    let long = b"x".repeat(100_000);
    let texts: [&[u8]; 3] = [b"short", b"", &long];
    let expected = texts.map(|text| *blake3::hash(text).as_bytes());
    // Returns the failure, and for how many calls the device answered.
    let search = |gpu: &Gpu| {
        gpu.context.device.free_spares();
        let hasher = gpu.text_hash();
        let mut answered = 0;
        for _ in 0..3 {
            let found = hasher.hash(&texts);
            assert_eq!(found.len(), texts.len());
            assert!(found.iter().zip(expected).all(|(found, hash)| found.is_none_or(|found| found == hash)));
            answered += u32::from(found.iter().all(Option::is_some));
        }
        (hasher.failure(), answered)
    };
    each_call_fails(&search, |failure, answered| failure.is_none() && answered >= 2);
    // A device that hangs answers nothing.
    let hanging = guarded();
    fail_call(Some((0, vk::Result::TIMEOUT)));
    let (failure, answered) = search(&hanging);
    assert!(failure.is_some_and(|why| why.contains("lost")) && answered == 0);
    drop(hanging);
    fail_call(None);
}

#[test]
fn whichever_call_fails_no_path_is_lost() {
    let mut needles = Needles::default();
    assert!(needles.and(b"b", true));
    // Returns the failure, and for how many searches the device answered.
    let search = |gpu: &Gpu| {
        gpu.context.device.free_spares();
        let mut path = |number: u32, to: &mut Vec<u8>| to.extend(format!("/a{number}b").as_bytes());
        let paths = match gpu.ranked_paths(100, &mut path) {
            Ok(paths) => paths,
            Err(error) => return (Some(error.to_string()), 0),
        };
        let mut answered = 0;
        for limit in [1, 10, 10] {
            let Some(BestPaths { matched, best, undecided }) = paths.best(&needles, limit) else { continue };
            assert_eq!((matched, best.len(), undecided.len()), (100, 100, 0));
            answered += 1;
        }
        (paths.failure(), answered)
    };
    each_call_fails(&search, |failure, answered| {
        failure.is_some() && answered == 0 || failure.is_none() && answered >= 2
    });
}
