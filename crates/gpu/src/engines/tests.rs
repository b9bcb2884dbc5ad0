//! Which engine answers when, and that all give the volume's answers.

use super::{
    AUTO_BATCH_PATHS, CPU_BATCH_PATHS, DeviceSide, EngineChoice, EngineOptions, Engines, GPU_BATCH_PATHS,
};
use crate::error::Error;
use crate::gpu::Gpu;
use crate::records::DeviceCosts;
use crate::vulkan::fail_call;
use ash::vk;
use lanefs::bulk::Change;
use lanefs::{Column, Columns, CreateOptions, EngineExt, PathSet, ResolveOptions, Volume};
use lanefs_sync::lock::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// More time than a test ever needs.
const LONG: Duration = Duration::from_secs(600);

fn volume() -> Volume {
    let options = CreateOptions { size: 16 << 20, ..CreateOptions::default() };
    let volume = Volume::create_memory(&options).expect("volume");
    for number in (0..100).step_by(2) {
        volume.write_file(format!("/file {number}"), b"").expect("file");
    }
    volume
}

fn gpu() -> Gpu {
    fail_call(None);
    Gpu::open(&crate::vulkan::Choice::default()).expect("a Vulkan device")
}

fn chosen(engine: EngineChoice) -> EngineOptions {
    EngineOptions { engine, ..EngineOptions::default() }
}

/// Asks for existing and absent paths, and compares with the volume. Returns the number of paths that a
/// device answered.
fn ask(engines: &Engines<'_>) -> u64 {
    let options = ResolveOptions { attributes: true, ..ResolveOptions::default() };
    let paths: Vec<String> = (0..100).map(|number| format!("/file {number}")).collect();
    let expected = engines.volume().resolve_batch(&options, &paths).expect("the CPU engine");
    let (answers, report) = engines.resolve_batch(&options, &paths).expect("answers");
    assert_eq!(answers, expected);
    assert_eq!((report.found, report.by_device + report.by_host), (50, 100));
    let (set, mut columns): (PathSet, _) = (paths.iter().collect(), Columns::of(&[Column::Ino]));
    engines.resolve_into(&options, &set, &mut columns.rows(100)).expect("answers");
    let inos: Vec<u64> = expected.iter().map(|answer| answer.ino.map_or(0, |ino| ino.0)).collect();
    assert_eq!(columns.ino().expect("a column"), inos);
    report.by_device
}

#[test]
fn names_of_choices_are_read_as_they_are_written() {
    for choice in EngineChoice::ALL {
        assert_eq!(EngineChoice::from_name(&choice.to_string()), Some(choice));
    }
    assert_eq!(EngineChoice::from_name("abacus"), None);
}

#[test]
fn the_cpu_engine_needs_no_device_and_auto_opens_none_before_it_pays() {
    let volume = volume();
    for choice in [EngineChoice::Cpu, EngineChoice::Auto] {
        let engines = Engines::open(&volume, chosen(choice)).expect("no device is opened");
        for _ in 0..3 {
            assert_eq!(ask(&engines), 0);
        }
        assert_eq!(
            (engines.to_string(), engines.batch(), engines.threads(9)),
            ("cpu".into(), CPU_BATCH_PATHS, 9)
        );
        assert!(engines.chosen().is_none() && engines.take_failure().is_none());
        assert_eq!(engines.reason().contains("more time than it saves"), choice == EngineChoice::Auto);
    }
}

#[test]
fn auto_without_a_device_that_could_be_faster_says_so_and_goes_on() {
    let volume = volume();
    let options = EngineOptions { patience: Some(Duration::ZERO), ..EngineOptions::default() };
    let engines = Engines::open(&volume, options).expect("no device is opened");
    let begun = Instant::now();
    // A machine for tests may have a GPU.
    while engines.to_string() == "cpu" && !engines.reason().contains("no device") && begun.elapsed() < LONG {
        ask(&engines);
    }
    assert!(engines.to_string() != "cpu" || engines.reason().contains("no device"), "{}", engines.reason());
}

#[test]
fn auto_takes_a_device_when_the_cpu_engine_has_worked_as_long_as_opening_takes() {
    let (volume, gpu) = (volume(), gpu());
    let options = EngineOptions { patience: Some(Duration::from_nanos(1)), ..EngineOptions::default() };
    let engines = Engines::open_on(&gpu, &volume, options).expect("no device is needed yet");
    assert_eq!((engines.to_string(), engines.batch()), ("cpu".into(), CPU_BATCH_PATHS));
    let begun = Instant::now();
    while engines.to_string() == "cpu" && begun.elapsed() < LONG {
        ask(&engines);
    }
    assert!(engines.to_string().starts_with("auto: cpu and "), "{engines}");
    assert!(engines.reason().starts_with("measured: a call "), "{}", engines.reason());
    let Some(DeviceSide::Auto(_, auto)) = engines.device.get() else { panic!("no device") };
    let is_device_better = auto.uses_device(AUTO_BATCH_PATHS);
    assert_eq!(engines.batch(), if is_device_better { AUTO_BATCH_PATHS } else { CPU_BATCH_PATHS });
    assert!(engines.chosen().is_none(), "auto gives its device to no other work");
}

#[test]
fn auto_opens_no_device_for_what_is_left_of_a_known_number_of_paths() {
    let (volume, gpu) = (volume(), gpu());
    let options =
        |paths, patience| EngineOptions { paths, patience: Some(patience), ..EngineOptions::default() };
    let at_stake = |paths, calls| {
        let engines = Engines::open_on(&gpu, &volume, options(paths, Duration::MAX)).expect("no device");
        (0..calls).for_each(|_| assert_eq!(ask(&engines), 0));
        engines.at_stake()
    };
    // A call of `ask` has 200 paths.
    let calls = CPU_BATCH_PATHS / 200 + 1;
    let asked = (calls * 200) as u64;
    assert_eq!(at_stake(Some(asked), calls), Duration::ZERO, "all were answered");
    assert_eq!(at_stake(Some(asked - 1), calls), Duration::ZERO, "more came than were said");
    assert_eq!(at_stake(Some(1 << 40), 1), Duration::ZERO, "one batch says little");
    assert!(at_stake(Some(1 << 40), calls) > Duration::from_secs(60), "nearly all are left");
    let worked = at_stake(None, 1);
    assert!(worked > Duration::ZERO && worked < LONG, "{worked:?}");
    // The number decides, not the time: what has been worked does not count.
    let few = options(Some(CPU_BATCH_PATHS as u64), Duration::from_nanos(1));
    let engines = Engines::open_on(&gpu, &volume, few).expect("no device");
    (0..2 * calls).for_each(|_| assert_eq!(ask(&engines), 0));
    assert_eq!(engines.to_string(), "cpu");
}

#[test]
fn auto_knows_what_a_device_has_cost_at_an_earlier_start() {
    let (volume, gpu) = (volume(), gpu());
    // The CPU engine takes 175 ns a path, 0.7 seconds for these.
    let at_stake = |known: Option<(u64, u64)>| {
        let options = EngineOptions { paths: Some(4_000_000), ..EngineOptions::default() };
        let engines = Engines::open_on(&gpu, &volume, options).expect("no device");
        let known =
            known.map(|(opening, path_ps)| DeviceCosts { opening: Duration::from_millis(opening), path_ps });
        engines.known.set(known).expect("nobody has asked");
        engines.answered.store(CPU_BATCH_PATHS as u64, Ordering::Relaxed);
        engines.worked.store(175 * CPU_BATCH_PATHS as u64, Ordering::Relaxed);
        (engines.is_worth_opening(), engines.reason())
    };
    for (known, is_worth, why) in [
        (None, false, "(800ms, until one is measured)"),
        (Some((900, 5_000)), false, "(900ms, as measured at an earlier start)"),
        (Some((400, 5_000)), true, "(400ms, as measured at an earlier start)"),
        // It opens soon, and is not faster.
        (Some((400, 170_000)), false, "(400ms, as measured at an earlier start)"),
        (Some((20, 900_000)), false, "(20ms, as measured at an earlier start)"),
    ] {
        let (found, reason) = at_stake(known);
        assert_eq!(found, is_worth, "{known:?}");
        assert!(reason.ends_with(why), "{reason}");
    }
}

/// A driver that opens no device until it is told to.
#[derive(Default)]
struct SlowDriver {
    is_open: Mutex<bool>,
    changed: Condvar,
    /// Devices that were begun to be opened.
    begun: AtomicUsize,
}

impl SlowDriver {
    fn open(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let mut is_open = self.is_open.lock();
        while !*is_open {
            self.changed.wait(&mut is_open);
        }
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }
}

/// Engines that begin to open a device after their first batch, by this driver.
fn with_slow_driver<'v>(volume: &'v Volume, driver: &Arc<SlowDriver>) -> Engines<'v> {
    let options = EngineOptions { patience: Some(Duration::from_nanos(1)), ..EngineOptions::default() };
    let slow = driver.clone();
    Engines::open_on(&gpu(), volume, options).expect("no device").slow_to_open(move || slow.open())
}

#[test]
fn auto_answers_while_a_device_is_slow_to_open() {
    let (volume, driver) = (volume(), Arc::default());
    let engines = with_slow_driver(&volume, &driver);
    // A call that waited for the device would never end.
    for call in 0..100 {
        assert_eq!((ask(&engines), engines.to_string()), (0, "cpu".into()), "call {call}");
    }
    *driver.is_open.lock() = true;
    driver.changed.notify_all();
    let waited = Instant::now();
    while engines.to_string() == "cpu" && waited.elapsed() < LONG {
        ask(&engines);
    }
    assert!(engines.to_string().starts_with("auto: cpu and "), "{engines}");
    for _ in 0..10 {
        ask(&engines);
    }
    assert_eq!(driver.begun(), 1);
}

#[test]
fn an_attendant_takes_a_device_into_use_without_a_call() {
    let (volume, driver) = (volume(), Arc::default());
    let engines = with_slow_driver(&volume, &driver);
    engines.attended(|| {
        for call in 0..100 {
            assert_eq!((ask(&engines), engines.to_string()), (0, "cpu".into()), "call {call}");
        }
        *driver.is_open.lock() = true;
        driver.changed.notify_all();
        let waited = Instant::now();
        while engines.to_string() == "cpu" && waited.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(engines.to_string().starts_with("auto: cpu and "), "{engines}");
        for _ in 0..10 {
            ask(&engines);
        }
        // Work in work has no attendant of its own.
        engines.attended(|| ask(&engines));
    });
    ask(&engines);
    assert_eq!(driver.begun(), 1);
}

#[test]
fn an_attendant_leaves_with_the_work_and_a_later_one_opens_a_device() {
    let (volume, driver) = (volume(), Arc::default());
    let engines = with_slow_driver(&volume, &driver);
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            engines.attended(|| {
                while driver.begun() == 0 {
                    ask(&engines);
                }
            });
            has_ended.store(true, Ordering::SeqCst);
        });
        // The device opens when the work has ended.
        while !engines.attendant.is_leaving() && !has_ended.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        *driver.is_open.lock() = true;
        driver.changed.notify_all();
    });
    assert_eq!(engines.to_string(), "cpu");
    engines.attended(|| {
        let waited = Instant::now();
        while engines.to_string() == "cpu" && waited.elapsed() < LONG {
            ask(&engines);
        }
    });
    assert!(engines.to_string().starts_with("auto: cpu and "), "{engines}");
    // The first attendant may have left before it was asked for the device, which is there for the second.
    assert!((1..=2).contains(&driver.begun()), "{}", driver.begun());
}

#[test]
fn an_attendant_leaves_work_that_panics() {
    let (volume, gpu) = (volume(), gpu());
    let options = EngineOptions { patience: Some(Duration::from_nanos(1)), ..EngineOptions::default() };
    let engines = Engines::open_on(&gpu, &volume, options).expect("no device is needed yet");
    let panics = || engines.attended(|| panic!("the work fails"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    assert!(!engines.attendant.is_leaving());
    engines.attended(|| {
        let waited = Instant::now();
        while engines.to_string() == "cpu" && waited.elapsed() < LONG {
            ask(&engines);
        }
    });
    assert!(engines.to_string().starts_with("auto: cpu and "), "{engines}");
}

#[test]
fn auto_opens_a_slow_device_only_for_paths_that_pay_for_it() {
    let (volume, gpu) = (volume(), gpu());
    // The CPU engine takes 175 ns a path on one thread; opening takes 0.8 seconds.
    for (paths, threads, opened) in [
        (Some(1), 1, 0),
        (Some(1000), 1, 0),
        (Some(100_000), 1, 0),
        (Some(1_000_000), 1, 0),
        (Some(10_000_000), 1, 1),
        (Some(10_000_000), 4, 0),
        (Some(100_000_000), 4, 1),
        (None, 1, 0),
    ] {
        let driver = Arc::new(SlowDriver::default());
        *driver.is_open.lock() = true;
        let slow = driver.clone();
        let patience = Some(Duration::from_millis(800));
        let options = EngineOptions { paths, threads, patience, ..EngineOptions::default() };
        let engines = Engines::open_on(&gpu, &volume, options).expect("no device");
        let engines = engines.slow_to_open(move || slow.open());
        // The first call is the same whatever follows, and after it one batch has been answered.
        engines.open_if_it_pays();
        let answered = paths.unwrap_or(u64::MAX).min(CPU_BATCH_PATHS as u64);
        engines.answered.store(answered, Ordering::Relaxed);
        engines.worked.store(175 * answered, Ordering::Relaxed);
        engines.open_if_it_pays();
        // This waits for a device that is being opened.
        drop(engines);
        assert_eq!(driver.begun(), opened, "{paths:?} paths from {threads} threads");
    }
}

#[test]
fn engines_that_end_wait_for_a_device_that_is_being_opened() {
    let (volume, gpu) = (volume(), gpu());
    for _ in 0..20 {
        let options = EngineOptions { patience: Some(Duration::ZERO), ..EngineOptions::default() };
        let engines = Engines::open_on(&gpu, &volume, options).expect("no device is needed yet");
        ask(&engines);
        drop(engines);
    }
    assert_eq!(Arc::strong_count(&gpu.context.kernels), 1, "a thread has the device");
}

#[test]
fn a_chosen_device_answers_and_a_failure_is_told_once() {
    let (volume, gpu) = (volume(), gpu());
    let engines = Engines::open_on(&gpu, &volume, chosen(EngineChoice::Gpu)).expect("a device");
    assert_eq!(ask(&engines), 100);
    assert_eq!((engines.batch(), engines.threads(9), engines.threads(1)), (GPU_BATCH_PATHS, 2, 1));
    assert!(engines.chosen().is_some() && engines.to_string().starts_with("gpu: "));
    // One device mirrors a volume at a time.
    let second = Engines::open_on(&gpu, &volume, chosen(EngineChoice::Gpu));
    assert!(matches!(second, Err(Error::Busy)));
    assert_eq!(engines.take_failure(), None);
    fail_call(Some((0, vk::Result::ERROR_DEVICE_LOST)));
    assert_eq!(ask(&engines), 0);
    fail_call(None);
    assert!(engines.take_failure().is_some_and(|failure| failure.contains("failed")));
    assert_eq!(ask(&engines), 0);
    assert_eq!(engines.take_failure(), None, "it was told");
}

#[test]
fn changes_are_made_by_whichever_engine_there_is() {
    let gpu = gpu();
    let names: Vec<String> = (0..300).map(|number| format!("/new {number}")).collect();
    let changes: Vec<Change<'_>> = names
        .iter()
        .map(|path| Change::Create { path: path.as_bytes(), perm: 0o644, data: b"content" })
        .collect();
    let listed = |volume: &Volume| -> BTreeSet<Vec<u8>> {
        let caller = lanefs::Caller::OWNER;
        let entries = volume.readdir(&caller, volume.root(), 0, usize::MAX).expect("entries");
        entries.into_iter().map(|entry| entry.name.to_vec()).collect()
    };
    let [expected, found] = [EngineChoice::Cpu, EngineChoice::Gpu].map(|choice| {
        let volume = volume();
        let engines = Engines::open_on(&gpu, &volume, chosen(choice)).expect("an engine");
        let answers = engines.apply(volume.root(), &changes).expect("answers");
        assert!(answers.iter().all(|answer| answer.code == lanefs::Code::Success));
        drop(engines);
        listed(&volume)
    });
    assert_eq!(found.len(), 50 + names.len());
    assert!(expected == found);
}

#[test]
fn a_start_that_is_stopped_is_an_error_and_leaves_the_volume_to_others() {
    let (volume, gpu) = (volume(), gpu());
    let options = EngineOptions { is_stopped: || true, ..chosen(EngineChoice::Gpu) };
    assert!(matches!(Engines::open_on(&gpu, &volume, options), Err(Error::Stopped)));
    let engines = Engines::open_on(&gpu, &volume, chosen(EngineChoice::Gpu)).expect("a device");
    assert_eq!(ask(&engines), 100);
}

#[test]
fn auto_gives_a_device_no_other_work_than_lookups() {
    let (volume, gpu) = (volume(), gpu());
    let options = EngineOptions { patience: Some(Duration::from_nanos(1)), ..EngineOptions::default() };
    assert!(options.open_device().expect("no device is looked for").is_none(), "a search opens a device");
    let opened = Arc::new(AtomicUsize::new(0));
    let count = opened.clone();
    let engines = Engines::open_on(&gpu, &volume, options).expect("no device is needed yet");
    let engines = engines.slow_to_open(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let work = || {
        let change = Change::Unlink { path: b"/file 1" };
        assert!(engines.apply(volume.root(), &[change]).is_ok());
        // Searches and listings are made on this one.
        assert!(engines.chosen().is_none());
    };
    (0..10).for_each(|_| work());
    assert_eq!((opened.load(Ordering::Relaxed), engines.to_string()), (0, "cpu".into()));
    // And after lookups have opened one.
    let begun = Instant::now();
    while engines.to_string() == "cpu" && begun.elapsed() < LONG {
        ask(&engines);
    }
    work();
    assert_eq!(opened.load(Ordering::Relaxed), 1);
}
