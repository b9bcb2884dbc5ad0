//! Batches of changes through an engine have the outcome of the same changes one by one: answers, trees,
//! counts, and the report of fsck.
//!
//! `LANEFS_SEED` and `LANEFS_SEQUENCES` select the sequences; a failure prints the shortest one that was
//! found.

mod crash;
mod faulty;
mod generate;
mod op;
mod shapes;
mod side;
mod tree;

use crate::support::{gpu, uncached};
use faulty::{Fault, Faulty, Nothing};
use lanefs::bulk::{Change, DirEngine, Shares};
use lanefs::{Code, CreateOptions, InodeSize, RenameMode, Volume};
use lanefs_gpu::twin::change::TwinEngine;
use lanefs_testkit::settings::Seeds;
use lanefs_testkit::watchdog::Watchdog;
use shapes::{Counted, Shapes};
use side::{Apply, Engine, PlainRounds, in_files, in_memory, must_be_same, rounds, with};

/// Rounds of a sequence.
const ROUNDS: usize = 25;

/// A directory engine for a volume.
type Make = for<'v> fn(&'v Volume) -> Box<dyn DirEngine + 'v>;

/// Directory engines, by name; all but the first make changes.
const MAKERS: [(&str, Make); 2] = [("nothing", |_| Box::new(Nothing)), ("twin", twin)];

fn twin(volume: &Volume) -> Box<dyn DirEngine + '_> {
    Box::new(TwinEngine::of(volume).expect("no other engine watches"))
}

/// The engine of a device, with workgroups of this size.
fn device(workgroup: u32) -> Box<Engine<'static>> {
    let gpu = gpu(workgroup);
    Box::new(move |volume, work| {
        let mirrored = gpu.mirror(volume, &uncached()).expect("mirror");
        work(&mut |base, changes| mirrored.apply(base, changes));
        assert_eq!(mirrored.failure(), None);
    })
}

/// All engines, by name.
fn engines() -> Vec<(String, Box<Engine<'static>>)> {
    let makers = MAKERS.map(|(name, make)| (name.into(), Box::new(with(make)) as Box<Engine<'static>>));
    let devices = [32, 64, 256].map(|size| (format!("a device, workgroups of {size}"), device(size)));
    makers.into_iter().chain(devices).collect()
}

#[test]
fn changes_together_come_to_the_same_as_one_by_one() {
    let watchdog = Watchdog::new("changes");
    let mut engines: Vec<_> =
        engines().into_iter().map(|(name, engine)| (name, engine, Shares::default())).collect();
    for (number, seed) in Seeds::from_environment("LANEFS_SEQUENCES", 1, 5).enumerate() {
        for size in [InodeSize::B128, InodeSize::B256] {
            let plain = PlainRounds::new(size, rounds(seed, ROUNDS));
            for (name, engine, sum) in &mut engines {
                if name == "nothing" && number > 0 {
                    continue;
                }
                watchdog.at(|| format!("{name}, seed {seed}"));
                let shares = must_be_same(&**engine, &plain, seed, name);
                sum.together += shares.together;
                sum.one_by_one += shares.one_by_one;
            }
        }
    }
    for (name, _, sum) in engines {
        eprintln!("{name}: {sum:?}");
        assert!(name == "nothing" || sum.together > sum.one_by_one, "{name}: {sum:?}");
    }
}

#[test]
fn changes_on_a_file_are_there_when_it_is_opened_again() {
    let watchdog = Watchdog::new("changes on files");
    for (name, engine) in engines() {
        for (seed, size) in [(100, InodeSize::B128), (101, InodeSize::B256)] {
            watchdog.at(|| format!("{name}, seed {seed}, on files"));
            let dir = tempfile::tempdir().expect("a directory for temporary files");
            let done = in_files(&*engine, size, &rounds(seed, 12), dir.path());
            done.unwrap_or_else(|failure| panic!("{name}, {size:?}, seed {seed}, on files: {failure:?}"));
        }
    }
}

#[test]
fn a_batch_is_there_whole_or_not_at_all_after_a_crash() {
    let watchdog = Watchdog::new("crashes of batches");
    for (name, engine) in engines() {
        for seed in 1..=2 {
            watchdog.at(|| format!("{name}, seed {seed}, crashes"));
            // Made in parts, the volume is sound after a crash, and nothing that was synced is lost.
            crash::crashes(&crash::record(&*engine, crash::SMALL, seed, 10), seed, 60)
                .unwrap_or_else(|what| panic!("{name}, seed {seed}, in parts: {what}"));
            let story = crash::record(&*engine, crash::LARGE, seed, 10);
            assert!(
                name == "nothing" || story.is_whole(),
                "{name}, seed {seed}: some changes were made one by one"
            );
            let ahead = crash::crashes(&story, seed, 60);
            let ahead = ahead.unwrap_or_else(|what| panic!("{name}, seed {seed}: {what}"));
            eprintln!("{name}: {ahead} crashes left a batch without a sync");
            assert!(
                !story.is_whole() || crash::crashes(&story.falsified(), seed, 60).is_err(),
                "the test cannot fail"
            );
        }
    }
}

/// A change that does not fit is refused, as if each were made alone; the others are whole.
#[test]
fn a_full_volume_takes_what_fits_and_stays_sound() {
    let content = [7; 5000];
    for (name, engine) in engines() {
        let options = CreateOptions { size: 12 << 20, ..side::options(InodeSize::B256) };
        let volume = Volume::create_memory(&options).expect("volume");
        let (mut made, mut refused) = (0, 0);
        engine(&volume, &mut |apply| {
            for round in 0..8 {
                let paths: Vec<_> = (0..400).map(|file| format!("/{}/{round}-{file}", file % 5)).collect();
                let dirs: Vec<_> = (0..5).map(|dir| format!("/{dir}")).collect();
                let dirs = dirs.iter().map(|path| Change::MkdirAll { path: path.as_bytes(), perm: 0o755 });
                let files = paths.iter().map(|path| Change::Create {
                    path: path.as_bytes(),
                    perm: 0o644,
                    data: &content,
                });
                let changes: Vec<_> = dirs.chain(files).collect();
                let (answers, _) = apply(volume.root(), &changes).expect("applied");
                for (path, answer) in paths.iter().zip(&answers[5..]) {
                    match answer.code {
                        Code::Success => made += 1,
                        Code::NoSpace => refused += 1,
                        code => panic!("{name}: {path}: {code:?}"),
                    }
                    let there = volume.read_file(path).is_ok_and(|found| found == content);
                    assert_eq!(there, answer.code == Code::Success, "{name}: {path}");
                }
                let found = volume.check(false, &|_, _| {}).expect("check").findings;
                assert!(found.is_empty(), "{name}, round {round}: {found:?}");
            }
        });
        assert!(made > 500 && refused > 500, "{name}: {made} made, {refused} refused");
    }
}

/// Makes all changes, and lets `spoil` alter the one in the middle of each batch.
fn spoiled(spoil: fn(Change<'_>) -> Option<Change<'_>>) -> Box<Engine<'static>> {
    Box::new(move |volume, work| {
        let mut apply = |base, changes: &[Change<'_>]| {
            let mut answers = Vec::new();
            for (number, change) in changes.iter().enumerate() {
                let other = if number == changes.len() / 2 { spoil(*change) } else { Some(*change) };
                let answer = volume.apply(base, &[*change])?;
                answers.extend(answer);
                if let Some(other) = other.filter(|other| other != change) {
                    volume.apply(base, &[other])?;
                }
            }
            let shares = Shares { together: 0, one_by_one: changes.len() as u64 };
            Ok((answers, shares))
        };
        work(&mut apply as &mut Apply<'_>);
    })
}

#[test]
fn a_change_too_many_or_another_one_is_seen() {
    let remove: fn(Change<'_>) -> Option<Change<'_>> = |change| match change {
        Change::Create { path, .. } => Some(Change::Unlink { path }),
        _ => Some(change),
    };
    let touch: fn(Change<'_>) -> Option<Change<'_>> =
        |_| Some(Change::Create { path: b"/one more", perm: 0, data: b"" });
    for (what, spoil) in [("a file removed", remove), ("a file made", touch)] {
        let engine = spoiled(spoil);
        let is_seen = |seed| in_memory(&*engine, InodeSize::B256, &rounds(seed, 3)).is_err();
        assert!((1..=5).any(is_seen), "{what} is not seen");
    }
}

#[test]
fn a_whiteout_that_is_forgotten_is_seen() {
    fn forgetful<'c>(change: &Change<'c>) -> Change<'c> {
        match *change {
            Change::Rename { from, to, mode: RenameMode::Whiteout } => {
                Change::Rename { from, to, mode: RenameMode::Replace }
            }
            other => other,
        }
    }
    let engine: Box<Engine<'static>> = Box::new(|volume, work| {
        let mut apply = |base, changes: &[Change<'_>]| {
            let changes: Vec<_> = changes.iter().map(forgetful).collect();
            let answers = volume.apply(base, &changes)?;
            Ok((answers, Shares { together: 0, one_by_one: changes.len() as u64 }))
        };
        work(&mut apply as &mut Apply<'_>);
    });
    let is_seen = |seed| in_memory(&*engine, InodeSize::B256, &rounds(seed, ROUNDS)).is_err();
    assert!((1..=5).any(is_seen), "no rename left a whiteout");
}

/// A mistake of an engine is refused, so that the changes are made one by one, or it is seen by the
/// comparison: never neither.
#[test]
fn a_mistake_of_an_engine_is_refused_or_seen() {
    let _watchdog = Watchdog::new("mistakes of engines");
    for (name, make) in &MAKERS[1..] {
        let sound = [1, 2, 3].map(|seed| {
            let plain = PlainRounds::new(InodeSize::B256, rounds(seed, 4));
            let shares = plain.compare(&with(*make));
            let shares = shares.unwrap_or_else(|failure| panic!("{name}, seed {seed}: {failure:?}"));
            (plain, shares.one_by_one)
        });
        for fault in Fault::ALL {
            let engine = with(|volume| Box::new(Faulty { engine: make(volume), fault }));
            let (mut seen, mut refused) = (0, 0);
            for (plain, one_by_one) in &sound {
                match plain.compare(&engine) {
                    Ok(shares) => refused += u32::from(shares.one_by_one > *one_by_one),
                    Err(_) => seen += 1,
                }
            }
            eprintln!("{name}, {fault:?}: seen {seen} times, refused {refused} times");
            assert!(seen + refused > 0, "{name}, {fault:?}: neither seen nor refused");
        }
    }
}

#[test]
fn the_batches_bring_work_of_every_kind() {
    let shapes: &'static Shapes = Box::leak(Box::default());
    let engine = with(|volume| {
        Box::new(Counted {
            engine: Box::new(TwinEngine::of(volume).expect("no other engine watches")),
            shapes,
        })
    });
    for (seed, size) in [(201, InodeSize::B128), (202, InodeSize::B256), (203, InodeSize::B128)] {
        must_be_same(&engine, &PlainRounds::new(size, rounds(seed, ROUNDS)), seed, "twin");
    }
    let shapes = shapes.lock();
    eprintln!("{shapes:#?}");
    for shape in [
        "nothing becomes a region",
        "nothing becomes regions",
        "small stays small",
        "small becomes a region",
        "small becomes regions",
        "a region stays one",
        "a region becomes several",
        "several regions become one",
        "entries come and go",
    ] {
        assert!(shapes.contains_key(shape), "no batch in which {shape}");
    }
}
