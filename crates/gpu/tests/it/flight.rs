//! Batches in flight at the same time, long paths that take several dispatches, and several users of one
//! device.

use crate::support::{CALLER, cached, fill, gpu, options, questions, uncached};
use lanefs::{
    Code, Column, Columns, EngineExt, InodeSize, LookupService, NamesUnder, PathSet, Resolution, Resolutions,
    ResolveOptions, ServiceOptions, Volume,
};
use lanefs_gpu::{Auto, MirrorOptions};
use lanefs_testkit::seeded::Seeded;
use lanefs_testkit::watchdog::Watchdog;
use std::future::Future;
use std::pin::pin;
use std::process::Command;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};

const AGAIN: &str = "LANEFS_GPU_SECOND";

fn expected(volume: &Volume, options: &ResolveOptions, asked: &[Vec<u8>]) -> Vec<Resolution> {
    volume.resolve_batch(options, asked).expect("the CPU engine")
}

#[test]
fn many_batches_on_their_way_each_get_their_own_answers() {
    let gpu = gpu(64);
    let numbers = &mut Seeded::new(11);
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    let paths = fill(&volume, numbers);
    let mirrored = gpu.mirror(&volume, &cached()).expect("mirror");
    let options = ResolveOptions { attributes: true, ..ResolveOptions::default() };
    let batches: Vec<_> = (0..30).map(|i| questions(&paths, [10, 700, 3000][i % 3], numbers)).collect();
    let sets: Vec<PathSet> = batches.iter().map(|asked| asked.iter().collect()).collect();
    let pending: Vec<_> = sets.iter().map(|asked| mirrored.submit(&options, asked)).collect();
    // Later batches are answered first, some are never waited for, and none sees a change that comes after
    // it.
    let mut answers: Vec<_> = pending.into_iter().zip(&batches).enumerate().collect();
    answers.reverse();
    for (i, (pending, asked)) in answers {
        if i % 5 == 4 {
            drop(pending);
            continue;
        }
        let (found, report) = pending.wait().expect("answers");
        assert_eq!(found, expected(&volume, &options, asked));
        assert!(report.by_device * 2 > report.by_host, "{report:?}");
    }
    assert_eq!(mirrored.failure(), None);
}

#[test]
fn single_lookups_are_gathered_for_the_device() {
    let gpu = gpu(64);
    let numbers = &mut Seeded::new(29);
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    let paths = fill(&volume, numbers);
    let mirrored = gpu.mirror(&volume, &cached()).expect("mirror");
    let resolve = ResolveOptions { attributes: true, ..ResolveOptions::default() };
    let asked = questions(&paths, 3000, numbers);
    let expected = expected(&volume, &resolve, &asked);
    let service = LookupService::new(ServiceOptions { resolve, enough: 500, ..ServiceOptions::default() });
    std::thread::scope(|scope| {
        scope.spawn(|| service.serve(&mirrored));
        let lookups: Vec<_> = asked.iter().map(|path| service.lookup(path)).collect();
        for (lookup, expected) in lookups.into_iter().zip(expected) {
            assert_eq!(lookup.wait().expect("an answer"), expected);
        }
        service.close();
    });
    assert_eq!(mirrored.failure(), None);
}

#[test]
fn columns_of_the_device_are_those_of_the_cpu_wherever_the_text_begins() {
    let gpu = gpu(64);
    let numbers = &mut Seeded::new(23);
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    let paths = fill(&volume, numbers);
    let mirrored = gpu.mirror(&volume, &cached()).expect("mirror");
    let asked: PathSet = questions(&paths, 3000, numbers).iter().collect();
    let all = |columns: &Columns| format!("{columns:?}");
    for wanted in [&[Column::Exists][..], &[Column::Code, Column::Ino], Column::ALL] {
        let (mut by_device, mut by_host) = (Columns::of(wanted), Columns::of(wanted));
        // Parts of the set begin at any byte.
        for first in [0, 1, 2, 3, 77] {
            let part = asked.view().slice(first..asked.len());
            let options = ResolveOptions::default();
            let report =
                mirrored.resolve_into(&options, part, &mut by_device.rows(part.len())).expect("answers");
            let found = volume.resolve_into(&options, part, &mut by_host.rows(part.len())).expect("answers");
            assert_eq!(all(&by_device), all(&by_host));
            assert_eq!(report.found, found as u64);
            assert!(report.by_device * 2 > report.by_host, "{report:?}");
        }
    }
    let error =
        mirrored.resolve_into(&ResolveOptions::default(), &asked, &mut Columns::of(Column::ALL).rows(1));
    assert!(error.is_err_and(|error| error.to_string().contains("no room")));
}

#[test]
fn several_threads_write_the_answers_to_a_large_batch() {
    let (gpu, numbers) = (gpu(64), &mut Seeded::new(29));
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    let paths = fill(&volume, numbers);
    let mirrored = gpu.mirror(&volume, &cached()).expect("mirror");
    let asked: Vec<Vec<u8>> = (0..40_001)
        .map(|number| match number % 97 {
            0 => [&paths[number % paths.len()], &b"x"[..]].concat(),
            // The host answers, and no thread forgets one.
            1 => b"/a\0b".to_vec(),
            _ => paths[number % paths.len()].clone(),
        })
        .collect();
    let (set, options): (PathSet, _) = (asked.iter().collect(), ResolveOptions::default());
    for wanted in [&[Column::Exists][..], Column::ALL] {
        let (mut by_device, mut by_host) = (Columns::of(wanted), Columns::of(wanted));
        let report = mirrored.resolve_into(&options, &set, &mut by_device.rows(set.len())).expect("answers");
        let found = volume.resolve_into(&options, &set, &mut by_host.rows(set.len())).expect("answers");
        assert!(by_device.iter().eq(by_host.iter()), "{wanted:?}");
        assert_eq!(report.found, found as u64);
        assert!(
            report.by_host as usize > asked.len() / 97 && report.by_device > report.by_host,
            "{report:?}"
        );
    }
    // And to a receiver that is not columns.
    assert_eq!(
        mirrored.resolve_batch(&options, &asked).expect("answers").0,
        expected(&volume, &options, &asked)
    );
}

#[test]
fn threads_share_a_mirror_while_the_volume_changes() {
    let gpu = gpu(64);
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    let stays = volume.mkdir_all("/stays/here", 0o755).expect("mkdir").ino;
    let mirrored = gpu.mirror(&volume, &cached()).expect("mirror");
    let asked: Vec<String> =
        (0..500).map(|i| if i % 2 == 0 { "/stays/here".into() } else { format!("/no/{i}") }).collect();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..40 {
                    let (found, _) =
                        mirrored.resolve_batch(&ResolveOptions::default(), &asked).expect("answers");
                    for (i, found) in found.iter().enumerate() {
                        assert_eq!(found.ino, (i % 2 == 0).then_some(stays));
                    }
                }
            });
        }
        for number in 0..400 {
            let (name, target) = (format!("file {}", number % 40), volume.root());
            if volume.create_file(&CALLER, target, name.as_bytes(), 0o644).is_err() {
                volume.unlink(&CALLER, target, name.as_bytes()).expect("unlinked");
            }
        }
    });
    assert_eq!(mirrored.failure(), None);
}

#[test]
fn callers_with_different_batches_at_a_time_each_get_the_answers_of_the_cpu_engine() {
    let gpu = gpu(64);
    let numbers = &mut Seeded::new(31);
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    let paths = fill(&volume, numbers);
    // One that several threads pack, and smaller ones of other shapes.
    let mut batches: Vec<PathSet> =
        vec![(0..40_000).map(|_| numbers.pick(&paths).clone()).collect::<PathSet>()];
    batches
        .extend([5000, 700, 17].map(|count| questions(&paths, count, numbers).iter().collect::<PathSet>()));
    let wanted =
        [Column::ALL, &[Column::Exists], &[Column::Code, Column::Ino], &[Column::Size, Column::Mtime]];
    let options = ResolveOptions::default();
    let all = |columns: &Columns| format!("{columns:?}");
    let expected: Vec<Vec<String>> = batches
        .iter()
        .map(|asked| {
            let by_host = wanted.map(|wanted| {
                let mut columns = Columns::of(wanted);
                volume.resolve_into(&options, asked, &mut columns.rows(asked.len())).expect("the CPU engine");
                all(&columns)
            });
            by_host.to_vec()
        })
        .collect();
    // With bytes for all, and with so few that each caller waits for the batches of the others.
    for most in [None, Some(1)] {
        let mirrored = gpu.mirror(&volume, &MirrorOptions { batches: most, ..cached() }).expect("mirror");
        let begin = Barrier::new(batches.len());
        std::thread::scope(|scope| {
            for (caller, (asked, expected)) in batches.iter().zip(&expected).enumerate() {
                let (begin, mirrored, options) = (&begin, &mirrored, &options);
                scope.spawn(move || {
                    for round in 0..2 * wanted.len() {
                        // In each round each caller wants other columns.
                        let now = (caller + round) % wanted.len();
                        let mut columns = Columns::of(wanted[now]);
                        begin.wait();
                        let mut rows = columns.rows(asked.len());
                        let report = mirrored.resolve_into(options, asked, &mut rows).expect("answers");
                        assert!(all(&columns) == expected[now], "caller {caller}, round {round}");
                        assert!(report.by_device > report.by_host, "{report:?}");
                    }
                });
            }
        });
        assert_eq!(mirrored.failure(), None);
    }
}

#[test]
fn calls_of_one_worker_of_a_pool_do_not_wait_for_each_other() {
    let watchdog = Watchdog::new("a worker waits for buffers that another call of its own has");
    let (gpu, numbers) = (gpu(64), &mut Seeded::new(37));
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    let paths = fill(&volume, numbers);
    // Enough for several threads to pack; and bytes for one batch at a time.
    let asked: PathSet = (0..40_000).map(|_| numbers.pick(&paths).clone()).collect();
    let mirrored = gpu.mirror(&volume, &MirrorOptions { batches: Some(1), ..cached() }).expect("mirror");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let ask = || {
        let mut columns = Columns::of(&[Column::Ino]);
        let report =
            mirrored.resolve_into(&ResolveOptions::default(), &asked, &mut columns.rows(asked.len()));
        (report.expect("answers").found, columns.ino().expect("a column").to_vec())
    };
    for round in 0..5 {
        watchdog.at(|| format!("round {round} of two calls in one worker"));
        let (first, second) = pool.install(|| rayon::join(ask, ask));
        assert!(first == second && first.0 > 0, "{} and {} were found", first.0, second.0);
    }
    assert_eq!(mirrored.failure(), None);
}

#[test]
fn a_path_of_thousands_of_components_is_answered_by_the_device() {
    let gpu = gpu(32);
    for size in [InodeSize::B128, InodeSize::B256] {
        let volume = Volume::create_memory(&options(size)).expect("volume");
        let (mut dir, mut path) = (volume.root(), Vec::new());
        for _ in 0..4000 {
            dir = volume.mkdir(&CALLER, dir, b"a", 0o755).expect("mkdir").ino;
            path.extend_from_slice(b"/a");
        }
        let asked = vec![path.clone(), path[..4000].to_vec(), [&path[..], b"/b"].concat(), b"/a/a".to_vec()];
        for mirror in [cached(), uncached()] {
            let mirrored = gpu.mirror(&volume, &mirror).expect("mirror");
            for _ in 0..2 {
                let options = ResolveOptions::default();
                let (found, report) = mirrored.resolve_batch(&options, &asked).expect("answers");
                assert_eq!(found, expected(&volume, &options, &asked));
                assert_eq!(report.by_host, 0, "{report:?}");
                // The bits say which lookups are not finished, too.
                let mut exists = Columns::of(&[Column::Exists]);
                let set: PathSet = asked.iter().collect();
                let report = mirrored.resolve_into(&options, &set, &mut exists.rows(4)).expect("answers");
                assert_eq!(
                    (exists.exists().expect("a column"), report.found, report.by_host),
                    (&[0b1011][..], 3, 0)
                );
            }
        }
    }
}

#[test]
fn many_paths_go_in_several_submissions() {
    let gpu = gpu(64);
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    volume.mkdir_all("/a/b", 0o755).expect("mkdir");
    let asked: Vec<&str> = (0..600_001).map(|i| if i % 3 == 0 { "/a/b" } else { "/a/c" }).collect();
    let mirrored = gpu.mirror(&volume, &cached()).expect("mirror");
    let (found, report) = mirrored.resolve_batch(&ResolveOptions::default(), &asked).expect("answers");
    let ino = volume.resolve("/a/b").expect("there").ino;
    assert_eq!(report.by_device, asked.len() as u64);
    assert!(found.iter().enumerate().all(|(i, found)| found.ino == (i % 3 == 0).then_some(ino)));
    // Names under two directories, one of which comes and goes.
    let directories = PathSet::from_iter(["/a", "/a/d"]);
    let numbers: Vec<u32> = (0..600_001).map(|i| i / 3 % 2).collect();
    let texts: PathSet = (0..600_001).map(|i| if i % 3 == 0 { "b" } else { "c" }).collect();
    let names = NamesUnder::new(&directories, &numbers, &texts).expect("names");
    for round in 0..4 {
        let (options, mut columns) = (ResolveOptions::default(), Columns::of(&[Column::Code, Column::Ino]));
        let report = mirrored.resolve_names_into(&options, names, &mut columns.rows(names.len()));
        let report = report.expect("answers");
        let inos = columns.ino().expect("a column").iter().enumerate();
        let is_there = |i: usize| i.is_multiple_of(3) && ((i / 3).is_multiple_of(2) || round % 2 == 1);
        assert!({ inos }.all(|(i, found)| (*found != 0) == is_there(i)), "round {round}");
        // The host answers for names in a directory that is not there, if they are not too many.
        assert_eq!(report.by_device, names.len() as u64, "round {round}");
        match round % 2 {
            0 => drop(volume.mkdir_all("/a/d/b", 0o755).expect("mkdir")),
            _ => volume
                .remove_all_with(&CALLER, volume.resolve("/a").expect("there").ino, b"d", |_, done| done)
                .expect("removed"),
        };
    }
    // With text that is too long for one submission, and without paths.
    let long = vec![vec![b'/'; 16_000]; 2500];
    let (found, _) = mirrored.resolve_batch(&ResolveOptions::default(), &long).expect("answers");
    assert!(found.iter().all(|found| found.ino == Some(volume.root())));
    assert!(mirrored.resolve_batch::<&[u8]>(&ResolveOptions::default(), &[]).expect("answers").0.is_empty());
}

#[test]
fn paths_that_stay_on_the_device_are_answered_as_the_volume_is_each_time() {
    let gpu = gpu(64);
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    let numbers = &mut Seeded::new(16);
    let paths = fill(&volume, numbers);
    // One that takes several dispatches.
    let mut asked = questions(&paths, 2000, numbers);
    asked.push(b"/./dir-0/..".repeat(1200));
    let options = ResolveOptions { attributes: true, ..ResolveOptions::default() };
    let mirrored = gpu.mirror(&volume, &cached()).expect("mirror");
    let set: PathSet = asked.iter().collect();
    let mut kept = mirrored.keep(&options, &set).expect("kept");
    assert_eq!((kept.len(), kept.is_empty()), (asked.len(), false));
    let mut found = vec![Resolution::failed(Code::NotResident); asked.len()];
    for round in 0..8 {
        for _ in 0..30 {
            let path = numbers.pick(&paths);
            let _ = volume.remove_all_with(&CALLER, volume.root(), &path[1..], |_, done| done);
            let _ = volume.write_file(numbers.pick(&paths), b"content".as_slice());
        }
        volume.mkdir_all("/dir-0", 0o755).expect("there");
        let expected = expected(&volume, &options, &asked);
        let mut rows = Resolutions { list: &mut found, attributes: true };
        let report = kept.resolve_rows(&mut rows).expect("answers");
        assert_eq!(found, expected, "round {round}");
        assert_eq!(report.by_device + report.by_host, asked.len() as u64);
        assert!(report.by_host * 2 < report.by_device, "{report:?}");
        assert!(round == 0 || report.copied > 0, "a change that was not seen");
        assert!(kept.resolve());
    }
    let mut columns = Columns::of(&[Column::Ino]);
    kept.resolve_into(&mut columns.rows(asked.len())).expect("answers");
    let inos: Vec<u64> = found.iter().map(|found| found.ino.map_or(0, |ino| ino.0)).collect();
    assert_eq!(columns.ino().expect("a column"), inos);
    // Each call says what it wants.
    let mut columns = Columns::of(&[Column::Exists]);
    kept.resolve_into(&mut columns.rows(asked.len())).expect("answers");
    let exists = |row: usize| columns.exists().expect("a column")[row / 64] >> (row % 64) & 1 == 1;
    assert!(found.iter().enumerate().all(|(row, found)| exists(row) == found.ino.is_some()));
    let mut columns = Columns::of(&[Column::Size, Column::Uid]);
    kept.resolve_into(&mut columns.rows(asked.len())).expect("answers");
    let sizes: Vec<u64> = found.iter().map(|found| found.attr.map_or(0, |attr| attr.size)).collect();
    let owners: Vec<u32> = found.iter().map(|found| found.attr.map_or(0, |attr| attr.uid)).collect();
    assert_eq!(
        (columns.size().expect("a column"), columns.uid().expect("a column")),
        (&sizes[..], &owners[..])
    );
}

#[test]
fn each_batch_goes_to_an_engine_by_what_both_cost() {
    let gpu = gpu(64);
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    let numbers = &mut Seeded::new(17);
    let paths = fill(&volume, numbers);
    let auto = Auto::new(gpu.mirror(&volume, &cached()).expect("mirror"), 1).expect("measured");
    let (cpu, device) = auto.measured();
    assert!(cpu.path > 0.0 && device.call > cpu.call, "{cpu:?}, {device:?}");
    let options = ResolveOptions::default();
    let mut against_costs = 0;
    for count in [6, 300, 5000] {
        for _ in 0..70 {
            let asked: Vec<Vec<u8>> = (0..count).map(|_| numbers.pick(&paths).clone()).collect();
            // How fast both engines are depends on the machine; which one is asked, on what was measured.
            let (cpu, device) = auto.measured();
            let (found, report) = auto.resolve_batch(&options, &asked).expect("answers");
            assert_eq!(found, expected(&volume, &options, &asked));
            let is_cheaper = device.of(count) < cpu.of(count);
            against_costs += u64::from((report.by_device > 0) != is_cheaper);
        }
    }
    // Every 64th batch may go to the other engine.
    assert!(against_costs <= 210 / 64, "{against_costs} batches went to the dearer engine");
    assert_ne!(auto.measured(), (cpu, device), "nothing was learned");
}

/// Threads of this process that wait for the device.
fn waiting_threads() -> usize {
    let all = std::fs::read_dir("/proc/self/task").expect("threads");
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
    all.flatten()
        .filter_map(|task| name(task).ok())
        .filter(|name| name.starts_with("lanefs-gpu-wake"))
        .count()
}

#[test]
fn answers_that_are_awaited_share_a_thread() {
    let gpu = gpu(64);
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    let paths = fill(&volume, &mut Seeded::new(13));
    let mirrored = gpu.mirror(&volume, &cached()).expect("mirror");
    let options = ResolveOptions::default();
    let set: PathSet = paths.iter().collect();
    let expected = expected(&volume, &options, &paths);
    let mut batches: Vec<_> = (0..20).map(|_| Box::pin(mirrored.submit(&options, &set))).collect();
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut most, mut polls) = (0, 0);
    while !batches.is_empty() {
        // Each is polled many times before it is done.
        batches.retain_mut(|batch| match batch.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(found) => {
                assert_eq!(found.expect("answers").0, expected);
                false
            }
            Poll::Pending => true,
        });
        polls += 1;
        most = most.max(waiting_threads());
        if polls % 3 == 0 && !batches.is_empty() {
            std::thread::park();
        }
    }
    // One that ends may still be there when the next begins.
    assert!(most < 5, "{most} threads wait");
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn answers_can_be_awaited() {
    let gpu = gpu(64);
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    let paths = fill(&volume, &mut Seeded::new(12));
    let mirrored = gpu.mirror(&volume, &cached()).expect("mirror");
    let options = ResolveOptions::default();
    let set: PathSet = paths.iter().collect();
    let mut answers = pin!(mirrored.submit(&options, &set));
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let found = loop {
        match answers.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(found) => break found.expect("answers").0,
            Poll::Pending => std::thread::park(),
        }
    };
    assert_eq!(found, expected(&volume, &options, &paths));
}

#[test]
fn a_device_without_memory_for_a_cache_or_a_mirror_gives_the_same_answers() {
    let gpu = gpu(64);
    let volume = Volume::create_memory(&options(InodeSize::B256)).expect("volume");
    let numbers = &mut Seeded::new(13);
    let paths = fill(&volume, numbers);
    let asked = questions(&paths, 500, numbers);
    for (room, cache) in [(0, 0.0), (2 << 20, 0.0), (0, 1e-9), (64 << 20, 1e-6)] {
        let mirrored =
            gpu.mirror(&volume, &MirrorOptions { room: Some(room), cache, batches: None }).expect("mirror");
        for _ in 0..2 {
            let (found, _) = mirrored.resolve_batch(&ResolveOptions::default(), &asked).expect("answers");
            assert_eq!(found, expected(&volume, &ResolveOptions::default(), &asked));
        }
    }
}

fn one_of_two(seed: u64) {
    let gpu = gpu(64);
    let numbers = &mut Seeded::new(seed);
    let volume = Volume::create_memory(&options(InodeSize::B128)).expect("volume");
    let paths = fill(&volume, numbers);
    let mirrored = gpu.mirror(&volume, &cached()).expect("mirror");
    for _ in 0..20 {
        let asked = questions(&paths, 1000, numbers);
        let (found, report) = mirrored.resolve_batch(&ResolveOptions::default(), &asked).expect("answers");
        assert_eq!(found, expected(&volume, &ResolveOptions::default(), &asked));
        assert!(report.by_device > 0);
    }
}

#[test]
fn two_processes_use_the_device_at_once() {
    if std::env::var_os(AGAIN).is_some() {
        return one_of_two(15);
    }
    let mut other = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", std::thread::current().name().expect("the test's name")])
        .env(AGAIN, "1")
        .spawn()
        .expect("run");
    one_of_two(14);
    assert!(other.wait().expect("ended").success());
}
